//! Reads the parameters of a path or link, of one of its directions, of a preset, or of an event.

use super::mistake::{At, Fault};
use super::section::ScenarioSection;
use super::tree::{Item, TomlValue as Written};
use pathbench_link::trace::{self, MAX_BYTES, RateUnit, TraceError, TraceFormat, TraceOptions};
use pathbench_link::{
    Discipline, Engines, Field, JitterDistribution, LinkChange, LinkModel, LinkParameter, LossModel,
    PARAMETERS, ParameterKind, QueueIsolation, RateModel, RateSchedule, ScheduleEnd, TraceOf, Value, overlay,
    parameter, queue_bytes,
};
use pathbench_record::file;
use pathbench_record::units::{QueueLimit, Rate, Span};
use serde_json::{Map, Value as Json};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Latest time of a step.
const LONGEST_PATTERN: Duration = Duration::from_secs(24 * 3_600);
/// Limits of the kernel's byte queues (`struct tc_fifo_qopt`) have 32 bits.
const LARGEST_QUEUE_BYTES: u64 = u32::MAX as u64;

/// HTB takes no longer bursts.
const LONGEST_BURST_S: u64 = 60;

#[derive(Debug, Default)]
pub(super) struct GivenParameters {
    pub(super) change: LinkChange,
    /// In the format of results and `events.jsonl`.
    pub(super) json: Map<String, Json>,
}

/// The models of both directions of a link, and their given parameters in the format of results.
#[derive(Debug, Clone, Default)]
pub(super) struct Directions {
    pub(super) models: [LinkModel; 2],
    pub(super) requested: [Map<String, Json>; 2],
}

