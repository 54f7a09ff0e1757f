//! The table of link parameters.

use crate::model::{
    ArqModel, BaseDelay, Discipline, GilbertElliott, JitterDistribution, LinkChange, LinkModel, LossModel,
    PolicerModel, QueueIsolation, RateModel,
};
use crate::schedule::{DelaySchedule, LossSchedule, RateSchedule};
use pathbench_record::network::ETHERNET_HEADER_BYTES;
use pathbench_record::units::QueueLimit;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

/// The engines that support a parameter's value; the emulated engine supports all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engines {
    /// The kernel's qdiscs, with or without netem.
    Kernel,
    /// The kernel with netem.
    Netem,
    Emulated,
}

/// A parameter of one direction of a link.
#[derive(Debug)]
pub struct LinkParameter {
    pub key: &'static str,
    pub kind: ParameterKind,
    /// The field of [`LinkModel`]. A table sets one parameter of each field.
    pub field: &'static str,
    pub default: &'static str,
    /// Engines that support every value, as documented.
    pub engines: Engines,
    pub documentation: &'static str,
    /// Whether the parameter is always equal in both directions.
    pub of_link: bool,
    /// The engines that support the model's value of this parameter.
    needs: fn(&LinkModel) -> Engines,
    set: fn(&Value, &mut LinkChange),
}

/// Type, unit and range of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum ParameterKind {
    /// 8 kbit/s to 100 Gbit/s.
    Rate,
    RateSteps,
    Time {
        least: Duration,
        most: Duration,
    },
    Bytes {
        least: u64,
        most: u64,
    },
    Integer {
        least: u64,
        most: u64,
    },
    Fraction,
    Flag,
    Queue,
    Choice(&'static [&'static str]),
    /// The name of a file and its content.
    Trace(TraceOf),
    Table(&'static [Field]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceOf {
    Rate,
    Delay,
    Loss,
}

/// A key of a parameter that is a table.
#[derive(Debug)]
pub struct Field {
    pub key: &'static str,
    pub kind: ParameterKind,
    /// `None`: the key is required.
    pub default: Option<Value>,
    /// Example in the message about a missing key.
    pub example: &'static str,
    pub documentation: &'static str,
}

/// A required key.
const fn needed(
    key: &'static str,
    kind: ParameterKind,
    example: &'static str,
    documentation: &'static str,
) -> Field {
    Field { key, kind, default: None, example, documentation }
}

/// An optional key.
const fn optional(
    key: &'static str,
    kind: ParameterKind,
    default: Value,
    documentation: &'static str,
) -> Field {
    Field { key, kind, default: Some(default), example: "", documentation }
}

/// A valid value of a parameter.
#[derive(Debug, Clone)]
pub enum Value {
    Rate(u64),
    RateSteps(Arc<RateSchedule>),
    Time(Duration),
    Bytes(u64),
    Integer(u64),
    Fraction(f64),
    Flag(bool),
    Queue(QueueLimit),
    Choice(&'static str),
    /// The file's name as written and its content.
    RateTrace(String, RateModel),
    DelayTrace(String, Arc<DelaySchedule>),
    LossTrace(String, Arc<LossSchedule>),
    /// A value for each [`Field`], in their order.
    Table(&'static [Field], Vec<Value>),
}

/// `parameter!(KEY, KIND, DEFAULT, ENGINES where CONDITION, PATTERN => FIELD: VALUE, DOCUMENTATION)`: `CONDITION` is
/// true for a model whose value requires `ENGINES`.
macro_rules! parameter {
    ($key:literal, $kind:expr, $default:literal, $engines:ident where $model:pat => $condition:expr,
     $value:pat => $field:ident: $set:expr, $documentation:literal) => {
        LinkParameter {
            key: $key,
            kind: $kind,
            field: stringify!($field),
            default: $default,
            engines: Engines::$engines,
            documentation: $documentation,
            of_link: false,
            needs: |$model| if $condition { Engines::$engines } else { Engines::Kernel },
            set: |value, change| {
                if let $value = value {
                    change.$field = Some($set);
                }
            },
        }
    };
}

/// A parameter of the reader of a trace.
const fn of_reader(
    key: &'static str,
    choices: &'static [&'static str],
    default: &'static str,
    documentation: &'static str,
) -> LinkParameter {
    LinkParameter {
        key,
        kind: ParameterKind::Choice(choices),
        field: key,
        default,
        engines: Engines::Emulated,
        documentation,
        of_link: false,
        needs: |_| Engines::Kernel,
        set: |_, _| {},
    }
}

const DELAY: ParameterKind = ParameterKind::Time { least: Duration::ZERO, most: Duration::from_secs(60) };
const QUEUE_DELAY: ParameterKind =
    ParameterKind::Time { least: Duration::from_micros(1), most: Duration::from_secs(10) };
/// Far above the depths of real token buckets; work in the bottleneck stays below 2⁶⁴.
const MOST_BURST_BYTES: u64 = 1_000_000_000;
const PATTERN: ParameterKind =
    ParameterKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(24 * 3_600) };
