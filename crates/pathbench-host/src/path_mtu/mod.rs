//! What the kernel believes of the MTU of a path, and putting it right: read ([`PathObserver`]), planned without
//! touching anything ([`plan()`]), applied step by step with a journal on disk, and taken back exactly ([`Remedy`]).

mod connection;
mod fib_command;
mod fib_entry;
mod fib_table;
mod host;
mod identity;
mod journal;
mod operation;
mod plan;
mod remedy;
mod rule;
#[cfg(test)]
mod samples;
mod state;

pub use connection::{LiveConnection, Subflow, is_stuck};
pub use fib_command::InterfaceNames;
pub use fib_entry::{FibEntry, NextHop};
pub use host::{HostError, UndoOutcome};
pub use identity::NamespaceIdentity;
pub use journal::JournalError;
pub use operation::Operation;
pub use plan::{Plan, PlanError, PlannedStep, plan};
pub use remedy::{Interruption, Remedy, RemedyError, UndoReport, UndoneStep};
pub use state::{CachedMtu, HostPath, KernelPathState, PathObserver, PathStateError};
