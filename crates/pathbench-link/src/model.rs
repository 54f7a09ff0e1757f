//! The parameters of one direction of a link as typed values.

use crate::schedule::{
    DelaySchedule, LossSchedule, OpportunitySchedule, RateSchedule, ScheduleEnd, TrainSchedule,
};
use pathbench_record::network::ETHERNET_HEADER_BYTES;
use pathbench_record::units::QueueLimit;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The largest IP packet.
pub const MAX_PACKET_BYTES: u32 = 65_535;
/// Smallest queue that is given as a time: one burst of a sender with segmentation offload.
const SMALLEST_TIMED_QUEUE_BYTES: u64 = 65_536;

macro_rules! link_model {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr,)*) => {
        /// One direction of a link. Packets pass the fields in their order; random decisions depend only on the seed
        /// and the packet's number.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct LinkModel {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for LinkModel {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// New values of some parameters; `None` leaves a parameter unchanged.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        pub struct LinkChange {
            $(pub $field: Option<$type>,)*
        }

        impl LinkChange {
            pub fn apply(&self, model: &mut LinkModel) {
                $(if let Some(value) = &self.$field {
                    model.$field.clone_from(value);
                })*
            }

            /// Removes the parameters that `other` also changes.
            pub fn leave_out(&mut self, other: &Self) {
                $(if other.$field.is_some() {
                    self.$field = None;
                })*
            }

            /// Adopts the parameters that `other` changes.
            pub fn take_in(&mut self, other: &Self) {
                $(if other.$field.is_some() {
                    self.$field.clone_from(&other.$field);
                })*
            }

            /// Removes the parameters that have the same value in `model`.
            pub fn leave_out_unchanged(&mut self, model: &LinkModel) {
                $(if self.$field.as_ref() == Some(&model.$field) {
                    self.$field = None;
                })*
            }
        }
    };
}

link_model! {
    mtu_bytes: u32 = 1_500,
    /// A policer in front of the queue; `None`: none.
    policer: Option<PolicerModel> = None,
    /// Probability that a packet is delivered twice, 0 to 1.
    duplicate: f64 = 0.0,
    /// Probability that one bit of a packet is inverted, 0 to 1.
    corrupt: f64 = 0.0,
    /// Limit of the queue before the bottleneck. Without a rate, only retransmissions and outages fill it.
    queue: QueueLimit = QueueLimit::Time(Duration::from_millis(100)),
    queue_discipline: Discipline = Discipline::DropTail,
    /// How `FqCoDel` shares the rate; other disciplines have one queue.
    queue_isolation: QueueIsolation = QueueIsolation::Flows,
    /// Acceptable queueing delay; `None`: the recommendation of the discipline's RFC.
    queue_target: Option<Duration> = None,
    /// `CoDel`'s interval or PIE's update period; `None`: the recommendation of their RFC.
    queue_interval: Option<Duration> = None,
    /// Whether the discipline marks packets of ECN-capable transports (RFC 3168) instead of dropping them.
    ecn: bool = false,
    /// Rate of Ethernet frames without preamble and checksum; of IP packets if it is made of opportunities.
    rate: RateModel = RateModel::Unlimited,
    /// Bytes that may leave at once after a pause (depth of a token bucket). 0: packets are evenly spaced by the emulated
    /// engine; the kernel's engine has its default depth.
    burst_bytes: u64 = 0,
    /// Bytes per packet that count for rate and queue in addition to its IP bytes.
    overhead_bytes: u32 = ETHERNET_HEADER_BYTES,
    /// Link-layer retransmission; `None`: lost packets are not retransmitted.
    arq: Option<ArqModel> = None,
    /// Loss after the bottleneck: a lost packet has used the link's rate.
    loss: LossModel = LossModel::default(),
    /// Correlation of independent losses by the recurrence of netem, 0 to 1.
    loss_correlation: f64 = 0.0,
    /// Most packets in the delay at a time; others are dropped. 0: no limit.
    in_flight_limit: u32 = 0,
    delay: BaseDelay = BaseDelay::default(),
    /// Half width of the uniform, standard deviation of the normal, mean of the exponential, scale of the Pareto
    /// distribution.
    jitter: Duration = Duration::ZERO,
    jitter_distribution: JitterDistribution = JitterDistribution::Uniform,
    /// Correlation of the deviations of consecutive packets by the recurrence of netem, 0 to 1.
    jitter_correlation: f64 = 0.0,
    reorder: bool = false,
    /// Probability that a packet skips the delay, 0 to 1.
    reorder_share: f64 = 0.0,
    /// Correlation of the decisions of `reorder_share`.
    reorder_correlation: f64 = 0.0,
    /// At least `reorder_gap` - 1 packets between two that skip the delay.
    reorder_gap: u32 = 1,
}

