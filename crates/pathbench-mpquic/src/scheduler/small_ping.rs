//! Small packets among the large ones, by which noq tells a path MTU that shrank from a path that lost something.
//!
//! noq takes the path MTU for too large when large packets were lost on four occasions and nothing as large arrived
//! meanwhile (its `BLACK_HOLE_THRESHOLD`). On a busy path everything is as large as the MTU allows, a PING included, for
//! that takes data along. So when the MTU shrinks nothing is acknowledged any more, each of the four losses waits for a
//! tail loss probe, which the next PING puts off, and what was lost before is sent at the same size, and lost, again:
//! 0.5 to 1.4 s at 100 ms of RTT.
//!
//! A packet that stays small gets through, and what was lost before it is known one round trip later. On one of several
//! paths it is a PING ([`Board::poll_small_ping`]), on the only path an early tail loss probe ([`Board::probe_early`]).
//!
//! A group of them is sent where the acknowledgement of a large packet is overdue, so that in good times there are none,
//! and not in the first second of a transfer, in which slow start fills the queue until it drops everything large. A
//! group has three, since noq counts a loss for each time at which it learns of one: what is fewer than three packets
//! older than the latest acknowledged one it gives up one by one, as time passes (RFC 9002 section 6.1). A single small
//! packet behind the end of a burst that a full queue dropped made four losses of it.
//!
//! When large packets before a group were lost, two at least, and none was acknowledged since, the MTU is in doubt. From
//! then on, until a large packet is acknowledged or noq has reduced the MTU, each large packet is followed by a group: noq
//! learns of the three losses that it lacks in one round trip, at the price of three packets instead of three windows.

use super::Board;
use super::arbiter::Arbiter;
use super::slot::Slot;
use noq_proto::{Connection, PathId, PathStatus, Transmit};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// What every path takes (RFC 9000 section 14): noq sends nothing smaller on purpose, and takes the loss of what is no
/// larger for no sign of a smaller MTU.
pub(super) const LEAST_MTU_BYTES: u16 = 1200;
/// Small packets at a time: noq's packet threshold.
const GROUP: NonZeroUsize = NonZeroUsize::new(3).unwrap();
/// Large packets that are under way, and that were sent since the last group, for another one to be of use; and so many
/// have to be lost for the MTU to be in doubt.
const LARGE_PACKETS: u64 = 2;
/// An acknowledgement is overdue when this, or four times the RTT's variation, has passed beyond the smoothed RTT.
const SHORTEST_DELAY: Duration = Duration::from_millis(20);
/// While the MTU is in doubt: large packets of which nothing is known yet. noq lacks three losses then.
const LARGE_IN_DOUBT: u8 = 3;
/// Slow start is over and its losses made up for after so many RTTs, and this time.
const SLOW_START_RTTS: u32 = 12;
const SLOW_START: Duration = Duration::from_secs(1);
/// A path that is not used this long begins anew.
const REST: Duration = Duration::from_secs(1);
/// Groups in an RTT, and the limits of the time between them.
const GROUPS_PER_RTT: u32 = 4;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);
const LONGEST_INTERVAL: Duration = Duration::from_millis(60);