/// 802.11's `dot11ShortRetryLimit`; a driver's count includes the first attempt.
const DEFAULT_RETRIES: u64 = 7;

/// Every parameter, in the order of the documentation. A link with `engine = "auto"` uses the kernel if all parameters
/// need only [`Engines::Kernel`], because netem's decisions are neither repeatable nor counted.
pub static PARAMETERS: &[LinkParameter] = &[
    parameter!("rate", ParameterKind::Rate, "unlimited", Kernel where _ => false,
        Value::Rate(bps) => rate: RateModel::Constant(*bps),
        "rate, counted in Ethernet frames without preamble and checksum"),
    parameter!("delay", DELAY, "`\"0s\"`", Netem where model => model.constant_delay().is_some_and(|delay| !delay.is_zero()),
        Value::Time(delay) => delay: BaseDelay::Constant(*delay),
        "one-way delay"),
    parameter!("jitter", DELAY, "`\"0s\"`", Netem where model => !model.jitter.is_zero(),
        Value::Time(jitter) => jitter: *jitter,
        "largest deviation from the delay, at most the delay"),
    parameter!("loss", ParameterKind::Fraction, "`\"0%\"`", Netem where model => model.independent_loss().is_some_and(|loss| loss > 0.0),
        Value::Fraction(loss) => loss: LossModel::Independent(*loss),
        "probability that a packet is lost, independently of other packets"),
    parameter!("queue", ParameterKind::Queue, "`\"100ms\"`", Kernel where _ => false,
        Value::Queue(limit) => queue: *limit,
        "limit of the queue in front of the bottleneck"),
    parameter!("rate_steps", ParameterKind::RateSteps, "none", Emulated where model => rate_changes(model),
        Value::RateSteps(steps) => rate: RateModel::Steps(Arc::clone(steps)),
        "rates from given times on, as in `[[\"0s\", \"40mbit\"], [\"10s\", \"30mbit\"]]`; `\"0bit\"` is no service; the last \
         one stays"),
    parameter!("rate_trace", ParameterKind::Trace(TraceOf::Rate), "none", Emulated where model => rate_changes(model),
        Value::RateTrace(_, rate) => rate: rate.clone(),
        "file with a trace of the rate, see [presets.md](presets.md) for the formats"),
    of_reader(
        "rate_trace_format",
        &["auto", "mahimahi", "cellreplay", "bytes-per-second", "pensieve", "csv", "alphartc"],
        "`\"auto\"`",
        "format of `rate_trace`; `\"auto\"`: as the file looks",
    ),
    of_reader(
        "rate_trace_unit",
        &["mbit/s", "kbit/s", "bit/s", "gbit/s", "bytes/s", "kbytes/s", "mbytes/s"],
        "that of the format or column",
        "unit of the rates of `rate_trace`, required where neither the format nor the column's name has one",
    ),
    parameter!("delay_trace", ParameterKind::Trace(TraceOf::Delay), "none", Emulated where model => model.constant_delay().is_none(),
        Value::DelayTrace(_, delays) => delay: BaseDelay::Schedule(Arc::clone(delays)),
        "file with a trace of one-way delays, see [presets.md](presets.md) for the formats"),
    of_reader(
        "delay_trace_format",
        &["auto", "csv", "leoreplayer", "irtt", "ping", "alphartc"],
        "`\"auto\"`",
        "format of `delay_trace`; round trips become their half",
    ),
    parameter!("jitter_distribution", ParameterKind::Choice(&["uniform", "normal", "exponential", "pareto", "netem-pareto"]), "`\"uniform\"`",
        Emulated where model => model.jitter_distribution != JitterDistribution::Uniform && !model.jitter.is_zero(),
        Value::Choice(name) => jitter_distribution: named(&JitterDistribution::NAMED, name),
        "`\"uniform\"` and `\"normal\"` lie around the delay, `\"exponential\"` and `\"pareto\"` (index 3) on top of it; `jitter` \
         is the half width, standard deviation, mean or scale. `\"netem-pareto\"` is netem's: from the delay - 2/3 of \
         `jitter` to the delay + 4 times `jitter`, with nearly the delay as its mean"),
    LinkParameter {
        // netem sends each packet at its own time (`tfifo_enqueue` of `net/sched/sch_netem.c`).
        needs: |model| {
            if !model.jitter.is_zero() && !model.reorder { Engines::Emulated } else { Engines::Kernel }
        },
        ..parameter!("reorder", ParameterKind::Flag, "false", Netem where _ => false,
            Value::Flag(reorder) => reorder: *reorder,
            "whether jitter may put packets out of order; otherwise none overtakes another. `engine = \"kernel\"` with jitter \
             needs `true`")
    },
    parameter!("burst_loss", ParameterKind::Table(&BURST_LOSS), "none", Emulated where model => model.independent_loss().is_none(),
        Value::Table(_, values) => loss: burst_loss(values),
        "loss in bursts, by a channel of two states (Gilbert-Elliott): a table, below"),
    parameter!("loss_bursts", ParameterKind::Table(&LOSS_BURSTS), "none", Emulated where model => model.independent_loss().is_none(),
        Value::Table(_, values) => loss: loss_bursts(values),
        "loss at regular times: a table, below"),
    parameter!("loss_trace", ParameterKind::Trace(TraceOf::Loss), "none", Emulated where model => model.independent_loss().is_none(),
        Value::LossTrace(_, losses) => loss: LossModel::Schedule(Arc::clone(losses)),
        "file with a trace of loss, see [presets.md](presets.md) for the formats"),
    of_reader(
        "loss_trace_format",
        &["auto", "csv", "irtt", "ping", "alphartc"],
        "`\"auto\"`",
        "format of `loss_trace`",
    ),
    parameter!("duplicate", ParameterKind::Fraction, "`\"0%\"`", Emulated where model => model.duplicate > 0.0,
        Value::Fraction(share) => duplicate: *share,
        "probability that a packet is delivered twice"),
    parameter!("corrupt", ParameterKind::Fraction, "`\"0%\"`", Emulated where model => model.corrupt > 0.0,
        Value::Fraction(share) => corrupt: *share,
        "probability that one bit of a packet is inverted (the receiving kernel drops it by its checksum)"),
    parameter!("queue_discipline", ParameterKind::Choice(&["drop-tail", "drop-head", "codel", "pie", "fq_codel"]), "`\"drop-tail\"`",
        Emulated where model => model.queue_discipline != Discipline::DropTail,
        Value::Choice(name) => queue_discipline: named(&Discipline::NAMED, name),
        "which packet the queue drops: `codel` is RFC 8289, `pie` RFC 8033, `fq_codel` RFC 8290 (a queue for each flow, in \
         1024 buckets)"),
    parameter!("queue_target", QUEUE_DELAY, "`\"5ms\"`, `\"15ms\"`", Emulated where _ => false,
        Value::Time(target) => queue_target: Some(*target),
        "acceptable delay in the queue of `codel`, `fq_codel` or `pie`"),
    parameter!("queue_interval", QUEUE_DELAY, "`\"100ms\"`, `\"15ms\"`", Emulated where _ => false,
        Value::Time(interval) => queue_interval: Some(*interval),
        "interval of `codel` and `fq_codel`, update period of `pie`"),
    parameter!("ecn", ParameterKind::Flag, "false", Emulated where _ => false,
        Value::Flag(ecn) => ecn: *ecn,
        "`codel`, `fq_codel` and `pie` mark ECN-capable packets instead of dropping them"),
    parameter!("arq", ParameterKind::Table(&ARQ), "none", Emulated where model => model.arq.is_some(),
        Value::Table(_, values) => arq: arq(values),
        "link-layer retransmission (ARQ): a table, below"),
    parameter!(
        "overhead",
        ParameterKind::Bytes { least: 0, most: 256 },
        "14 (Ethernet header)",
        Emulated where model => model.overhead_bytes != ETHERNET_HEADER_BYTES,
        Value::Bytes(bytes) => overhead_bytes: *bytes as u32,
        "bytes that a packet counts for rate and queue beside its IP bytes: 38 with preamble, checksum and gap of Ethernet"
    ),
    parameter!("burst", ParameterKind::Bytes { least: 0, most: MOST_BURST_BYTES }, "none; `engine = \"kernel\"`: 1 ms of the rate",
        Kernel where _ => false,
        Value::Bytes(bytes) => burst_bytes: *bytes,
        "depth of a token bucket as that of tbf: Ethernet frames of this size in total may leave at once after a pause"),
    parameter!("policer", ParameterKind::Table(&POLICER), "none", Emulated where model => model.policer.is_some(),
        Value::Table(_, values) => policer: policer(values),
        "token bucket in front of the queue that drops packets instead of delaying them: a table, below"),
    parameter!("queue_isolation", ParameterKind::Choice(&["flows", "dual-srchost", "dual-dsthost", "triple-isolate"]),
        "`\"flows\"`", Emulated where model => model.queue_isolation != QueueIsolation::Flows,
        Value::Choice(name) => queue_isolation: named(&QueueIsolation::NAMED, name),
        "parties among which `fq_codel` shares the rate, as `cake` does: flows, or source or destination addresses and then \
         their flows; `\"triple-isolate\"` divides a flow's share by the larger number of flows of its two addresses. The \
         rest of `cake` (COBALT, tins, ACK filter, collision-free hash) is not modelled"),
    parameter!("loss_correlation", ParameterKind::Fraction, "`\"0%\"`", Emulated where model => model.loss_correlation > 0.0,
        Value::Fraction(share) => loss_correlation: *share,
        "correlation ρ of `loss`, by netem's recurrence: x = (1 - ρ) × random + ρ × last x, and a packet is lost if x < \
         `loss`. x is seldom near 0 or 1, so the mean loss is not `loss`: 10 % with 25 % loses 1.7 %, 1 % with 25 % 3 \
         packets in a million. For bursts of a known mean use `burst_loss`"),
    parameter!("jitter_correlation", ParameterKind::Fraction, "`\"0%\"`",
        Emulated where model => model.jitter_correlation > 0.0 && !model.jitter.is_zero(),
        Value::Fraction(share) => jitter_correlation: *share,
        "correlation ρ of consecutive deviations from the delay: (1 - ρ) × random + ρ × last, which keeps their mean and \
         multiplies their standard deviation by √((1 - ρ) / (1 + ρ)). netem's own has no effect below 0.2 s of jitter"),
    parameter!("reorder_share", ParameterKind::Fraction, "`\"0%\"`", Emulated where model => model.reorder_share > 0.0,
        Value::Fraction(share) => reorder_share: *share,
        "probability that a packet skips the delay and so overtakes those in flight, as netem's `reorder`"),
    parameter!("reorder_correlation", ParameterKind::Fraction, "`\"0%\"`",
        Emulated where model => model.reorder_correlation > 0.0 && model.reorder_share > 0.0,
        Value::Fraction(share) => reorder_correlation: *share,
        "correlation of `reorder_share`, by the recurrence of `loss_correlation`"),
    parameter!("reorder_gap", ParameterKind::Integer { least: 1, most: 1_000_000 }, "1",
        Emulated where model => model.reorder_gap > 1 && model.reorder_share > 0.0,
        Value::Integer(gap) => reorder_gap: *gap as u32,
        "after a packet that skips the delay, `reorder_gap` - 1 packets have it: with a share of 100 %, one packet of \
         `reorder_gap` overtakes"),
    parameter!("in_flight_limit", ParameterKind::Integer { least: 0, most: 1_000_000_000 }, "0 (none)",
        Emulated where model => model.in_flight_limit > 0,
        Value::Integer(packets) => in_flight_limit: *packets as u32,
        "most packets in the delay at a time, as netem's `limit` has it; others are dropped. It caps the rate at `limit` \
         packets in each `delay`"),
    LinkParameter {
        of_link: true,
        ..parameter!("mtu", ParameterKind::Bytes { least: 68, most: 65_535 }, "1500", Kernel where _ => false,
        Value::Bytes(bytes) => mtu_bytes: *bytes as u32,
        "largest IP packet, in both directions; at least 1280 where the link has IPv6 addresses")
    },
];

