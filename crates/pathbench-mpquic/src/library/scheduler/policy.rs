//! Decides which of several paths may send the next packet, from the observations of each. Pure functions.

use noq_proto::PathId;
use pathbench_record::connection::Scheduler;
use pathbench_record::document::HandoverReason;
use pathbench_record::sample::PathState;
use pathbench_record::text::duration;
use std::time::{Duration, Instant};

/// Lead in virtual bytes that a path may have over the others, in packets: enough for segmentation offload.
const TURN_PACKETS: u64 = 10;

/// Why the `backup` scheduler left the preferred path: the conditions of the `MultipathTester` paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    SlowPath {
        srtt: Duration,
    },
    /// No acknowledgement arrived for a retransmission timeout, and there is new data to send.
    Timeout {
        since: Duration,
    },
    LongTimeout {
        rto: Duration,
    },
}

impl Trouble {
    pub(crate) const fn condition(self) -> HandoverReason {
        match self {
            Self::SlowPath { .. } => HandoverReason::RttThreshold,
            Self::Timeout { .. } => HandoverReason::UnderRto,
            Self::LongTimeout { .. } => HandoverReason::RtoThreshold,
        }
    }

    pub(crate) fn in_words(self) -> String {
        match self {
            Self::SlowPath { srtt } => format!("smoothed RTT of the preferred path is {}", duration(srtt)),
            Self::Timeout { since } => format!(
                "nothing was acknowledged on the preferred path for {}, and there is new data",
                duration(since)
            ),
            Self::LongTimeout { rto } => {
                format!("retransmission timeout of the preferred path is {}", duration(rto))
            }
        }
    }
}

/// The path manager's decisions about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) stage: PathState,
    /// Used only when no other path is usable.
    pub(crate) backup: bool,
    /// The peer sent `PATH_STATUS_BACKUP`: no new data while there is another path.
    pub(crate) avoided: bool,
    /// No packets arrive on it: no new data while there is another path.
    pub(crate) suspended: bool,
    /// Its share with [`Scheduler::Weighted`].
    pub(crate) weight: u32,
}

impl Default for Role {
    fn default() -> Self {
        Self { stage: PathState::Opening, backup: false, avoided: false, suspended: false, weight: 1 }
    }
}

/// A decision of the scheduler that is reported in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchedulerEvent {
    pub(crate) at: Instant,
    pub(crate) path: PathId,
    /// Why the backup paths are used from now on; `None` when the preferred path is used again.
    pub(crate) trouble: Option<Trouble>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Contender {
    pub(super) rank: Rank,
    /// The RTT to expect; `None` before the first sample.
    pub(super) rtt: Option<Duration>,
    /// The congestion window has space for another packet, and pacing does not block the path in this burst.
    pub(super) available: bool,
    pub(super) served: u64,
    pub(super) turn: u64,
}

/// Preference of a path: only paths of the best rank present are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Usable,
    /// A retransmission timeout passed without progress.
    Stalled,
    Backup,
    Avoided,
    Suspended,
}

/// One turn of a path that sends packets of `mtu` bytes, scaled as [`scaled`].
pub(super) fn turn(mtu: u16, weight: u32) -> u64 {
    scaled(u64::from(mtu) * TURN_PACKETS, weight)
}

/// `bytes` sent by a path, divided by `weight`: equal values mean fair shares.
pub(super) fn scaled(bytes: u64, weight: u32) -> u64 {
    bytes.saturating_mul(1024) / u64::from(weight.max(1))
}

/// Whether path number `index` of `contenders` may send now.
///
/// The path's own full window does not matter: noq has to detect that the window limits the path.
pub(super) fn may_send(scheduler: &Scheduler, contenders: &[Contender], index: usize) -> bool {
    let Some(own) = contenders.get(index) else { return true };
    let best = contenders.iter().map(|contender| contender.rank).min().unwrap_or(own.rank);
    if own.rank > best {
        return false;
    }
    let mut rivals = contenders.iter().enumerate().filter(|(at, other)| *at != index && other.rank == best);
    match scheduler {
        Scheduler::LowestRtt | Scheduler::Backup { .. } | Scheduler::Redundant => {
            let order = |at: usize, path: &Contender| (path.rtt.unwrap_or(Duration::MAX), at);
            let own = order(index, own);
            !rivals.any(|(at, other)| other.available && order(at, other) < own)
        }
        // A path whose window is full loses its turn.
        Scheduler::RoundRobin => {
            !rivals.any(|(_, other)| other.available && own.served >= other.served.saturating_add(own.turn))
        }
        // The other paths wait for a path whose window is full, to keep the weights.
        Scheduler::Weighted => {
            !rivals.any(|(_, other)| own.served >= other.served.saturating_add(own.turn.max(other.turn)))
        }
    }
}
