//! What all paths' controllers of one connection share.

use super::SchedulerEvent;
use super::arbiter::Arbiter;
use super::controller::Scheduled;
use super::policy::Trouble;
use super::slot::{Acked, Observation, Slot};
use noq_proto::{Connection, PathEvent, PathId, Transmit};
use pathbench_record::connection::Scheduler;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The paths of one connection as their controllers see them, and who may send next.
///
/// Cheap to clone; all clones are the same board. The driver asks noq for packets through
/// [`Board::poll_transmit`] and tells the board of path events, suspensions and roles.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Mutex<Arbiter>>);

impl Board {
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        Self(Arc::new(Mutex::new(Arbiter::new(scheduler))))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Arbiter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the board raise the connection's receive window by a byte now and then, from `bytes` on: it takes a frame
    /// to send to have acknowledgements go by another path than the usual.
    pub(crate) fn lend_receive_window(&self, bytes: u64) {
        self.state().receive_window = Some(bytes);
    }

    /// As [`Connection::poll_transmit`], with the scheduler's choice of the path.
    ///
    /// Asks noq again when the chosen path turned out to be held by its pacer, so that the data goes elsewhere.
    pub(crate) fn poll_transmit(
        &self,
        connection: &mut Connection,
        now: Instant,
        max_datagrams: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.bind(connection);
        self.note_rtts(connection);
        let rotation = self.state().begin_rotation(now);
        if let Some(window) = rotation {
            connection.set_receive_window(window);
        }
        loop {
            self.state().before_question(now, max_datagrams.get());
            let transmit = connection.poll_transmit(now, max_datagrams, buffer);
            self.bind(connection);
            if transmit.is_some() {
                self.state().after_answer(now);
                return transmit;
            }
            if !self.state().ask_again() {
                self.state().questioning = false;
                return None;
            }
        }
    }

    /// The RTTs as noq knows them: without the peer's delay of acknowledgements, which no controller is told.
    fn note_rtts(&self, connection: &Connection) {
        let mut state = self.state();
        if state.slots.len() < 2 {
            return;
        }
        for slot in state.slots.iter_mut().filter(|slot| slot.open && slot.seen.srtt.is_some()) {
            slot.delay.smoothed = slot.path.and_then(|path| connection.rtt(path));
        }
    }

    /// When what [`Board::poll_transmit`] gave out last is to leave, if not at once: it is an MTU probe that needs room.
    pub(crate) fn take_hold(&self) -> Option<Instant> {
        self.state().hold.take()
    }

    /// Finds out which slot belongs to which path. Does nothing unless a path was added since.
    pub(crate) fn bind(&self, connection: &Connection) {
        if !self.state().unbound {
            return;
        }
        for path in connection.paths() {
            // The clone must be dropped without the lock: its last holder gives up the slot.
            let Some(controller) = connection.congestion_state(path) else { continue };
            let Ok(scheduled) = controller.clone_box().into_any().downcast::<Scheduled>() else { continue };
            self.state().bind(scheduled.slot(), path);
        }
        self.state().unbound = false;
    }

    /// Takes note of a path's birth and death. Events of [`PathId::ZERO`] have to include its establishment,
    /// which noq does not report: call [`Board::set_open`] when the handshake is complete.
    pub(crate) fn on_path_event(&self, event: &PathEvent) {
        match event {
            PathEvent::Established { id, .. } => self.set_open(*id, true),
            PathEvent::Abandoned { id, .. } | PathEvent::Discarded { id, .. } => self.set_open(*id, false),
            _ => {}
        }
    }

    /// Whether `path` can carry data: it is validated and not abandoned.
    pub(crate) fn set_open(&self, path: PathId, open: bool) {
        self.state().change(path, |slot, least_served| {
            slot.open = open;
            slot.pending.opening = false;
            if open {
                slot.pending.add();
            }
            slot.served = slot.served.max(least_served);
        });
    }

    /// The role of `path`: used only when no other is usable (`backup`), and its share with `weighted`.
    pub(crate) fn set_role(&self, path: PathId, backup: bool, weight: u32) {
        self.state().change(path, |slot, least_served| {
            slot.backup = backup;
            slot.weight = weight.max(1);
            slot.served = slot.served.max(least_served);
        });
    }

    /// Whether we hear nothing on `path`: no new data while there is another.
    pub(crate) fn set_suspended(&self, path: PathId, suspended: bool) {
        self.state().change(path, |slot, least_served| {
            slot.suspended = suspended;
            slot.served = slot.served.max(least_served);
        });
    }