/// Timers of noq that may expire before its probe timer.
const TIMERS: usize = 8;
/// How early noq's probe timer may expire.
const LONGEST_LEAP: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alone {
    Ping,
    /// Tail loss probes and the rest of their GSO packet, whose segments are no longer.
    Probes,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SmallPings {
    at: Option<Instant>,
    sent_bytes: u64,
    asked_for: bool,
    further: u8,
    awaited: Option<Instant>,
    /// Large packets that were lost since the last group, or one before it, and none has been acknowledged since.
    lost: u8,
    /// While in doubt: large packets sent since the last group, and all of which nothing is known.
    large: u8,
    unknown: u8,
}

impl Slot {
    /// Has the heartbeat that is due be a small PING, if what is under way is large: where the path MTU is no longer what
    /// it was, a large one is not heard, and the path would be taken for silent.
    pub(super) fn ask_for_small_ping(&mut self) {
        let settled_at = self.settled_at().filter(|_| self.is_full_of_large_packets());
        self.small_pings.asked_for = settled_at.is_some_and(|at| self.progress.is_some_and(|now| now >= at));
    }

    /// Whether nothing has been under way for so long that what follows is a new beginning.
    pub(super) fn has_rested(&self, now: Instant) -> bool {
        self.progress.is_none_or(|last| now.saturating_duration_since(last) > REST)
    }

    /// When slow start will no longer explain losses.
    fn settled_at(&self) -> Option<Instant> {
        Some(self.busy_since? + (self.seen.srtt? * SLOW_START_RTTS).max(SLOW_START))
    }

    fn large_bytes(&self) -> u64 {
        LARGE_PACKETS * u64::from(self.seen.mtu_bytes)
    }

    fn is_full_of_large_packets(&self) -> bool {
        self.open && self.seen.mtu_bytes > LEAST_MTU_BYTES && self.data_in_flight_bytes >= self.large_bytes()
    }

    pub(super) fn note_size_sent(&mut self, now: Instant, bytes: u64) {
        if bytes > LEAST_MTU_BYTES.into() {
            let pings = &mut self.small_pings;
            pings.awaited.get_or_insert(now);
            (pings.large, pings.unknown) = (pings.large.saturating_add(1), pings.unknown.saturating_add(1));
        }
    }

    pub(super) fn note_sizes_acked(&mut self, large: Option<Instant>) {
        let pings = &mut self.small_pings;
        if let Some(sent) = large {
            pings.awaited = pings.awaited.filter(|awaited| *awaited > sent);
            pings.lost = 0;
        }
        if self.data_in_flight_bytes == 0 {
            self.small_pings.awaited = None;
        }
    }

    pub(super) fn note_size_lost(&mut self, bytes: u64) {
        let pings = &mut self.small_pings;
        let large = bytes > LEAST_MTU_BYTES.into();
        if large && pings.at.is_some_and(|at| Some(at) >= self.large_progress) {
            pings.lost = pings.lost.saturating_add(1);
            pings.unknown = pings.unknown.saturating_sub(1);
            if u64::from(pings.lost) == LARGE_PACKETS {
                (pings.large, pings.unknown) = (0, 0);
            }
        }
        if self.data_in_flight_bytes == 0 {
            pings.awaited = None;
        }
    }

    pub(super) fn forget_doubt(&mut self) {
        self.small_pings = SmallPings::default();
    }

    fn is_in_doubt(&self) -> bool {
        let lost = u64::from(self.small_pings.lost);
        lost >= LARGE_PACKETS && self.open && self.seen.mtu_bytes > LEAST_MTU_BYTES
    }

    /// Whether the path MTU is in doubt and a large packet is under way of which nothing is known yet: no more may follow it
    /// for now.
    pub(super) fn awaits_small_pings(&self) -> bool {
        self.is_in_doubt() && (self.small_pings.large > 0 || self.small_pings.unknown >= LARGE_IN_DOUBT)
    }

    /// When a small PING is due, as things are; `None` where it would say nothing, or where nothing at all has been
    /// acknowledged since the last one: the library's own probes shall not be put off.
    pub(super) fn small_ping_at(&self) -> Option<Instant> {
        let pings = &self.small_pings;
        let progress = self.progress?;
        if self.is_in_doubt() && !self.suspended {
            let due = pings.further > 0 || pings.large > 0;
            return due.then_some(progress);
        }
        if !self.is_full_of_large_packets() {
            return None;
        }
        if pings.asked_for || pings.further > 0 {
            return Some(progress);
        }
        if self.suspended || self.seen.sent_bytes.saturating_sub(pings.sent_bytes) < self.large_bytes() {
            return None;
        }
        let srtt = self.seen.srtt?;
        let overdue = pings.awaited? + srtt + (4 * self.seen.rttvar).max(SHORTEST_DELAY);
        let overdue = overdue.max(self.large_progress? + SHORTEST_DELAY).max(self.settled_at()?);
        let Some(last) = pings.at else { return Some(overdue) };
        let interval = (srtt / GROUPS_PER_RTT).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        (progress >= last).then_some(overdue.max(last + interval))
    }
}

impl Arbiter {
    fn begin_small_ping(&mut self, now: Instant) -> Option<PathId> {
        if self.rotating.is_some() {
            return None;
        }
        let due = |slot: &&mut Slot| slot.small_ping_at().is_some_and(|at| at <= now) && !slot.is_quiet(now);
        let slot = self.slots.iter_mut().find(due)?;
        let pings = &mut slot.small_pings;
        pings.further = pings.further.checked_sub(1).unwrap_or(GROUP.get() as u8 - 1);
        (pings.at, pings.sent_bytes) = (Some(now), slot.seen.sent_bytes);
        (pings.asked_for, pings.large) = (false, 0);
        slot.path
    }

    fn end_group(&mut self, path: PathId) {
        self.change(path, |slot, _| slot.small_pings.further = 0);
    }

    fn begin_alone(&mut self, path: PathId, what: Alone, now: Instant) {
        self.before_question(now, 1);
        self.alone = self.slots.iter().find(|slot| slot.path == Some(path)).map(|slot| (slot.id, what));
    }
}

impl Board {
    /// A small PING, if one is due on some path of `connection`; something else where noq has that to send first. To be
    /// called before [`Board::poll_transmit`] until there is no more.
    ///
    /// noq fills whatever packet it sends with data unless the path is a backup and another is not. So for the one
    /// question it is; that it is none is told to the peer once more with the next data.
    pub(crate) fn poll_small_ping(
        &self,
        connection: &mut Connection,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = self.state().begin_small_ping(now)?;
        let available = |id: PathId| connection.path_status(id) == Ok(PathStatus::Available);
        let mut others: Vec<PathId> = self.state().open_paths().filter(|other| *other != path).collect();
        if others.is_empty() {
            self.state().end_group(path);
            return self.probe_early(connection, path, now, buffer);
        }
        others.retain(|other| available(*other));
        if others.is_empty() || !available(path) {
            return None;
        }
        // These fail only where the path is gone, and then noq has nothing to send on it.
        let _ = connection.set_path_status(path, PathStatus::Backup);
        let _ = connection.ping_path(path);
        let transmit = self.ask_alone(connection, path, Alone::Ping, now, buffer);
        let _ = connection.set_path_status(path, PathStatus::Available);
        transmit
    }

    /// A group of small packets on the only path of `connection`: tail loss probes, which noq limits to 1200 bytes, and
    /// data in packets of the same size behind them.
    ///
    /// noq sends tail loss probes when its probe timer expires. The time is passed in: so the timer's own time is, before
    /// it has come. Timers that expire before it are early, too, by [`LONGEST_LEAP`] at most: acknowledgements leave
    /// sooner, a packet that a later one has overtaken is lost sooner.
    fn probe_early(
        &self,
        connection: &mut Connection,
        path: PathId,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if connection.is_closed() {
            return None;
        }
        for _ in 0..TIMERS {
            let expires = connection.poll_timeout().filter(|at| *at <= now + LONGEST_LEAP)?;
            connection.handle_timeout(expires.max(now));
            let transmit = self.ask_alone(connection, path, Alone::Probes, now, buffer);
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    fn ask_alone(
        &self,
        connection: &mut Connection,
        path: PathId,
        what: Alone,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.state().begin_alone(path, what, now);
        let most = if what == Alone::Ping { NonZeroUsize::MIN } else { GROUP };
        let transmit = connection.poll_transmit(now, most, buffer);
        let mut state = self.state();
        state.alone = None;
        state.after_answer(now);
        transmit
    }

    /// Whether the path of slot `id` is to send a small PING just now.
    pub(super) fn sends_small_ping(&self, id: u64) -> bool {
        self.state().alone.is_some_and(|(alone, _)| alone == id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Acked;
    use super::super::tests::instant;
    use super::*;
    use pathbench_record::connection::Scheduler;

    const MTU: u16 = 9000;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn acked(packet_bytes: u64, sent: Instant) -> Acked {
        let large = (packet_bytes > LEAST_MTU_BYTES.into()).then_some(sent);
        Acked { bytes: packet_bytes, large, rtt: Some(ms(80)), ..Acked::default() }
    }

    /// A path of 80 ms in the midst of a transfer, ten packets under way that left at the time given.
    fn busy(mtu_bytes: u16) -> (Slot, Instant) {
        let begun = instant();
        let mut slot = Slot::new(0, mtu_bytes, 1 << 20);
        slot.path = Some(PathId::ZERO);
        slot.open = true;
        let now = begun + ms(2000);
        slot.on_sent(begun, mtu_bytes.into());
        slot.on_acked(now, &acked(mtu_bytes.into(), begun), 0);
        slot.seen.rttvar = ms(5);
        for _ in 0..10 {
            slot.on_sent(now, mtu_bytes.into());
        }
        slot.busy_since = Some(begun);
        (slot, now)
    }

    #[test]
    fn it_is_due_when_the_acknowledgement_of_a_large_packet_is_overdue() {
        let (mut slot, now) = busy(MTU);
        assert_eq!(slot.small_ping_at(), Some(now + ms(100)));
        slot.on_acked(now + ms(30), &acked(30, now), 10 * u64::from(MTU));
        assert_eq!(slot.small_ping_at(), Some(now + ms(100)), "a small packet says nothing");
        slot.on_sent(now + ms(39), MTU.into());
        slot.on_acked(now + ms(90), &acked(MTU.into(), now), 10 * u64::from(MTU));
        assert_eq!(slot.small_ping_at(), None, "nothing is known yet to be waited for");
        slot.on_sent(now + ms(90), MTU.into());
        assert_eq!(slot.small_ping_at(), Some(now + ms(190)));
    }

    /// Messages of a few packets, 200 ms apart, on a path of 80 ms: half an RTT after each of them nothing is acknowledged.
    #[test]
    fn it_is_not_due_before_an_acknowledgement_can_be_there() {
        let (mut slot, mut now) = busy(MTU);
        for _ in 0..5 {
            slot.on_acked(now + ms(85), &acked(10 * u64::from(MTU), now), 0);
            assert_eq!(slot.small_ping_at(), None);
            now += ms(200);
            for _ in 0..10 {
                slot.on_sent(now, MTU.into());
            }
            assert!(slot.small_ping_at() >= Some(now + ms(100)));
        }
    }

    #[test]
    fn it_is_not_due_where_it_says_nothing() {
        assert_eq!(busy(LEAST_MTU_BYTES).0.small_ping_at(), None, "nothing smaller is possible");
        let (mut slot, now) = busy(MTU);
        slot.suspended = true;
        assert_eq!(slot.small_ping_at(), None, "no data is sent");
        slot.suspended = false;
        slot.on_acked(now, &acked(9 * u64::from(MTU), now.checked_sub(ms(1)).unwrap()), u64::from(MTU));
        assert_eq!(slot.small_ping_at(), None, "one packet alone is under way");
    }

    #[test]
    fn in_slow_start_it_waits() {
        let (mut slot, now) = busy(MTU);
        slot.busy_since = Some(now);
        assert_eq!(slot.small_ping_at(), Some(now + ms(1000)));
        slot.ask_for_small_ping();
        assert!(!slot.small_pings.asked_for);
    }

    fn due(arbiter: &mut Arbiter, at: Instant) -> usize {
        (0..9).take_while(|_| arbiter.begin_small_ping(at).is_some()).count()
    }

    #[test]
    fn there_are_three_and_more_only_when_they_are_answered_and_further_large_packets_left() {
        let mut arbiter = Arbiter::new(Scheduler::LowestRtt);
        let (slot, now) = busy(MTU);
        arbiter.slots = vec![slot, Slot::new(1, MTU, 1 << 20)];
        assert_eq!(due(&mut arbiter, now + ms(99)), 0);
        assert_eq!(due(&mut arbiter, now + ms(100)), 3);
        assert_eq!(due(&mut arbiter, now + ms(500)), 0, "nothing large was sent since");
        for _ in 0..LARGE_PACKETS {
            arbiter.slots[0].on_sent(now + ms(110), MTU.into());
        }
        assert_eq!(due(&mut arbiter, now + ms(500)), 0, "the library's probes are to find out");
        arbiter.slots[0].on_acked(now + ms(110), &acked(30, now), 9 * u64::from(MTU));
        assert_eq!(due(&mut arbiter, now + ms(119)), 0);
        assert_eq!(due(&mut arbiter, now + ms(120)), 3);
    }

    #[test]
    fn while_the_mtu_is_in_doubt_each_large_packet_is_followed_by_a_group_and_three_are_enough() {
        let mut arbiter = Arbiter::new(Scheduler::LowestRtt);
        let (slot, now) = busy(MTU);
        arbiter.slots = vec![slot];
        assert_eq!(due(&mut arbiter, now + ms(100)), 3);
        let later = now + ms(180);
        arbiter.slots[0].on_acked(later, &acked(30, now), 10 * u64::from(MTU));
        assert!(!arbiter.slots[0].awaits_small_pings(), "nothing large is lost");
        for _ in 0..10 {
            arbiter.slots[0].on_lost(MTU.into());
        }
        for _ in 0..LARGE_IN_DOUBT {
            assert!(!arbiter.slots[0].awaits_small_pings());
            assert_eq!(due(&mut arbiter, later), 0, "no large packet left since");
            arbiter.slots[0].on_sent(later, MTU.into());
            assert!(arbiter.slots[0].awaits_small_pings());
            assert_eq!(due(&mut arbiter, later), 3);
        }
        assert!(arbiter.slots[0].awaits_small_pings(), "of three nothing is known");
        arbiter.slots[0].on_lost(MTU.into());
        assert!(!arbiter.slots[0].awaits_small_pings());
        arbiter.slots[0].on_acked(later, &acked(MTU.into(), later), u64::from(MTU));
        arbiter.slots[0].on_sent(later, MTU.into());
        assert!(!arbiter.slots[0].awaits_small_pings(), "a large packet arrived");
    }
}
