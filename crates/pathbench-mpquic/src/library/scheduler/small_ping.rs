//! Small packets among the large ones, so that noq distinguishes a smaller path MTU from packet loss.
//!
//! noq considers the path MTU too large after losses of large packets at four different times without an
//! acknowledgement of such a packet in between (its `BLACK_HOLE_THRESHOLD`). On a busy path all packets have the size
//! of the MTU, even PINGs, since noq fills them with data. So when the MTU shrinks, no acknowledgement arrives. Each of
//! the four losses then waits for a tail loss probe, which the next PING delays, and retransmissions have the same size
//! and are lost again: 0.5 to 1.4 s at an RTT of 100 ms.
//!
//! A small packet is delivered, and one round trip later noq detects the losses before it. On one of several paths it
//! is a PING ([`Board::poll_small_ping`]), on the only path an early tail loss probe ([`Board::probe_early`]).
//!
//! A group of them is sent when the acknowledgement of a large packet is overdue; without that, none is sent. None is
//! sent in the first second of a transfer either, when slow start fills the queue until it drops all large packets. A
//! group has three packets: noq counts one loss for each time of detection. It declares packets fewer than three before
//! the latest acknowledged one lost one by one, as time passes (RFC 9002 section 6.1). After a single small packet
//! behind a burst that a full queue dropped, noq would count four losses.
//!
//! When at least two large packets before a group were lost, and none was acknowledged since, the MTU is in doubt.
//! Until a large packet is acknowledged or noq reduces the MTU, a group follows each large packet: noq detects the
//! three missing losses in one round trip, at the cost of three packets instead of three windows.

use super::arbiter::{Alone, Arbiter};
use super::board::Board;
use super::slot::{LEAST_MTU_BYTES, MARKS, Slot};
use noq_proto::{Connection, PathId, PathStatus, Transmit};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Small packets in a group: noq's packet threshold.
const GROUP: NonZeroUsize = NonZeroUsize::new(3).unwrap();
/// Least number of large packets in flight, and sent since the last group, before another group; and least number of
/// lost ones that puts the MTU in doubt.
const LARGE_PACKETS: u64 = 2;
/// An acknowledgement is overdue after the smoothed RTT plus the larger of this and four times the RTT variation.
const SHORTEST_DELAY: Duration = Duration::from_millis(20);
/// While the MTU is in doubt: most large packets of unknown fate. noq needs three more losses then.
const LARGE_IN_DOUBT: u8 = 3;
/// Slow start is over, and its losses are repaired, after so many RTTs and this time.
const SLOW_START_RTTS: u32 = 12;
const SLOW_START: Duration = Duration::from_secs(1);
/// After this long without use, a path starts a new transfer, with slow start.
const REST: Duration = Duration::from_secs(1);
/// Groups in an RTT, and the limits of the interval between two groups.
const GROUPS_PER_RTT: u32 = 4;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);
const LONGEST_INTERVAL: Duration = Duration::from_millis(60);

/// Most timers of noq that may expire before its probe timer.
const TIMERS: usize = 8;
/// How early noq's probe timer may expire.
const LONGEST_LEAP: Duration = Duration::from_secs(1);

impl Slot {
    /// Makes the due heartbeat a small PING, if the packets in flight are large: if the path MTU has shrunk, a large
    /// PING is dropped, and the path would be considered silent.
    pub(super) fn ask_for_small_ping(&mut self) {
        let settled_at = self.settled_at().filter(|_| self.is_full_of_large_packets());
        self.small_pings.asked_for = settled_at.is_some_and(|at| self.progress.is_some_and(|now| now >= at));
    }

    /// Whether nothing has been in flight for so long that the next packet begins a new transfer.
    pub(super) fn has_rested(&self, now: Instant) -> bool {
        self.progress.is_none_or(|last| now.saturating_duration_since(last) > REST)
    }

    /// When slow start is over, and no longer explains losses.
    fn settled_at(&self) -> Option<Instant> {
        Some(self.busy_since? + (self.seen.srtt? * SLOW_START_RTTS).max(SLOW_START))
    }

    fn large_bytes(&self) -> u64 {
        LARGE_PACKETS * u64::from(self.seen.mtu_bytes)
    }

    fn is_full_of_large_packets(&self) -> bool {
        self.is_open()
            && self.seen.mtu_bytes > LEAST_MTU_BYTES
            && self.data_in_flight_bytes >= self.large_bytes()
    }

    pub(super) fn note_size_sent(&mut self, now: Instant, bytes: u64) {
        if bytes > LEAST_MTU_BYTES.into() {
            let pings = &mut self.small_pings;
            pings.await_large(now, self.seen.srtt.unwrap_or_default());
            (pings.large, pings.unknown) = (pings.large.saturating_add(1), pings.unknown.saturating_add(1));
        }
    }

    pub(super) fn note_sizes_acked(&mut self, large: Option<Instant>) {
        let pings = &mut self.small_pings;
        if let Some(sent) = large {
            pings.forget_until(sent);
            pings.lost = 0;
        }
        if self.data_in_flight_bytes == 0 {
            self.small_pings.awaited = [None; MARKS];
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
            pings.awaited = [None; MARKS];
        }
    }

