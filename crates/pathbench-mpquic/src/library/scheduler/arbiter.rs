//! The board's contents: the observations, and which path may send next.

use super::policy::{self, Contender, SchedulerEvent, Trouble};
use super::slot::{Acked, Observation, Slot, Turn};
use noq_proto::{PathId, VarInt};
use pathbench_record::connection::Scheduler;
use pathbench_record::sample::PathState;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A path that the pacer held back is passed over this long: the application may write several bursts at one instant.
const BURST: Duration = Duration::from_millis(1);
/// While a path sends acknowledgements, each path of higher id sends one at this interval.
const ACK_ROTATION: Duration = Duration::from_millis(20);
/// Transmissions on a path before another path sends an acknowledgement: sparse traffic stays on one path.
const ACK_ROTATION_SENT: u32 = 8;
/// Closed paths with kept figures.
const MAX_GONE: usize = 256;
/// Events kept until they are taken.
const MAX_EVENTS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alone {
    Ping,
    /// A copy of a datagram, sent at once if the congestion window has space.
    Copy,
    /// Tail loss probes and the rest of their GSO packet, in segments of the same size.
    Probes,
}

/// The paths of one connection, and the state of the scheduler.
#[derive(Debug, Default)]
pub(super) struct Arbiter {
    pub(super) scheduler: Scheduler,
    pub(super) slots: Vec<Slot>,
    pub(super) next_slot: u64,
    pub(super) unbound: bool,
    pub(super) now: Option<Instant>,
    /// A call of `poll_transmit` is in progress. At other times noq reads windows for its statistics.
    pub(super) polling: bool,
    pub(super) burst_since: Option<Instant>,
    pub(super) trouble: Option<Trouble>,
    /// The connection's announced receive window, if the board may raise it.
    pub(super) receive_window: Option<u64>,
    pub(super) rotating: Option<u64>,
    /// The slot of the only path that may send the next packets, which must be small.
    pub(super) alone: Option<(u64, Alone)>,
    pub(super) pending: Option<u64>,
    /// The packet that noq built last, its slot and bytes, until noq reports the transmission.
    pub(super) single: Option<(u64, u64)>,
    /// When to send the MTU probe that noq built last.
    pub(super) hold: Option<Instant>,
    pub(super) events: Vec<SchedulerEvent>,
    pub(super) gone: BTreeMap<PathId, Observation>,
    /// Scratch buffer; kept to reuse its memory.
    pub(super) contenders: Vec<Contender>,
}

impl Arbiter {
    /// Adds the slot of a new controller; its path is not known yet.
    pub(super) fn add_slot(&mut self, mtu_bytes: u16, cwnd_bytes: u64) -> u64 {
        let id = self.next_slot;
        self.next_slot += 1;
        self.slots.push(Slot::new(id, mtu_bytes, cwnd_bytes));
        self.unbound = true;
        id
    }

