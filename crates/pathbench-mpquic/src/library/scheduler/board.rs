//! The state that the congestion controllers of one connection share.

use super::arbiter::Arbiter;
use super::policy::{Role, SchedulerEvent, Trouble};
use super::slot::{Observation, Slot};
use noq_proto::{Connection, PathId, Transmit};
use pathbench_record::connection::Scheduler;
use pathbench_record::sample::PathState;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The paths of one connection as observed by their controllers, and the path that may send next.
///
/// Cheap to clone; all clones share one state. The core polls noq for packets through [`Board::poll_transmit`], and
/// sets the paths' roles.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Mutex<Arbiter>>);

impl Board {
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        Self(Arc::new(Mutex::new(Arbiter { scheduler, ..Arbiter::default() })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Arbiter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows the board to raise the connection's receive window from `bytes` by single bytes: noq sends
    /// acknowledgements on another path only together with another frame, such as `MAX_DATA`.
    pub(crate) fn lend_receive_window(&self, bytes: u64) {
        self.state().receive_window = Some(bytes);
    }

    /// [`Connection::poll_transmit`] on the path that the scheduler chooses.
    ///
    /// Polls noq again when the pacer held back the chosen path, so that another path sends the data.
    pub(crate) fn poll_transmit(
        &self,
        connection: &mut Connection,
        now: Instant,
        max_datagrams: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.bind(connection);
        let rotation = self.state().begin_rotation(now);
        if let Some(window) = rotation {
            connection.set_receive_window(window);
        }
        loop {
            self.state().begin_poll(now, max_datagrams.get());
            let transmit = connection.poll_transmit(now, max_datagrams, buffer);
            self.bind(connection);
            if transmit.is_some() {
                self.state().end_poll(now);
                return transmit;
            }
            if !self.state().poll_again() {
                self.state().polling = false;
                return None;
            }
        }
    }

    /// When to send the last result of [`Board::poll_transmit`], if it is an MTU probe that must wait.
    pub(crate) fn take_hold(&self) -> Option<Instant> {
        self.state().hold.take()
    }

    /// Sets the path manager's decisions about `path`, the first path included: noq does not report its establishment.
    pub(crate) fn set_role(&self, path: PathId, role: Role) {
        self.state().change(path, |slot, least_served| {
            if slot.role == role {
                return;
            }
            if !slot.is_open() && role.stage == PathState::Open {
                slot.pending.add();
            }
            slot.role = role;
            slot.served = slot.served.max(least_served);
        });
    }

    /// Allows one packet on `path` although the path is held back. Call it with [`Connection::ping_path`].
    pub(crate) fn allow_ping(&self, path: PathId) {
        self.state().change(path, |slot, _| {
            slot.ping_allowed = true;
            slot.ask_for_small_ping();
            slot.pending.add();
        });
    }

    /// The observations of `path`; the last ones if it is closed. `None` for an unknown path.
    pub(crate) fn observation(&self, path: PathId) -> Option<Observation> {
        let state = self.state();
        let slot = state.slots.iter().find(|slot| slot.path == Some(path));
        slot.map(|slot| slot.seen).or_else(|| state.gone.get(&path).copied())
    }

    pub(crate) fn observation_at(&self, path: PathId, now: Instant) -> Option<Observation> {
        let state = self.state();
        let slot = state.slots.iter().find(|slot| slot.path == Some(path));
        slot.map(|slot| slot.observation(Some(now))).or_else(|| state.gone.get(&path).copied())
    }

    /// How long after its last packet noq probes `path`, if its window is full; `None` while it is not.
    pub(crate) fn probe_after(&self, path: PathId) -> Option<Duration> {
        let state = self.state();
        let slot = state.slots.iter().find(|slot| slot.path == Some(path) && !slot.has_room())?;
        slot.seen.retransmission_timeout()
    }

    pub(crate) fn cwnd_bytes(&self) -> u64 {
        let state = self.state();
        state.slots.iter().filter(|slot| slot.is_open()).map(|slot| slot.seen.cwnd_bytes).sum()
    }

    /// Whether the congestion window of an open path holds more packets than are in flight.
    pub(crate) fn has_free_window(&self) -> bool {
        let state = self.state();
        let mut open = state.slots.iter().filter(|slot| slot.is_open());
        open.any(|slot| slot.seen.in_flight_bytes.saturating_mul(5) < slot.seen.cwnd_bytes.saturating_mul(4))
    }

    /// Why the `backup` scheduler uses the backup paths at present; `None` while it does not.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.state().trouble
    }

    /// The scheduler's events since the last call, at most 1024.
    pub(crate) fn take_events(&self) -> Vec<SchedulerEvent> {
        std::mem::take(&mut self.state().events)
    }

    /// When to call [`Board::poll_transmit`] without a timer of noq: when a path will be stalled, may send again, or
    /// has a small PING due.
    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        let quiet = state.slots.iter().filter_map(|slot| slot.mtu_probes.quiet_until);
        let quiet = quiet.filter(|until| *until > now).min();
        let small_ping = state.slots.iter().filter_map(Slot::small_ping_at).filter(|at| *at > now).min();
        if state.slots.len() < 2 {
            return quiet.into_iter().chain(small_ping).min();
        }
        let open = state.slots.iter().filter(|slot| slot.is_open());
        let stalled = open.filter_map(Slot::stalled_at).filter(|at| *at >= now).min();
        let stalled = stalled.map(|at| at + Duration::from_millis(1));
        [stalled, quiet, small_ping].into_iter().flatten().min()
    }
}
