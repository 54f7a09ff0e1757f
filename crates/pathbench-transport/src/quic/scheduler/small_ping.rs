//! Small packets among the large ones, by which noq tells a path MTU that shrank from a path that lost something.
//!
//! noq takes the path MTU for too large when large packets were lost on four occasions and nothing as large arrived
//! meanwhile (its `BLACK_HOLE_THRESHOLD`). On a busy path everything is as large as the MTU allows, a PING included, for
//! that takes data along. So when the MTU shrinks nothing is acknowledged any more, each of the four losses waits for a
//! tail loss probe, which the next PING puts off, and what was lost is sent at the same size, and lost, again. Mostly the
//! peer, which hears nothing, had given the path up before: 0.5 to 1.4 s at 100 ms of RTT.
//! A PING that stays small gets through, and what was lost before it is known one round trip later.
//!
//! It is sent where large packets are under way and none of them has been acknowledged for half an RTT, so that in good
//! times there are none, and not in the first second of a transfer, in which slow start fills the queue until it drops
//! everything large. There are three in a row, since noq counts a loss for each time at which it learns of one: what
//! is fewer than three packets older than the latest acknowledged one it gives up one by one, as time passes (RFC 9002
//! section 6.1). A single small packet behind the end of a burst that a full queue dropped made four losses of it.

use super::Board;
use super::arbiter::Arbiter;
use super::slot::Slot;
use noq_proto::{Connection, PathId, PathStatus, Transmit};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// What every path takes (RFC 9000 section 14): noq sends nothing smaller on purpose, and takes the loss of what is no
/// larger for no sign of a smaller MTU.
pub(super) const LEAST_MTU_BYTES: u16 = 1200;
/// Small PINGs at a time: noq's packet threshold.
const GROUP: u8 = 3;
/// Large packets that are under way, and that were sent since the last group, for another one to be of use.
const LARGE_PACKETS: u64 = 2;
/// Part of the RTT for which no large packet was acknowledged, and the limits of that time.
const DOUBTS_PER_RTT: u32 = 2;
const SHORTEST_DOUBT: Duration = Duration::from_millis(20);
const LONGEST_DOUBT: Duration = Duration::from_millis(100);
/// Slow start is over and its losses made up for after so many RTTs, and this time.
const SLOW_START_RTTS: u32 = 12;
const SLOW_START: Duration = Duration::from_secs(1);
/// A path that is not used this long begins anew.
const REST: Duration = Duration::from_secs(1);
/// Groups in an RTT, and the limits of the time between them.
const GROUPS_PER_RTT: u32 = 4;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);
const LONGEST_INTERVAL: Duration = Duration::from_millis(60);

/// The small PINGs of a path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SmallPings {
    at: Option<Instant>,
    /// Bytes that had been sent on the path then.
    sent_bytes: u64,
    /// A heartbeat is to be one.
    asked_for: bool,
    /// What is left to send of the present group.
    further: u8,
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

    /// When a small PING is due, as things are; `None` where it would say nothing, or where nothing at all has been
    /// acknowledged since the last one: the library's own probes shall not be put off.
    pub(super) fn small_ping_at(&self) -> Option<Instant> {
        let progress = self.progress.filter(|_| self.is_full_of_large_packets())?;
        if self.small_pings.asked_for || self.small_pings.further > 0 {
            return Some(progress);
        }
        let sent_bytes = self.seen.sent_bytes.saturating_sub(self.small_pings.sent_bytes);
        if self.suspended || sent_bytes < self.large_bytes() {
            return None;
        }
        let srtt = self.seen.srtt?;
        let doubt = (srtt / DOUBTS_PER_RTT).clamp(SHORTEST_DOUBT, LONGEST_DOUBT);
        let doubted = (self.large_progress? + doubt).max(self.settled_at()?);
        let Some(last) = self.small_pings.at else { return Some(doubted) };
        let interval = (srtt / GROUPS_PER_RTT).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        (progress >= last).then_some(doubted.max(last + interval))
    }
}

impl Arbiter {
    /// The path that is to have a small PING now.
    fn begin_small_ping(&mut self, now: Instant) -> Option<PathId> {
        if self.rotating.is_some() || self.slots.len() < 2 {
            return None;
        }
        let due = |slot: &&mut Slot| slot.small_ping_at().is_some_and(|at| at <= now) && !slot.is_quiet(now);
        let slot = self.slots.iter_mut().find(due)?;
        let further = slot.small_pings.further.checked_sub(1).unwrap_or(GROUP - 1);
        slot.small_pings =
            SmallPings { at: Some(now), sent_bytes: slot.seen.sent_bytes, asked_for: false, further };
        slot.path
    }

