//! The keys that describe one direction of a link: of a path or link, of one of its directions, of a preset, of an
//! event.

use super::keys;
use super::mistake::MistakeKind;
use super::plan::{DISTRIBUTIONS, Discipline, LinkModel, ModelKeys, Queue, queue_bytes};
use super::section::Section;
use super::trace_file;
use super::tree::{Item, Value};
use pathbench_emulator::model::{ArqModel, BaseDelay, Distribution, GilbertElliott, LossModel, RateModel};
use pathbench_emulator::schedule::{End, RateSchedule};
use pathbench_record::units::{Rate, Span};
use std::sync::Arc;
use std::time::Duration;

pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// Longest time that a pattern of a link's behaviour may have.
const LONGEST_PATTERN: Duration = Duration::from_secs(24 * 3_600);
/// Limits of the kernel's byte queues (`struct tc_fifo_qopt`) have 32 bits.
const LARGEST_QUEUE_BYTES: u64 = u32::MAX as u64;

/// The keys of `section` that describe a direction.
pub(super) fn keys_of(section: &Section<'_>) -> ModelKeys {
    let times = Duration::ZERO..=LONGEST_DELAY;
    let short = Duration::from_micros(1)..=Duration::from_secs(10);
    one_of(section, &["rate", "rate_steps", "rate_trace"]);
    one_of(section, &["delay", "delay_trace"]);
    one_of(section, &["loss", "burst_loss", "loss_bursts", "loss_trace"]);
    ModelKeys {
        rate: rate(section),
        queue: section.queue("queue"),
        discipline: section.choice("queue_discipline", &Discipline::NAMED),
        queue_target: section.duration("queue_target", short.clone()),
        queue_interval: section.duration("queue_interval", short),
        ecn: section.flag("ecn"),
        arq: arq(section),
        loss: loss(section),
        delay: section
            .duration("delay", times.clone())
            .map(BaseDelay::Constant)
            .or_else(|| Some(BaseDelay::Schedule(trace_file::delays(section)?))),
        jitter: section.duration("jitter", times),
        distribution: section.choice("jitter_distribution", &DISTRIBUTIONS),
        reorder: section.flag("reorder"),
        duplicate: section.fraction("duplicate"),
        corrupt: section.fraction("corrupt"),
    }
}

/// Reports what does not go together in a model that comes from the keys of `sections`, the one that counts most first.
pub(super) fn check(sections: &[&Section<'_>], model: &LinkModel, mtu_bytes: u32) {
    let owner = |key: &str| sections.iter().find(|section| section.has(key)).or(sections.last());
    let own = |keys: &[&str]| keys.iter().any(|key| sections.iter().any(|section| section.has(key)));
    let conflict = |key: &str, problem: &str, remedy: &str| {
        if let Some(section) = owner(key) {
            section.wrong(MistakeKind::Conflict, key, problem, remedy);
        }
    };
    let around_delay = matches!(model.distribution, Distribution::Uniform | Distribution::Normal);
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
        check_queue(section, model, mtu_bytes);
    }
    let manages = matches!(model.discipline, Discipline::CoDel | Discipline::Pie);
    for key in ["ecn", "queue_target", "queue_interval"] {
        if own(&[key]) && (key != "ecn" || model.ecn) && !manages {
            let problem = "a queue that is only dropped from when it is full takes no such setting";
            conflict(key, problem, "add queue_discipline = \"codel\" or \"pie\"");
        }
    }
    if model.mean_rate_bps().is_none() {
        if own(&["queue_discipline"]) && manages {
            conflict("queue_discipline", "nothing queues where the rate is unlimited", "give a rate as well");
        }
        if own(&["arq"]) && model.arq.is_some() {
            conflict("arq", "sending again takes no time where the rate is unlimited", "give a rate as well");
        }
    }
}

