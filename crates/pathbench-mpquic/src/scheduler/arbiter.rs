//! Who may send next, and why: the board's contents.

use super::SchedulerEvent;
use super::policy::{self, Contender, Trouble};
use super::slot::{Acked, Observation, Slot, Turn};
use super::small_ping::Alone;
use noq_proto::{PathId, VarInt};
use pathbench_record::connection::Scheduler;
use std::collections::BTreeMap;
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

/// The paths of one connection and what the choice among them rests on.
#[derive(Debug)]
pub(super) struct Arbiter {
    pub(super) scheduler: Scheduler,
    pub(super) slots: Vec<Slot>,
    pub(super) next_slot: u64,
    pub(super) unbound: bool,
    pub(super) now: Option<Instant>,
    /// noq is being asked for a packet. Otherwise it asks for windows to fill statistics.
    pub(super) questioning: bool,
    pub(super) burst_since: Option<Instant>,
    pub(super) trouble: Option<Trouble>,
    /// What the connection announces that it can take, if that may be raised a little.
    pub(super) receive_window: Option<u64>,
    pub(super) rotating: Option<u64>,
    /// The slot whose path alone may send the next packets, which are to be small.
    pub(super) alone: Option<(u64, Alone)>,
    pub(super) pending: Option<u64>,
    /// The packet that noq built last, its slot and bytes, as long as noq has not said that it is part of a batch.
    pub(super) single: Option<(u64, u64)>,
    /// An MTU probe, given out just now, that is to leave only then.
    pub(super) hold: Option<Instant>,
    pub(super) events: Vec<SchedulerEvent>,
    pub(super) gone: BTreeMap<PathId, Observation>,
    /// Kept for its memory only.
    contenders: Vec<Contender>,
}

