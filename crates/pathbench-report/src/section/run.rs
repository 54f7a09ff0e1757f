//! Everything about one run: why it is valid or not, its directions, impacts of events, phases, events, parameters and
//! kernel counters.

use super::paths::{path_cells, path_columns};
use super::{Block, Cell, Finding, Row, Section, Table, Value, number, words};
use crate::narrative::{self, Tone, diagnosis};
use crate::pattern::bound_mark;
use crate::quantity::{Unit, duration, rate};
use crate::view::{View, value_text, variant_text};
use pathbench_record::document::{DelayRecord, Impact, Phase, RunRecord};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::Side;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// Events beyond this are left to `events.jsonl`.
const MOST_EVENTS: usize = 200;

pub(crate) fn sections(view: &View, run: &RunRecord) -> Vec<Section> {
    let paths = run.paths.iter().map(|path| Row::new(path_cells(view, path, path.share))).collect();
    let all = [
        Some(Section::new("", "", vec![Block::Findings(findings(run))])),
        directions(run),
        Section::of_table("Impact of the events", "", impacts(run)),
        Section::of_table("Phases", "", phases(view, run)),
        Section::of_table("Paths", "", Table { columns: path_columns(), rows: paths }),
        super::links::emulated(view, run),
        super::links::packets(view, run),
        super::links::routers(run),
        super::links::probes(view, run),
        events(view, run),
        Section::of_table("Parameters as asked", "", parameters(&run.parameters.asked)),
        Section::of_table("Parameters in force", "", parameters(&run.parameters.in_force)),
        Section::of_table("Kernel counters that changed", "", counters(run)),
    ];
    all.into_iter().flatten().collect()
}

fn application(run: &RunRecord) -> Vec<String> {
    let ping = run.ping.as_ref().map(|ping| {
        let median = ping.median_ms.map_or("no answer".to_owned(), duration);
        if ping.lost > 0 { format!("{median}, {} of {} lost", ping.lost, ping.sent) } else { median }
    });
    let delay = run.delay_ms.as_ref().map(|delay| {
        let of = |figure: &str, ms: f64| format!("{}{}", bound_mark(delay, figure), duration(ms));
        format!("p95 {}, slowest {}", of("delay_p95_ms", delay.p95), of("delay_max_ms", delay.max))
    });
    let late = run.delay_ms.as_ref().filter(|delay| delay.late > 0);
    let late = late.map(|delay| format!("{} of {} never acknowledged", delay.late, delay.messages));
    let completion = run.completion_ms.map(|ms| format!("completed in {}", duration(ms)));
    [ping, delay, late, completion].into_iter().flatten().collect()
}