/// What of `model` the kernel's engine cannot do, netem or not, and the remedy.
pub(super) fn beyond_kernel(model: &LinkModel) -> Option<(&'static str, &'static str)> {
    if model.is_netem() {
        None
    } else if (LinkModel { reorder: true, ..model.clone() }).is_netem() {
        Some((
            "the kernel's engine (netem) reorders packets that have jitter",
            "allow it with reorder = true, make the link's engine \"emulated\", or leave the engine out",
        ))
    } else {
        Some((
            "the kernel's engine does rate, queue, delay, jitter and loss only, each in its simple form",
            "make the link's engine \"emulated\", or leave the engine out",
        ))
    }
}

/// Reports a queue that cannot hold one packet, or more than any engine holds.
fn check_queue(section: &Section<'_>, model: &LinkModel, mtu_bytes: u32) {
    let queue = model.queue;
    let bytes = queue_bytes(queue, model.mean_rate_bps().unwrap_or(0), mtu_bytes);
    let frame = queue_bytes(Queue::Packets(1), 0, mtu_bytes);
    let wrong = |problem: String, remedy: String| section.wrong(MistakeKind::Value, "queue", problem, remedy);
    if bytes > LARGEST_QUEUE_BYTES {
        let problem = format!("the queue `{queue}` comes to {bytes} bytes");
        wrong(problem, format!("give at most {LARGEST_QUEUE_BYTES} bytes"));
    } else if bytes < frame {
        let problem = format!("the queue `{queue}` does not hold one packet of {mtu_bytes} bytes");
        wrong(problem, format!("give at least \"{frame}B\" or \"1p\""));
    }
}

/// Reports all but the first of keys that say the same thing in different ways.
fn one_of(section: &Section<'_>, alternatives: &[&str]) {
    let mut given = alternatives.iter().filter(|key| section.has(key));
    let Some(first) = given.next() else { return };
    for key in given {
        let problem = format!("`{first}` and `{key}` are both given");
        section.wrong(MistakeKind::Conflict, key, problem, "remove one of the two");
    }
}

fn rate(section: &Section<'_>) -> Option<RateModel> {
    if section.has("rate_trace_format") && !section.has("rate_trace") {
        let remedy = "add rate_trace = \"FILE\", or remove it";
        section.wrong(MistakeKind::Conflict, "rate_trace_format", "there is no trace", remedy);
    }
    let steps = || steps(section).map(|schedule| RateModel::Steps(Arc::new(schedule)));
    section.rate_bps("rate").map(RateModel::Constant).or_else(steps).or_else(|| trace_file::rate(section))
}

const STEPS_EXAMPLE: &str = "[[\"0s\", \"40mbit\"], [\"10s\", \"30mbit\"]]";

fn steps(section: &Section<'_>) -> Option<RateSchedule> {
    let items = section.items("rate_steps")?;
    let mut steps: Vec<(Duration, u64)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let key = format!("rate_steps.{index}");
        let wrong = |problem: String, remedy: String| {
            section.ledger.add(MistakeKind::Value, &item.origin, section.key(&key), problem, remedy);
        };
        let (at, bps) = match step(item) {
            Ok(step) => step,
            Err((problem, remedy)) => {
                wrong(problem, remedy);
                continue;
            }
        };
        match steps.last() {
            None if !at.is_zero() && index == 0 => {
                wrong(format!("the first step is at {}", Span(at)), "begin at \"0s\"".to_owned());
            }
            Some((before, _)) if at <= *before => {
                let problem = format!("{} does not come after {}", Span(at), Span(*before));
                wrong(problem, "give the steps in the order of their times".to_owned());
            }
            _ => {}
        }
        steps.push((at, bps));
    }
    if items.is_empty() {
        section.wrong(MistakeKind::Value, "rate_steps", "there is no step", format!("give {STEPS_EXAMPLE}"));
    } else if !steps.is_empty() && steps.iter().all(|(_, bps)| *bps == 0) {
        section.wrong(
            MistakeKind::Value,
            "rate_steps",
            "nothing is ever sent",
            "give one step a rate above zero",
        );
    }
    (!steps.is_empty()).then_some(RateSchedule { steps, end: End::Hold })
}