/// The rate model. A schedule starts with the direction, and again when a change activates it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RateModel {
    Unlimited,
    /// Bits per second, at least 1.
    Constant(u64),
    /// Bits per second that change with time: steps of a scenario, or a `second,bytes_per_second` trace.
    #[serde(with = "shared")]
    Steps(Arc<RateSchedule>),
    /// Mahimahi's delivery opportunities.
    #[serde(with = "shared")]
    Opportunities(Arc<OpportunitySchedule>),
    /// `CellReplay`'s packet trains, which carry a base delay as well.
    #[serde(with = "shared")]
    Trains(Arc<TrainSchedule>),
}

/// The queue discipline: the packets that a queue drops, and the time of the drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discipline {
    /// Drops the arriving packet when the queue is full.
    DropTail,
    /// Drops the oldest packet when the queue is full.
    DropHead,
    /// RFC 8289.
    CoDel,
    /// RFC 8033.
    Pie,
    /// RFC 8290: a queue with `CoDel` for each flow.
    FqCoDel,
}

impl Discipline {
    /// All, with their names in scenarios and results.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("drop-tail", Self::DropTail),
        ("drop-head", Self::DropHead),
        ("codel", Self::CoDel),
        ("pie", Self::Pie),
        ("fq_codel", Self::FqCoDel),
    ];
}

/// The parties among which `FqCoDel` shares the rate, in the terms of tc-cake(8). A flow's share is its quantum divided
/// by the number of flows of its host that always have packets to send, as in `cake_get_flow_quantum` of
/// `net/sched/sch_cake.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueIsolation {
    /// Each flow has the same share.
    Flows,
    /// Each source address has the same share, and each of its flows an equal part of it.
    DualSourceHost,
    /// Each destination address has the same share, and each of its flows an equal part of it.
    DualDestinationHost,
    /// A flow's quantum is divided by the larger of the numbers of flows of its source and of its destination.
    TripleIsolate,
}

impl QueueIsolation {
    /// All, with their names in scenarios and results.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("flows", Self::Flows),
        ("dual-srchost", Self::DualSourceHost),
        ("dual-dsthost", Self::DualDestinationHost),
        ("triple-isolate", Self::TripleIsolate),
    ];
}

/// A token bucket that drops the packets that find too few tokens instead of delaying them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicerModel {
    /// Of Ethernet frames without preamble and checksum, at least 1.
    pub rate_bps: u64,
    /// Depth of the bucket, which is full in the beginning.
    pub burst_bytes: u64,
}

/// Link-layer retransmission (ARQ): each attempt fails by the loss model and takes the packet's transmission time and
/// `pause`; a packet is lost when all attempts fail. A fading radio link is first slow, then lossy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArqModel {
    /// Attempts after the first (7 in 802.11 for short frames).
    pub retries: u32,
    /// Time from a failed attempt to the next one.
    pub pause: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LossModel {
    /// Each packet independently with this probability, 0 to 1.
    Independent(f64),
    /// Two states with a loss probability each (Gilbert 1960, Elliott 1963); the state may change with each packet.
    GilbertElliott(GilbertElliott),
    /// Each packet with probability `loss` during `length` of every `period`; the first burst begins `length` before
    /// the end of the first period.
    Bursts { period: Duration, length: Duration, loss: f64 },
    /// Probabilities that change with time, from a trace.
    #[serde(with = "shared")]
    Schedule(Arc<LossSchedule>),
}

impl Default for LossModel {
    fn default() -> Self {
        Self::Independent(0.0)
    }
}

/// Parameters of the two-state channel; all 0 to 1. The channel begins in the good state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GilbertElliott {
    /// Probability of the transition from good to bad, per packet.
    pub to_bad: f64,
    /// Probability of the transition from bad to good, per packet.
    pub to_good: f64,
    pub loss_good: f64,
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Long-term mean loss.
    pub fn mean_loss(&self) -> f64 {
        let moves = self.to_bad + self.to_good;
        let bad = if moves > 0.0 { self.to_bad / moves } else { 0.0 };
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }
}

/// The delay common to all packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum BaseDelay {
    Constant(Duration),
    /// Changes with time, from a trace.
    #[serde(with = "shared")]
    Schedule(Arc<DelaySchedule>),
}

impl Default for BaseDelay {
    fn default() -> Self {
        Self::Constant(Duration::ZERO)
    }
}

/// Distributions of jitter. Uniform and normal lie around the base delay (the sum is never negative), exponential and
/// Pareto are added to it, netem's Pareto lies around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum JitterDistribution {
    /// Uniform in `[-size, size]`.
    Uniform,
    /// Standard deviation `size`.
    Normal,
    /// Mean `size`.
    Exponential,
    /// Exceeds `x` with probability `(size / (size + x))^shape` (Lomax); `shape` > 1.
    Pareto {
        /// Tail index: a smaller index gives a heavier tail.
        shape: f64,
    },
    /// The table `pareto.dist` of iproute2: a Pareto variable of index 3, less its mean of 1.5, times 4/3, cut off at 4,
    /// so that it lies between -2/3 and 4 around a mean of nearly 0.
    NetemPareto,
}

