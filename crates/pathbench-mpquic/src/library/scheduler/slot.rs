//! Observations of one path: written by its congestion controller, read by the scheduler and by telemetry.

use super::policy::{self, Rank, Role};
use noq_proto::PathId;
use pathbench_record::sample::PathState;
use std::time::{Duration, Instant};

/// `max_ack_delay` of a peer that announces none (RFC 9000 section 18.2); noq announces none.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Least term of the variance in a retransmission timeout: for late timers of the peer, which the RTT variation does not
/// contain. RFC 9002 section 6.1.2 recommends 1 ms; acknowledgements on idle paths arrived 2 ms late.
const GRANULARITY: Duration = Duration::from_millis(10);
/// The acknowledgement delay of an RTT sample at most. All timeouts are longer than the smoothed RTT by this, so that a
/// peer which exaggerates its delay causes no early timeout.
pub(super) const LONGEST_ACK_DELAY: Duration = MAX_ACK_DELAY.saturating_add(GRANULARITY);
/// Back-off is counted up to 2^10; a larger one has no further meaning.
const MAX_BACKOFF: u32 = 10;
/// A path that was stalled counts as recovered after so many retransmission timeouts without another stall.
const RECOVERY_TIMEOUTS: u32 = 2;
/// Minimum RTT and maximum rate cover the last one to two of these intervals.
const LATELY: Duration = Duration::from_secs(1);
/// Recorded send times of large packets per path, and how many of them are recorded in an RTT.
pub(super) const MARKS: usize = 8;
const MARKS_PER_RTT: u32 = 2;
/// The size that every path supports (RFC 9000 section 14). noq never reduces the MTU below it, and does not count the
/// loss of a packet of this size or less as a sign of a black hole.
pub(super) const LEAST_MTU_BYTES: u16 = 1200;
/// A path that is not validated yet is polled for frames this often: noq does not report whether it has any.
const PENDING_INTERVAL: Duration = Duration::from_millis(5);

/// Figures of a path from its congestion controller, which noq's `PathStats` lacks or computes differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Observation {
    /// Smoothed RTT without the peer's acknowledgement delay (RFC 9002 section 5.3); `None` before the first sample.
    pub(crate) srtt: Option<Duration>,
    /// RTT variation (RFC 9002 section 5.3).
    pub(crate) rttvar: Duration,
    /// Smallest RTT sample.
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) in_flight_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) cwnd_bytes: u64,
    pub(crate) mtu_bytes: u16,
    /// Time without progress although packets are in flight, at the time of reading.
    pub(crate) waiting: Duration,
    /// Retransmission timeouts that had passed in it.
    pub(crate) backoff: u32,
}

impl Observation {
    /// The retransmission timeout without back-off (RFC 9002 section 6.2.1); `None` before the first RTT sample.
    pub(crate) fn retransmission_timeout(&self) -> Option<Duration> {
        Some(self.srtt? + (self.rttvar * 4).max(GRANULARITY) + MAX_ACK_DELAY)
    }

    pub(crate) fn timeout_in_force(&self) -> Option<Duration> {
        self.retransmission_timeout()?.checked_mul(2_u32.checked_pow(self.backoff)?)
    }
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) path: Option<PathId>,
    pub(super) role: Role,
    /// A PING may be sent although the path is held back.
    pub(super) ping_allowed: bool,
    pub(super) seen: Observation,
    /// Bytes in flight without MTU probes, since the loss of a probe says nothing about the path's quality.
    pub(super) data_in_flight_bytes: u64,
    /// Bytes sent per weight, see [`policy::scaled`].
    pub(super) served: u64,
    /// When the last acknowledgement arrived, or the first packet of the present flight was sent.
    pub(super) progress: Option<Instant>,
    /// When an acknowledgement ended the last stall.
    pub(super) resumed: Option<Instant>,
    pub(super) large_progress: Option<Instant>,
    pub(super) busy_since: Option<Instant>,
    /// The scheduler held the path back with space in its window: the controller must not consider the window used.
    pub(super) held_back: bool,
    pub(super) transmitted: Option<Instant>,
    /// Transmissions since a path of higher id had one.
    pub(super) transmissions: u32,
    pub(super) mtu_probes: MtuProbes,
    pub(super) small_pings: SmallPings,
    pub(super) delay: Delay,
    pub(super) pending: PendingFrames,
    pub(super) turn: Turn,
}

