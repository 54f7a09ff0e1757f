//! What is known of one path: fed by its congestion controller, read by the scheduler and by telemetry.

use super::delay::Delay;
use super::mtu_probe::MtuProbes;
use super::pending_frames::PendingFrames;
use super::policy::{self, Rank};
use super::small_ping::SmallPings;
use noq_proto::PathId;
use std::time::{Duration, Instant};

/// `max_ack_delay` of a peer that announces none (RFC 9000 section 18.2); noq announces none.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Least term of the variance in a retransmission timeout (RFC 9002 section 6.1.2, kGranularity).
const GRANULARITY: Duration = Duration::from_millis(1);
/// Back-off is counted up to 2^10, beyond which it says nothing new.
const MAX_BACKOFF: u32 = 10;

/// What the congestion controller saw of a path: the figures that noq's `PathStats` lacks or has otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Observation {
    /// Smoothed RTT; `None` before the first sample.
    pub(crate) srtt: Option<Duration>,
    /// RTT variation (RFC 9002 section 5.3).
    pub(crate) rttvar: Duration,
    /// Smallest RTT sample, acknowledgement delay included as RFC 9002 section 5.2 wants it.
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) latest_rtt: Option<Duration>,
    pub(crate) in_flight_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) acked_bytes: u64,
    /// Bytes of those declared lost; their content was queued again for whichever path.
    pub(crate) lost_bytes: u64,
    pub(crate) cwnd_bytes: u64,
    /// Slow start threshold, where the controller has one and has left slow start.
    pub(crate) ssthresh_bytes: Option<u64>,
    pub(crate) mtu_bytes: u16,
    /// Retransmission timeouts that have passed without progress, when it was read.
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

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each told by somebody else")]
pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) path: Option<PathId>,
    /// It can carry data: validated and not abandoned.
    pub(super) open: bool,
    pub(super) backup: bool,
    pub(super) avoided: bool,
    pub(super) suspended: bool,
    pub(super) weight: u32,
    /// A PING may go out although the path is held back.
    pub(super) ping_allowed: bool,
    pub(super) seen: Observation,
    /// Of the bytes in flight those that a loss says something about: a lost MTU probe is not the path's fault.
    pub(super) data_in_flight_bytes: u64,
    /// Bytes sent per weight, see [`policy::scaled`].
    pub(super) served: u64,
    /// When the last acknowledgement arrived, or the first packet of the present flight left.
    pub(super) progress: Option<Instant>,
    pub(super) large_progress: Option<Instant>,
    pub(super) busy_since: Option<Instant>,
    /// Had room but was told to wait, so that its controller must not take the window for used.
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

/// What happened to a path while noq was asked for one transmission, and in the present burst of those.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent marks, set and cleared at different times")]
pub(super) struct Turn {
    /// Was asked for its window since the last question to noq.
    pub(super) asked: bool,
    pub(super) diverted: bool,
    /// Sent since then.
    pub(super) sent: bool,
    /// Could have sent in this burst but did not: pacing holds it.
    pub(super) paced: bool,
    /// Was not even asked in this burst: noq cannot use it now.
    pub(super) passed_over: bool,
    /// As it was when noq was asked: what is sent meanwhile must not cut segmentation batches short.
    pub(super) expected_rtt: Option<Duration>,
}

impl Slot {
    pub(super) fn new(id: u64, mtu_bytes: u16, cwnd_bytes: u64) -> Self {
        Self {
            id,
            path: None,
            open: false,
            backup: false,
            avoided: false,
            suspended: false,
            weight: 1,
            ping_allowed: false,
            seen: Observation { cwnd_bytes, mtu_bytes, ..Observation::default() },
            data_in_flight_bytes: 0,
            served: 0,
            progress: None,
            large_progress: None,
            busy_since: None,
            held_back: false,
            transmitted: None,
            transmissions: 0,
            mtu_probes: MtuProbes::default(),
            small_pings: SmallPings::default(),
            delay: Delay::default(),
            pending: PendingFrames::of_new_path(),
            turn: Turn::default(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.data_in_flight_bytes + u64::from(self.seen.mtu_bytes) <= self.seen.cwnd_bytes
    }

    pub(super) fn turn_scaled(&self) -> u64 {
        policy::turn(self.seen.mtu_bytes, self.weight)
    }

    /// Time without progress although something is in flight.
    pub(super) fn waiting(&self, now: Instant) -> Duration {
        match self.progress {
            Some(since) if self.data_in_flight_bytes > 0 => now.saturating_duration_since(since),
            _ => Duration::ZERO,
        }
    }

    /// Whether a retransmission timeout has passed without progress.
    pub(super) fn stalled(&self, now: Instant) -> bool {
        self.seen.retransmission_timeout().is_some_and(|timeout| self.waiting(now) > timeout)
    }

    /// When the path will be [`Slot::stalled`] if nothing is acknowledged.
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
        Observation { backoff: now.map_or(0, |now| self.backoff(now)), ..self.seen }
    }

    pub(super) fn rank(&self, now: Instant, relieved: bool) -> Rank {
        if self.suspended {
            Rank::Suspended
        } else if self.avoided {
            Rank::Avoided
        } else if self.backup != relieved {
            Rank::Backup
        } else if self.stalled(now) {
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
        self.delay.note_sent(now, self.seen.acked_bytes);
        self.note_size_sent(now, bytes);
        self.seen.in_flight_bytes += bytes;
        self.seen.sent_bytes += bytes;
        self.data_in_flight_bytes += bytes;
        self.served = self.served.saturating_add(policy::scaled(bytes, self.weight));
        self.ping_allowed = false;
        self.pending.due = false;
        self.turn.sent = true;
    }

    /// An MTU probe left. It was not the scheduler's choice, and may be lost for no other reason than its length
    /// (RFC 9000 section 14.4).
    pub(super) fn on_probe_sent(&mut self, bytes: u64) {
        self.seen.in_flight_bytes += bytes;
        self.seen.sent_bytes += bytes;
    }

    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.seen.lost_bytes += bytes;
        self.seen.in_flight_bytes = self.seen.in_flight_bytes.saturating_sub(bytes);
        self.data_in_flight_bytes = self.data_in_flight_bytes.saturating_sub(bytes);
        self.note_size_lost(bytes);
    }

    /// An acknowledgement arrived that leaves `in_flight_bytes`, with an RTT sample unless it held no news.
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
        self.delay.note_answer(now, sample, self.seen.acked_bytes);
        let seen = &mut self.seen;
        seen.latest_rtt = Some(sample);
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
    /// When the latest of them left that was longer than what every path takes.
    pub(super) large: Option<Instant>,
    /// Time from sending the largest packet to its acknowledgement, if it was not acknowledged before.
    pub(super) rtt: Option<Duration>,
}