    pub(super) fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.id == id)
    }

    pub(super) fn open_paths(&self) -> impl Iterator<Item = PathId> {
        self.slots.iter().filter(|slot| slot.is_open()).filter_map(|slot| slot.path)
    }

    pub(super) fn path_of(&self, id: u64) -> Option<PathId> {
        self.slots.iter().find(|slot| slot.id == id).and_then(|slot| slot.path)
    }

    fn tick(&mut self, now: Instant) -> Instant {
        let now = self.now.map_or(now, |known| known.max(now));
        self.now = Some(now);
        now
    }

    /// Changes the slot of `path`, given the least `served` of the other open paths.
    pub(super) fn change(&mut self, path: PathId, change: impl FnOnce(&mut Slot, u64)) {
        let others = self
            .slots
            .iter()
            .filter(|slot| slot.is_open() && !slot.role.suspended && slot.path != Some(path));
        let least_served = others.map(|slot| slot.served).min().unwrap_or(0);
        if let Some(slot) = self.slots.iter_mut().rev().find(|slot| slot.path == Some(path)) {
            change(slot, least_served);
        }
    }

    /// Assigns a slot to its path. A path that migrated has a new controller, which takes over the old one's role.
    pub(super) fn bind(&mut self, id: u64, path: PathId) {
        let old = self.slots.iter().find(|slot| slot.path == Some(path) && slot.id != id);
        let old = old.map(|old| (old.role, old.served));
        let Some(slot) = self.slot(id) else { return };
        if slot.path == Some(path) {
            return;
        }
        slot.path = Some(path);
        if let Some(old) = old {
            (slot.role, slot.served) = old;
            for old in self.slots.iter_mut().filter(|slot| slot.path == Some(path) && slot.id != id) {
                old.path = None;
                old.role.stage = PathState::Closed;
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

    pub(super) fn begin_poll(&mut self, now: Instant, datagrams: usize) {
        let now = self.tick(now);
        self.polling = true;
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

    pub(super) fn end_poll(&mut self, now: Instant) {
        self.polling = false;
        self.end_pending(now, true);
        // noq reports each packet to a controller, and each transmission but that of an MTU probe.
        if let Some((id, bytes)) = self.single.take()
            && let Some(slot) = self.slot(id)
        {
            self.hold = slot.on_mtu_probe(now, bytes);
        }
    }

    /// noq sent nothing: whether the windows that the scheduler returned may be the reason.
    pub(super) fn poll_again(&mut self) -> bool {
        if let Some(now) = self.now
            && self.end_pending(now, false)
        {
            return true;
        }
        let diverted = self.slots.iter().any(|slot| slot.turn.diverted);
        let mut news = false;
        if let Some(slot) = self.rotating.take().and_then(|carrier| self.slot(carrier)) {
            // No other path sent the acknowledgements.
            slot.transmissions = 0;
            news = slot.turn.asked;
        }
        if diverted {
            for slot in self.slots.iter_mut().filter(|slot| slot.is_open()) {
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
        for slot in self.slots.iter().filter(|slot| slot.is_open() && !slot.turn.passed_over) {
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

    /// The window to return to noq for the path of slot `id`; `real` is the controller's.
    pub(super) fn window(&mut self, id: u64, real: u64) -> u64 {
        let (polling, now) = (self.polling, self.now);
        let choice = polling && self.slots.len() > 1;
        let alone = self.alone;
        let Some(slot) = self.slot(id) else { return real };
        slot.seen.cwnd_bytes = real;
        slot.turn.asked = true;
        slot.held_back = false;
        if let Some((alone, what)) = alone {
            slot.held_back = alone != id;
            let may_send = alone == id && (what != Alone::Probes || slot.turn.sent);
            return if may_send { u64::MAX } else { 0 };
        }
        let open = slot.is_open();
        let path = slot.path;
        let waits = now.is_some_and(|now| slot.is_quiet(now)) || slot.awaits_small_pings();
        if polling && !slot.ping_allowed && waits {
            slot.held_back = true;
            return 0;
        }
        let Some(now) = now.filter(|_| choice && open) else { return real };
        if let Some(carrier) = self.rotating {
            return if carrier == id || path < self.path_of(carrier) { 0 } else { real };
        }
        if self.is_before_pending(id) {
            if let Some(slot) = self.slot(id) {
                slot.held_back = slot.has_room();
            }
            return 0;
        }
        // noq reads windows only when there is data to send.
        self.judge(now, true);
        let may_send = self.may_send(id, now);
        let is_pending = self.pending == Some(id);
        let Some(slot) = self.slot(id) else { return real };
        slot.held_back = !may_send && slot.has_room();
        slot.turn.diverted |= !may_send;
        match (slot.ping_allowed || (is_pending && !slot.turn.sent), may_send) {
            // Also when the window is full, as on a path that went down in mid transfer.
            (true, _) => u64::MAX,
            // An MTU probe in flight takes no space in the window: a lost one would divert data for a round trip.
            (false, true) => real + slot.seen.in_flight_bytes.saturating_sub(slot.data_in_flight_bytes),
            (false, false) => 0,
        }
    }

    pub(super) fn on_sent(&mut self, id: u64, now: Instant, bytes: u64) {
        let now = self.tick(now);
        self.single = Some((id, bytes));
        let Some(slot) = self.slot(id) else { return };
        if bytes > u64::from(slot.seen.mtu_bytes) {
            // Only an MTU probe is larger than the MTU.
            return slot.on_probe_sent(bytes);
        }
        slot.on_sent(now, bytes);
        let floor = slot.served.saturating_sub(2 * slot.turn_scaled());
        if self.scheduler == Scheduler::RoundRobin {
            // A path gets no compensation for missed turns.
            for other in &mut self.slots {
                other.served = other.served.max(floor);
            }
        }
    }

    /// Whether another path should send acknowledgements now: the connection's receive window to announce for that, one
    /// byte more than before.
    ///
    /// noq sends acknowledgements on the lowest path of status "available". When that path loses them, all paths stall,
    /// and all RTT samples are too long. noq reads no window for a packet of acknowledgements alone, but it does when
    /// the packet has another frame, such as `MAX_DATA`.
    pub(super) fn begin_rotation(&mut self, now: Instant) -> Option<VarInt> {
        if self.slots.len() < 2 || self.rotating.is_some() {
            return None;
        }
        let usable =
            |slot: &&Slot| slot.is_open() && !slot.role.suspended && !slot.role.backup && slot.path.is_some();
        let carrier = self.slots.iter().filter(usable).min_by_key(|slot| slot.path)?;
        // A sender of data sends acknowledgements with the data, on all paths that it uses.
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
        let path = self.path_of(id);
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
        let others = self.slots.iter().filter(|slot| slot.is_open() && slot.id != id);
        let least_served = others.map(|slot| slot.served).min().unwrap_or(0);
        let Some(slot) = self.slot(id) else { return };
        if slot.is_stalled(now) {
            slot.served = slot.served.max(least_served);
            slot.resumed = Some(now);
        }
        slot.on_acked(now, acked, in_flight_bytes);
        self.judge(now, false);
    }

    fn judge(&mut self, now: Instant, data_waits: bool) {
        let Scheduler::Backup { srtt_above, rto_above } = self.scheduler else { return };
        let preferred =
            || self.slots.iter().filter(|slot| slot.is_open() && !slot.role.backup && !slot.role.suspended);
        let Some(path) = preferred().find_map(|slot| slot.path) else { return };
        let mut troubles = preferred().map(|slot| trouble_of(slot, now, (srtt_above, rto_above), data_waits));
        // One preferred path without trouble is enough; if all are in trouble, the reason is that of the first.
        let first = troubles.next().flatten();
        let trouble = if troubles.all(|other| other.is_some()) { first } else { None };
        // Only a read of a window shows that data waits, so a timeout lasts until the path has recovered.
        let lasting = matches!(self.trouble, Some(Trouble::Timeout { .. }))
            && preferred().all(|slot| slot.is_stalled(now) || slot.recovers(now));
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
    if data_waits && slot.is_stalled(now) {
        return Some(Trouble::Timeout { since: slot.waiting(now) });
    }
    slot.backed_off_timeout(now).filter(|rto| *rto > rto_above).map(|rto| Trouble::LongTimeout { rto })
}