/// A path's state during one `poll_transmit`, and in the present burst of calls.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent marks, set and cleared at different times")]
pub(super) struct Turn {
    /// noq has read its window in this call.
    pub(super) asked: bool,
    pub(super) diverted: bool,
    /// Sent a packet after that.
    pub(super) sent: bool,
    /// Could send in this burst but did not: pacing holds the path back.
    pub(super) paced: bool,
    /// noq did not read its window in this burst: noq cannot use the path now.
    pub(super) passed_over: bool,
    /// Fixed at the start of the call, so that packets sent during the call do not shorten GSO packets.
    pub(super) expected_rtt: Option<Duration>,
}

impl Slot {
    pub(super) fn new(id: u64, mtu_bytes: u16, cwnd_bytes: u64) -> Self {
        Self {
            id,
            seen: Observation { cwnd_bytes, mtu_bytes, ..Observation::default() },
            pending: PendingFrames::of_new_path(),
            ..Self::default()
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.role.stage == PathState::Open
    }

    pub(super) fn has_room(&self) -> bool {
        self.has_room_for(self.seen.mtu_bytes.into())
    }

    pub(super) fn has_room_for(&self, packet_bytes: u64) -> bool {
        self.data_in_flight_bytes + packet_bytes <= self.seen.cwnd_bytes
    }

    pub(super) fn turn_scaled(&self) -> u64 {
        policy::turn(self.seen.mtu_bytes, self.role.weight)
    }

    /// Time without progress although something is in flight.
    pub(super) fn waiting(&self, now: Instant) -> Duration {
        match self.progress {
            Some(since) if self.data_in_flight_bytes > 0 => now.saturating_duration_since(since),
            _ => Duration::ZERO,
        }
    }

    /// Whether a retransmission timeout has passed without progress.
    pub(super) fn is_stalled(&self, now: Instant) -> bool {
        self.seen.retransmission_timeout().is_some_and(|timeout| self.waiting(now) > timeout)
    }

    /// Whether a stall ended only a moment ago. On a path that loses most packets, each acknowledgement ends one.
    pub(super) fn recovers(&self, now: Instant) -> bool {
        let timeout = self.seen.retransmission_timeout().unwrap_or_default();
        self.resumed.is_some_and(|at| now.saturating_duration_since(at) < timeout * RECOVERY_TIMEOUTS)
    }

    /// When the path will be [`Slot::is_stalled`] if nothing is acknowledged.
    pub(super) fn stalled_at(&self) -> Option<Instant> {
        let timeout = self.seen.retransmission_timeout()?;
        (self.data_in_flight_bytes > 0).then_some(self.progress? + timeout)
    }

    /// Retransmission timeouts, each twice the one before, that have passed without progress.
    pub(super) fn backoff(&self, now: Instant) -> u32 {
        let Some(mut timeout) = self.seen.retransmission_timeout() else { return 0 };
        let waiting = self.waiting(now);
        let mut passed = timeout;
        let mut steps = 0;
        while waiting > passed && steps < MAX_BACKOFF {
            timeout *= 2;
            passed += timeout;
            steps += 1;
        }
        steps
    }

    /// The retransmission timeout, doubled for each that has passed without progress.
    pub(super) fn backed_off_timeout(&self, now: Instant) -> Option<Duration> {
        Some(self.seen.retransmission_timeout()? * 2_u32.pow(self.backoff(now)))
    }

    pub(super) fn observation(&self, now: Option<Instant>) -> Observation {
        let waiting = now.map_or(Duration::ZERO, |now| self.waiting(now));
        Observation { waiting, backoff: now.map_or(0, |now| self.backoff(now)), ..self.seen }
    }

    pub(super) fn rank(&self, now: Instant, relieved: bool) -> Rank {
        if self.role.suspended {
            Rank::Suspended
        } else if self.role.avoided {
            Rank::Avoided
        } else if self.role.backup != relieved {
            Rank::Backup
        } else if self.is_stalled(now) {
            Rank::Stalled
        } else {
            Rank::Usable
        }
    }

    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64) {
        if self.data_in_flight_bytes == 0 {
            self.busy_since = self.busy_since.filter(|_| !self.has_rested(now)).or(Some(now));
            (self.progress, self.large_progress) = (Some(now), Some(now));
        }
        self.delay.note_sent(now, self.progress.unwrap_or(now), self.seen.acked_bytes);
        self.note_size_sent(now, bytes);
        self.seen.in_flight_bytes += bytes;
        self.seen.sent_bytes += bytes;
        self.data_in_flight_bytes += bytes;
        self.served = self.served.saturating_add(policy::scaled(bytes, self.role.weight));
        self.ping_allowed = false;
        self.pending.due = false;
        self.turn.sent = true;
    }