static BURST_LOSS: [Field; 4] = [
    needed(
        "to_bad",
        ParameterKind::Fraction,
        "\"1%\"",
        "probability of going from the good state to the bad one, per packet",
    ),
    needed(
        "to_good",
        ParameterKind::Fraction,
        "\"25%\"",
        "probability of going back, per packet: bursts are 1 / `to_good` packets long on average",
    ),
    optional("loss_bad", ParameterKind::Fraction, Value::Fraction(1.0), "loss in the bad state"),
    optional("loss_good", ParameterKind::Fraction, Value::Fraction(0.0), "loss in the good state"),
];

static LOSS_BURSTS: [Field; 3] = [
    needed(
        "period",
        PATTERN,
        "\"10s\"",
        "from the beginning of one burst to that of the next; the first ends with the first period",
    ),
    needed("length", PATTERN, "\"300ms\"", "how long a burst lasts, less than the period"),
    optional("loss", ParameterKind::Fraction, Value::Fraction(1.0), "loss within a burst"),
];

static ARQ: [Field; 2] = [
    optional(
        "retries",
        ParameterKind::Integer { least: 0, most: 1_000 },
        Value::Integer(DEFAULT_RETRIES),
        "attempts after the first; 0 takes ARQ away",
    ),
    optional(
        "pause",
        ParameterKind::Time { least: Duration::ZERO, most: Duration::from_secs(1) },
        Value::Time(Duration::ZERO),
        "from a failed attempt to the next",
    ),
];