/// Applies the parameters of `section`, and then the parameters of its tables `names`, to `base`.
pub(super) fn directions(
    section: &ScenarioSection<'_>,
    names: [&str; 2],
    base: impl FnOnce(&ScenarioSection<'_>) -> Directions,
) -> Directions {
    let both = read(section, |_| true);
    let mut directions = base(section);
    for ((model, requested), name) in directions.models.iter_mut().zip(&mut directions.requested).zip(names) {
        let table = section.section(name);
        let own = read(&table, |parameter| !parameter.of_link);
        *model = model.with_change(&both.change).with_change(&own.change);
        check(&[&table, section], model);
        overlay(requested, both.json.clone());
        overlay(requested, own.json);
    }
    directions
}

/// Parameters of the readers of traces, and the trace.
const TRACE_READERS: [(&str, &str); 4] = [
    ("rate_trace_format", "rate_trace"),
    ("rate_trace_unit", "rate_trace"),
    ("delay_trace_format", "delay_trace"),
    ("loss_trace_format", "loss_trace"),
];

/// The parameters given in `section`, among the parameters for which `takes` is true.
pub(super) fn read(section: &ScenarioSection<'_>, takes: impl Fn(&LinkParameter) -> bool) -> GivenParameters {
    let mut read = GivenParameters::default();
    let given = PARAMETERS.iter().filter(|parameter| takes(parameter) && section.has(parameter.key));
    let given: Vec<&LinkParameter> = given.collect();
    for (index, parameter) in given.iter().enumerate() {
        let key = parameter.key;
        if let Some(first) = given[..index].iter().find(|first| first.field == parameter.field) {
            let problem = format!("`{}` and `{key}` are both given", first.key);
            section.wrong(key, problem, "remove one of the two");
        }
        if let Some(value) = value(section, key, parameter.kind) {
            parameter.give(&value, &mut read.change, &mut read.json);
        }
    }
    for (reader, trace) in TRACE_READERS {
        let is_given = |key: &str| given.iter().any(|parameter| parameter.key == key);
        if is_given(reader) && !is_given(trace) {
            section.wrong(reader, "there is no trace", format!("add {trace} = \"FILE\", or remove it"));
        }
    }
    check_bursts(section, &read.change);
    read
}

/// The value of `key`; `None` if it is absent or invalid.
pub(super) fn value(section: &ScenarioSection<'_>, key: &str, kind: ParameterKind) -> Option<Value> {
    Some(match kind {
        ParameterKind::Rate => Value::Rate(section.rate_bps(key)?),
        ParameterKind::RateSteps => Value::RateSteps(Arc::new(steps(section, key)?)),
        ParameterKind::Time { least, most } => Value::Time(section.duration(key, least..=most)?),
        ParameterKind::Bytes { least, most } => Value::Bytes(section.bytes(key, least..=most)?),
        ParameterKind::Integer { least, most } => Value::Integer(section.integer(key, least..=most)?),
        ParameterKind::Fraction => Value::Fraction(section.fraction(key)?),
        ParameterKind::Flag => Value::Flag(section.flag(key)?),
        ParameterKind::Queue => Value::Queue(section.queue(key)?),
        ParameterKind::Choice(names) => {
            let known: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
            Value::Choice(section.choice(key, &known)?)
        }
        ParameterKind::Trace(of) => trace(section, key, of)?,
        ParameterKind::Table(fields) => Value::Table(fields, table(section, key, fields)?),
    })
}

fn table(section: &ScenarioSection<'_>, key: &str, fields: &[Field]) -> Option<Vec<Value>> {
    let own = section.section(key);
    own.table?;
    let values: Vec<_> = fields
        .iter()
        .map(|field| {
            if own.has(field.key) {
                return value(&own, field.key, field.kind);
            }
            if field.default.is_none() {
                own.report_missing(field.key, field.example);
            }
            field.default.clone()
        })
        .collect();
    values.into_iter().collect()
}

fn check_bursts(section: &ScenarioSection<'_>, change: &LinkChange) {
    match &change.loss {
        Some(LossModel::GilbertElliott(chain))
            if chain.to_good == 0.0 && chain.loss_bad >= 1.0 && chain.to_bad > 0.0 =>
        {
            let own = section.section("burst_loss");
            own.wrong("to_good", "a burst would never end", "give more than \"0%\"");
        }
        Some(LossModel::Bursts { period, length, .. }) if length >= period => {
            let (length, period) = (Span(*length), Span(*period));
            let problem = format!("a burst of {length} does not fit into a period of {period}");
            let own = section.section("loss_bursts");
            own.wrong("length", problem, "give less than the period");
        }
        _ => {}
    }
}

const STEPS_EXAMPLE: &str = "[[\"0s\", \"40mbit\"], [\"10s\", \"30mbit\"]]";

fn steps(section: &ScenarioSection<'_>, key: &str) -> Option<RateSchedule> {
    let items = section.items(key)?;
    let mut steps: Vec<(Duration, u64)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let key = format!("{}.{index}", section.locate(key).key);
        let wrong = |(problem, remedy)| section.ledger.wrong(&At::new(item.location, key), problem, remedy);
        let (at, bps) = match step(item) {
            Ok(step) => step,
            Err(fault) => {
                wrong(fault);
                continue;
            }
        };
        match steps.last() {
            None if !at.is_zero() && index == 0 => {
                wrong((format!("the first step is at {}", Span(at)), "begin at \"0s\"".to_owned()));
            }
            Some((before, _)) if at <= *before => {
                let problem = format!("{} does not come after {}", Span(at), Span(*before));
                wrong((problem, "give the steps in the order of their times".to_owned()));
            }
            _ => {}
        }
        steps.push((at, bps));
    }
    if items.is_empty() {
        section.wrong(key, "there is no step", format!("give {STEPS_EXAMPLE}"));
    } else if !steps.is_empty() && steps.iter().all(|(_, bps)| *bps == 0) {
        section.wrong(key, "nothing is ever sent", "give one step a rate above zero");
    }
    (!steps.is_empty()).then_some(RateSchedule { steps, end: ScheduleEnd::Hold })
}

/// Time and rate of one step, or the mistake in it.
fn step(item: &Item) -> Result<(Duration, u64), Fault> {
    let pair = match &item.value {
        Written::List(pair) => pair.as_slice(),
        _ => &[],
    };
    let [Item { value: Written::Text(at), .. }, Item { value: Written::Text(rate), .. }] = pair else {
        let problem = format!("`{}` is not a time and a rate", item.written());
        return Err((problem, format!("write each step as a list of two texts, as in {STEPS_EXAMPLE}")));
    };
    let at = at.parse::<Span>().map_err(|error| (error.problem, error.remedy))?.0;
    let rate = rate.parse::<Rate>().map_err(|error| (error.problem, error.remedy))?.0;
    if at > LONGEST_PATTERN || (rate != 0 && !(8_000..=100_000_000_000).contains(&rate)) {
        let problem = format!("`{}` is out of range", item.written());
        let remedy = "give times up to 24 hours, and \"0bit\" or \"8kbit\" to \"100gbit\"";
        return Err((problem, remedy.to_owned()));
    }
    Ok((at, rate))
}