    /// An MTU probe was sent. The scheduler did not choose its path, and it may be lost only because of its length (RFC
    /// 9000 section 14.4).
    pub(super) fn on_probe_sent(&mut self, bytes: u64) {
        self.seen.in_flight_bytes += bytes;
        self.seen.sent_bytes += bytes;
    }

    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.seen.in_flight_bytes = self.seen.in_flight_bytes.saturating_sub(bytes);
        self.data_in_flight_bytes = self.data_in_flight_bytes.saturating_sub(bytes);
        self.note_size_lost(bytes);
    }

    /// An acknowledgement arrived; `in_flight_bytes` remain. `acked.rtt` is an RTT sample, if it is a new one.
    pub(super) fn on_acked(&mut self, now: Instant, acked: &Acked, in_flight_bytes: u64) {
        self.seen.acked_bytes += acked.bytes;
        self.seen.in_flight_bytes = in_flight_bytes;
        let data_bytes = acked.bytes.saturating_sub(acked.probe_bytes);
        self.data_in_flight_bytes = self.data_in_flight_bytes.saturating_sub(data_bytes).min(in_flight_bytes);
        self.progress = Some(now);
        if acked.large.is_some() {
            self.large_progress = Some(now);
        }
        self.note_sizes_acked(acked.large);
        let Some(sample) = acked.rtt else { return };
        self.delay.note_answer(now, sample, acked.ack_delay, self.seen.acked_bytes);
        let seen = &mut self.seen;
        seen.min_rtt = Some(seen.min_rtt.map_or(sample, |min| min.min(sample)));
        match seen.srtt {
            None => {
                seen.srtt = Some(sample);
                seen.rttvar = sample / 2;
            }
            Some(srtt) => {
                seen.rttvar = (seen.rttvar * 3 + srtt.abs_diff(sample)) / 4;
                seen.srtt = Some((srtt * 7 + sample) / 8);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Acked {
    pub(super) bytes: u64,
    pub(super) probe_bytes: u64,
    /// When the latest acknowledged packet larger than [`LEAST_MTU_BYTES`] was sent.
    pub(super) large: Option<Instant>,
    /// Time from sending the largest packet to its acknowledgement, without the peer's delay, if the packet was not
    /// acknowledged before.
    pub(super) rtt: Option<Duration>,
    /// The peer's delay.
    pub(super) ack_delay: Duration,
}

/// The RTT of a path, and the connection's own delivery rate, to tell its own queue from that of other traffic.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delay {
    /// Start of the present interval.
    pub(super) since: Option<Instant>,
    /// The minimum RTT, and the maximum delivery rate in bytes/s, of the previous and the present interval.
    pub(super) least: [Option<Duration>; 2],
    pub(super) rate: [f64; 2],
    pub(super) sample: Option<RateSample>,
}

impl Delay {
    /// A packet is sent; the last acknowledgement before it arrived at `since`.
    pub(super) fn note_sent(&mut self, now: Instant, since: Instant, acked_bytes: u64) {
        self.sample.get_or_insert(RateSample { sent: now, since, acked_bytes });
    }

    /// A packet was acknowledged after `rtt` and the peer's delay; `acked_bytes` is the total of acknowledged bytes.
    pub(super) fn note_answer(&mut self, now: Instant, rtt: Duration, ack_delay: Duration, acked_bytes: u64) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= LATELY) {
            self.since = Some(now);
            self.least = [self.least[1], None];
            self.rate = [self.rate[1], 0.0];
        }
        self.least[1] = Some(self.least[1].map_or(rtt, |least| least.min(rtt)));
        let is_over = |sample: &mut RateSample| now.saturating_duration_since(sample.sent) >= rtt + ack_delay;
        if let Some(sample) = self.sample.take_if(is_over) {
            let seconds = now.saturating_duration_since(sample.since).as_secs_f64().max(1e-6);
            let acked_bytes = acked_bytes.saturating_sub(sample.acked_bytes);
            self.rate[1] = self.rate[1].max(acked_bytes as f64 / seconds);
        }
    }
}