static POLICER: [Field; 2] = [
    needed("rate", ParameterKind::Rate, "\"10mbit\"", "rate of Ethernet frames that may pass"),
    needed(
        "burst",
        ParameterKind::Bytes { least: 0, most: MOST_BURST_BYTES },
        "\"64kB\"",
        "bytes that may pass at once after a pause; packets of more bytes never pass; 0 takes the policer away",
    ),
];

fn policer(values: &[Value]) -> Option<PolicerModel> {
    let [Value::Rate(rate_bps), Value::Bytes(burst_bytes)] = *values else { return None };
    (burst_bytes > 0).then_some(PolicerModel { rate_bps, burst_bytes })
}

fn rate_changes(model: &LinkModel) -> bool {
    !matches!(model.rate, RateModel::Unlimited | RateModel::Constant(_))
}

fn named<T: Copy, const N: usize>(known: &[(&str, T); N], name: &str) -> T {
    known.iter().find(|(known, _)| *known == name).map_or(known[0].1, |(_, value)| *value)
}

fn fraction(values: &[Value], index: usize) -> f64 {
    if let Some(Value::Fraction(fraction)) = values.get(index) { *fraction } else { 0.0 }
}

fn time(values: &[Value], index: usize) -> Duration {
    if let Some(Value::Time(time)) = values.get(index) { *time } else { Duration::ZERO }
}

