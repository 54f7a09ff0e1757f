//! The parameters of a pipe: what one direction of a link does to packets.

use crate::schedule::{DelaySchedule, LossSchedule, OpportunitySchedule, RateSchedule, TrainSchedule};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that an Ethernet frame has beside its IP packet, as the kernel's queueing disciplines count: the header,
/// neither preamble nor checksum.
pub const ETHERNET_OVERHEAD_BYTES: u32 = 14;

/// One direction of a link. The order of the fields is the order in which a packet meets them; what is decided by
/// chance is decided by the seed and the packet's number alone, so that time has no part in it.
#[derive(Debug, Clone, PartialEq)]
pub struct PipeModel {
    /// Largest IP packet let in; larger ones vanish without a word. `None`: any.
    pub mtu_bytes: Option<u32>,
    /// Probability that a packet is delivered twice, 0 to 1.
    pub duplicate: f64,
    /// Probability that one bit of a packet is turned over, 0 to 1.
    pub corrupt: f64,
    /// The queue in front of the bottleneck. Nothing queues where the rate is unlimited, but for what ARQ pauses and
    /// outages hold up.
    pub queue: QueueModel,
    /// How fast packets are taken from the queue.
    pub rate: RateModel,
    /// What a packet counts beside its IP bytes, for rate and queue.
    pub overhead_bytes: u32,
    /// Link-layer retransmission (ARQ); `None`: what is lost is lost.
    pub arq: Option<ArqModel>,
    /// What is lost on the way. It has used the link's rate by then.
    pub loss: LossModel,
    /// From the bottleneck to the far end.
    pub delay: DelayModel,
}

impl Default for PipeModel {
    /// A wire that does nothing to packets.
    fn default() -> Self {
        Self {
            mtu_bytes: None,
            duplicate: 0.0,
            corrupt: 0.0,
            queue: QueueModel::default(),
            rate: RateModel::Unlimited,
            overhead_bytes: ETHERNET_OVERHEAD_BYTES,
            arq: None,
            loss: LossModel::default(),
            delay: DelayModel::default(),
        }
    }
}

/// How fast packets are sent. A schedule begins when the pipe does, and again when it is put in force by a change.
#[derive(Debug, Clone, PartialEq)]
pub enum RateModel {
    /// At once.
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

/// The queue in front of the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueModel {
    /// What fits.
    pub limit: QueueLimit,
    /// What is done before it overflows.
    pub discipline: QueueDiscipline,
    /// Whether the discipline marks packets of ECN-capable transports (RFC 3168) instead of dropping them.
    pub ecn: bool,
}

impl Default for QueueModel {
    fn default() -> Self {
        Self { limit: QueueLimit::Packets(1_000), discipline: QueueDiscipline::DropTail, ecn: false }
    }
}

/// What a queue holds; the packet in transmission is not in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// Packets.
    Packets(u32),
    /// Bytes, overhead included.
    Bytes(u64),
}

/// Which packet is dropped, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueDiscipline {
    /// The arriving one when the queue is full.
    DropTail,
    /// The oldest when the queue is full.
    DropHead,
    /// RFC 8289.
    CoDel {
        /// Acceptable standing delay (5 ms).
        target: Duration,
        /// Sliding window in which the delay must have gone below it once (100 ms).
        interval: Duration,
    },
    /// RFC 8033.
    Pie {
        /// Delay aimed at (15 ms).
        target: Duration,
        /// From one update of the drop probability to the next (15 ms).
        update: Duration,
    },
}

/// Link-layer retransmission: each attempt fails according to the loss model and costs the packet's time on the link and
/// `pause`; a packet whose attempts are used up is lost. So a fading radio is slow first and loses later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArqModel {
    /// Attempts after the first (7 in 802.11 for short frames).
    pub retries: u32,
    /// From a failed attempt to the next one.
    pub pause: Duration,
}

/// What is lost.
#[derive(Debug, Clone, PartialEq)]
pub enum LossModel {
    /// Each packet by itself with this probability, 0 to 1.
    Independent(f64),
    /// Two states with a loss probability each (Gilbert 1960, Elliott 1963); the state moves with each packet.
    GilbertElliott(GilbertElliott),
    /// For `length` in every `period`, each packet with probability `loss`; the first burst begins after one
    /// period less a length.
    Bursts {
        /// From the begin of one burst to that of the next.
        period: Duration,
        /// How long one lasts; less than the period.
        length: Duration,
        /// Probability within it.
        loss: f64,
    },
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
    /// Loss in the good state.
    pub loss_good: f64,
    /// Loss in the bad state.
    pub loss_bad: f64,
}

/// From the bottleneck to the far end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DelayModel {
    /// What every packet needs.
    pub base: BaseDelay,
    /// What differs from packet to packet.
    pub jitter: Option<JitterModel>,
}

