//! Pending frames of one path (`PATH_CHALLENGE`, `PATH_RESPONSE`, PING), which must be sent although other paths have
//! data.
//!
//! noq sends on a path only when the paths of lower id have nothing to send, or a full window. The first path may
//! always have data and never a full window, as on a fast link without delay. Then a new path would not be validated
//! before the end of the transfer, and no PING would measure the other paths' RTT. So when frames may be pending on a
//! path, the paths of lower id are passed over once.

use super::arbiter::Arbiter;
use super::slot::Slot;
use pathbench_record::sample::PathState;
use std::time::Instant;

impl Arbiter {
    /// Chooses the path whose frames the next call may send, if any. Never the path of lowest id: noq serves it first.
    pub(super) fn choose_pending(&mut self, now: Instant) {
        let first = self.slots.iter().filter(|slot| slot.is_open()).filter_map(|slot| slot.path).min();
        let waits = |slot: &&Slot| slot.pending.wait(slot.role.stage == PathState::Opening, now);
        let waiting = self.slots.iter().filter(|slot| slot.path > first).filter(waits);
        let chosen = waiting.filter(|slot| slot.path.is_some()).min_by_key(|slot| slot.path);
        self.pending = chosen.filter(|_| first.is_some()).map(|slot| slot.id);
    }

    pub(super) fn end_pending(&mut self, now: Instant, answered: bool) -> bool {
        let Some(slot) = self.pending.take().and_then(|id| self.slot(id)) else { return false };
        // Otherwise noq sent frames of a path of lower id.
        if slot.turn.asked || !answered {
            slot.pending.last = Some(now);
        }
        true
    }

    pub(super) fn is_before_pending(&self, id: u64) -> bool {
        self.pending.is_some_and(|pending| self.path_of(id) < self.path_of(pending))
    }
}