fn burst_loss(values: &[Value]) -> LossModel {
    let [to_bad, to_good, loss_bad, loss_good] = [0, 1, 2, 3].map(|index| fraction(values, index));
    LossModel::GilbertElliott(GilbertElliott { to_bad, to_good, loss_good, loss_bad })
}

fn loss_bursts(values: &[Value]) -> LossModel {
    LossModel::Bursts { period: time(values, 0), length: time(values, 1), loss: fraction(values, 2) }
}

fn arq(values: &[Value]) -> Option<ArqModel> {
    let Some(Value::Integer(retries)) = values.first() else { return None };
    (*retries > 0).then(|| ArqModel { retries: *retries as u32, pause: time(values, 1) })
}

pub fn parameter(key: &str) -> Option<&'static LinkParameter> {
    PARAMETERS.iter().find(|parameter| parameter.key == key)
}

impl LinkModel {
    /// The engines that support all values of the model.
    pub fn needs(&self) -> Engines {
        let needs = PARAMETERS.iter().map(|parameter| (parameter.needs)(self));
        needs.max().unwrap_or(Engines::Kernel)
    }
}

impl LinkParameter {
    /// Sets this parameter's value in `change` and `given`, and removes another parameter of the same field.
    pub fn give(&self, value: &Value, change: &mut LinkChange, given: &mut Map<String, Json>) {
        (self.set)(value, change);
        self.take_out(given);
        let (key, json) = value.json(self.key);
        given.insert(key, json);
    }