impl Arbiter {
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self {
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
            alone: None,
            pending: None,
            single: None,
            hold: None,
            events: Vec::new(),
            gone: BTreeMap::new(),
            contenders: Vec::new(),
        }
    }

    pub(super) fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.id == id)
    }

    pub(super) fn open_paths(&self) -> impl Iterator<Item = PathId> {
        self.slots.iter().filter(|slot| slot.open).filter_map(|slot| slot.path)
    }

    fn tick(&mut self, now: Instant) -> Instant {
        let now = self.now.map_or(now, |known| known.max(now));
        self.now = Some(now);
        now
    }

    /// Changes the slot of `path`, given what the least served of the other open paths was served.
    pub(super) fn change(&mut self, path: PathId, change: impl FnOnce(&mut Slot, u64)) {
        let others = self.slots.iter().filter(|slot| slot.open && !slot.suspended && slot.path != Some(path));
        let least_served = others.map(|slot| slot.served).min().unwrap_or(0);
        if let Some(slot) = self.slots.iter_mut().rev().find(|slot| slot.path == Some(path)) {
            change(slot, least_served);
        }
    }

    /// A path that migrated has a new controller: that one takes the old one's role.
    pub(super) fn bind(&mut self, id: u64, path: PathId) {
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
            slot.pending.opening = false;
            for old in self.slots.iter_mut().filter(|slot| slot.path == Some(path) && slot.id != id) {
                old.path = None;
                old.open = false;
            }
        }
    }

    pub(super) fn remove(&mut self, id: u64) {
        let Some(at) = self.slots.iter().position(|slot| slot.id == id) else { return };
        let slot = self.slots.swap_remove(at);
        if let Some(path) = slot.path {
            if self.gone.len() >= MAX_GONE {
                self.gone.pop_first();
            }
            self.gone.insert(path, slot.observation(self.now));
        }
    }

    pub(super) fn before_question(&mut self, now: Instant, datagrams: usize) {
        let now = self.tick(now);
        self.questioning = true;
        self.single = None;
        let same_burst = self.burst_since.is_some_and(|since| now.saturating_duration_since(since) < BURST);
        for slot in &mut self.slots {
            let burst = if same_burst { slot.turn } else { Turn::default() };
            slot.turn = Turn { paced: burst.paced, passed_over: burst.passed_over, ..Turn::default() };
            slot.turn.expected_rtt = slot.expected_rtt(datagrams);
        }
        if !same_burst {
            self.burst_since = Some(now);
        }
        self.choose_pending(now);
        self.judge(now, false);
    }

    pub(super) fn after_answer(&mut self, now: Instant) {
        self.questioning = false;
        self.end_pending(now, true);
        // It tells a controller of each packet, and of each transmission, but not of one that is an MTU probe.
        if let Some((id, bytes)) = self.single.take()
            && let Some(slot) = self.slot(id)
        {
            self.hold = slot.on_mtu_probe(now, bytes);
        }
    }

    /// noq had nothing to send. Whether that may be because of what we answered.
    pub(super) fn ask_again(&mut self) -> bool {
        if let Some(now) = self.now
            && self.end_pending(now, false)
        {
            return true;
        }
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

    fn may_send(&mut self, id: u64, now: Instant) -> bool {
        let relieved = self.trouble.is_some();
        let mut index = usize::MAX;
        self.contenders.clear();
        for slot in self.slots.iter().filter(|slot| slot.open && !slot.turn.passed_over) {
            if slot.id == id {
                index = self.contenders.len();
            }
            self.contenders.push(Contender {
                rank: slot.rank(now, relieved),
                rtt: slot.turn.expected_rtt,
                available: slot.has_room()
                    && !slot.turn.paced
                    && !slot.is_quiet(now)
                    && !slot.awaits_small_pings(),
                served: slot.served,
                turn: slot.turn_scaled(),
            });
        }
        policy::may_send(&self.scheduler, &self.contenders, index)
    }

    /// The window that the path of slot `id` shows to noq, of which `real` is the controller's.
    pub(super) fn window(&mut self, id: u64, real: u64) -> u64 {
        let (questioning, now) = (self.questioning, self.now);
        let choice = questioning && self.slots.len() > 1;
        let alone = self.alone;
        let Some(slot) = self.slot(id) else { return real };
        slot.seen.cwnd_bytes = real;
        slot.turn.asked = true;
        slot.held_back = false;
        if let Some((alone, what)) = alone {
            slot.held_back = alone != id;
            let may_send = alone == id && (what == Alone::Ping || slot.turn.sent);
            return if may_send { u64::MAX } else { 0 };
        }
        let open = slot.open;
        let path = slot.path;
        let waits = now.is_some_and(|now| slot.is_quiet(now)) || slot.awaits_small_pings();
        if questioning && !slot.ping_allowed && waits {
            slot.held_back = true;
            return 0;
        }
        let Some(now) = now.filter(|_| choice && open) else { return real };
        if let Some(carrier) = self.rotating {
            let carrier_path = self.slots.iter().find(|slot| slot.id == carrier).and_then(|slot| slot.path);
            return if carrier == id || path < carrier_path { 0 } else { real };
        }
        if self.is_before_pending(id) {
            if let Some(slot) = self.slot(id) {
                slot.held_back = slot.has_room();
            }
            return 0;
        }
        // To be asked means that there is data to send.
        self.judge(now, true);
        let may_send = self.may_send(id, now);
        let is_pending = self.pending == Some(id);
        let Some(slot) = self.slot(id) else { return real };
        slot.held_back = !may_send && slot.has_room();
        slot.turn.diverted |= !may_send;
        match (slot.ping_allowed || (is_pending && !slot.turn.sent), may_send) {
            // Also when the window is full, as it is soon on a path that has gone dead.
            (true, _) => u64::MAX,
            (false, true) => real,
            (false, false) => 0,
        }
    }

    pub(super) fn on_sent(&mut self, id: u64, now: Instant, bytes: u64) {
        let now = self.tick(now);
        self.single = Some((id, bytes));
        let Some(slot) = self.slot(id) else { return };
        if bytes > u64::from(slot.seen.mtu_bytes) {
            // Nothing else is ever longer.
            return slot.on_probe_sent(bytes);
        }
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
    pub(super) fn begin_rotation(&mut self, now: Instant) -> Option<VarInt> {
        if self.slots.len() < 2 || self.rotating.is_some() {
            return None;
        }
        let usable = |slot: &&Slot| slot.open && !slot.suspended && !slot.backup && slot.path.is_some();
        let carrier = self.slots.iter().filter(usable).min_by_key(|slot| slot.path)?;
        // One that sends data sends acknowledgements along with them on all paths that it uses.
        let receives_only = carrier.data_in_flight_bytes < 2 * u64::from(carrier.seen.mtu_bytes);
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

    pub(super) fn on_transmission(&mut self, id: u64, now: Instant) {
        let now = self.tick(now);
        self.single = None;
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

    pub(super) fn on_acked(&mut self, id: u64, now: Instant, acked: &Acked, in_flight_bytes: u64) {
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
