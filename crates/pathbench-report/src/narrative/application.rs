//! What patterns with an application's eyes found: pings answered, files fetched, messages on time.

use super::{Tone, with_bounds};
use crate::pattern::Kind;
use crate::quantity::{bytes, counted, duration, percent, plain, rate, ratio};
use crate::view::{GroupView, View};
use pathbench_record::document::{DelayRecord, RunRecord};
use pathbench_record::message::MessageLine;
use serde_json::Value;

/// A person talking to a machine notices a delay from about here on (ITU-T G.114, one way, as a limit).
const NOTICED_MS: f64 = 400.0;

/// What a group did whose runs all completed; `None` where the bytes tell more than the application.
pub(super) fn through(view: &View, group: &GroupView) -> Option<(Tone, String)> {
    match group.pattern.kind {
        Kind::Ping => ping(group),
        Kind::Bulk => bulk(view, group),
        Kind::Interactive => interactive(group),
        Kind::Iperf => None,
    }
}

fn ping(group: &GroupView) -> Option<(Tone, String)> {
    let records = || group.valid_runs().filter_map(|run| run.ping.as_ref());
    let (sent, lost) = records()
        .fold((0_u32, 0_u32), |(s, l), one| (s.saturating_add(one.sent), l.saturating_add(one.lost)));
    if sent == 0 {
        return None;
    }
    let Some(found) = group.figure("ping_ms") else {
        return Some((Tone::Bad, format!("got no answer to any of {}", counted(sent, "ping"))));
    };
    let lost_text = match lost {
        0 => "none lost".to_owned(),
        lost => format!(
            "{lost} of {} lost ({})",
            counted(sent, "ping"),
            percent(f64::from(lost) / f64::from(sent))
        ),
    };
    let tone = if lost == 0 { Tone::Good } else { Tone::Mixed };
    Some((tone, format!("answered in {}, {lost_text}", with_bounds(found))))
}

fn bulk(view: &View, group: &GroupView) -> Option<(Tone, String)> {
    let found = group.figure("completion_ms")?;
    let size = group.runs.iter().find_map(|run| run.parameters.asked.get("bytes")).and_then(Value::as_u64);
    let what = size.map_or("everything".to_owned(), |size| plain(&bytes(size)));
    let than = fastest_single_path(view, group)
        .map(|(label, factor)| format!(", {} the time of {label}", ratio(factor)))
        .unwrap_or_default();
    Some((Tone::Good, format!("fetched {what} in {}{than}", with_bounds(found))))
}

/// The label on one path that was fastest in the same variant, and this group's time as a multiple of its.
fn fastest_single_path<'a>(view: &View<'a>, group: &GroupView<'a>) -> Option<(&'a str, f64)> {
    let own = group.median("completion_ms").filter(|_| group.is_multipath())?;
    let timed = super::single_paths(view, group)
        .into_iter()
        .filter_map(|one| Some((one.label, one.median("completion_ms").filter(|ms| *ms > 0.0)?)));
    let (label, best) = timed.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((label, own / best))
}

fn interactive(group: &GroupView) -> Option<(Tone, String)> {
    let records = || group.valid_runs().filter_map(|run| run.delay_ms.as_ref());
    let (p50, p95, max) =
        (group.figure("delay_p50_ms")?, group.figure("delay_p95_ms")?, group.figure("delay_max_ms")?);
    let sum = |of: fn(&DelayRecord) -> u32| records().map(of).fold(0, u32::saturating_add);
    let (messages, late) = (sum(|one| one.messages), sum(|one| one.late));
    if late == 0 {
        let tone = if max.median > NOTICED_MS { Tone::Mixed } else { Tone::Good };
        let text = format!(
            "got its messages through in {} in the median, 95 % of them within {}, the slowest in {}",
            duration(p50.median),
            with_bounds(p95),
            with_bounds(max)
        );
        return Some((tone, text));
    }
    // What was cut off by the end of the run took at least as long as is written down.
    let [p50_mark, p95_mark] = ["delay_p50_ms", "delay_p95_ms"].map(|name| group.bound_mark(name));
    let tone = if p95_mark.is_empty() { Tone::Mixed } else { Tone::Bad };
    let text = format!(
        "left {late} of {} without acknowledgement; delay {p50_mark}{} in the median, {p95_mark}{} at 95 %, the \
         slowest ≥ {}",
        counted(messages, "message"),
        duration(p50.median),
        duration(p95.median),
        duration(max.median)
    );
    Some((tone, text))
}

/// More on a group: what each direction felt, the loss of a ping, the handshake.
pub(super) fn details(view: &View, group: &GroupView) -> Vec<String> {
    let mut details = Vec::new();
    if group.pattern.kind == Kind::Interactive {
        details.extend(directions(group));
        details.extend(after_event(view, group));
        details.extend(one_path(group));
    }
    if group.pattern.kind == Kind::Bulk {
        details.extend(bulk_goodput(group));
    }
    details
}

fn directions(group: &GroupView) -> Option<String> {
    let run = group.representative()?;
    let told: Vec<String> = run
        .directions
        .iter()
        .filter_map(|one| Some((one.direction.name(), one.delay_ms.as_ref()?)))
        .map(|(name, delay)| {
            let late =
                if delay.late > 0 { format!(", {} never acknowledged", delay.late) } else { String::new() };
            format!("{name} p95 {}, slowest {}{late}", duration(delay.p95), duration(delay.max))
        })
        .collect();
    (told.len() > 1).then(|| format!("by direction, in {}: {}", run.id, told.join("; ")))
}

/// The slowest message that was under way when the first event took place, or became due within the next second.
fn after_event(view: &View, group: &GroupView) -> Option<String> {
    let run = group.representative()?;
    let data = view.data(run);
    let event = data.scenario_events().find(|event| super::is_disruption(event))?;
    let hit = |line: &&&MessageLine| {
        line.delay_ms.is_finite()
            && line.due_ms <= event.t_ms + 1000.0
            && line.due_ms + line.delay_ms >= event.t_ms
    };
    let slowest = data.messages.iter().filter(hit).map(|line| line.delay_ms).reduce(f64::max)?;
    let what = super::event_sentence(event);
    Some(format!("when {what}, the slowest message took {} in {}", duration(slowest), run.id))
}

fn one_path(group: &GroupView) -> Option<String> {
    let one = |run: &&RunRecord| run.multipath.requested && run.multipath.negotiated && !run.multipath.used;
    let runs = group.valid_runs().filter(one).count() as u32;
    (runs > 0)
        .then(|| format!("multipath negotiated, but only one path carried data in {}", counted(runs, "run")))
}

fn bulk_goodput(group: &GroupView) -> Option<String> {
    let (goodput, handshake) = (group.median("goodput_mbps")?, group.median("handshake_ms")?);
    Some(format!("{} once data flowed, after a handshake of {}", rate(goodput), duration(handshake)))
}