    fn take_out(&self, given: &mut Map<String, Json>) {
        let same = PARAMETERS.iter().filter(|other| other.field == self.field);
        let keys: Vec<String> = same.map(|other| other.kind.json_key(other.key)).collect();
        given.retain(|key, _| !keys.contains(key));
    }
}

/// Replaces parameters in `outer` by those of the same field in `inner`.
pub fn overlay(outer: &mut Map<String, Json>, inner: Map<String, Json>) {
    for (key, json) in inner {
        if let Some(parameter) =
            PARAMETERS.iter().find(|parameter| parameter.kind.json_key(parameter.key) == key)
        {
            parameter.take_out(outer);
        }
        outer.insert(key, json);
    }
}

impl ParameterKind {
    /// The key in results and `events.jsonl`, with its unit.
    fn json_key(&self, key: &str) -> String {
        let unit = match self {
            Self::Rate => "_bps",
            Self::Time { .. } => "_ms",
            Self::Bytes { .. } => "_bytes",
            _ => "",
        };
        format!("{key}{unit}")
    }
}

impl Value {
    /// As in results and `events.jsonl`: a key with its unit, and a number or text.
    pub fn json(&self, key: &str) -> (String, Json) {
        let ms = |time: &Duration| Json::from(time.as_secs_f64() * 1e3);
        let (unit, json) = match self {
            Self::Rate(bps) => ("_bps", Json::from(*bps)),
            Self::Time(time) => ("_ms", ms(time)),
            Self::Bytes(bytes) => ("_bytes", Json::from(*bytes)),
            Self::Integer(number) => ("", Json::from(*number)),
            Self::Fraction(fraction) => ("", Json::from(*fraction)),
            Self::Flag(flag) => ("", Json::from(*flag)),
            Self::Queue(limit) => ("", Json::from(limit.to_string())),
            Self::Choice(name) => ("", Json::from(*name)),
            Self::RateSteps(steps) => {
                let step = |(at, bps): &(Duration, u64)| json!({ "at_ms": ms(at), "rate_bps": bps });
                ("", steps.steps.iter().map(step).collect())
            }
            Self::RateTrace(file, _) | Self::DelayTrace(file, _) | Self::LossTrace(file, _) => {
                ("", Json::from(file.as_str()))
            }
            Self::Table(fields, values) => {
                let pairs = fields.iter().zip(values).map(|(field, value)| value.json(field.key));
                ("", Json::Object(pairs.collect()))
            }
        };
        (format!("{key}{unit}"), json)
    }
}