    /// Whether the peer asks us to keep off `path` (`PATH_STATUS_BACKUP`): no new data while there is another.
    pub(crate) fn set_avoided(&self, path: PathId, avoided: bool) {
        self.state().change(path, |slot, least_served| {
            slot.avoided = avoided;
            slot.served = slot.served.max(least_served);
        });
    }

    /// Lets one packet out on `path` although it is held back. To be called with [`Connection::ping_path`].
    pub(crate) fn allow_ping(&self, path: PathId) {
        self.state().change(path, |slot, _| {
            slot.ping_allowed = true;
            slot.ask_for_small_ping();
            slot.pending.add();
        });
    }

    /// What is known of `path`; the last figures when it is gone. `None` for a path that never was.
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

    /// How long after its last packet noq probes `path` whose window is full; `None` where there is room.
    pub(crate) fn probe_after(&self, path: PathId) -> Option<Duration> {
        let state = self.state();
        let slot = state.slots.iter().find(|slot| slot.path == Some(path) && !slot.has_room())?;
        slot.seen.retransmission_timeout()
    }

    pub(crate) fn cwnd_bytes(&self) -> u64 {
        let state = self.state();
        state.slots.iter().filter(|slot| slot.open).map(|slot| slot.seen.cwnd_bytes).sum()
    }

    /// Why the `backup` scheduler uses the backup paths at present; `None` while it does not.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.state().trouble
    }

    /// What the scheduler did since the last call, at most the last 1024 events.
    pub(crate) fn take_events(&self) -> Vec<SchedulerEvent> {
        std::mem::take(&mut self.state().events)
    }

    /// When a path in use will have been without progress for a retransmission timeout, or may send again, so that
    /// [`Board::poll_transmit`] has to be called although noq has no timer then.
    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        let quiet = state.slots.iter().filter_map(|slot| slot.mtu_probes.quiet_until);
        let quiet = quiet.filter(|until| *until > now).min();
        let small_ping = state.slots.iter().filter_map(Slot::small_ping_at).filter(|at| *at > now).min();
        if state.slots.len() < 2 {
            return quiet.into_iter().chain(small_ping).min();
        }
        let open = state.slots.iter().filter(|slot| slot.open);
        let stalled = open.filter_map(Slot::stalled_at).filter(|at| *at >= now).min();
        let stalled = stalled.map(|at| at + Duration::from_millis(1));
        [stalled, quiet, small_ping].into_iter().flatten().min()
    }

    pub(super) fn add_slot(&self, mtu_bytes: u16, cwnd_bytes: u64) -> u64 {
        let mut state = self.state();
        let id = state.next_slot;
        state.next_slot += 1;
        state.slots.push(Slot::new(id, mtu_bytes, cwnd_bytes));
        state.unbound = true;
        id
    }

    pub(super) fn remove_slot(&self, slot: u64) {
        self.state().remove(slot);
    }

    pub(super) fn window(&self, slot: u64, real: u64) -> u64 {
        self.state().window(slot, real)
    }

    pub(super) fn is_held_back(&self, slot: u64) -> bool {
        self.state().slot(slot).is_some_and(|slot| slot.held_back)
    }

    pub(super) fn on_sent(&self, slot: u64, now: Instant, bytes: u64) {
        self.state().on_sent(slot, now, bytes);
    }

    pub(super) fn on_transmission(&self, slot: u64, now: Instant) {
        self.state().on_transmission(slot, now);
    }

    pub(super) fn on_acked(&self, slot: u64, now: Instant, acked: &Acked, in_flight_bytes: u64) {
        self.state().on_acked(slot, now, acked, in_flight_bytes);
    }

    pub(super) fn on_lost(&self, slot: u64, bytes: u64) {
        if let Some(slot) = self.state().slot(slot) {
            slot.on_lost(bytes);
        }
    }

    pub(super) fn set_window(&self, slot: u64, cwnd_bytes: u64, ssthresh_bytes: Option<u64>) {
        if let Some(slot) = self.state().slot(slot) {
            slot.seen.cwnd_bytes = cwnd_bytes;
            slot.seen.ssthresh_bytes = ssthresh_bytes.filter(|bytes| *bytes != u64::MAX);
        }
    }

    pub(super) fn set_mtu(&self, slot: u64, mtu_bytes: u16) {
        if let Some(slot) = self.state().slot(slot) {
            slot.seen.mtu_bytes = mtu_bytes;
            slot.forget_doubt();
        }
    }
}
