//! Every run, folded: its verdict, paths, phases, events, parameters and counters.

use super::tables::{path_cells, path_name, path_titles, share_bar};
use super::{diagnosis, emulation, mark, packet_sizes};
use crate::narrative;
use crate::pattern::bound_mark;
use crate::quantity::{NONE, duration, percent, rate};
use crate::view::{View, value_text, variant_text};
use maud::{Markup, html};
use pathbench_record::document::{DelayRecord, RunRecord};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::Side;
use std::collections::BTreeSet;

/// Events of a run beyond this are left to `events.jsonl`.
const MOST_EVENTS: usize = 200;

/// All runs, in the order in which they ran.
pub(super) fn runs(view: &View) -> Markup {
    let runs = &view.set.document.runs;
    html! {
        @if !runs.is_empty() {
            section {
                h2 { "Runs" }
                p.muted { "In the order in which they ran." }
                @for run in runs { (one(view, run)) }
            }
        }
    }
}

fn one(view: &View, run: &RunRecord) -> Markup {
    html! {
        details {
            summary { (mark(run.valid && run.completed)) " " b { (run.id) } " – " (in_short(run, view.patterns().len() > 1)) }
            div.inside {
                (reasons(run))
                (diagnosis::of_run(run))
                (directions(run))
                (impacts(run))
                (phases(view, run))
                @if !run.paths.is_empty() {
                    h3 { "Paths" }
                    div.scroll { table {
                        thead { (path_titles(false)) }
                        tbody { @for path in &run.paths { tr { (path_cells(view, path, path.share)) } } }
                    } }
                }
                (emulation::links(view, run))
                (packet_sizes::of_run(view, run))
                (diagnosis::routers(run))
                (emulation::probes(view, run))
                (events(view, run))
                (parameters(run))
                (counters(run))
            }
        }
    }
}

/// What a pattern's application felt, in few words.
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

fn in_short(run: &RunRecord, several_patterns: bool) -> String {
    let mut parts = vec![run.label.clone()];
    if !run.variant.is_empty() {
        parts.push(variant_text(&run.variant));
    }
    if !run.valid {
        parts.push("not valid".to_owned());
    }
    if several_patterns {
        parts.push(run.pattern.clone());
    }
    parts.extend(application(run));
    // Of messages there are too few for goodput to say anything.
    if run.delay_ms.is_none() && run.ping.is_none() {
        parts.extend(run.goodput_mbps.map(rate));
        parts.extend(run.stall_ms.map(|stall| format!("stall {}", duration(stall))));
    }
    parts.extend(
        run.recovery_ms
            .filter(|recovery| *recovery > 0.0)
            .map(|recovery| format!("recovery {}", duration(recovery))),
    );
    if !run.completed {
        parts.push("did not complete".to_owned());
        parts.extend(run.hung_ms.map(|hung| format!("gave up after {}", duration(hung))));
    }
    parts.join(" · ")
}

fn reasons(run: &RunRecord) -> Markup {
    html! {
        @for reason in &run.invalid_because { p.bad { "Not valid: " (reason) } }
        @if let Some(error) = &run.error { p.bad { "Error: " (error) } }
        @if run.multipath.requested {
            p {
                "Multipath " @if run.multipath.used { "used" } @else { "not used" } ": " (sentence(&run.multipath.reason))
                @if let Some(total) = run.multipath.subflows_total { " Subflows ever opened: " (total) "." }
            }
        }
        @if let Some(server) = &run.server { p { "Server " (server) "." } }
        @if run.encrypted { p { "Encrypted: " (narrative::encryption_of(run)) "." } }
        @if let Some(handshake) = run.handshake_ms { p { "Handshake " (duration(handshake)) "." } }
        @if let Some(handover) = &run.handover { p { "Handover: " (sentence(&narrative::handover(handover))) } }
        @for change in &run.touched_by { p.bad { "The network changed by itself: " (sentence(change)) } }
        @for note in &run.notes { p { (note) } }
        @for link in run.links.iter().filter(|link| !link.within_tolerance) {
            p.bad { "Link " (link.name) " was off: " (link.deviations.join("; ")) }
        }
    }
}

/// `text` with a full stop at its end.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn directions(run: &RunRecord) -> Markup {
    html! {
        @let delays = run.directions.iter().any(|one| one.delay_ms.is_some());
        @if run.directions.len() > 1 {
            h3 { "Directions" }
            table.narrow {
                thead { tr {
                    th { "direction" } th.n { "goodput" } th.n { "delivered" } th.n { "longest stall" }
                    @if delays { @for title in DELAY_TITLES { th.n { (title) } } }
                } }
                tbody { @for one in &run.directions { tr {
                    th scope="row" { (one.direction.name()) }
                    td.n { (one.goodput_mbps.map_or(NONE.to_owned(), rate)) }
                    td.n { (crate::quantity::bytes(one.delivered_bytes)) }
                    td.n { (one.stall_ms.map_or(NONE.to_owned(), duration)) }
                    @if delays { (delay_cells(one.delay_ms.as_ref())) }
                } } }
            }
        }
    }
}

const DELAY_TITLES: [&str; 6] = ["messages", "never acknowledged", "delay p50", "p95", "p99", "max"];

