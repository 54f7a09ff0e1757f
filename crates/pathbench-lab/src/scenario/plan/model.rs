//! One direction of a link as a scenario describes it, and what becomes of it in the emulator.

use pathbench_emulator::model::{
    ArqModel, BaseDelay, DelayModel, Distribution, JitterModel, LossModel, PipeModel, QueueDiscipline,
    QueueLimit, QueueModel, RateModel,
};
use pathbench_emulator::schedule::{End, RateSchedule};
pub use pathbench_record::units::QueueLimit as Queue;
use std::time::Duration;

/// One direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkModel {
    /// Rate of Ethernet frames without preamble and checksum; of IP packets where it is made of opportunities.
    pub rate: RateModel,
    /// What the queue in front of the bottleneck holds; meaningless without a rate.
    pub queue: Queue,
    /// Which packet that queue drops, and when.
    pub discipline: Discipline,
    /// Acceptable delay in the queue, for those disciplines that have one; `None` for what their RFC recommends.
    pub queue_target: Option<Duration>,
    /// `CoDel`'s interval or PIE's update period; `None` for what their RFC recommends.
    pub queue_interval: Option<Duration>,
    /// Whether the discipline marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Sending again by the arq's own means.
    pub arq: Option<ArqModel>,
    /// What is lost.
    pub loss: LossModel,
    /// One-way delay that all packets have in common.
    pub delay: BaseDelay,
    /// Size of what differs from packet to packet; zero for nothing.
    pub jitter: Duration,
    /// Shape of what differs from packet to packet.
    pub distribution: Distribution,
    /// Whether jitter may put packets out of order.
    pub reorder: bool,
    /// Probability that a packet is delivered twice, 0 to 1.
    pub duplicate: f64,
    /// Probability that a packet is damaged, 0 to 1.
    pub corrupt: f64,
}

/// Names of queue disciplines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// Drops what arrives at a full queue.
    DropTail,
    /// Drops the oldest of a full queue.
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

/// Tail index of Pareto jitter: heavy, with a mean and a variance. It is that of netem's table.
const PARETO_SHAPE: f64 = 3.0;

/// The shapes of jitter, with their names in scenarios and results.
pub const DISTRIBUTIONS: [(&str, Distribution); 4] = [
    ("uniform", Distribution::Uniform),
    ("normal", Distribution::Normal),
    ("exponential", Distribution::Exponential),
    ("pareto", Distribution::Pareto { shape: PARETO_SHAPE }),
];

impl Default for LinkModel {
    fn default() -> Self {
        Self {
            rate: RateModel::Unlimited,
            queue: Queue::Time(Duration::from_millis(100)),
            discipline: Discipline::DropTail,
            queue_target: None,
            queue_interval: None,
            ecn: false,
            arq: None,
            loss: LossModel::default(),
            delay: BaseDelay::default(),
            jitter: Duration::ZERO,
            distribution: Distribution::Uniform,
            reorder: false,
            duplicate: 0.0,
            corrupt: 0.0,
        }
    }
}

/// Some properties of a direction; what is `None` is not given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelKeys {
    /// See [`LinkModel::rate`].
    pub rate: Option<RateModel>,
    /// See [`LinkModel::queue`].
    pub queue: Option<Queue>,
    /// See [`LinkModel::discipline`].
    pub discipline: Option<Discipline>,
    /// See [`LinkModel::queue_target`].
    pub queue_target: Option<Duration>,
    /// See [`LinkModel::queue_interval`].
    pub queue_interval: Option<Duration>,
    /// See [`LinkModel::ecn`].
    pub ecn: Option<bool>,
    /// See [`LinkModel::arq`].
    pub arq: Option<ArqModel>,
    /// See [`LinkModel::loss`].
    pub loss: Option<LossModel>,
    /// See [`LinkModel::delay`].
    pub delay: Option<BaseDelay>,
    /// See [`LinkModel::jitter`].
    pub jitter: Option<Duration>,
    /// See [`LinkModel::distribution`].
    pub distribution: Option<Distribution>,
    /// See [`LinkModel::reorder`].
    pub reorder: Option<bool>,
    /// See [`LinkModel::duplicate`].
    pub duplicate: Option<f64>,
    /// See [`LinkModel::corrupt`].
    pub corrupt: Option<f64>,
}

/// A queue given as a time is never smaller than this: one burst of a sender with segmentation offload.
const SMALLEST_TIMED_QUEUE_BYTES: u64 = 65_536;

/// RFC 8289, section 4.2 and 4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);
const CODEL_INTERVAL: Duration = Duration::from_millis(100);
/// RFC 8033, section 4.2 (`QDELAY_REF` and `T_UPDATE`).
const PIE_TARGET: Duration = Duration::from_millis(15);
const PIE_UPDATE: Duration = Duration::from_millis(15);