/// Reads the trace in the file named by `key`. An invalid trace is a mistake in the scenario.
fn trace(section: &ScenarioSection<'_>, key: &str, of: TraceOf) -> Option<Value> {
    let name = section.text(key, "walk.trace")?.to_owned();
    let (path, bytes) = read_file(section, key, &name)?;
    let options = trace_options(section, of);
    let value: Result<Value, TraceError> = match of {
        TraceOf::Rate => trace::rate(&bytes, &options).map(|rate| Value::RateTrace(name, rate)),
        TraceOf::Delay => {
            trace::delay(&bytes, &options).map(|delays| Value::DelayTrace(name, Arc::new(delays)))
        }
        TraceOf::Loss => trace::loss(&bytes, &options).map(|losses| Value::LossTrace(name, Arc::new(losses))),
    };
    value
        .map_err(|error| {
            let problem = format!("{} is no trace: {error}", path.display());
            section.wrong(key, problem, "docs/presets.md has the formats");
        })
        .ok()
}

/// The format and unit that the scenario gives for a trace.
fn trace_options(section: &ScenarioSection<'_>, of: TraceOf) -> TraceOptions {
    let (format, unit) = match of {
        TraceOf::Rate => ("rate_trace_format", Some("rate_trace_unit")),
        TraceOf::Delay => ("delay_trace_format", None),
        TraceOf::Loss => ("loss_trace_format", None),
    };
    let choice = |key: &str| match parameter(key)?.kind {
        ParameterKind::Choice(names) => {
            let known: Vec<(&str, &'static str)> = names.iter().map(|name| (*name, *name)).collect();
            section.choice(key, &known)
        }
        _ => None,
    };
    let unit = unit.and_then(choice);
    TraceOptions {
        format: choice(format).and_then(TraceFormat::from_name),
        unit: RateUnit::ALL.into_iter().find(|known| Some(known.name()) == unit),
        ..TraceOptions::default()
    }
}

fn read_file(section: &ScenarioSection<'_>, key: &str, name: &str) -> Option<(PathBuf, Vec<u8>)> {
    let directory = PathBuf::from(section.ledger.file());
    let path = directory.parent().unwrap_or(Path::new("")).join(name);
    let mut bytes = Vec::new();
    // One byte above the limit is enough for the parser to report the size.
    let most = MAX_BYTES as u64 + 1;
    let read = file::open_named(&path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    if let Err(error) = read {
        let problem = format!("cannot read {}: {error}", path.display());
        let remedy = "give the path of a file, relative to the scenario's own directory";
        section.wrong(key, problem, remedy);
        return None;
    }
    Some((path, bytes))
}

/// Reports conflicts in a model from the keys of `sections`, which are in descending priority.
pub(super) fn check(sections: &[&ScenarioSection<'_>], model: &LinkModel) {
    let owner = |key: &str| sections.iter().find(|section| section.has(key)).or(sections.last());
    let own = |keys: &[&str]| keys.iter().any(|key| sections.iter().any(|section| section.has(key)));
    let conflict = |key: &str, problem: &str, remedy: &str| {
        if let Some(section) = owner(key) {
            section.wrong(key, problem, remedy);
        }
    };
    let around_delay =
        matches!(model.jitter_distribution, JitterDistribution::Uniform | JitterDistribution::Normal);
    if own(&["jitter", "delay", "jitter_distribution"])
        && around_delay
        && model.constant_delay().is_some_and(|delay| model.jitter > delay)
    {
        let remedy = "give a delay at least as large: no packet arrives before it is sent";
        conflict("jitter", "the jitter is larger than the delay", remedy);
    }
    if own(&["queue", "rate", "rate_steps", "rate_trace"])
        && let Some(section) = owner("queue")
    {
        check_queue(section, model);
    }
    let manages = matches!(model.queue_discipline, Discipline::CoDel | Discipline::Pie | Discipline::FqCoDel);
    for key in ["ecn", "queue_target", "queue_interval"] {
        if own(&[key]) && (key != "ecn" || model.ecn) && !manages {
            let problem = "only active queue management (codel, pie, fq_codel) has this setting";
            conflict(key, problem, "add queue_discipline = \"codel\", \"pie\" or \"fq_codel\"");
        }
    }
    for (key, problem, remedy) in dependent_conflicts(model) {
        if own(&[key]) {
            conflict(key, problem, remedy);
        }
    }
    if model.mean_rate_bps().is_none() {
        if own(&["queue_discipline"]) && manages {
            conflict("queue_discipline", "a link of unlimited rate has no queue", "give a rate as well");
        }
        if own(&["arq"]) && model.arq.is_some() {
            let problem = "retransmission takes no time where the rate is unlimited";
            conflict("arq", problem, "give a rate as well");
        }
    }
}

/// Parameters that have no effect, or none with a meaning, beside the model's others: key, problem, remedy.
fn dependent_conflicts(model: &LinkModel) -> Vec<(&'static str, &'static str, &'static str)> {
    let no_delay = model.constant_delay().is_some_and(|delay| delay.is_zero());
    let full_frame = u64::from(model.mtu_bytes) + u64::from(model.overhead_bytes);
    let by_bits = matches!(model.rate, RateModel::Constant(_) | RateModel::Steps(_));
    let conflicts = [
        (
            model.queue_isolation != QueueIsolation::Flows && model.queue_discipline != Discipline::FqCoDel,
            "queue_isolation",
            "a single queue has no flows to isolate",
            "add queue_discipline = \"fq_codel\"",
        ),
        (
            model.burst_bytes > 0 && !by_bits,
            "burst",
            "a token bucket needs a rate in bits per second",
            "give rate or rate_steps as well, or leave burst out",
        ),
        (
            model
                .mean_rate_bps()
                .is_some_and(|bps| model.burst_bytes.saturating_mul(8) / bps > LONGEST_BURST_S),
            "burst",
            "the burst lasts longer than 60 s at the rate",
            "give fewer bytes",
        ),
        (
            model.policer.is_some_and(|policer| policer.burst_bytes < full_frame),
            "policer",
            "the policer's burst does not hold one full packet, which would never pass",
            "give burst at least the MTU and 14 bytes, or 0 for no policer",
        ),
        (
            model.loss_correlation > 0.0 && model.independent_loss().is_none(),
            "loss_correlation",
            "only `loss` can be correlated: bursts and traces of losses say which packets are lost together",
            "give loss, or leave loss_correlation out",
        ),
        (
            model.loss_correlation > 0.0 && model.arq.is_some(),
            "loss_correlation",
            "link-layer retransmission makes attempts whose losses have no correlation",
            "leave arq or loss_correlation out",
        ),
        (
            model.reorder_share > 0.0 && no_delay,
            "reorder_share",
            "without a delay no packet can skip it",
            "give delay as well",
        ),
        (
            model.reorder_share >= 1.0 && model.reorder_gap <= 1,
            "reorder_share",
            "every packet skips the delay, so none overtakes another",
            "give less than 100%, or reorder_gap = 2 or more",
        ),
        (
            model.in_flight_limit > 0 && no_delay,
            "in_flight_limit",
            "without a delay no packet is in flight",
            "give delay as well, or limit the queue",
        ),
    ];
    let found = conflicts.into_iter().filter(|(conflicts, ..)| *conflicts);
    found.map(|(_, key, problem, remedy)| (key, problem, remedy)).collect()
}

/// Reports a queue that is too small for one packet, or larger than the limit of the engines.
fn check_queue(section: &ScenarioSection<'_>, model: &LinkModel) {
    let (queue, mtu_bytes) = (model.queue, model.mtu_bytes);
    let bytes = queue_bytes(queue, model.mean_rate_bps().unwrap_or(0), mtu_bytes);
    let frame = queue_bytes(QueueLimit::Packets(1), 0, mtu_bytes);
    let wrong = |problem: String, remedy: String| section.wrong("queue", problem, remedy);
    if bytes > LARGEST_QUEUE_BYTES {
        let problem = format!("the queue `{queue}` comes to {bytes} bytes");
        wrong(problem, format!("give at most {LARGEST_QUEUE_BYTES} bytes"));
    } else if bytes < frame {
        let problem = format!("the queue `{queue}` does not hold one packet of {mtu_bytes} bytes");
        wrong(problem, format!("give at least \"{frame}B\" or \"1p\""));
    }
}

/// The reason why the kernel's engine, with or without netem, does not support `model`, and the remedy.
pub(super) fn beyond_kernel(model: &LinkModel) -> Option<(&'static str, &'static str)> {
    if model.needs() <= Engines::Netem {
        None
    } else if (LinkModel { reorder: true, ..model.clone() }).needs() <= Engines::Netem {
        Some((
            "the kernel's engine (netem) reorders packets that have jitter",
            "allow it with reorder = true, make the link's engine \"emulated\", or leave the engine out",
        ))
    } else {
        Some((
            "the kernel's engine does rate, burst, queue, delay, jitter and loss only, each in its simple form",
            "make the link's engine \"emulated\", or leave the engine out",
        ))
    }
}
