//! Frames that belong to one path: room for them while the paths before it have data to send.
//!
//! noq comes to a path only when the paths of lower id have nothing to send, or no room. While an application fills its
//! buffers faster than one path empties them, and that path's window never fills up, as on a fast link without delay, a
//! new path would not be validated before the end of the transfer, and no PING would tell the others' RTT. So the paths
//! before it are passed over for one question when there may be something to say.

use super::arbiter::Arbiter;
use super::slot::Slot;
use std::time::{Duration, Instant};

/// A path that has not been validated may have something to say this often: noq does not tell.
const INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PendingFrames {
    pub(super) opening: bool,
    /// A packet with frames of its own is due: a PING, or the answer to the peer's `PATH_CHALLENGE`.
    pub(super) due: bool,
    last: Option<Instant>,
}

impl PendingFrames {
    pub(super) const fn of_new_path() -> Self {
        Self { opening: true, due: true, last: None }
    }

    pub(super) fn add(&mut self) {
        self.due = true;
        self.last = None;
    }

    fn wait(&self, now: Instant) -> bool {
        (self.opening || self.due)
            && self.last.is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL)
    }
}

impl Arbiter {
    /// Which path's own frames the next question is about, if any. The path that noq asks first needs no help.
    pub(super) fn choose_pending(&mut self, now: Instant) {
        let first = self.slots.iter().filter(|slot| slot.open).filter_map(|slot| slot.path).min();
        let waiting = self.slots.iter().filter(|slot| slot.pending.wait(now) && slot.path > first);
        let chosen = waiting.filter(|slot| slot.path.is_some()).min_by_key(|slot| slot.path);
        self.pending = chosen.filter(|_| first.is_some()).map(|slot| slot.id);
    }

    pub(super) fn end_pending(&mut self, now: Instant, answered: bool) -> bool {
        let Some(slot) = self.pending.take().and_then(|id| self.slot(id)) else { return false };
        // Otherwise a path before it had frames of its own.
        if slot.turn.asked || !answered {
            slot.pending.last = Some(now);
        }
        true
    }

    pub(super) fn is_before_pending(&self, id: u64) -> bool {
        let path = |id: u64| self.slots.iter().find(|slot| slot.id == id).and_then(|slot: &Slot| slot.path);
        self.pending.is_some_and(|pending| path(id) < path(pending))
    }
}