/// `mptcp · 1.26 Gbit/s · stall 190 ms`.
pub(crate) fn in_short(run: &RunRecord, several_patterns: bool) -> String {
    let mut parts = vec![run.label.clone()];
    parts.extend((!run.variant.is_empty()).then(|| variant_text(&run.variant)));
    parts.extend((!run.valid).then(|| "not valid".to_owned()));
    parts.extend(several_patterns.then(|| run.pattern.clone()));
    parts.extend(application(run));
    // Messages are too few for goodput to mean anything.
    if run.delay_ms.is_none() && run.ping.is_none() {
        parts.extend(run.goodput_mbps.map(rate));
        parts.extend(run.stall_ms.map(|stall| format!("stall {}", duration(stall))));
    }
    let recovery = run.recovery_ms.filter(|recovery| *recovery > 0.0);
    parts.extend(recovery.map(|recovery| format!("recovery {}", duration(recovery))));
    if !run.completed {
        parts.push("did not complete".to_owned());
        parts.extend(run.hung_ms.map(|hung| format!("gave up after {}", duration(hung))));
    }
    parts.join(" · ")
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn findings(run: &RunRecord) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut add = |tone, subject: &str, text: String| findings.push(Finding::new(tone, subject, text));
    for reason in &run.invalid_because {
        add(Tone::Bad, "Not valid:", reason.clone());
    }
    if let Some(error) = &run.error {
        add(Tone::Bad, "Error:", error.clone());
    }
    if run.multipath.requested {
        let total = run.multipath.subflows_total;
        let total = total.map_or(String::new(), |total| format!(" Subflows ever opened: {total}."));
        let (tone, used) = if run.multipath.used { (Tone::Good, "used") } else { (Tone::Bad, "not used") };
        add(tone, &format!("Multipath {used}:"), sentence(&run.multipath.reason) + &total);
    }
    if let Some(server) = &run.server {
        add(Tone::Neutral, "Server:", server.clone());
    }
    if run.encrypted {
        add(Tone::Neutral, "Encrypted:", narrative::encryption_of(run));
    }
    if let Some(handshake) = run.handshake_ms {
        add(Tone::Neutral, "Handshake:", duration(handshake));
    }
    if let Some(handover) = &run.handover {
        add(Tone::Neutral, "Handover:", sentence(&narrative::handover(handover)));
    }
    for change in &run.touched_by {
        add(Tone::Bad, "The network changed by itself:", sentence(change));
    }
    for note in &run.notes {
        add(Tone::Neutral, "", note.clone());
    }
    for link in run.links.iter().filter(|link| !link.within_tolerance) {
        add(Tone::Bad, &format!("Link {} out of tolerance:", link.name), link.deviations.join("; "));
    }
    for one in &run.diagnoses {
        let tone = if diagnosis::is_trouble(one) { Tone::Bad } else { Tone::Neutral };
        let side = if one.side == Side::Server { " (server's data)" } else { "" };
        let remedy = if one.remedy.is_empty() { String::new() } else { format!(" Remedy: {}", one.remedy) };
        add(tone, &format!("{}{side}:", diagnosis::finding(one)), sentence(&one.because) + &remedy);
    }
    findings
}

fn directions(run: &RunRecord) -> Option<Section> {
    let mut columns =
        vec![words("direction"), number("goodput"), number("delivered"), number("longest stall")];
    let with_delays = run.directions.iter().any(|one| one.delay_ms.is_some());
    let titles = ["messages", "never acknowledged", "delay p50", "p95", "p99", "max"];
    columns.extend(titles.into_iter().filter(|_| with_delays).map(number));
    let rows = run.directions.iter().map(|one| {
        let mut cells = vec![
            Cell::text(one.direction.name()),
            Cell::quantity(one.goodput_mbps, Unit::Rate),
            Cell::bytes(one.delivered_bytes),
            Cell::quantity(one.stall_ms, Unit::Duration),
        ];
        if with_delays {
            match &one.delay_ms {
                Some(delay) => cells.extend(delay_cells(delay)),
                None => cells.extend(titles.map(|_| Cell::absent())),
            }
        }
        Row::new(cells)
    });
    let rows: Vec<Row> = rows.collect();
    if rows.len() < 2 { None } else { Section::of_table("Directions", "", Table { columns, rows }) }
}

fn delay_cells(delay: &DelayRecord) -> Vec<Cell> {
    let of = |figure: &str, ms: f64| Cell::text(format!("{}{}", bound_mark(delay, figure), duration(ms)));
    vec![
        Cell::count(delay.messages),
        Cell::count(delay.late).bad(delay.late > 0),
        of("delay_p50_ms", delay.p50),
        of("delay_p95_ms", delay.p95),
        of("delay_p99_ms", delay.p99),
        of("delay_max_ms", delay.max),
    ]
}

fn impacts(run: &RunRecord) -> Table {
    let mut columns = vec![words("event"), words("direction")];
    columns.extend(["at", "before", "after", "dip", "recovery", "stall"].map(number));
    let row = |one: &Impact| {
        Row::new(vec![
            Cell::text(format!("{} {}", one.kind, one.path.as_deref().unwrap_or_default())),
            Cell::text(one.direction.name()),
            Cell::quantity(one.at_ms, Unit::Duration),
            Cell::quantity(one.before_mbps, Unit::Rate),
            Cell::quantity(one.settled_mbps, Unit::Rate),
            Cell::quantity(one.dip, Unit::Percent),
            Cell::quantity(one.recovery_ms, Unit::Duration),
            Cell::quantity(one.stall_ms, Unit::Duration),
        ])
    };
    Table { columns, rows: run.impacts.iter().map(row).collect() }
}