impl JitterDistribution {
    /// All, with their names in scenarios and results. The Pareto index of 3 is that of netem's table: heavy-tailed,
    /// with a mean and a variance.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("uniform", Self::Uniform),
        ("normal", Self::Normal),
        ("exponential", Self::Exponential),
        ("pareto", Self::Pareto { shape: 3.0 }),
        ("netem-pareto", Self::NetemPareto),
    ];
}

/// Changes of a model with their times, e.g. of a fade. Times do not decrease.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeSchedule {
    pub changes: Vec<(Duration, LinkChange)>,
}

impl RateModel {
    /// Long-term mean in bits per second; `None` without a limit.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Constant(rate_bps) => Some(*rate_bps),
            Self::Steps(schedule) => schedule.mean_rate_bps(),
            Self::Opportunities(schedule) => schedule.mean_rate_bps(),
            Self::Trains(schedule) => schedule.mean_rate_bps(),
        }
    }
}

impl LinkModel {
    /// A copy of this model with `change` applied.
    ///
    /// ```rust
    /// use pathbench_link::{LinkChange, LinkModel, RateModel};
    ///
    /// let change = LinkChange { rate: Some(RateModel::Constant(50_000_000)), ..LinkChange::default() };
    /// let model = LinkModel::default().with_change(&change);
    /// assert_eq!(model.rate_bps(), Some(50_000_000));
    /// assert_eq!(model.mtu_bytes, LinkModel::default().mtu_bytes);
    /// ```
    #[must_use]
    pub fn with_change(&self, change: &LinkChange) -> Self {
        let mut model = self.clone();
        change.apply(&mut model);
        model
    }

    /// The rate, if it is limited and constant.
    pub const fn rate_bps(&self) -> Option<u64> {
        match self.rate {
            RateModel::Constant(bps) => Some(bps),
            _ => None,
        }
    }

    /// The rate, or its mean if it changes with time; `None` without a limit.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        match &self.rate {
            RateModel::Steps(steps) if steps.end == ScheduleEnd::Hold => Some(mean(steps).max(1)),
            rate => rate.mean_rate_bps().map(|bps| bps.max(1)),
        }
    }

    /// The one-way delay, if it is constant.
    pub const fn constant_delay(&self) -> Option<Duration> {
        match (&self.delay, &self.rate) {
            (_, RateModel::Trains(_)) | (BaseDelay::Schedule(_), _) => None,
            (BaseDelay::Constant(delay), _) => Some(*delay),
        }
    }

    /// The loss probability, if it is equal and independent for all packets.
    pub const fn independent_loss(&self) -> Option<f64> {
        match self.loss {
            LossModel::Independent(loss) => Some(loss),
            _ => None,
        }
    }

    pub fn loses(&self) -> bool {
        self.independent_loss().is_none_or(|loss| loss > 0.0)
    }

    /// The queue's limit in bytes; `None` without a rate, since nothing queues then.
    pub fn queue_bytes(&self) -> Option<u64> {
        Some(queue_bytes(self.queue, self.mean_rate_bps()?, self.mtu_bytes))
    }
}

/// Mean over the steps of a scenario; the last step, which has no end, counts for one second.
fn mean(steps: &RateSchedule) -> u64 {
    let last = steps.steps.last().map_or(Duration::ZERO, |(at, _)| *at);
    let end = last + Duration::from_secs(1);
    let ends = steps.steps.iter().skip(1).map(|(at, _)| *at).chain([end]);
    let bits = steps
        .steps
        .iter()
        .zip(ends)
        .map(|((at, bps), until)| *bps as f64 * until.saturating_sub(*at).as_secs_f64());
    (bits.sum::<f64>() / end.as_secs_f64()) as u64
}

/// `limit` in bytes for packets of up to `mtu_bytes`: a time counts as the bytes that the link sends in it (at the mean
/// rate if the rate changes), at least 64 KiB; a packet counts as a full Ethernet frame.
///
/// ```rust
/// use pathbench_link::queue_bytes;
/// use pathbench_record::units::QueueLimit;
/// use std::time::Duration;
///
/// let limit = QueueLimit::Time(Duration::from_millis(100));
/// assert_eq!(queue_bytes(limit, 50_000_000, 1_500), 625_000);
/// assert_eq!(queue_bytes(limit, 1_000_000, 1_500), 64 << 10);
/// assert_eq!(queue_bytes(QueueLimit::Packets(10), 50_000_000, 1_500), 15_140);
/// ```
pub fn queue_bytes(limit: QueueLimit, rate_bps: u64, mtu_bytes: u32) -> u64 {
    match limit {
        QueueLimit::Time(time) => {
            let bits = u128::from(rate_bps) * time.as_nanos() / 1_000_000_000;
            u64::try_from(bits / 8).unwrap_or(u64::MAX).max(SMALLEST_TIMED_QUEUE_BYTES)
        }
        QueueLimit::Packets(packets) => {
            u64::from(packets) * (u64::from(mtu_bytes) + u64::from(ETHERNET_HEADER_BYTES))
        }
        QueueLimit::Bytes(bytes) => bytes,
    }
}

/// A schedule as its content: serde shares nothing.
mod shared {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        schedule: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        schedule.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}