/// A sample of the delivery rate. It ends with the acknowledgement of a packet that was sent at `sent`.
///
/// The sample begins with the acknowledgement before that packet (`P.delivered_time` of draft-ietf-ccwg-bbr section 4.1), not
/// with the packet: an acknowledgement covers two packets, so a packet sent alone would double the rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateSample {
    pub(super) sent: Instant,
    pub(super) since: Instant,
    pub(super) acked_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PendingFrames {
    /// A packet with the path's own frames is due: a PING, or the response to the peer's `PATH_CHALLENGE`.
    pub(super) due: bool,
    pub(super) last: Option<Instant>,
}

impl PendingFrames {
    pub(super) const fn of_new_path() -> Self {
        Self { due: true, last: None }
    }

    pub(super) fn add(&mut self) {
        self.due = true;
        self.last = None;
    }

    pub(super) fn wait(&self, opening: bool, now: Instant) -> bool {
        let lately = |last| now.saturating_duration_since(last) < PENDING_INTERVAL;
        (opening || self.due) && !self.last.is_some_and(lately)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MtuProbes {
    pub(super) bytes: u64,
    pub(super) count: u32,
    /// The path sends nothing until then; then the probe is sent.
    pub(super) quiet_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SmallPings {
    pub(super) at: Option<Instant>,
    pub(super) sent_bytes: u64,
    pub(super) asked_for: bool,
    pub(super) further: u8,
    /// Send times of large packets that are not acknowledged yet, at intervals of a part of an RTT; the earliest first.
    pub(super) awaited: [Option<Instant>; MARKS],
    /// Large packets found lost since a group of small packets; 0 after the acknowledgement of a large packet.
    pub(super) lost: u8,
    /// While the MTU is in doubt: large packets sent since the last group, and all of unknown fate.
    pub(super) large: u8,
    pub(super) unknown: u8,
}

impl SmallPings {
    /// Records the send time of a large packet.
    pub(super) fn await_large(&mut self, now: Instant, srtt: Duration) {
        let last = self.awaited.iter().rposition(Option::is_some);
        let lately = |mark: Instant| now.saturating_duration_since(mark) < srtt / MARKS_PER_RTT;
        if !last.and_then(|last| self.awaited[last]).is_some_and(lately)
            && let Some(free) = self.awaited.get_mut(last.map_or(0, |last| last + 1))
        {
            *free = Some(now);
        }
    }

    /// The large packet sent at `sent` was acknowledged: all large packets before it are acknowledged or lost.
    pub(super) fn forget_until(&mut self, sent: Instant) {
        let mut later = self.awaited.into_iter().flatten().filter(|mark| *mark > sent);
        self.awaited = std::array::from_fn(|_| later.next());
    }
}
