//! Flows of datagrams in one direction of a line: far below its rate, for loss and delay, and above it, for the rate and
//! the queue.

use pathbench_record::statistics::{median, nearest_rank};

/// Datagrams or arrivals that an estimate needs.
const FEWEST: usize = 20;
/// Groups of consecutive arrivals, whose rates are compared.
const GROUPS: usize = 12;
/// The queue fills first, for two thirds of a flow or this long; then it is judged.
const FILLING_PART: f64 = 2.0 / 3.0;
const FILLING_MS: f64 = 2_700.0;
/// Quartiles of a normal distribution are this many standard deviations apart.
const QUARTILES: f64 = 1.349;

/// A datagram of a flow, in the order of sending. The clocks of both ends need not agree: only differences between delays
/// count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowDatagram {
    pub sent_ms: f64,
    /// `None`: lost.
    pub received_ms: Option<f64>,
}

impl FlowDatagram {
    fn delay_ms(&self) -> Option<f64> {
        Some(self.received_ms? - self.sent_ms)
    }
}

/// A flow far below the rate of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesEstimate {
    pub sent: u64,
    pub lost: u64,
    pub frame_bytes: u32,
    /// Median of the one-way delay, with the difference of the clocks.
    pub delay_ms: f64,
}

impl SeriesEstimate {
    /// `None` with fewer than 20 arrivals.
    pub fn from_datagrams(datagrams: &[FlowDatagram], frame_bytes: u32) -> Option<Self> {
        let delays: Vec<f64> = datagrams.iter().filter_map(FlowDatagram::delay_ms).collect();
        if delays.len() < FEWEST {
            return None;
        }
        let (sent, arrived) = (datagrams.len() as u64, delays.len() as u64);
        Some(Self { sent, lost: sent - arrived, frame_bytes, delay_ms: median(&delays)? })
    }

    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// A flow above the rate of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FillEstimate {
    pub offered_bps: f64,
    /// Rate of the arrivals, as frames: mean of the middle half of 12 groups, so that a pause of a host does not count.
    pub arrived_bps: f64,
    /// Standard error of `arrived_bps` relative to it, from the quartiles of the groups.
    pub error: f64,
    pub seconds: f64,
    pub frame_bytes: u32,
    /// Datagrams from which the queue was judged, after it had time to fill.
    pub judged: u64,
    /// Median of the datagrams that such a datagram found in the queue, itself included: those that arrived during the
    /// time that it was late. The rate may vary meanwhile.
    pub queued: f64,
    /// Whether the queue dropped datagrams then: it was full.
    pub is_full: bool,
}

impl FillEstimate {
    /// `None` with too few arrivals. `series` is that of the line without load.
    pub fn from_datagrams(
        datagrams: &[FlowDatagram],
        frame_bytes: u32,
        series: &SeriesEstimate,
    ) -> Option<Self> {
        let (first, last) = (datagrams.first()?, datagrams.last()?);
        let sent_ms = last.sent_ms - first.sent_ms;
        let bits = f64::from(frame_bytes) * 8.0;
        let mut arrivals: Vec<f64> = datagrams.iter().filter_map(|one| one.received_ms).collect();
        arrivals.sort_by(f64::total_cmp);
        let group = arrivals.len().checked_sub(1)? / GROUPS;
        if arrivals.len() < FEWEST || group == 0 || sent_ms <= 0.0 {
            return None;
        }
        let ends: Vec<f64> = arrivals.iter().copied().step_by(group).collect();
        let mut times: Vec<f64> = ends.windows(2).map(|ends| ends[1] - ends[0]).collect();
        times.sort_by(f64::total_cmp);
        let middle = &times[times.len() / 4..times.len() - times.len() / 4];
        let mean_ms = middle.iter().sum::<f64>() / middle.len() as f64;
        let spread_ms = (nearest_rank(&times, 0.75)? - nearest_rank(&times, 0.25)?) / QUARTILES;
        if mean_ms <= 0.0 {
            return None;
        }
        let offered_bps = (datagrams.len() - 1) as f64 * bits * 1e3 / sent_ms;
        let arrived_bps = group as f64 * bits * 1e3 / mean_ms;
        let judged_from = first.sent_ms + (sent_ms * FILLING_PART).min(FILLING_MS);
        let judged: Vec<&FlowDatagram> =
            datagrams.iter().filter(|datagram| datagram.sent_ms >= judged_from).collect();
        // The small packets of the series take a little transmission time, too.
        let least_ms = series.delay_ms - f64::from(series.frame_bytes) * 8e3 / arrived_bps;
        let queued = |datagram: &&FlowDatagram| {
            let received_ms = datagram.received_ms?;
            Some(arrived_by(&arrivals, received_ms) - arrived_by(&arrivals, datagram.sent_ms + least_ms))
        };
        let queued: Vec<f64> = judged.iter().filter_map(queued).collect();
        let (loss, dropped) = (series.loss(), 1.0 - queued.len() as f64 / judged.len().max(1) as f64);
        // Three quarters of the datagrams beyond the rate must be missing: the queue was full most of the time.
        let excess = (1.0 - arrived_bps / offered_bps - loss).max(0.0);
        Some(Self {
            offered_bps,
            arrived_bps,
            error: spread_ms / mean_ms / (times.len() as f64).sqrt(),
            seconds: sent_ms / 1e3,
            frame_bytes,
            judged: queued.len() as u64,
            queued: median(&queued)?.max(0.0),
            is_full: excess > 0.05 && dropped - loss >= 0.75 * excess,
        })
    }

    /// The time that the full queue takes at the rate.
    pub fn queue_ms(&self) -> f64 {
        self.queued * f64::from(self.frame_bytes) * 8e3 / self.arrived_bps
    }

    /// Whether the flow was above the line's rate: fewer arrived than without load.
    pub fn is_above(&self, loss: f64) -> bool {
        self.arrived_bps < 0.9 * (1.0 - loss) * self.offered_bps
    }
}

/// The number of `arrivals` up to a time, interpolated between two of them.
fn arrived_by(arrivals: &[f64], at_ms: f64) -> f64 {
    let after = arrivals.partition_point(|arrival| *arrival <= at_ms);
    let between = match (after.checked_sub(1).and_then(|before| arrivals.get(before)), arrivals.get(after)) {
        (Some(before), Some(next)) => (at_ms - before) / (next - before),
        _ => 0.0,
    };
    after as f64 + between
}
