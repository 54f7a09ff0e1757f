//! The parameters of one direction of a link as typed values.

use crate::schedule::{DelaySchedule, End, LossSchedule, OpportunitySchedule, RateSchedule, TrainSchedule};
use pathbench_record::units::QueueLimit;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an Ethernet frame beside its IP packet, as the kernel's queueing disciplines count: the header, neither
/// preamble nor checksum.
pub const ETHERNET_OVERHEAD_BYTES: u32 = 14;
/// The largest IP packet.
pub const MAX_PACKET_BYTES: u32 = 65_535;
/// A queue given as a time is never smaller than this: one burst of a sender with segmentation offload.
const SMALLEST_TIMED_QUEUE_BYTES: u64 = 65_536;

macro_rules! link_model {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr,)*) => {
        /// One direction of a link. The order of the fields is the order in which a packet meets them; random decisions
        /// follow from the seed and the packet's number alone.
        #[derive(Debug, Clone, PartialEq)]
        pub struct LinkModel {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for LinkModel {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// New values of some parameters; what is `None` stays.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct LinkChange {
            $(pub $field: Option<$type>,)*
        }

        impl LinkChange {
            pub fn apply(&self, model: &mut LinkModel) {
                $(if let Some(value) = &self.$field {
                    model.$field.clone_from(value);
                })*
            }

            /// Takes out the parameters that `other` changes, too.
            pub fn leave_out(&mut self, other: &Self) {
                $(if other.$field.is_some() {
                    self.$field = None;
                })*
            }

            /// Takes over the parameters that `other` changes.
            pub fn take_in(&mut self, other: &Self) {
                $(if other.$field.is_some() {
                    self.$field.clone_from(&other.$field);
                })*
            }

            /// Takes out the parameters that have the same value in `model`.
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
    /// Probability that a packet is delivered twice, 0 to 1.
    duplicate: f64 = 0.0,
    /// Probability that one bit of a packet is inverted, 0 to 1.
    corrupt: f64 = 0.0,
    /// Limit of the queue in front of the bottleneck. Without a rate only retransmissions and outages fill it.
    queue: QueueLimit = QueueLimit::Time(Duration::from_millis(100)),
    queue_discipline: Discipline = Discipline::DropTail,
    /// Acceptable delay in the queue; `None` for what the discipline's RFC recommends.
    queue_target: Option<Duration> = None,
    /// `CoDel`'s interval or PIE's update period; `None` for what their RFC recommends.
    queue_interval: Option<Duration> = None,
    /// Whether the discipline marks packets of ECN-capable transports (RFC 3168) instead of dropping them.
    ecn: bool = false,
    /// Rate of Ethernet frames without preamble and checksum; of IP packets where it is made of opportunities.
    rate: RateModel = RateModel::Unlimited,
    /// Bytes that a packet counts for rate and queue beside its IP bytes.
    overhead_bytes: u32 = ETHERNET_OVERHEAD_BYTES,
    /// Link-layer retransmission; `None`: what is lost is lost.
    arq: Option<ArqModel> = None,
    /// Loss behind the bottleneck: a lost packet has used the link's rate.
    loss: LossModel = LossModel::default(),
    delay: BaseDelay = BaseDelay::default(),
    /// Half width of the uniform, standard deviation of the normal, mean of the exponential, scale of the Pareto
    /// distribution.
    jitter: Duration = Duration::ZERO,
    jitter_distribution: Distribution = Distribution::Uniform,
    reorder: bool = false,
}

/// How fast packets are sent. A schedule begins when the direction does, and again when a change puts it in force.
#[derive(Debug, Clone, PartialEq)]
pub enum RateModel {
    Unlimited,
    /// Bits per second, at least 1.
    Constant(u64),
    /// Bits per second that change with time: steps of a scenario, or a `second,bytes_per_second` trace.
    Steps(Arc<RateSchedule>),
    /// Mahimahi's delivery opportunities.
    Opportunities(Arc<OpportunitySchedule>),
    /// `CellReplay`'s packet trains, which carry a base delay as well.
    Trains(Arc<TrainSchedule>),
}

/// Which packet a queue drops, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// The arriving one when the queue is full.
    DropTail,
    /// The oldest when the queue is full.
    DropHead,
    /// RFC 8289.
    CoDel,
    /// RFC 8033.
    Pie,
}

impl Discipline {
    /// All, with their names in scenarios and results.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("drop-tail", Self::DropTail),
        ("drop-head", Self::DropHead),
        ("codel", Self::CoDel),
        ("pie", Self::Pie),
    ];
}

