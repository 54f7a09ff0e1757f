//! Estimates of a line (an access network and the network behind it) from probes and transfers over it: rate, delay,
//! jitter, loss, queue and MTU, for a scenario with the same line.

mod flow;

pub use flow::{FillEstimate, FlowDatagram, SeriesEstimate};

use pathbench_record::direction::Direction;
use pathbench_record::network::{AddressFamily, ETHERNET_HEADER_BYTES};
use pathbench_record::statistics::nearest_rank;

/// TCP's header with timestamps (RFC 7323), which Linux sends by default.
const TCP_HEADER_BYTES: u32 = 32;
/// A queueing delay below this is the machines' own.
pub const LEAST_QUEUE_MS: f64 = 2.0;
/// Jitter below this is that of the hosts' timers.
pub const LEAST_JITTER_MS: f64 = 0.3;
/// Probes that an estimate of a delay needs.
const FEWEST_PROBES: usize = 20;
/// Fewer lost packets than this are no loss: a host loses single ones itself.
const FEWEST_LOST: u64 = 3;
/// 97.5 % of a normal distribution: bounds of a 95 % interval.
const Z: f64 = 1.959_964;

/// A UDP probe of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineProbe {
    /// Time of sending.
    pub at_ms: f64,
    /// `None`: lost.
    pub rtt_ms: Option<f64>,
}

/// The packets of a loss estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossBasis {
    /// Round trips: a loss may be of either direction, so both get the same.
    RoundTrips,
    /// Datagrams of the one direction.
    Datagrams,
}

/// The loss of one direction, with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossEstimate {
    pub sent: u64,
    pub lost: u64,
    pub basis: LossBasis,
    pub loss: f64,
    pub interval: [f64; 2],
}

impl LossEstimate {
    /// `None` if nothing was sent.
    pub fn from_counts(sent: u64, lost: u64, basis: LossBasis) -> Option<Self> {
        if sent == 0 || lost > sent {
            return None;
        }
        let one_direction = |share: f64| match basis {
            LossBasis::RoundTrips => 1.0 - (1.0 - share).sqrt(),
            LossBasis::Datagrams => share,
        };
        let interval = wilson_interval(sent, lost).map(one_direction);
        Some(Self { sent, lost, basis, loss: one_direction(lost as f64 / sent as f64), interval })
    }

    /// Whether the loss can be told from none.
    pub const fn is_distinct(&self) -> bool {
        self.lost >= FEWEST_LOST
    }

    /// Whether the interval is so wide that the loss may as well be half or double.
    pub fn is_coarse(&self) -> bool {
        self.lost > 0 && (self.interval[1] > 2.0 * self.loss || self.interval[0] < 0.5 * self.loss)
    }
}

/// Wilson's score interval of a probability ("Probable inference", JASA 1927), 95 %.
fn wilson_interval(trials: u64, successes: u64) -> [f64; 2] {
    let (n, p) = (trials as f64, successes as f64 / trials as f64);
    let (centre, scale) = (p + Z * Z / (2.0 * n), 1.0 + Z * Z / n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let low = if successes == 0 { 0.0 } else { ((centre - half) / scale).max(0.0) };
    let high = if successes == trials { 1.0 } else { ((centre + half) / scale).min(1.0) };
    [low, high]
}

/// A path without load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdleEstimate {
    pub probes: u64,
    /// Smallest round-trip time.
    pub base_rtt_ms: f64,
    /// 90th percentile.
    pub high_rtt_ms: f64,
    /// Mean delay of one direction above the smallest: half of that of the round trip.
    pub jitter_ms: f64,
    pub loss: LossEstimate,
}

