//! Which of several paths may send the next packet, given what is known of each. Pure.

use pathbench_record::connection::Scheduler;
use pathbench_record::document::HandoverReason;
use std::time::Duration;

/// Virtual bytes by which a path may run ahead of the others, in packets: long enough for segmentation offload.
const TURN_PACKETS: u64 = 10;

/// Why the `backup` scheduler left the preferred path: the conditions of `MultipathTester`'s paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    SlowPath {
        srtt: Duration,
    },
    /// Nothing was acknowledged for a retransmission timeout, and there is new data to send.
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
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Contender {
    pub(super) rank: Rank,
    /// The RTT to expect; `None` before the first sample.
    pub(super) rtt: Option<Duration>,
    /// Room in the congestion window for another packet, and not found blocked by pacing just now.
    pub(super) available: bool,
    pub(super) served: u64,
    pub(super) turn: u64,
}

/// How gladly a path is used: only paths of the best rank present are.
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

/// `bytes` sent by a path of `weight`, on a scale on which equal numbers mean fair shares.
pub(super) fn scaled(bytes: u64, weight: u32) -> u64 {
    bytes.saturating_mul(1024) / u64::from(weight.max(1))
}

/// Whether path number `index` of `contenders` may send now.
///
/// A path without room is always told yes: noq knows better, and has to see that it is limited by its window.
pub(super) fn may_send(scheduler: &Scheduler, contenders: &[Contender], index: usize) -> bool {
    let Some(own) = contenders.get(index) else { return true };
    let best = contenders.iter().map(|contender| contender.rank).min().unwrap_or(own.rank);
    if own.rank > best {
        return false;
    }
    let mut rivals = contenders.iter().enumerate().filter(|(at, other)| *at != index && other.rank == best);
    match scheduler {
        Scheduler::LowestRtt | Scheduler::Backup { .. } => {
            let order = |at: usize, path: &Contender| (path.rtt.unwrap_or(Duration::MAX), at);
            let own = order(index, own);
            !rivals.any(|(at, other)| other.available && order(at, other) < own)
        }
        // Whoever has no room loses his turn.
        Scheduler::RoundRobin => {
            !rivals.any(|(_, other)| other.available && own.served >= other.served.saturating_add(own.turn))
        }
        // Whoever has no room is waited for: the shares are what was asked for.
        Scheduler::Weighted => {
            !rivals.any(|(_, other)| own.served >= other.served.saturating_add(own.turn.max(other.turn)))
        }
    }
}
