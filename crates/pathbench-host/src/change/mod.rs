//! Changes of this host, applied step by step with a journal on disk and undone exactly ([`Applier`]).
//!
//! A [`ChangePlan`] contains operations with their inverse. Each kind of plan has a journal file of its own in one format, so
//! that the undo of one command never undoes the changes of another.

mod applier;
mod commands;
mod host;
pub mod journal;
mod operation;
pub mod setting;

pub use applier::{Applier, ApplyError, Interruption, UndoReport, UndoneStep};
pub use commands::InterfaceNames;
pub use host::{OperationError, UndoOutcome};
pub use journal::{JournalError, NamespaceIdentity};
pub use operation::{ChangePlan, Operation, PlannedStep};
