//! Copies of one datagram (RFC 9221) on several paths, for the scheduler `redundant`.
//!
//! noq puts a queued datagram into the next packet of the first path whose window has space. So one copy is queued at a
//! time, and while noq is polled for it, the windows of the other paths are 0.

use super::arbiter::Alone;
use super::board::Board;
use super::slot::Slot;
use noq_proto::{Connection, PathId, Transmit};
use pathbench_record::connection::Scheduler;
use std::time::Instant;

/// Header of a packet with a connection ID of 8 bytes, authentication tag, and the header of the DATAGRAM frame.
const PACKET_OVERHEAD_BYTES: u64 = 13 + 16 + 3;

impl Board {
    pub(crate) fn sends_copies(&self) -> bool {
        self.state().scheduler == Scheduler::Redundant
    }

    /// The paths that take a copy of a datagram. These are the open paths whose congestion windows have space for it; backup
    /// paths only when no other path is open.
    pub(crate) fn copy_paths(&self, datagram_bytes: usize) -> Vec<PathId> {
        let state = self.state();
        let packet_bytes = datagram_bytes as u64 + PACKET_OVERHEAD_BYTES;
        let spare = |slot: &&Slot| slot.role.backup || slot.role.avoided;
        let open = || state.slots.iter().filter(|slot| slot.is_open());
        let backup = open().all(|slot| spare(&slot));
        let chosen = open().filter(|slot| backup == spare(slot) && slot.has_room_for(packet_bytes));
        let mut paths: Vec<PathId> = chosen.filter_map(|slot| slot.path).collect();
        paths.sort_unstable();
        paths
    }

    /// [`Connection::poll_transmit`] for one packet on `path` alone.
    pub(crate) fn poll_copy(
        &self,
        connection: &mut Connection,
        path: PathId,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.bind(connection);
        self.poll_alone(connection, path, Alone::Copy, now, buffer)
    }
}