impl LinkModel {
    /// This model with what `keys` give in its place.
    pub fn with(&self, keys: &ModelKeys) -> Self {
        let keys = keys.clone();
        Self {
            rate: keys.rate.unwrap_or_else(|| self.rate.clone()),
            queue: keys.queue.unwrap_or(self.queue),
            discipline: keys.discipline.unwrap_or(self.discipline),
            queue_target: keys.queue_target.or(self.queue_target),
            queue_interval: keys.queue_interval.or(self.queue_interval),
            ecn: keys.ecn.unwrap_or(self.ecn),
            arq: keys.arq.map_or(self.arq, |arq| (arq.retries > 0).then_some(arq)),
            loss: keys.loss.unwrap_or_else(|| self.loss.clone()),
            delay: keys.delay.unwrap_or_else(|| self.delay.clone()),
            jitter: keys.jitter.unwrap_or(self.jitter),
            distribution: keys.distribution.unwrap_or(self.distribution),
            reorder: keys.reorder.unwrap_or(self.reorder),
            duplicate: keys.duplicate.unwrap_or(self.duplicate),
            corrupt: keys.corrupt.unwrap_or(self.corrupt),
        }
    }

    /// Takes over from `present`, the model in force, what a fade may have changed.
    pub fn take_faded(&mut self, present: &PipeModel) {
        let PipeModel { rate, arq, loss, delay, .. } = present;
        self.rate.clone_from(rate);
        self.arq = *arq;
        self.loss.clone_from(loss);
        self.delay.clone_from(&delay.base);
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

    /// Whether packets are lost on the way at all.
    pub fn loses(&self) -> bool {
        self.independent_loss().is_none_or(|loss| loss > 0.0)
    }

    /// Whether the kernel's queueing disciplines without netem do all that the model asks for.
    pub fn is_plain(&self) -> bool {
        self.is_netem()
            && self.constant_delay() == Some(Duration::ZERO)
            && self.jitter.is_zero()
            && !self.loses()
    }

    /// Whether the kernel's queueing disciplines with netem do all that the model asks for.
    pub fn is_netem(&self) -> bool {
        matches!(self.rate, RateModel::Unlimited | RateModel::Constant(_))
            && self.discipline == Discipline::DropTail
            && self.arq.is_none()
            && self.constant_delay().is_some()
            && self.independent_loss().is_some()
            && (self.distribution == Distribution::Uniform || self.jitter.is_zero())
            && !self.reorders_in_netem()
            && self.duplicate == 0.0
            && self.corrupt == 0.0
    }

    /// Whether netem would put packets out of order that are to stay in order: it sends each packet at its own time
    /// (`tfifo_enqueue` of `net/sched/sch_netem.c`).
    pub fn reorders_in_netem(&self) -> bool {
        !self.jitter.is_zero() && !self.reorder
    }

    /// The queue in bytes for packets of up to `mtu_bytes`: a time counts as what the link sends meanwhile (on average,
    /// where its rate changes), at least 64 KiB; a packet counts as a full Ethernet frame. `None` without a rate,
    /// since nothing queues then.
    pub fn queue_bytes(&self, mtu_bytes: u32) -> Option<u64> {
        Some(queue_bytes(self.queue, self.mean_rate_bps()?, mtu_bytes))
    }

    /// The model of the emulated engine, for packets of up to `mtu_bytes`.
    pub fn pipe(&self, mtu_bytes: u32) -> PipeModel {
        PipeModel {
            mtu_bytes: Some(mtu_bytes),
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            queue: self.pipe_queue(mtu_bytes),
            rate: self.rate.clone(),
            arq: self.arq,
            loss: self.loss.clone(),
            delay: self.pipe_delay(),
            ..PipeModel::default()
        }
    }

    fn pipe_queue(&self, mtu_bytes: u32) -> QueueModel {
        let limit = match self.queue {
            Queue::Packets(packets) => QueueLimit::Packets(packets),
            queue => QueueLimit::Bytes(queue_bytes(queue, self.mean_rate_bps().unwrap_or(0), mtu_bytes)),
        };
        let discipline = match self.discipline {
            Discipline::DropTail => QueueDiscipline::DropTail,
            Discipline::DropHead => QueueDiscipline::DropHead,
            Discipline::CoDel => QueueDiscipline::CoDel {
                target: self.queue_target.unwrap_or(CODEL_TARGET),
                interval: self.queue_interval.unwrap_or(CODEL_INTERVAL),
            },
            Discipline::Pie => QueueDiscipline::Pie {
                target: self.queue_target.unwrap_or(PIE_TARGET),
                update: self.queue_interval.unwrap_or(PIE_UPDATE),
            },
        };
        QueueModel { limit, discipline, ecn: self.ecn }
    }

    fn pipe_delay(&self) -> DelayModel {
        let jitter =
            JitterModel { distribution: self.distribution, size: self.jitter, reorder: self.reorder };
        DelayModel { base: self.delay.clone(), jitter: (!self.jitter.is_zero()).then_some(jitter) }
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

/// What `queue` holds in bytes on a link of `rate_bps`, by the rules of [`LinkModel::queue_bytes`].
pub fn queue_bytes(queue: Queue, rate_bps: u64, mtu_bytes: u32) -> u64 {
    const ETHERNET_HEADER_BYTES: u64 = 14;
    match queue {
        Queue::Time(time) => {
            let bits = u128::from(rate_bps) * time.as_nanos() / 1_000_000_000;
            u64::try_from(bits / 8).unwrap_or(u64::MAX).max(SMALLEST_TIMED_QUEUE_BYTES)
        }
        Queue::Packets(packets) => u64::from(packets) * (u64::from(mtu_bytes) + ETHERNET_HEADER_BYTES),
        Queue::Bytes(bytes) => bytes,
    }
}