fn phases(view: &View, run: &RunRecord) -> Table {
    let mut columns = vec![words("phase"), words("direction")];
    columns.extend(["from", "to", "goodput"].map(number));
    columns.extend([words("path"), words("share")]);
    let of_phase = |phase: &Phase| {
        let first = [
            Cell::text(&*phase.name),
            Cell::text(phase.direction.name()),
            Cell::quantity(phase.from_ms, Unit::Duration),
            Cell::quantity(phase.to_ms, Unit::Duration),
            Cell::quantity(phase.goodput_mbps, Unit::Rate),
        ];
        let share = |(path, part): (&String, &f64)| {
            [Cell::path(view, path), Cell::new(Value::Share { rank: view.paths.rank(path), part: *part })]
        };
        let mut shares: Vec<[Cell; 2]> = phase.shares.iter().map(share).collect();
        if shares.is_empty() {
            shares.push([Cell::absent(), Cell::absent()]);
        }
        let leading =
            |index: usize| if index == 0 { first.clone() } else { [(); 5].map(|()| Cell::text("")) };
        let row =
            |(index, share): (usize, [Cell; 2])| Row::new(leading(index).into_iter().chain(share).collect());
        shares.into_iter().enumerate().map(row).collect::<Vec<_>>()
    };
    Table { columns, rows: run.phases.iter().flat_map(of_phase).collect() }
}

fn source(event: &Event) -> &'static str {
    match event.source {
        EventSource::Scenario => "scenario",
        EventSource::Mptcp => "kernel, MPTCP",
        EventSource::Quic => "QUIC",
        EventSource::Link => "kernel, link",
        EventSource::Observer => "Pathbench",
    }
}

fn events(view: &View, run: &RunRecord) -> Option<Section> {
    let events = &view.data(run).events;
    let mut columns = vec![number("at"), number("due")];
    columns.extend(["source", "host", "event", "path", "detail"].map(words));
    let row = |event: &&Event| {
        let is_scenario = event.source == EventSource::Scenario;
        let what = if is_scenario { narrative::event_sentence(event) } else { event.kind.to_string() };
        let detail = event.detail.iter().map(|(key, value)| format!("{key}={}", value_text(value)));
        Row::new(vec![
            Cell::text(format!("{:.1} ms", event.t_ms)),
            Cell::text(event.due_ms.map_or(String::new(), |due| format!("{due:.0} ms"))),
            Cell::text(source(event)),
            Cell::text(&*event.host),
            Cell::text(what),
            event.path.as_ref().map_or_else(|| Cell::text(""), |path| Cell::path(view, path)),
            Cell::text(detail.collect::<Vec<_>>().join(" ")),
        ])
    };
    let rows = events.iter().take(MOST_EVENTS).map(row).collect();
    let more = events.len() > MOST_EVENTS;
    let remark = format!("The first {MOST_EVENTS} of {} events; all are in `events.jsonl`.", events.len());
    Section::of_table("Events", if more { remark } else { String::new() }, Table { columns, rows })
}

fn parameters(all: &Map<String, Json>) -> Table {
    let row = |(key, value): (&String, &Json)| {
        Row::new(vec![Cell::text(format!("`{key}`")), Cell::text(value_text(value))])
    };
    Table { columns: vec![words("key"), words("value")], rows: all.iter().map(row).collect() }
}

fn counters(run: &RunRecord) -> Table {
    let names: BTreeSet<&String> = run.counters.values().flat_map(|side| side.keys()).collect();
    let value = |side: Side, name: &str| {
        let count = run.counters.get(&side).and_then(|side| side.get(name));
        count.map_or_else(Cell::absent, |count| Cell::text(count.to_string()))
    };
    let row = |name: &String| {
        let values = [value(Side::Client, name), value(Side::Server, name)];
        Row::new(std::iter::once(Cell::text(format!("`{name}`"))).chain(values).collect())
    };
    let columns = vec![words("counter"), number("client"), number("server")];
    Table { columns, rows: names.into_iter().map(row).collect() }
}