    fn ask_alone(&mut self, path: PathId, now: Instant) {
        self.before_question(now, 1);
        self.alone = self.slots.iter().find(|slot| slot.path == Some(path)).map(|slot| slot.id);
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
        let others = self.state().open_paths().any(|other| other != path && available(other));
        if !others || !available(path) {
            return None;
        }
        self.state().ask_alone(path, now);
        // These fail only where the path is gone, and then noq has nothing to send on it.
        let _ = connection.set_path_status(path, PathStatus::Backup);
        let _ = connection.ping_path(path);
        let transmit = connection.poll_transmit(now, NonZeroUsize::MIN, buffer);
        let _ = connection.set_path_status(path, PathStatus::Available);
        let mut state = self.state();
        state.alone = None;
        state.after_answer(now);
        transmit
    }

    /// Whether the path of slot `id` is to send a small PING just now.
    pub(super) fn sends_small_ping(&self, id: u64) -> bool {
        self.state().alone == Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Acked;
    use super::super::tests::instant;
    use super::*;
    use crate::quic::options::Scheduler;

    const MTU: u16 = 9000;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn acked(packet_bytes: u64) -> Acked {
        let large = packet_bytes > LEAST_MTU_BYTES.into();
        Acked { bytes: packet_bytes, large, rtt: Some(ms(80)), ..Acked::default() }
    }

    /// A path of 80 ms in the midst of a transfer, ten packets under way, the last one acknowledged at the time given.
    fn busy(mtu_bytes: u16) -> (Slot, Instant) {
        let begun = instant();
        let mut slot = Slot::new(0, mtu_bytes, 1 << 20);
        slot.path = Some(PathId::ZERO);
        slot.open = true;
        let now = begun + ms(2000);
        slot.on_sent(begun, mtu_bytes.into());
        for _ in 0..10 {
            slot.on_sent(now, mtu_bytes.into());
        }
        slot.on_acked(now, &acked(mtu_bytes.into()), 10 * u64::from(mtu_bytes));
        (slot, now)
    }

    #[test]
    fn it_is_due_half_an_rtt_after_the_last_large_packet_was_acknowledged() {
        let (mut slot, now) = busy(MTU);
        assert_eq!(slot.small_ping_at(), Some(now + ms(40)));
        slot.on_acked(now + ms(30), &acked(30), 10 * u64::from(MTU));
        assert_eq!(slot.small_ping_at(), Some(now + ms(40)), "a small packet says nothing");
        slot.on_acked(now + ms(39), &acked(MTU.into()), 9 * u64::from(MTU));
        assert_eq!(slot.small_ping_at(), Some(now + ms(79)));
    }

    #[test]
    fn it_is_not_due_where_it_says_nothing() {
        assert_eq!(busy(LEAST_MTU_BYTES).0.small_ping_at(), None, "nothing smaller is possible");
        let (mut slot, now) = busy(MTU);
        slot.suspended = true;
        assert_eq!(slot.small_ping_at(), None, "no data is sent");
        slot.suspended = false;
        slot.on_acked(now, &acked(8 * u64::from(MTU)), u64::from(MTU));
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

    #[test]
    fn there_are_three_and_more_only_when_they_are_answered_and_further_large_packets_left() {
        let mut arbiter = Arbiter::new(Scheduler::LowestRtt);
        let (slot, now) = busy(MTU);
        arbiter.slots = vec![slot, Slot::new(1, MTU, 1 << 20)];
        let due =
            |arbiter: &mut Arbiter, at| (0..9).take_while(|_| arbiter.begin_small_ping(at).is_some()).count();
        assert_eq!(due(&mut arbiter, now + ms(39)), 0);
        assert_eq!(due(&mut arbiter, now + ms(40)), 3);
        assert_eq!(due(&mut arbiter, now + ms(500)), 0, "nothing large was sent since");
        for _ in 0..LARGE_PACKETS {
            arbiter.slots[0].on_sent(now + ms(50), MTU.into());
        }
        assert_eq!(due(&mut arbiter, now + ms(500)), 0, "the library's probes are to find out");
        arbiter.slots[0].on_acked(now + ms(50), &acked(30), 9 * u64::from(MTU));
        assert_eq!(due(&mut arbiter, now + ms(59)), 0);
        assert_eq!(due(&mut arbiter, now + ms(60)), 3);
    }
}
