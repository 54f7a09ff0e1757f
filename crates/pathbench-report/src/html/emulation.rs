//! What emulated links did during a run, and what the probes of its interfaces found.

use super::tables::path_name;
use crate::quantity::{NONE, bytes, counted, duration, percent};
use crate::view::View;
use maud::{Markup, html};
use pathbench_record::document::{EmulatedDirection, LatenessRecord, OneWayDelay, RunRecord};

/// Packets, drops by cause and lateness of each emulated link and direction.
pub(super) fn links(view: &View, run: &RunRecord) -> Markup {
    let emulated = || run.links.iter().filter_map(|link| Some((link, link.emulation.as_ref()?)));
    html! {
        @if emulated().next().is_some() {
            h3 { "Emulated links" }
            div.scroll { table {
                thead { tr {
                    th { "link" } th {} th.n { "packets in" } th.n { "out" } th { "dropped, by cause" }
                    th { "otherwise" } th.n { "largest queue" } th.n { "lateness p50 / p99 / max" }
                } }
                tbody { @for (link, emulation) in emulated() {
                    @for (arrow, one) in [("→", &emulation.forward), ("←", &emulation.reverse)] { tr {
                        th scope="row" { (path_name(view, &link.name)) }
                        td { (arrow) }
                        td.n { (one.offered_packets) }
                        td.n { (one.delivered_packets) }
                        td { (drops(one)) }
                        td { (otherwise(one)) }
                        td.n { (bytes(one.largest_queue_bytes)) }
                        td.n { (lateness(&one.lateness_ms)) }
                    } }
                } }
            } }
        }
    }
}

fn drops(one: &EmulatedDirection) -> String {
    let all: u64 = one.dropped_packets.values().fold(0, |sum, count| sum.saturating_add(*count));
    if all == 0 {
        return "none".to_owned();
    }
    let causes: Vec<String> =
        one.dropped_packets.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    let part = percent(all as f64 / one.offered_packets.max(1) as f64);
    format!("{} ({part} of those in)", causes.join(", "))
}

fn otherwise(one: &EmulatedDirection) -> String {
    let told = [
        (one.marked_packets, "marked CE"),
        (one.corrupted_packets, "corrupted"),
        (one.duplicated_packets, "duplicated"),
        (one.reordered_packets, "reordered"),
        (one.arq_retransmissions, "link-layer retransmissions"),
        (one.refused_packets, "refused by the receiver"),
    ];
    let parts: Vec<String> =
        told.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
}

fn lateness(one: &LatenessRecord) -> String {
    format!("{} / {} / {}", duration(one.p50), duration(one.p99), duration(one.max))
}

/// One-way delays both ways, in short: median and 95th percentile.
pub(super) fn one_way(forward: Option<&OneWayDelay>, reverse: Option<&OneWayDelay>) -> Option<String> {
    let of = |one: &OneWayDelay| format!("{} (p95 {})", duration(one.p50_ms), duration(one.p95_ms));
    match (forward, reverse) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(of(one)),
        (Some(forward), Some(reverse)) => Some(format!("→ {}, ← {}", of(forward), of(reverse))),
    }
}

/// What a walk's probes found, interface by interface.
pub(super) fn probes(view: &View, run: &RunRecord) -> Markup {
    let or_none = |ms: Option<f64>| ms.map_or(NONE.to_owned(), duration);
    html! {
        @if !run.probes.is_empty() {
            h3 { "Probes of each interface" }
            table.narrow {
                thead { tr {
                    th { "path" } th { "answered" } th.n { "RTT, median" } th.n { "slowest" } th.n { "longest silence" }
                } }
                tbody { @for one in &run.probes { tr {
                    th scope="row" { (path_name(view, &one.path)) }
                    td { (one.answered) " of " (counted(one.sent, "probe")) }
                    td.n { (or_none(one.p50_ms)) }
                    td.n { (or_none(one.max_ms)) }
                    td.n { (or_none(one.longest_silence_ms)) }
                } } }
            }
        }
    }
}
