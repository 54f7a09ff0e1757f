//! The paths of a connection: their states, and which are opened, closed and held back.
//!
//! A client opens a path as soon as its interface is up and has an address, closes it when opening takes too long, and
//! tries again with back-off. It closes a path at once when its link goes down or its address is removed: noq
//! retransmits the data in flight only after the close. It never closes the last path, which would end the connection.
//! A server cannot open paths, and follows the client's statuses, which noq does not do. Both ends first suspend and
//! then close a path on which no packets arrive while packets arrive on another path.
//!
//! The client chooses its statuses (`PATH_STATUS_AVAILABLE`, `PATH_STATUS_BACKUP`). It avoids a path that the server
//! declares a backup, but does not repeat that status: if both ends repeated it, neither would ever withdraw it.

mod decisions;
mod detour;
mod figures;
mod manager;
mod pulse;
mod state;
mod wanted;

pub use self::figures::{FIRST_PATHS_BYTES, PATHS_BYTES};
pub(crate) use self::manager::{PathContext, Paths};