    fn is_in_doubt(&self) -> bool {
        let lost = u64::from(self.small_pings.lost);
        lost >= LARGE_PACKETS && self.is_open() && self.seen.mtu_bytes > LEAST_MTU_BYTES
    }

    /// Whether no further large packet may be sent for now: the MTU is in doubt, and a group is due, or the fate of
    /// [`LARGE_IN_DOUBT`] large packets is unknown.
    pub(super) fn awaits_small_pings(&self) -> bool {
        self.is_in_doubt() && (self.small_pings.large > 0 || self.small_pings.unknown >= LARGE_IN_DOUBT)
    }

    /// When a small PING is due in the present state. `None` if it would show nothing, or if no acknowledgement has
    /// arrived since the last one: a further one would delay the library's own probes.
    pub(super) fn small_ping_at(&self) -> Option<Instant> {
        let pings = &self.small_pings;
        let progress = self.progress?;
        if self.is_in_doubt() && !self.role.suspended {
            let due = pings.further > 0 || pings.large > 0;
            return due.then_some(progress);
        }
        if !self.is_full_of_large_packets() {
            return None;
        }
        if pings.asked_for || pings.further > 0 {
            return Some(progress);
        }
        if self.role.suspended || self.seen.sent_bytes.saturating_sub(pings.sent_bytes) < self.large_bytes() {
            return None;
        }
        let srtt = self.seen.srtt?;
        let overdue = pings.awaited[0]? + srtt + (4 * self.seen.rttvar).max(SHORTEST_DELAY);
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
        self.begin_poll(now, 1);
        self.alone = self.slots.iter().find(|slot| slot.path == Some(path)).map(|slot| (slot.id, what));
    }
}

impl Board {
    /// A small PING, if one is due on a path of `connection`, or another packet that noq has to send first. Call it
    /// before [`Board::poll_transmit`], until it returns `None`.
    ///
    /// noq fills every packet with data, unless the path is a backup and another path is not. So the path is a backup
    /// during the call; the next data packet carries `PATH_STATUS_AVAILABLE` to the peer again.
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
        // These calls fail only if the path is closed, and then noq has nothing to send on it.
        let _ = connection.set_path_status(path, PathStatus::Backup);
        let _ = connection.ping_path(path);
        let transmit = self.poll_alone(connection, path, Alone::Ping, now, buffer);
        let _ = connection.set_path_status(path, PathStatus::Available);
        transmit
    }

    /// A group of small packets on the only path of `connection`: tail loss probes, which noq limits to 1200 bytes, and
    /// data packets of the same size behind them.
    ///
    /// noq sends tail loss probes when its probe timer expires. This method passes the timer's expiry time to noq
    /// before that time. Timers that expire before it are also early, by [`LONGEST_LEAP`] at most: acknowledgements are
    /// sent earlier, and reordered packets are declared lost earlier.
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
            let transmit = self.poll_alone(connection, path, Alone::Probes, now, buffer);
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    pub(super) fn poll_alone(
        &self,
        connection: &mut Connection,
        path: PathId,
        what: Alone,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.state().begin_alone(path, what, now);
        let most = if what == Alone::Probes { GROUP } else { NonZeroUsize::MIN };
        let transmit = connection.poll_transmit(now, most, buffer);
        let mut state = self.state();
        state.alone = None;
        state.end_poll(now);
        transmit
    }

    /// Whether the present poll is for packets on the path of slot `id` alone, which are not paced.
    pub(super) fn sends_alone(&self, id: u64) -> bool {
        self.state().alone.is_some_and(|(alone, _)| alone == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::scheduler::slot::Acked;
    use crate::library::scheduler::tests::instant;
    use pathbench_record::sample::PathState;

    const MTU: u16 = 9000;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn acked(packet_bytes: u64, sent: Instant) -> Acked {
        let large = (packet_bytes > LEAST_MTU_BYTES.into()).then_some(sent);
        Acked { bytes: packet_bytes, large, rtt: Some(ms(80)), ..Acked::default() }
    }

    /// A path of 80 ms RTT in mid transfer, with ten packets in flight that were sent at the returned time.
    fn busy(mtu_bytes: u16) -> (Slot, Instant) {
        let begun = instant();
        let mut slot = Slot::new(0, mtu_bytes, 1 << 20);
        slot.path = Some(PathId::ZERO);
        slot.role.stage = PathState::Open;
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
        slot.on_sent(now + ms(45), MTU.into());
        slot.on_acked(now + ms(90), &acked(MTU.into(), now), 10 * u64::from(MTU));
        assert_eq!(slot.small_ping_at(), Some(now + ms(145)), "of the packet that left after it");
        slot.on_sent(now + ms(90), MTU.into());
        assert_eq!(slot.small_ping_at(), Some(now + ms(145)));
        slot.on_acked(now + ms(120), &acked(MTU.into(), now + ms(45)), 9 * u64::from(MTU));
        assert_eq!(slot.small_ping_at(), Some(now + ms(190)));
    }

    /// Messages of a few packets, 200 ms apart, on a path of 80 ms: no acknowledgement arrives within an RTT of each.
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
        slot.role.suspended = true;
        assert_eq!(slot.small_ping_at(), None, "no data is sent");
        slot.role.suspended = false;
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
        let mut arbiter = Arbiter::default();
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
        let mut arbiter = Arbiter::default();
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