impl IdleEstimate {
    /// `None` with fewer than 20 answered probes.
    pub fn from_probes(probes: &[LineProbe]) -> Option<Self> {
        let rtts = answered(probes);
        if rtts.len() < FEWEST_PROBES {
            return None;
        }
        let base_rtt_ms = rtts.iter().copied().fold(f64::INFINITY, f64::min);
        let mean_ms = rtts.iter().sum::<f64>() / rtts.len() as f64;
        let (sent, answered) = (probes.len() as u64, rtts.len() as u64);
        Some(Self {
            probes: sent,
            base_rtt_ms,
            high_rtt_ms: nearest_rank(&rtts, 0.9)?,
            jitter_ms: (mean_ms - base_rtt_ms) / 2.0,
            loss: LossEstimate::from_counts(sent, sent - answered, LossBasis::RoundTrips)?,
        })
    }
}

fn answered(probes: &[LineProbe]) -> Vec<f64> {
    probes.iter().filter_map(|probe| probe.rtt_ms).collect()
}

/// The queue in front of the bottleneck of one direction, by the delay that a load adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueEstimate {
    pub basis: QueueBasis,
    pub queue_ms: f64,
}

/// The load, and the delay under it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueBasis {
    /// The round trips of `probes` probes while TCP fills the queue: their high percentile, above the 90th percentile
    /// without load, because both have the line's jitter.
    Probes { probes: u64, loaded_rtt_ms: f64 },
    /// Datagrams above the rate: what they found in the queue, by the arrivals while they were later than a series of as
    /// many packets a second below the rate.
    Datagrams { judged: u64, is_full: bool },
}

impl QueueEstimate {
    /// The percentile: TCP fills the queue before each loss, and single late probes are not the queue.
    pub const PERCENTILE: f64 = 0.99;

    /// From the probes during the load, slow start included: its end fills the queue. `None` with fewer than 20 answered
    /// ones.
    pub fn from_probes(idle: &IdleEstimate, probes: &[LineProbe]) -> Option<Self> {
        let rtts = answered(probes);
        if rtts.len() < FEWEST_PROBES {
            return None;
        }
        let loaded_rtt_ms = nearest_rank(&rtts, Self::PERCENTILE)?;
        let queue_ms = (loaded_rtt_ms - idle.high_rtt_ms).max(0.0);
        Some(Self { basis: QueueBasis::Probes { probes: rtts.len() as u64, loaded_rtt_ms }, queue_ms })
    }

    pub fn from_fill(fill: &FillEstimate) -> Self {
        let basis = QueueBasis::Datagrams { judged: fill.judged, is_full: fill.is_full };
        Self { basis, queue_ms: fill.queue_ms() }
    }

    /// Whether the load filled a queue: otherwise something else limited it.
    pub fn is_filled(&self) -> bool {
        self.queue_ms >= LEAST_QUEUE_MS
    }
}

/// The rate of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateEstimate {
    pub basis: RateBasis,
    /// Bytes of a full packet with the Ethernet header, which the rate of a link counts.
    pub frame_bytes: u32,
    pub rate_bps: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateBasis {
    /// Goodput of TCP with `payload_bytes` in each full packet; beside it answered probes, as frames.
    Tcp { goodput_mbps: f64, payload_bytes: u32, probes_bps: u64 },
    /// Arrivals of datagrams that were sent above the rate. The `loss` of the line without load is behind its rate.
    Datagrams { fill: FillEstimate, loss: f64 },
}

impl RateEstimate {
    /// `None` without goodput.
    pub fn from_goodput(goodput_mbps: f64, mtu_bytes: u32, family: AddressFamily) -> Option<Self> {
        let ip_bytes = if family == AddressFamily::Ipv6 { 40 } else { 20 };
        let payload_bytes = mtu_bytes.checked_sub(ip_bytes + TCP_HEADER_BYTES).filter(|bytes| *bytes > 0)?;
        let frame_bytes = mtu_bytes + ETHERNET_HEADER_BYTES;
        let basis = RateBasis::Tcp { goodput_mbps, payload_bytes, probes_bps: 0 };
        Self::new(basis, frame_bytes, goodput_mbps * 1e6 * f64::from(frame_bytes) / f64::from(payload_bytes))
    }

