//! What the data plane tells of a link.

use super::lateness::Lateness;
use crate::statistics::PipeStatistics;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a link has done since it began or was restarted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkReport {
    /// Forward and reverse.
    pub directions: [DirectionReport; 2],
    /// Why the capture is not complete, if it is not.
    pub capture_error: Option<String>,
}

/// What one way of a link has done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirectionReport {
    /// The pipe's counters.
    pub statistics: PipeStatistics,
    /// How much later packets left than the model says.
    pub lateness: Lateness,
    /// Wire packets that the pipe delivered and the far device did not take, because it was down or the packet no
    /// longer made sense (a bit of its IP version was turned over).
    pub refused_packets: u64,
    /// Packets that the sending device had no room for, because they were not read in time; a GSO packet counts once. By
    /// the kernel's counter.
    pub overrun_packets: u64,
    /// Every 100 ms, where something differs from the sample before.
    pub series: Vec<QueueSample>,
    /// Length of the IP packet in bytes → wire packets put in, whatever became of them.
    pub offered_sizes: BTreeMap<u32, u64>,
}

/// The state of one way of a link at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueSample {
    /// When.
    pub at: Timestamp,
    /// In the queue, overhead included.
    pub queue_bytes: u64,
    /// In the queue.
    pub queue_packets: u64,
    /// Put in since the beginning, overhead included.
    pub offered_bytes: u64,
    /// Left by the far end since the beginning, overhead included.
    pub delivered_bytes: u64,
    /// Dropped since the beginning, whatever the cause.
    pub dropped_packets: u64,
    /// The rate in force; `None` where it is unlimited or made of opportunities.
    pub rate_bps: Option<u64>,
    /// The probability of loss in force; `None` where it depends on the packet before.
    pub loss: Option<f64>,
    /// The base delay in force.
    pub delay: Duration,
}
