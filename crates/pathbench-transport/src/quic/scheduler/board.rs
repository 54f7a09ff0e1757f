//! What all paths' controllers of one connection share.

use super::SchedulerEvent;
use super::controller::Scheduled;
use super::policy::{self, Contender, Trouble};
use super::slot::{Acked, Observation, Slot, Turn};
use crate::quic::options::Scheduler;
use noq_proto::{Connection, PathEvent, PathId, Transmit, VarInt};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a pacer decided holds this long: the application may fill more than one burst at the same instant.
const BURST: Duration = Duration::from_millis(1);
/// While a path sends, the ones after it get an acknowledgement to carry this often.
const ACK_ROTATION: Duration = Duration::from_millis(20);
/// Transmissions on a path before one is left to the next: what is sent now and then keeps to one path.
const ACK_ROTATION_SENT: u32 = 8;
/// Last figures kept of paths that are gone.
const MAX_GONE: usize = 256;
/// Events kept until they are taken.
const MAX_EVENTS: usize = 1024;

/// The paths of one connection as their controllers see them, and who may send next.
///
/// Cheap to clone; all clones are the same board. The driver asks noq for packets through
/// [`Board::poll_transmit`] and tells the board of path events, suspensions and roles.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    scheduler: Scheduler,
    slots: Vec<Slot>,
    next_slot: u64,
    /// Slots were added whose path is not known yet.
    unbound: bool,
    /// The latest time heard of.
    now: Option<Instant>,
    /// noq is being asked for a packet. Otherwise it asks for windows to fill statistics.
    questioning: bool,
    burst_since: Option<Instant>,
    trouble: Option<Trouble>,
    /// What the connection announces that it can take, if that may be raised a little.
    receive_window: Option<u64>,
    /// The slot whose path leaves its acknowledgements to another one just now.
    rotating: Option<u64>,
    events: Vec<SchedulerEvent>,
    gone: BTreeMap<PathId, Observation>,
}