/// Link-layer retransmission (ARQ): each attempt fails by the loss model and takes the packet's time on the link and
/// `pause`; a packet whose attempts have all failed is lost. A fading radio is slow first and loses later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArqModel {
    /// Attempts after the first (7 in 802.11 for short frames).
    pub retries: u32,
    /// From a failed attempt to the next one.
    pub pause: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub enum LossModel {
    /// Each packet by itself with this probability, 0 to 1.
    Independent(f64),
    /// Two states with a loss probability each (Gilbert 1960, Elliott 1963); the state moves with each packet.
    GilbertElliott(GilbertElliott),
    /// For `length` in every `period`, each packet with probability `loss`; the first burst begins after one
    /// period less a length.
    Bursts { period: Duration, length: Duration, loss: f64 },
    /// Probabilities that change with time, from a trace.
    Schedule(Arc<LossSchedule>),
}

impl Default for LossModel {
    fn default() -> Self {
        Self::Independent(0.0)
    }
}

/// Parameters of the two-state channel; all 0 to 1. It begins in the good state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability of going from good to bad, per packet.
    pub to_bad: f64,
    /// Probability of going from bad to good, per packet.
    pub to_good: f64,
    pub loss_good: f64,
    pub loss_bad: f64,
}

/// The delay that all packets have in common.
#[derive(Debug, Clone, PartialEq)]
pub enum BaseDelay {
    Constant(Duration),
    /// Changes with time, from a trace.
    Schedule(Arc<DelaySchedule>),
}

impl Default for BaseDelay {
    fn default() -> Self {
        Self::Constant(Duration::ZERO)
    }
}

/// Shapes of jitter. Uniform and normal lie around the base delay (never below zero in all), exponential and Pareto on
/// top of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// `[-size, size]`, all alike.
    Uniform,
    /// Standard deviation `size`.
    Normal,
    /// Mean `size`.
    Exponential,
    /// Exceeds `x` with probability `(size / (size + x))^shape` (Lomax); `shape` > 1.
    Pareto {
        /// Tail index: the smaller, the heavier.
        shape: f64,
    },
}

impl Distribution {
    /// All, with their names in scenarios and results. The Pareto index of 3 is that of netem's table: heavy, with a mean
    /// and a variance.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("uniform", Self::Uniform),
        ("normal", Self::Normal),
        ("exponential", Self::Exponential),
        ("pareto", Self::Pareto { shape: 3.0 }),
    ];
}

impl LinkModel {
    /// This model with what `change` gives in its place.
    #[must_use]
    pub fn with(&self, change: &LinkChange) -> Self {
        let mut model = self.clone();
        change.apply(&mut model);
        model
    }

    /// The rate, where it is limited and always the same.
    pub const fn rate_bps(&self) -> Option<u64> {
        match self.rate {
            RateModel::Constant(bps) => Some(bps),
            _ => None,
        }
    }

    /// The rate, its mean where it changes with time; `None` where it is not limited.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        match &self.rate {
            RateModel::Steps(steps) if steps.end == End::Hold => Some(mean(steps).max(1)),
            rate => rate.mean_rate_bps().map(|bps| bps.max(1)),
        }
    }

    /// The one-way delay, where it is always the same.
    pub const fn constant_delay(&self) -> Option<Duration> {
        match (&self.delay, &self.rate) {
            (_, RateModel::Trains(_)) | (BaseDelay::Schedule(_), _) => None,
            (BaseDelay::Constant(delay), _) => Some(*delay),
        }
    }

    /// The probability of loss, where each packet has the same and is lost by itself.
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

/// Mean over the steps of a scenario; the last one, which stays, counts as long as a second.
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

/// `limit` in bytes for packets of up to `mtu_bytes`: a time counts as what the link sends meanwhile (on average, where
/// its rate changes), at least 64 KiB; a packet counts as a full Ethernet frame.
pub fn queue_bytes(limit: QueueLimit, rate_bps: u64, mtu_bytes: u32) -> u64 {
    match limit {
        QueueLimit::Time(time) => {
            let bits = u128::from(rate_bps) * time.as_nanos() / 1_000_000_000;
            u64::try_from(bits / 8).unwrap_or(u64::MAX).max(SMALLEST_TIMED_QUEUE_BYTES)
        }
        QueueLimit::Packets(packets) => {
            u64::from(packets) * (u64::from(mtu_bytes) + u64::from(ETHERNET_OVERHEAD_BYTES))
        }
        QueueLimit::Bytes(bytes) => bytes,
    }
}