/// The delay that all packets have in common.
#[derive(Debug, Clone, PartialEq)]
pub enum BaseDelay {
    /// Always the same.
    Constant(Duration),
    /// Changes with time, from a trace.
    Schedule(Arc<DelaySchedule>),
}

impl Default for BaseDelay {
    fn default() -> Self {
        Self::Constant(Duration::ZERO)
    }
}

/// A random part of the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JitterModel {
    /// Its shape.
    pub distribution: Distribution,
    /// Its size: half width of the uniform, standard deviation of the normal, mean of the exponential, scale of the
    /// Pareto distribution.
    pub size: Duration,
    /// Whether a packet may overtake another. Otherwise none leaves before those that came before it.
    pub reorder: bool,
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

/// New values of some of a pipe's parameters; what is `None` stays. Each parameter changes by itself, and nothing that is
/// queued or under way is lost by it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelChange {
    /// See [`PipeModel::mtu_bytes`]; `Some(None)` takes it away.
    pub mtu_bytes: Option<Option<u32>>,
    /// See [`PipeModel::duplicate`].
    pub duplicate: Option<f64>,
    /// See [`PipeModel::corrupt`].
    pub corrupt: Option<f64>,
    /// See [`QueueModel::limit`].
    pub queue_limit: Option<QueueLimit>,
    /// See [`QueueModel::discipline`].
    pub discipline: Option<QueueDiscipline>,
    /// See [`QueueModel::ecn`].
    pub ecn: Option<bool>,
    /// See [`PipeModel::rate`].
    pub rate: Option<RateModel>,
    /// See [`PipeModel::arq`].
    pub arq: Option<Option<ArqModel>>,
    /// See [`PipeModel::loss`].
    pub loss: Option<LossModel>,
    /// See [`DelayModel::base`].
    pub base_delay: Option<BaseDelay>,
    /// See [`DelayModel::jitter`].
    pub jitter: Option<Option<JitterModel>>,
}

impl ModelChange {
    /// Gives `model` the new values.
    pub(crate) fn apply(&self, model: &mut PipeModel) {
        let Self {
            mtu_bytes,
            duplicate,
            corrupt,
            queue_limit,
            discipline,
            ecn,
            rate,
            arq,
            loss,
            base_delay,
            jitter,
        } = self;
        set(&mut model.mtu_bytes, mtu_bytes.as_ref());
        set(&mut model.duplicate, duplicate.as_ref());
        set(&mut model.corrupt, corrupt.as_ref());
        set(&mut model.queue.limit, queue_limit.as_ref());
        set(&mut model.queue.discipline, discipline.as_ref());
        set(&mut model.queue.ecn, ecn.as_ref());
        set(&mut model.rate, rate.as_ref());
        set(&mut model.arq, arq.as_ref());
        set(&mut model.loss, loss.as_ref());
        set(&mut model.delay.base, base_delay.as_ref());
        set(&mut model.delay.jitter, jitter.as_ref());
    }

    /// Takes out the parameters that `other` changes, too.
    pub(crate) fn leave_out(&mut self, other: &Self) {
        self.combine(other, false);
    }

    /// Takes over the parameters that `other` changes.
    pub(crate) fn take_in(&mut self, other: &Self) {
        self.combine(other, true);
    }

    fn combine(&mut self, other: &Self, takes: bool) {
        let Self {
            mtu_bytes,
            duplicate,
            corrupt,
            queue_limit,
            discipline,
            ecn,
            rate,
            arq,
            loss,
            base_delay,
            jitter,
        } = other;
        combine(&mut self.mtu_bytes, mtu_bytes.as_ref(), takes);
        combine(&mut self.duplicate, duplicate.as_ref(), takes);
        combine(&mut self.corrupt, corrupt.as_ref(), takes);
        combine(&mut self.queue_limit, queue_limit.as_ref(), takes);
        combine(&mut self.discipline, discipline.as_ref(), takes);
        combine(&mut self.ecn, ecn.as_ref(), takes);
        combine(&mut self.rate, rate.as_ref(), takes);
        combine(&mut self.arq, arq.as_ref(), takes);
        combine(&mut self.loss, loss.as_ref(), takes);
        combine(&mut self.base_delay, base_delay.as_ref(), takes);
        combine(&mut self.jitter, jitter.as_ref(), takes);
    }
}

fn set<V: Clone>(place: &mut V, value: Option<&V>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

/// Where `other` has a value, the place gets it (`takes`) or loses its own.
fn combine<V: Clone>(place: &mut Option<V>, other: Option<&V>, takes: bool) {
    if other.is_some() {
        *place = other.filter(|_| takes).cloned();
    }
}

/// How a pipe carries packets at present, apart from its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// As the model says.
    #[default]
    Carrying,
    /// Nothing is sent; packets wait in the queue until it overflows, and go on afterwards.
    Outage,
    /// Whatever is put in vanishes; what was in already still arrives.
    Blackhole,
}