impl Board {
    /// The board of a connection that has no path yet.
    #[must_use]
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        Self(Arc::new(Mutex::new(State {
            scheduler,
            slots: Vec::new(),
            next_slot: 0,
            unbound: false,
            now: None,
            questioning: false,
            burst_since: None,
            trouble: None,
            receive_window: None,
            rotating: None,
            events: Vec::new(),
            gone: BTreeMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
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
        let rotation = self.state().begin_rotation(now);
        if let Some(window) = rotation {
            connection.set_receive_window(window);
        }
        loop {
            self.state().before_question(now);
            let transmit = connection.poll_transmit(now, max_datagrams, buffer);
            self.bind(connection);
            if transmit.is_some() || !self.state().ask_again() {
                self.state().questioning = false;
                return transmit;
            }
        }
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

    /// Whether the peer asks us to keep off `path` (PATH_STATUS_BACKUP): no new data while there is another.
    pub(crate) fn set_avoided(&self, path: PathId, avoided: bool) {
        self.state().change(path, |slot, least_served| {
            slot.avoided = avoided;
            slot.served = slot.served.max(least_served);
        });
    }

    /// Lets one packet out on `path` although it is held back. To be called with [`Connection::ping_path`].
    pub(crate) fn allow_ping(&self, path: PathId) {
        self.state().change(path, |slot, _| slot.ping_allowed = true);
    }

    /// What is known of `path`; the last figures when it is gone. `None` for a path that never was.
    #[must_use]
    pub(crate) fn observation(&self, path: PathId) -> Option<Observation> {
        let state = self.state();
        let slot = state.slots.iter().find(|slot| slot.path == Some(path));
        slot.map(|slot| slot.seen).or_else(|| state.gone.get(&path).copied())
    }

    /// Why the `backup` scheduler uses the backup paths at present; `None` while it does not.
    #[must_use]
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.state().trouble
    }

    /// What the scheduler did since the last call, at most the last 1024 events.
    #[must_use]
    pub(crate) fn take_events(&self) -> Vec<SchedulerEvent> {
        std::mem::take(&mut self.state().events)
    }

    /// When a path in use will have been without progress for a retransmission timeout, so that
    /// [`Board::poll_transmit`] has to be called although noq has no timer then.
    #[must_use]
    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        if state.slots.len() < 2 {
            return None;
        }
        let open = state.slots.iter().filter(|slot| slot.open);
        open.filter_map(Slot::stalled_at)
            .filter(|at| *at >= now)
            .min()
            .map(|at| at + Duration::from_millis(1))
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
            slot.seen.lost_bytes += bytes;
            slot.seen.in_flight_bytes = slot.seen.in_flight_bytes.saturating_sub(bytes);
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
        }
    }
}

impl State {
    fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.id == id)
    }

    fn tick(&mut self, now: Instant) -> Instant {
        let now = self.now.map_or(now, |known| known.max(now));
        self.now = Some(now);
        now
    }

    /// Changes the slot of `path`, given what the least served of the other open paths was served.
    fn change(&mut self, path: PathId, change: impl FnOnce(&mut Slot, u64)) {
        let others = self.slots.iter().filter(|slot| slot.open && !slot.suspended && slot.path != Some(path));
        let least_served = others.map(|slot| slot.served).min().unwrap_or(0);
        if let Some(slot) = self.slots.iter_mut().rev().find(|slot| slot.path == Some(path)) {
            change(slot, least_served);
        }
    }

    /// A path that migrated has a new controller: that one takes the old one's role.
    fn bind(&mut self, id: u64, path: PathId) {
        let role = self
            .slots
            .iter()
            .find(|slot| slot.path == Some(path) && slot.id != id)
            .map(|old| (old.open, old.backup, old.avoided, old.suspended, old.weight, old.served));
        let Some(slot) = self.slot(id) else { return };
        if slot.path == Some(path) {
            return;
        }
        slot.path = Some(path);
        if let Some((open, backup, avoided, suspended, weight, served)) = role {
            (slot.open, slot.backup, slot.avoided, slot.suspended) = (open, backup, avoided, suspended);
            (slot.weight, slot.served) = (weight, served);
            for old in self.slots.iter_mut().filter(|slot| slot.path == Some(path) && slot.id != id) {
                old.path = None;
                old.open = false;
            }
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(at) = self.slots.iter().position(|slot| slot.id == id) else { return };
        let slot = self.slots.swap_remove(at);
        if let Some(path) = slot.path {
            if self.gone.len() >= MAX_GONE {
                self.gone.pop_first();
            }
            self.gone.insert(path, slot.seen);
        }
    }

    fn before_question(&mut self, now: Instant) {
        let now = self.tick(now);
        self.questioning = true;
        let same_burst = self.burst_since.is_some_and(|since| now.saturating_duration_since(since) < BURST);
        for slot in &mut self.slots {
            let burst = if same_burst { slot.turn } else { Turn::default() };
            slot.turn = Turn { paced: burst.paced, passed_over: burst.passed_over, ..Turn::default() };
        }
        if !same_burst {
            self.burst_since = Some(now);
        }
        self.judge(now, false);
    }

    /// noq had nothing to send. Whether that may be because of what we answered.
    fn ask_again(&mut self) -> bool {
        let diverted = self.slots.iter().any(|slot| slot.turn.diverted);
        let mut news = false;
        if let Some(slot) = self.rotating.take().and_then(|carrier| self.slot(carrier)) {
            // Nobody took what it left.
            slot.transmissions = 0;
            news = slot.turn.asked;
        }
        if diverted {
            for slot in self.slots.iter_mut().filter(|slot| slot.open) {
                let turn = &mut slot.turn;
                if !turn.asked && !turn.passed_over {
                    turn.passed_over = true;
                    news = true;
                } else if turn.asked && !turn.diverted && !turn.sent && !turn.paced {
                    turn.paced = true;
                    news = true;
                }
            }
        }
        if !news {
            self.burst_since = None;
        }
        news
    }

    fn contenders(&self, now: Instant) -> (Vec<u64>, Vec<Contender>) {
        let relieved = self.trouble.is_some();
        let open = self.slots.iter().filter(|slot| slot.open && !slot.turn.passed_over);
        open.map(|slot| {
            let contender = Contender {
                rank: slot.rank(now, relieved),
                srtt: slot.seen.srtt,
                available: slot.has_room() && !slot.turn.paced,
                served: slot.served,
                turn: slot.turn_scaled(),
            };
            (slot.id, contender)
        })
        .unzip()
    }

    /// The window that the path of slot `id` shows to noq, of which `real` is the controller's.
    fn window(&mut self, id: u64, real: u64) -> u64 {
        let choice = self.questioning && self.slots.len() > 1;
        let Some(slot) = self.slot(id) else { return real };
        slot.seen.cwnd_bytes = real;
        slot.turn.asked = true;
        slot.held_back = false;
        let open = slot.open;
        let path = slot.path;
        let Some(now) = self.now.filter(|_| choice && open) else { return real };
        if let Some(carrier) = self.rotating {
            let carrier_path = self.slots.iter().find(|slot| slot.id == carrier).and_then(|slot| slot.path);
            return if carrier == id || path < carrier_path { 0 } else { real };
        }
        // To be asked means that there is data to send.
        self.judge(now, true);
        let (ids, contenders) = self.contenders(now);
        let index = ids.iter().position(|other| *other == id).unwrap_or(usize::MAX);
        let may_send = policy::may_send(&self.scheduler, &contenders, index);
        let Some(slot) = self.slot(id) else { return real };
        slot.held_back = !may_send && slot.has_room();
        slot.turn.diverted |= !may_send;
        match (slot.ping_allowed, may_send) {
            // Also when the window is full, as it is soon on a path that has gone dead.
            (true, _) => u64::MAX,
            (false, true) => real,
            (false, false) => 0,
        }
    }

    fn on_sent(&mut self, id: u64, now: Instant, bytes: u64) {
        let now = self.tick(now);
        let Some(slot) = self.slot(id) else { return };
        slot.on_sent(now, bytes);
        let floor = slot.served.saturating_sub(2 * slot.turn_scaled());
        if self.scheduler == Scheduler::RoundRobin {
            // Turns that were missed are not made up for.
            for other in &mut self.slots {
                other.served = other.served.max(floor);
            }
        }
    }

    /// Whether a path that carries all acknowledgements should leave some to another one now: the window of the
    /// connection to announce for that, one byte more than before.
    ///
    /// noq sends acknowledgements on the lowest path of status "available". When that one loses them, all paths come
    /// to a stop, and the RTT of all is taken for long. It does not ask about acknowledgements alone, but about
    /// everything once there is any other frame to send: so there is to be one, a `MAX_DATA`.
    fn begin_rotation(&mut self, now: Instant) -> Option<VarInt> {
        if self.slots.len() < 2 || self.rotating.is_some() {
            return None;
        }
        let usable = |slot: &&Slot| slot.open && !slot.suspended && !slot.backup && slot.path.is_some();
        let carrier = self.slots.iter().filter(usable).min_by_key(|slot| slot.path)?;
        // One that sends data sends acknowledgements along with them on all paths that it uses.
        let receives_only = carrier.seen.in_flight_bytes < 2 * u64::from(carrier.seen.mtu_bytes);
        if carrier.transmissions < ACK_ROTATION_SENT || !receives_only {
            return None;
        }
        let silent =
            |slot: &Slot| slot.transmitted.is_none_or(|at| now.saturating_duration_since(at) >= ACK_ROTATION);
        let next = self.slots.iter().filter(usable).find(|slot| slot.path > carrier.path && silent(slot));
        next?;
        let carrier = carrier.id;
        let window = self.receive_window.as_mut()?;
        *window += 1;
        let window = VarInt::from_u64(*window).ok()?;
        self.rotating = Some(carrier);
        Some(window)
    }

    fn on_transmission(&mut self, id: u64, now: Instant) {
        let now = self.tick(now);
        let path = self.slots.iter().find(|slot| slot.id == id).and_then(|slot| slot.path);
        for slot in &mut self.slots {
            if slot.id == id {
                slot.transmitted = Some(now);
                slot.transmissions = slot.transmissions.saturating_add(1);
            } else if slot.path < path {
                slot.transmissions = 0;
            }
        }
        self.rotating = None;
    }

    fn on_acked(&mut self, id: u64, now: Instant, acked: &Acked, in_flight_bytes: u64) {
        let now = self.tick(now);
        let others = self.slots.iter().filter(|slot| slot.open && slot.id != id);
        let least_served = others.map(|slot| slot.served).min().unwrap_or(0);
        let Some(slot) = self.slot(id) else { return };
        if slot.stalled(now) {
            slot.served = slot.served.max(least_served);
        }
        slot.on_acked(now, acked, in_flight_bytes);
        self.judge(now, false);
    }

    /// Decides whether the `backup` scheduler's preferred paths are in trouble.
    fn judge(&mut self, now: Instant, data_waits: bool) {
        let Scheduler::Backup { srtt_above, rto_above } = self.scheduler else { return };
        let preferred = || self.slots.iter().filter(|slot| slot.open && !slot.backup && !slot.suspended);
        let Some(path) = preferred().find_map(|slot| slot.path) else { return };
        let mut troubles = preferred().map(|slot| trouble_of(slot, now, (srtt_above, rto_above), data_waits));
        // One preferred path without trouble is enough; of several in trouble the first gives the reason.
        let first = troubles.next().flatten();
        let trouble = if troubles.all(|other| other.is_some()) { first } else { None };
        // Whether data waits is known only when noq asks, so a timeout once found lasts until there is progress.
        let lasting = matches!(self.trouble, Some(Trouble::Timeout { .. }))
            && preferred().all(|slot| slot.stalled(now));
        let trouble = trouble.or(self.trouble.filter(|_| lasting));
        if trouble.is_some() != self.trouble.is_some() && self.events.len() < MAX_EVENTS {
            self.events.push(SchedulerEvent { at: now, path, trouble });
        }
        self.trouble = trouble;
    }
}

fn trouble_of(
    slot: &Slot,
    now: Instant,
    (srtt_above, rto_above): (Duration, Duration),
    data_waits: bool,
) -> Option<Trouble> {
    let srtt = slot.seen.srtt?;
    if srtt > srtt_above {
        return Some(Trouble::SlowPath { srtt });
    }
    if data_waits && slot.stalled(now) {
        return Some(Trouble::Timeout { since: slot.waiting(now) });
    }
    slot.backed_off_timeout(now).filter(|rto| *rto > rto_above).map(|rto| Trouble::LongTimeout { rto })
}