    /// `None` unless the flow was above the rate. `loss` is that of the line without load.
    pub fn from_fill(fill: &FillEstimate, loss: f64) -> Option<Self> {
        if !fill.is_above(loss) {
            return None;
        }
        let basis = RateBasis::Datagrams { fill: *fill, loss };
        Self::new(basis, fill.frame_bytes, fill.arrived_bps / (1.0 - loss))
    }

    fn new(basis: RateBasis, frame_bytes: u32, rate_bps: f64) -> Option<Self> {
        let is_rate = rate_bps.is_finite() && rate_bps >= 1.0;
        is_rate.then_some(Self { basis, frame_bytes, rate_bps: rate_bps.round() as u64 })
    }

    /// Adds the share of the line that the answered `probes` beside TCP took, in frames of `probe_frame_bytes`.
    pub fn with_probes(self, probes: &[LineProbe], probe_frame_bytes: u32) -> Self {
        let (Some(first), Some(last)) = (probes.first(), probes.last()) else { return self };
        let RateBasis::Tcp { goodput_mbps, payload_bytes, .. } = self.basis else { return self };
        let seconds = (last.at_ms - first.at_ms) / 1e3;
        if seconds <= 0.0 {
            return self;
        }
        let answered = probes.iter().filter(|probe| probe.rtt_ms.is_some()).count() as f64;
        let probes_bps = (answered * f64::from(probe_frame_bytes) * 8.0 / seconds).round() as u64;
        let basis = RateBasis::Tcp { goodput_mbps, payload_bytes, probes_bps };
        Self { basis, rate_bps: self.rate_bps.saturating_add(probes_bps), ..self }
    }
}

/// A value, or why there is none.
pub type MeasuredValue<T> = Result<T, String>;

/// One direction of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionEstimate {
    pub rate: MeasuredValue<RateEstimate>,
    pub queue: MeasuredValue<QueueEstimate>,
    /// From datagrams of this direction; else the loss of the idle round trips counts.
    pub loss: MeasuredValue<LossEstimate>,
    /// Congestion control of the sender of the load.
    pub congestion: Option<String>,
}

/// A line between this host and the server.
#[derive(Debug, Clone, PartialEq)]
pub struct LineEstimate {
    /// Name of the path.
    pub name: String,
    pub is_backup: bool,
    pub idle: MeasuredValue<IdleEstimate>,
    pub mtu_bytes: MeasuredValue<u32>,
    pub upload: DirectionEstimate,
    pub download: DirectionEstimate,
    /// Bytes of a probe's frame.
    pub probe_frame_bytes: u32,
}

impl DirectionEstimate {
    /// Whether the sender's congestion control fills the queue before it reduces its rate.
    pub fn fills_queues(&self) -> bool {
        self.congestion.as_ref().is_none_or(|name| !name.starts_with("bbr") && name != "vegas")
    }
}

impl LineEstimate {
    pub const fn direction(&self, direction: Direction) -> &DirectionEstimate {
        match direction {
            Direction::Upload => &self.upload,
            Direction::Download => &self.download,
        }
    }

    /// The time that a probe takes on the line at its rates, both directions together: a link with these rates adds it.
    pub fn transmission_ms(&self) -> f64 {
        let of_direction = |direction: &DirectionEstimate| {
            let rate = direction.rate.as_ref().ok().filter(|rate| rate.rate_bps > 0);
            rate.map_or(0.0, |rate| f64::from(self.probe_frame_bytes) * 8e3 / rate.rate_bps as f64)
        };
        of_direction(&self.upload) + of_direction(&self.download)
    }

    /// Delay of one direction: half of the smallest round trip, less the transmission time of the probe.
    pub fn delay_ms(&self) -> Option<f64> {
        let idle = self.idle.as_ref().ok()?;
        Some(((idle.base_rtt_ms - self.transmission_ms()) / 2.0).max(0.0))
    }

    /// The loss of one direction.
    pub fn loss(&self, direction: Direction) -> Option<LossEstimate> {
        let own = self.direction(direction).loss.as_ref().ok();
        own.or_else(|| self.idle.as_ref().ok().map(|idle| &idle.loss)).copied()
    }
}
