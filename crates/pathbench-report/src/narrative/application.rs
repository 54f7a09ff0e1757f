//! Results of ping, bulk and interactive traffic: answered pings, fetched files, delays of messages.

use super::event::event_sentence;
use super::verdict::Tone;
use crate::pattern::Kind;
use crate::quantity::{bytes, counted, duration, percent, plain, rate, with_bounds};
use crate::view::{GroupView, View};
use pathbench_record::document::RunRecord;
use pathbench_record::end::MessageLine;
use serde_json::Value;

/// Users notice a longer delay (limit of one-way delay in ITU-T G.114).
const NOTICED_MS: f64 = 400.0;

pub(super) fn headline(view: &View, group: &GroupView) -> Option<(Tone, String)> {
    match group.pattern.kind {
        Kind::Ping => ping(group),
        Kind::Bulk => bulk(view, group),
        Kind::Interactive => interactive(group),
        Kind::Responsiveness => responsiveness(group),
        Kind::Throughput | Kind::Datagrams => None,
    }
}

fn ping(group: &GroupView) -> Option<(Tone, String)> {
    let (lost, sent) = group.lost_and_all();
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
    Some((tone, format!("answered in {}, {lost_text}", with_bounds(found, duration))))
}

fn bulk(view: &View, group: &GroupView) -> Option<(Tone, String)> {
    let found = group.figure("fct_ms")?;
    let size = group.runs.iter().find_map(|run| run.parameters.asked.get("bytes")).and_then(Value::as_u64);
    let what = size.map_or("everything".to_owned(), |size| plain(&bytes(size)));
    let than = view
        .against_single_path(group, "fct_ms", |factor, label| format!("{factor} the time of {label}"))
        .map(|than| format!(", {than}"))
        .unwrap_or_default();
    Some((Tone::Good, format!("fetched {what} in {}{than}", with_bounds(found, duration))))
}

fn responsiveness(group: &GroupView) -> Option<(Tone, String)> {
    let loaded = group.figure("self_loaded_p50_ms")?;
    let of = |name: &str| group.median(name).map(duration);
    let idle = of("self_idle_p50_ms").map_or(String::new(), |idle| format!(" ({idle} idle)"));
    let foreign = of("foreign_loaded_p50_ms").map_or(String::new(), |under_load| {
        let idle = of("foreign_idle_p50_ms").map_or(String::new(), |idle| format!(" ({idle} idle)"));
        format!(", on a new connection in {under_load}{idle}")
    });
    let tone = if loaded.median > NOTICED_MS { Tone::Mixed } else { Tone::Good };
    let answered = with_bounds(loaded, duration);
    Some((tone, format!("answered under load in {answered}{idle}{foreign}")))
}

fn interactive(group: &GroupView) -> Option<(Tone, String)> {
    let (p50, p95, max) =
        (group.figure("delay_p50_ms")?, group.figure("delay_p95_ms")?, group.figure("delay_max_ms")?);
    let (unacknowledged, messages) = group.lost_and_all();
    if unacknowledged == 0 {
        let tone = if max.median > NOTICED_MS { Tone::Mixed } else { Tone::Good };
        let text = format!(
            "delivered its messages in {} in the median, 95 % of them within {}, the slowest in {}",
            duration(p50.median),
            with_bounds(p95, duration),
            with_bounds(max, duration)
        );
        return Some((tone, text));
    }
    // The delay of an unacknowledged message is a lower bound.
    let [p50_mark, p95_mark] = ["delay_p50_ms", "delay_p95_ms"].map(|name| group.bound_mark(name));
    let tone = if p95_mark.is_empty() { Tone::Mixed } else { Tone::Bad };
    let text = format!(
        "left {unacknowledged} of {} without acknowledgement; delay {p50_mark}{} in the median, {p95_mark}{} at 95 %, the \
         slowest ≥ {}",
        counted(messages, "message"),
        duration(p50.median),
        duration(p95.median),
        duration(max.median)
    );
    Some((tone, text))
}

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
    let parts = run.directions.iter().filter_map(|one| {
        let (name, delay) = (one.direction.name(), one.delay_ms.as_ref()?);
        let unacknowledged = match delay.unacknowledged {
            0 => String::new(),
            count => format!(", {count} unacknowledged"),
        };
        Some(format!("{name} p95 {}, slowest {}{unacknowledged}", duration(delay.p95), duration(delay.max)))
    });
    let parts: Vec<String> = parts.collect();
    (parts.len() > 1).then(|| format!("by direction, in {}: {}", run.id, parts.join("; ")))
}

/// The slowest of the messages in flight at the first event or due within the next second.
fn after_event(view: &View, group: &GroupView) -> Option<String> {
    let run = group.representative()?;
    let data = view.data(run);
    let event = data.scenario_events().find(|event| event.kind.is_disruptive())?;
    let hit = |line: &&MessageLine| {
        line.delay_ms.is_finite()
            && line.due_ms <= event.t_ms + 1000.0
            && line.due_ms + line.delay_ms >= event.t_ms
    };
    let slowest = data.messages.iter().filter(hit).map(|line| line.delay_ms).reduce(f64::max)?;
    let what = event_sentence(event);
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
