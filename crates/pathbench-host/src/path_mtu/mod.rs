//! The kernel's path-MTU state and its correction. [`PathObserver`] reads the state, [`plan()`] plans the correction
//! without changes, and [`Remedy`] applies the plan step by step with a journal on disk and undoes it exactly.

pub mod journal;
mod operation;
mod plan;
mod remedy;
mod state;

pub use crate::connections::{LiveConnection, Recovery, Subflow, is_stuck};
pub use crate::netlink::{CachedMtu, FibEntry, NextHop};
pub use journal::{JournalError, NamespaceIdentity};
pub use operation::{InterfaceNames, Operation};
pub use plan::{Plan, PlanError, PlannedStep, plan};
pub use remedy::{Interruption, Remedy, RemedyError, UndoOutcome, UndoReport, UndoneStep};
pub use state::{HostPath, KernelPathState, PathObserver, PathStateError};
