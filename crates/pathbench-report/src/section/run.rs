//! Everything about one run: its validity with reasons, its directions, impacts of events, phases, events, parameters
//! and kernel counters.

use super::content::{Block, Cell, Finding, Items, Section};
use super::paths::{Carried, path_columns};
use crate::narrative::{self, Tone, claim, diagnosis, limit};
use crate::pattern::bound_mark;
use crate::quantity::{Unit, duration, percent, rate};
use crate::view::{View, value_text, variant_text};
use pathbench_record::datagram::DatagramRecord;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DelayRecord, DirectionRecord, FailbackAbsence, OpeningOutcome, RunRecord};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::response::ProbeKind;
use pathbench_record::sample::Side;
use pathbench_record::text::three_digits;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

const MOST_EVENTS: usize = 200;

pub(crate) fn sections(view: &View, run: &RunRecord) -> Vec<Section> {
    let paths = Items::new(run.paths.iter().map(|path| Carried {
        label: String::new(),
        variant: &run.variant,
        path,
        share: path.share,
        evenness: None,
    }));
    let all = [
        Some(Section::new("", "", vec![Block::Findings(findings(run))])),
        super::response::of_run(run),
        directions(run),
        datagrams(run),
        impacts(run),
        failbacks(view, run),
        phases(view, run),
        path_columns(view, paths).section("Paths", ""),
        super::links::emulated(view, run),
        super::links::packets(view, run),
        super::links::routers(run),
        super::links::probes(view, run),
        events(view, run),
        parameters("Parameters as asked", &run.parameters.asked),
        parameters("Parameters in force", &run.parameters.in_force),
        counters(run),
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
    let unacknowledged = run.delay_ms.as_ref().filter(|delay| delay.unacknowledged > 0);
    let unacknowledged =
        unacknowledged.map(|delay| format!("{} of {} unacknowledged", delay.unacknowledged, delay.messages));
    let response = run.responsiveness.as_ref().and_then(|one| {
        let loaded = one.loaded(ProbeKind::Own, |delay| delay.p50_ms)?;
        let idle = one.idle(ProbeKind::Own, |delay| delay.p50_ms);
        let idle = idle.map_or(String::new(), |idle| format!(", idle {}", duration(idle)));
        Some(format!("under load {}{idle}", duration(loaded)))
    });
    let fct = run.fct_ms.map(|ms| format!("completed in {}", duration(ms)));
    let datagrams = run.datagrams.iter().map(datagrams_in_short);
    [ping, delay, unacknowledged, response, fct].into_iter().flatten().chain(datagrams).collect()
}

pub(crate) fn in_short(run: &RunRecord, several_patterns: bool) -> String {
    let mut parts = vec![run.label.clone()];
    parts.extend((!run.variant.is_empty()).then(|| variant_text(&run.variant)));
    parts.extend((!run.valid).then(|| "not valid".to_owned()));
    parts.extend(several_patterns.then(|| run.pattern.clone()));
    parts.extend(application(run));
    // Goodput of few messages is meaningless.
    if run.delay_ms.is_none() && run.ping.is_none() && run.datagrams.is_empty() {
        parts.extend(run.goodput_mbps.map(rate));
        parts.extend(run.stall_ms.map(|stall| format!("stall {}", duration(stall))));
    }
    // A run that hung may have recovered from an earlier event; it is not what its line is about.
    let recovery = run.recovery_ms.filter(|recovery| *recovery > 0.0 && run.completed);
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
    let bad = |subject: &str, text: &str| Finding::new(Tone::Bad, subject, text);
    let neutral = |subject: &str, text: String| Finding::new(Tone::Neutral, subject, text);
    let mut findings: Vec<Finding> = run.invalid_because.iter().map(|one| bad("Not valid:", one)).collect();
    findings.extend(run.error.iter().map(|error| bad("Error:", error)));
    if run.multipath.requested {
        let total = run.multipath.subflows_total;
        let total = total.map_or(String::new(), |total| format!(" Subflows ever opened: {total}."));
        let (tone, used) = match run.multipath.used {
            true => (Tone::Good, "used"),
            false if claim::is_spare_unneeded(run) => (Tone::Neutral, "not used"),
            false => (Tone::Bad, "not used"),
        };
        let text = sentence(&run.multipath.reason) + &total;
        findings.push(Finding::new(tone, format!("Multipath {used}:"), text));
    }
    findings.extend(run.server.iter().map(|server| neutral("Server:", server.clone())));
    findings.extend(run.encrypted.then(|| neutral("Encrypted:", narrative::encryption_of(run))));
    findings.extend(run.handshake_ms.map(|ms| neutral("Handshake:", duration(ms))));
    let failed = run.opening.iter().filter(|one| one.outcome != OpeningOutcome::Opened);
    findings.extend(failed.map(|one| {
        let path = one.path.as_ref().map_or(String::new(), |path| format!(" on {path}"));
        bad("Not opened:", &format!("{}{path} after {}", one.outcome.name(), duration(one.after_ms)))
    }));
    findings.extend(run.handover.iter().map(|one| neutral("Handover:", sentence(&narrative::handover(one)))));
    findings.extend(run.touched_by.iter().map(|one| bad("The network changed by itself:", &sentence(one))));
    findings.extend(run.notes.iter().map(|note| neutral("", note.clone())));
    let deviating = run.links.iter().filter(|link| !link.within_tolerance);
    findings.extend(
        deviating.map(|one| bad(&format!("Link {} out of tolerance:", one.name), &one.deviations.join("; "))),
    );
    findings.extend(run.diagnoses.iter().map(|one| {
        let tone = if diagnosis::is_trouble(one) { Tone::Bad } else { Tone::Neutral };
        let side = if one.side == Side::Server { " (server's data)" } else { "" };
        let remedy = if one.remedy.is_empty() { String::new() } else { format!(" Remedy: {}", one.remedy) };
        let subject = format!("{}{side}:", diagnosis::finding(one));
        Finding::new(tone, subject, sentence(&one.because) + &remedy)
    }));
    findings.extend(
        run.limits
            .iter()
            .filter(|one| one.named)
            .map(|one| Finding::new(Tone::Mixed, limit::title(one), limit::explanation(one))),
    );
    findings.extend(run.cpu.iter().map(|(side, cpu)| {
        let per_gb = cpu
            .seconds_per_gb
            .map_or(String::new(), |seconds| format!(", {} s per GB", three_digits(seconds)));
        let end = if *side == Side::Client { "CPU of the client:" } else { "CPU of the server:" };
        let busiest = percent(cpu.busiest_ran);
        neutral(
            end,
            format!("{} s{per_gb}; its busiest thread ran {busiest} of the time", three_digits(cpu.seconds)),
        )
    }));
    findings
}

fn directions(run: &RunRecord) -> Option<Section> {
    if run.directions.len() < 2 {
        return None;
    }
    let mut rows = Items::new(&run.directions)
        .words("direction", |one| Cell::text(one.direction.name()))
        .number("goodput", |one| Cell::quantity(one.goodput_mbps, Unit::Rate))
        .number("delivered", |one| Cell::bytes(one.delivered_bytes))
        .number("longest stall", |one| Cell::quantity(one.stall_ms, Unit::Duration));
    if run.directions.iter().any(|one| one.delay_ms.is_some()) {
        rows = rows
            .number("messages", |one| of_delay(one, |delay| Cell::count(delay.messages)))
            .number("unacknowledged", |one| {
                of_delay(one, |delay| Cell::count(delay.unacknowledged).bad(delay.unacknowledged > 0))
            })
            .number("delay p50", |one| of_delay(one, |delay| bounded(delay, "delay_p50_ms", delay.p50)))
            .number("p95", |one| of_delay(one, |delay| bounded(delay, "delay_p95_ms", delay.p95)))
            .number("p99", |one| of_delay(one, |delay| bounded(delay, "delay_p99_ms", delay.p99)))
            .number("max", |one| of_delay(one, |delay| bounded(delay, "delay_max_ms", delay.max)));
    }
    rows.section("Directions", "")
}

/// A row for each direction, then one for each of its paths.
fn datagrams(run: &RunRecord) -> Option<Section> {
    let rows = run.datagrams.iter().flat_map(|(direction, record)| {
        let of_paths = record.paths.iter().map(|(path, figures)| (direction.name(), path.as_str(), figures));
        std::iter::once((direction.name(), "all", &record.all)).chain(of_paths)
    });
    let share = |value: Option<f64>| Cell::quantity(value, Unit::Percent);
    let time = |value: Option<f64>| Cell::quantity(value, Unit::Duration);
    Items::new(rows)
        .words("direction", |(direction, ..)| Cell::text(*direction))
        .words("path", |(_, path, _)| Cell::text(*path))
        .number("sent", |(.., one)| Cell::count(one.sent))
        .number("lost", |(.., one)| Cell::count(one.lost))
        .number("loss", |(.., one)| share(one.loss))
        .number("reordered", |(.., one)| Cell::count(one.reordered))
        .number("duplicates", |(.., one)| Cell::count(one.duplicates))
        .number("jitter", |(.., one)| time(one.jitter_ms))
        .number("late", |(.., one)| share(one.late_share))
        .number("longest gap", |(.., one)| time(one.longest_gap_ms))
        .number("delay p50", |(.., one)| time(one.delay.map(|delay| delay.p50_ms)))
        .number("p95", |(.., one)| time(one.delay.map(|delay| delay.p95_ms)))
        .number("max", |(.., one)| time(one.delay.map(|delay| delay.max_ms)))
        .section("Datagrams", "")
}

/// The line of one direction's datagrams.
fn datagrams_in_short((direction, record): (&Direction, &DatagramRecord)) -> String {
    let all = &record.all;
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let mut parts = vec![match all.loss {
        Some(loss) => format!("{} loses {} of {} ({})", direction.name(), all.lost, all.sent, percent(loss)),
        None => format!("{} sent nothing", direction.name()),
    }];
    parts.extend(all.jitter_ms.map(|ms| format!("jitter {}", duration(ms))));
    parts.extend(all.late_share.filter(|share| *share > 0.0).map(|share| format!("{} late", percent(share))));
    let redundant = record.redundant_bytes;
    parts.extend(
        (redundant > 0)
            .then(|| format!("{redundant} bytes of copies for {} bytes delivered", record.delivered_bytes)),
    );
    parts.join(", ")
}

fn of_delay(one: &DirectionRecord, cell: fn(&DelayRecord) -> Cell) -> Cell {
    one.delay_ms.as_ref().map_or_else(Cell::absent, cell)
}

fn bounded(delay: &DelayRecord, figure: &str, ms: f64) -> Cell {
    Cell::text(format!("{}{}", bound_mark(delay, figure), duration(ms)))
}

fn impacts(run: &RunRecord) -> Option<Section> {
    Items::new(&run.impacts)
        .words("event", |one| Cell::text(format!("{} {}", one.kind, one.path.as_deref().unwrap_or_default())))
        .words("direction", |one| Cell::text(one.direction.name()))
        .number("at", |one| Cell::quantity(one.at_ms, Unit::Duration))
        .number("before", |one| Cell::quantity(one.before_mbps, Unit::Rate))
        .number("after", |one| Cell::quantity(one.settled_mbps, Unit::Rate))
        .number("dip", |one| Cell::quantity(one.dip, Unit::Percent))
        .number("recovery", |one| Cell::quantity(one.recovery_ms, Unit::Duration))
        .number("stall", |one| Cell::quantity(one.stall_ms, Unit::Duration))
        .section("Impact of the events", "")
}

fn failbacks(view: &View, run: &RunRecord) -> Option<Section> {
    Items::new(&run.failbacks)
        .words("event", |one| Cell::text(format!("{} {}", one.kind, one.path)))
        .words("path", |one| Cell::path(view, &one.path))
        .words("direction", |one| Cell::text(one.direction.name()))
        .number("at", |one| Cell::quantity(Some(one.at_ms), Unit::Duration))
        .number("share before", |one| Cell::quantity(one.share_before, Unit::Percent))
        .number("failback", |one| Cell::quantity(one.failback_ms, Unit::Duration))
        .words("reason", |one| Cell::text(one.reason.map_or("", FailbackAbsence::name)))
        .section("Return to the paths", "")
}

/// A row for each path of a phase; the first row has the values of the whole phase.
fn phases(view: &View, run: &RunRecord) -> Option<Section> {
    let once = |index: &usize, cell: Cell| if *index == 0 { cell } else { Cell::text("") };
    Items::new(run.phases.iter().flat_map(|phase| (0..phase.shares.len().max(1)).map(move |at| (phase, at))))
        .words("phase", |(one, index)| once(index, Cell::text(&*one.name)))
        .words("direction", |(one, index)| once(index, Cell::text(one.direction.name())))
        .number("from", |(one, index)| once(index, Cell::quantity(one.from_ms, Unit::Duration)))
        .number("to", |(one, index)| once(index, Cell::quantity(one.to_ms, Unit::Duration)))
        .number("goodput", |(one, index)| once(index, Cell::quantity(one.goodput_mbps, Unit::Rate)))
        .words("path", |(one, index)| {
            one.shares.keys().nth(*index).map_or_else(Cell::absent, |path| Cell::path(view, path))
        })
        .words("share", |(one, index)| match one.shares.iter().nth(*index) {
            Some((path, part)) => Cell::share(view, path, *part),
            None => Cell::absent(),
        })
        .section("Phases", "")
}

fn events(view: &View, run: &RunRecord) -> Option<Section> {
    let data = view.data(run);
    let events = &data.events;
    let remark = format!("The first {MOST_EVENTS} of {} events; all are in `events.jsonl`.", events.len());
    Items::new(events.iter().take(MOST_EVENTS))
        .number("at", |one| Cell::text(format!("{:.1} ms", one.t_ms)))
        .number("due", |one| Cell::text(one.due_ms.map_or(String::new(), |due| format!("{due:.0} ms"))))
        .words("source", |one| Cell::text(source(one)))
        .words("host", |one| Cell::text(&*one.host))
        .words("event", |one| {
            let is_scenario = one.source == EventSource::Scenario;
            Cell::text(if is_scenario { narrative::event_sentence(one) } else { one.kind.to_string() })
        })
        .words("path", |one| one.path.as_ref().map_or(Cell::text(""), |path| Cell::path(view, path)))
        .words("detail", |one| {
            let detail = one.detail.iter().map(|(key, value)| narrative::detail(key, value));
            Cell::text(detail.collect::<Vec<_>>().join(" "))
        })
        .section("Events", if events.len() > MOST_EVENTS { remark } else { String::new() })
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

fn parameters(title: &str, all: &Map<String, Json>) -> Option<Section> {
    Items::new(all)
        .words("key", |(key, _)| Cell::text(format!("`{key}`")))
        .words("value", |(_, value)| Cell::text(value_text(value)))
        .section(title, "")
}

fn counters(run: &RunRecord) -> Option<Section> {
    let names: BTreeSet<&String> = run.counters.values().flat_map(|side| side.keys()).collect();
    let value = |side: Side, name: &str| {
        let count = run.counters.get(&side).and_then(|side| side.get(name));
        count.map_or_else(Cell::absent, |count| Cell::text(count.to_string()))
    };
    Items::new(names)
        .words("counter", |name| Cell::text(format!("`{name}`")))
        .number("client", |name| value(Side::Client, name))
        .number("server", |name| value(Side::Server, name))
        .section("Kernel counters that changed", "")
}
