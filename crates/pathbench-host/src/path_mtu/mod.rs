//! The kernel's path-MTU state, and correcting it: read ([`PathObserver`]), planned without touching anything
//! ([`plan()`]), applied step by step with a journal on disk, and taken back exactly ([`Remedy`]).

mod journal;
mod operation;
mod plan;
mod remedy;
mod state;

pub use crate::connections::{LiveConnection, Subflow, is_stuck};
pub use crate::netlink::{CachedMtu, FibEntry, NextHop};
pub use journal::{JournalError, NamespaceIdentity};
pub use operation::{InterfaceNames, Operation};
pub use plan::{Plan, PlanError, PlannedStep, plan};
pub use remedy::{Interruption, Remedy, RemedyError, UndoOutcome, UndoReport, UndoneStep};
pub use state::{HostPath, KernelPathState, PathObserver, PathStateError};
