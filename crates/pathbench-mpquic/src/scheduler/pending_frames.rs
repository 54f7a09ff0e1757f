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

/// What a path has to say for itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PendingFrames {
    /// It is being validated, with as many frames as that takes.
    pub(super) opening: bool,
    /// A packet with frames of its own is due: a PING, or the answer to the peer's `PATH_CHALLENGE`.
    pub(super) due: bool,
    /// When it was last given the room.
    last: Option<Instant>,
}

impl PendingFrames {
    /// Those of a path that is new.
    pub(super) const fn of_new_path() -> Self {
        Self { opening: true, due: true, last: None }
    }

    /// One more, to be seen to at once.
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

    /// The path with pending frames had its chance, if it had.
    pub(super) fn end_pending(&mut self, now: Instant, answered: bool) -> bool {
        let Some(slot) = self.pending.take().and_then(|id| self.slot(id)) else { return false };
        // Otherwise a path before it had frames of its own.
        if slot.turn.asked || !answered {
            slot.pending.last = Some(now);
        }
        true
    }

    /// Whether the path of slot `id` is passed over for its frames.
    pub(super) fn is_before_pending(&self, id: u64) -> bool {
        let path = |id: u64| self.slots.iter().find(|slot| slot.id == id).and_then(|slot: &Slot| slot.path);
        self.pending.is_some_and(|pending| path(id) < path(pending))
    }
}