fn delay_cells(delay: Option<&DelayRecord>) -> Markup {
    html! {
        @match delay {
            None => { @for _ in DELAY_TITLES { td.n { (NONE) } } }
            Some(delay) => {
                td.n { (delay.messages) }
                td.n { span.bad[delay.late > 0] { (delay.late) } }
                @for (figure, ms) in [
                    ("delay_p50_ms", delay.p50), ("delay_p95_ms", delay.p95),
                    ("delay_p99_ms", delay.p99), ("delay_max_ms", delay.max),
                ] { td.n { (bound_mark(delay, figure)) (duration(ms)) } }
            }
        }
    }
}

fn impacts(run: &RunRecord) -> Markup {
    html! {
        @if !run.impacts.is_empty() {
            h3 { "What the events did" }
            table.narrow {
                thead { tr {
                    th { "event" } th { "direction" } th.n { "at" } th.n { "before" } th.n { "after" } th.n { "dip" } th.n { "recovery" } th.n { "stall" }
                } }
                tbody { @for one in &run.impacts { tr {
                    td { (one.kind) " " (one.path.as_deref().unwrap_or_default()) }
                    td { (one.direction.name()) }
                    td.n { (duration(one.at_ms)) }
                    td.n { (one.before_mbps.map_or(NONE.to_owned(), rate)) }
                    td.n { (one.settled_mbps.map_or(NONE.to_owned(), rate)) }
                    td.n { (one.dip.map_or(NONE.to_owned(), percent)) }
                    td.n { (one.recovery_ms.map_or(NONE.to_owned(), duration)) }
                    td.n { (one.stall_ms.map_or(NONE.to_owned(), duration)) }
                } } }
            }
        }
    }
}

fn phases(view: &View, run: &RunRecord) -> Markup {
    html! {
        @if !run.phases.is_empty() {
            h3 { "Phases" }
            table {
                thead { tr { th { "phase" } th { "direction" } th.n { "from" } th.n { "to" } th.n { "goodput" } th { "shares" } } }
                tbody { @for phase in &run.phases { tr {
                    td { (phase.name) }
                    td { (phase.direction.name()) }
                    td.n { (duration(phase.from_ms)) }
                    td.n { (duration(phase.to_ms)) }
                    td.n { (rate(phase.goodput_mbps)) }
                    td { @for (path, share) in &phase.shares {
                        div { (path_name(view, path)) " " (share_bar(view, path, *share)) }
                    } }
                } } }
            }
        }
    }
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

fn events(view: &View, run: &RunRecord) -> Markup {
    let events = &view.data(run).events;
    html! {
        @if !events.is_empty() {
            h3 { "Events" }
            div.scroll { table {
                thead { tr { th.n { "at" } th.n { "due" } th { "source" } th { "host" } th { "event" } th { "path" } th { "detail" } } }
                tbody { @for event in events.iter().take(MOST_EVENTS) { tr {
                    td.n { (format!("{:.1} ms", event.t_ms)) }
                    td.n { (event.due_ms.map_or(String::new(), |due| format!("{due:.0} ms"))) }
                    td { (source(event)) }
                    td { (event.host) }
                    td { @if event.source == EventSource::Scenario { (narrative::event_sentence(event)) } @else { (event.kind) } }
                    td { @if let Some(path) = &event.path { (path_name(view, path)) } }
                    td { @for (key, value) in &event.detail { (key) "=" (value_text(value)) " " } }
                } } }
            } }
            @if events.len() > MOST_EVENTS {
                p.muted { "The first " (MOST_EVENTS) " of " (events.len()) " events; all are in " code { "events.jsonl" } "." }
            }
        }
    }
}

fn parameters(run: &RunRecord) -> Markup {
    let (asked, in_force) = (&run.parameters.asked, &run.parameters.in_force);
    html! {
        @if !asked.is_empty() || !in_force.is_empty() {
            h3 { "Parameters" }
            table.narrow {
                thead { tr { th { "as asked" } th {} th { "as in force" } th {} } }
                tbody {
                    @let (mut left, mut right) = (asked.iter(), in_force.iter());
                    @for _ in 0..asked.len().max(in_force.len()) { tr {
                        @for entry in [left.next(), right.next()] {
                            @match entry {
                                Some((key, value)) => { td { code { (key) } } td { (value_text(value)) } }
                                None => { td {} td {} }
                            }
                        }
                    } }
                }
            }
        }
    }
}

fn counters(run: &RunRecord) -> Markup {
    let names: BTreeSet<&String> = run.counters.values().flat_map(|side| side.keys()).collect();
    let value = |side: Side, name: &str| {
        run.counters.get(&side).and_then(|side| side.get(name)).map_or(NONE.to_owned(), i64::to_string)
    };
    html! {
        @if !names.is_empty() {
            details {
                summary { "Kernel counters that changed (" (names.len()) ")" }
                div.inside { table.narrow {
                    thead { tr { th { "counter" } th.n { "client" } th.n { "server" } } }
                    tbody { @for name in names { tr {
                        td { code { (name) } }
                        td.n { (value(Side::Client, name)) }
                        td.n { (value(Side::Server, name)) }
                    } } }
                } }
            }
        }
    }
}