/// Time and rate of one step, or what is wrong with it and what would be right.
fn step(item: &Item) -> Result<(Duration, u64), (String, String)> {
    let pair = match &item.value {
        Value::List(pair) => pair.as_slice(),
        _ => &[],
    };
    let [Item { value: Value::Text(at), .. }, Item { value: Value::Text(rate), .. }] = pair else {
        let problem = format!("`{}` is not a time and a rate", item.written());
        return Err((problem, format!("write each step as a list of two texts, as in {STEPS_EXAMPLE}")));
    };
    let at = at.parse::<Span>().map_err(|error| (error.problem, error.remedy))?.0;
    let rate = rate.parse::<Rate>().map_err(|error| (error.problem, error.remedy))?.0;
    if at > LONGEST_PATTERN || (rate != 0 && !(8_000..=100_000_000_000).contains(&rate)) {
        let problem = format!("`{}` is out of range", item.written());
        return Err((
            problem,
            "give times up to 24 hours, and \"0bit\" or \"8kbit\" to \"100gbit\"".to_owned(),
        ));
    }
    Ok((at, rate))
}

fn loss(section: &Section<'_>) -> Option<LossModel> {
    section
        .fraction("loss")
        .map(LossModel::Independent)
        .or_else(|| burst_loss(section))
        .or_else(|| loss_bursts(section))
        .or_else(|| trace_file::losses(section).map(LossModel::Schedule))
}

fn burst_loss(section: &Section<'_>) -> Option<LossModel> {
    section.get("burst_loss")?;
    let own = section.section("burst_loss");
    own.only("burst_loss", &keys::BURST_LOSS);
    let required = |key: &str, example: &str| {
        if own.table.is_some() && !own.has(key) {
            own.missing(key, example);
        }
        own.fraction(key)
    };
    let (to_bad, to_good) = (required("to_bad", "\"1%\""), required("to_good", "\"25%\""));
    let (loss_good, loss_bad) = (own.fraction("loss_good"), own.fraction("loss_bad"));
    let chain = GilbertElliott {
        to_bad: to_bad?,
        to_good: to_good?,
        loss_good: loss_good.unwrap_or(0.0),
        loss_bad: loss_bad.unwrap_or(1.0),
    };
    if chain.to_good == 0.0 && chain.loss_bad >= 1.0 && chain.to_bad > 0.0 {
        own.wrong(MistakeKind::Value, "to_good", "a burst would never end", "give more than \"0%\"");
    }
    Some(LossModel::GilbertElliott(chain))
}

fn loss_bursts(section: &Section<'_>) -> Option<LossModel> {
    section.get("loss_bursts")?;
    let own = section.section("loss_bursts");
    own.only("loss_bursts", &keys::LOSS_BURSTS);
    let required = |key: &str, example: &str| {
        if own.table.is_some() && !own.has(key) {
            own.missing(key, example);
        }
        own.duration(key, Duration::from_millis(1)..=LONGEST_PATTERN)
    };
    let (period, length) = (required("period", "\"10s\""), required("length", "\"300ms\""));
    let loss = own.fraction("loss").unwrap_or(1.0);
    let (period, length) = (period?, length?);
    if length >= period {
        let problem = format!("a burst of {} does not fit into a period of {}", Span(length), Span(period));
        own.wrong(MistakeKind::Conflict, "length", problem, "give less than the period");
    }
    Some(LossModel::Bursts { period, length, loss })
}

/// 802.11's `dot11ShortRetryLimit`; a driver counts the first attempt in.
const DEFAULT_RETRIES: u64 = 7;

fn arq(section: &Section<'_>) -> Option<ArqModel> {
    section.get("arq")?;
    let own = section.section("arq");
    own.only("arq", &keys::ARQ);
    own.table?;
    let retries = if own.has("retries") { own.integer("retries", 0..=1_000)? } else { DEFAULT_RETRIES };
    let pause = own.duration("pause", Duration::ZERO..=Duration::from_secs(1));
    Some(ArqModel { retries: retries as u32, pause: pause.unwrap_or_default() })
}
