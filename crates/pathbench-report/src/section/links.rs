//! Tables of links: configured and measured parameters, counters of emulated links, packets, probes, routers.

use super::content::{Block, Cell, Finding, Items, Section, Value};
use crate::carriage::{self, Stage};
use crate::list::distinct;
use crate::narrative::{self, Tone};
use crate::quantity::{NONE, Unit, bit_rate, bytes, duration, each_direction, percent, plain, with_one_unit};
use crate::result_set::is_part;
use crate::view::{View, is_of_variant, variant_text};
use pathbench_record::document::{
    DirectionFigures, EmulatedDirection, LinkMeasurement, LinkRecord, OneWayDelay, RunRecord,
};

const MOST_SIZES: usize = 6;

pub(crate) fn links(view: &View, all: bool) -> Option<Section> {
    let links = if all { view.set.document.links.iter().collect() } else { shown_links(view) };
    let remark = "requested → measured: medians over the runs; rates count Ethernet frames without preamble and checksum";
    Items::new(links)
        .words("in tolerance", |one| match (&one.measured, deviations(view, one).is_empty()) {
            (None, _) => Cell::text("?").with_line("not measured"),
            (Some(_), is_good) => Cell::new(Value::Sign(is_good)),
        })
        .with_hidden_title()
        .words("link", |one| Cell::path(view, &one.name).with_line(variant_text(&one.variant)))
        .words("between", |one| Cell::text(one.ends.join(" – ")))
        .in_report_only()
        .words("rate → / ←", |one| {
            let asked = asked(one, |direction| direction.rate_bps, |rate| plain(&bit_rate(rate)));
            let asked = asked.unwrap_or_else(|| "unlimited".to_owned());
            against(Some(asked), one.measured.as_ref().and_then(measured_rates))
        })
        .words("RTT, idle", |one| {
            let asked = one.requested.rtt_ms().map(|rtt| plain(&duration(rtt)));
            against(asked, one.measured.as_ref().map(|found| duration(found.rtt_ms)))
        })
        .words("one-way delay, idle", |one| {
            let asked = asked(one, |direction| direction.delay_ms, |delay| plain(&duration(delay)));
            against(asked, measured(one, |found| (found.forward_delay, found.reverse_delay), delay_words))
        })
        .in_report_only()
        .words("loss", |one| {
            let asked = asked(one, |direction| direction.loss, percent);
            against(asked, measured(one, |found| (found.forward_loss, found.reverse_loss), percent))
        })
        .words("MTU", |one| {
            let (asked, found) = (one.requested.mtu_bytes, one.measured.as_ref());
            let found = found.map(|found| found.forward_mtu_bytes.min(found.reverse_mtu_bytes));
            against(Some(asked.to_string()), found.filter(|mtu| *mtu != asked).map(|mtu| mtu.to_string()))
        })
        .words("queue", |one| {
            let asked = asked(one, |direction| direction.queue_bytes, bytes);
            Cell::text(asked.unwrap_or(NONE.to_owned()))
        })
        .in_report_only()
        .words("engine", |one| Cell::text(&*one.engine))
        .words("tolerance", |one| Cell::text(format!("± {}", percent(one.tolerance))))
        .in_report_only()
        .each(|row, one| row.notes.extend(deviations(view, one).into_iter().map(|text| (Tone::Bad, text))))
        .section("Links", remark)
}

fn shown_links<'a>(view: &View<'a>) -> Vec<&'a LinkRecord> {
    let all = &view.set.document.links;
    let mut shown: Vec<&LinkRecord> = Vec::new();
    for link in all.iter().filter(|link| !is_plain_part(link, all)) {
        let is_known = shown.iter().any(|one| one.name == link.name && one.requested == link.requested);
        if !is_known || !deviations(view, link).is_empty() {
            shown.push(link);
        }
    }
    shown
}

/// Whether `link` is an inner link of a path, without parameters, that carries the traffic of the path's first link.
fn is_plain_part(link: &LinkRecord, all: &[LinkRecord]) -> bool {
    let asked = &link.requested;
    let plain = |asked: &DirectionFigures| {
        asked.rate_bps.is_none() && asked.delay_ms.is_none_or(|ms| ms == 0.0) && asked.loss.is_none()
    };
    let of_path =
        |path: &LinkRecord| is_part(&link.name, &path.name) && asked.mtu_bytes >= path.requested.mtu_bytes;
    plain(&asked.forward) && plain(&asked.reverse) && all.iter().any(of_path)
}

/// Each deviation of a link from its tolerance in any run, once.
fn deviations(view: &View, link: &LinkRecord) -> Vec<String> {
    let runs = view.set.document.runs.iter().filter(|run| is_of_variant(link, run));
    let measured = runs.flat_map(|run| &run.links);
    let deviating = measured.filter(|one| one.name == link.name && !one.within_tolerance);
    let mut found = distinct(deviating.flat_map(|one| match one.deviations.as_slice() {
        [] => vec!["out of tolerance".to_owned()],
        texts => texts.to_vec(),
    }));
    found.truncate(3);
    found
}

fn asked<T: PartialEq>(
    link: &LinkRecord,
    of: fn(&DirectionFigures) -> Option<T>,
    words: impl Fn(T) -> String,
) -> Option<String> {
    each_direction(of(&link.requested.forward), of(&link.requested.reverse), words)
}

fn measured<T: PartialEq>(
    link: &LinkRecord,
    of: fn(&LinkMeasurement) -> (Option<T>, Option<T>),
    words: fn(T) -> String,
) -> Option<String> {
    let (forward, reverse) = of(link.measured.as_ref()?);
    each_direction(forward, reverse, words)
}

fn delay_words(one: OneWayDelay) -> String {
    format!("{} (p95 {})", duration(one.p50_ms), duration(one.p95_ms))
}

fn against(asked: Option<String>, measured: Option<String>) -> Cell {
    match (asked, measured) {
        (None, None) => Cell::absent(),
        (Some(one), None) | (None, Some(one)) => Cell::text(one),
        (Some(asked), Some(measured)) => Cell::text(format!("{asked} → {measured}")),
    }
}

fn measured_rates(measured: &LinkMeasurement) -> Option<String> {
    match [measured.forward_bps, measured.reverse_bps].map(|bps| bps.map(bit_rate)) {
        [Some(one), Some(other)] if one != other => Some(with_one_unit(&one, " / ", &other)),
        [forward, reverse] => each_direction(forward, reverse, |rate| rate),
    }
}

pub(super) fn emulated(view: &View, run: &RunRecord) -> Option<Section> {
    let emulated = run.links.iter().filter_map(|link| Some((&link.name, link.emulation.as_ref()?)));
    Items::new(emulated.flat_map(|(link, one)| [(link, "→", &one.forward), (link, "←", &one.reverse)]))
        .words("link", |(link, ..)| Cell::path(view, link))
        .words("direction", |(_, arrow, _)| Cell::text(*arrow))
        .number("packets in", |(.., one)| Cell::count(one.offered_packets))
        .number("out", |(.., one)| Cell::count(one.delivered_packets))
        .words("dropped, by cause", |(.., one)| Cell::text(drops(one)))
        .words("otherwise", |(.., one)| Cell::text(otherwise(one)))
        .number("largest queue", |(.., one)| Cell::bytes(one.largest_queue_bytes))
        .number("lateness p50 / p99 / max", |(.., one)| {
            let late = &one.lateness_ms;
            Cell::text([late.p50, late.p99, late.max].map(duration).join(" / "))
        })
        .section("Emulated links", "")
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
    let counts = [
        (one.marked_packets, "marked CE"),
        (one.corrupted_packets, "corrupted"),
        (one.duplicated_packets, "duplicated"),
        (one.reordered_packets, "reordered"),
        (one.arq_retransmissions, "link-layer retransmissions"),
        (one.refused_packets, "refused by the receiver"),
    ];
    let parts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
}

pub(super) fn packets(view: &View, run: &RunRecord) -> Option<Section> {
    let carriages = carriage::carriages(view, run);
    Items::new(carriages.iter().flat_map(|one| one.stages().map(move |stage| (one, stage))))
        .words("path", |(one, _)| Cell::path(view, one.path))
        .words("direction", |(one, _)| Cell::text(one.direction.name()))
        .words("link", |(_, stage)| Cell::text(stage.link))
        .number("MTU", |(_, stage)| Cell::size(stage.mtu_bytes.unwrap_or(0)))
        .number("packets", |(_, stage)| Cell::count(stage.packets()))
        .number("bytes", |(_, stage)| Cell::bytes(stage.bytes()))
        .words("length: part of the bytes (packets)", |(_, stage)| Cell::text(sizes(stage)))
        .section("Packets on the wire", "")
}

fn sizes(stage: &Stage) -> String {
    let ranked = stage.by_bytes();
    let count = |size: u32| stage.sizes.get(&size).copied().unwrap_or_default();
    let shown = ranked.iter().take(MOST_SIZES);
    let mut parts: Vec<String> =
        shown.map(|(size, part)| format!("{size}: {} ({})", percent(*part), count(*size))).collect();
    if ranked.len() > MOST_SIZES {
        parts.push(format!("… {} more lengths", ranked.len() - MOST_SIZES));
    }
    if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
}

pub(super) fn probes(view: &View, run: &RunRecord) -> Option<Section> {
    Items::new(&run.probes)
        .words("path", |one| Cell::path(view, &one.path))
        .words("answered", |one| Cell::text(format!("{} of {} probes", one.answered, one.sent)))
        .number("RTT, median", |one| Cell::quantity(one.p50_ms, Unit::Duration))
        .number("slowest", |one| Cell::quantity(one.max_ms, Unit::Duration))
        .number("longest silence", |one| Cell::quantity(one.longest_silence_ms, Unit::Duration))
        .section("Probes of each interface", "")
}

pub(super) fn routers(run: &RunRecord) -> Option<Section> {
    Items::new(&run.routers)
        .words("router", |one| Cell::text(&*one.name))
        .words("too big messages", |one| Cell::text(&*one.icmp))
        .number("sent", |one| Cell::count(one.too_big_sent))
        .number("suppressed", |one| Cell::count(one.too_big_suppressed).bad(one.too_big_suppressed > 0))
        .words("MSS of SYNs", |one| Cell::text(if one.clamp_mss { "clamped" } else { "left alone" }))
        .number("SYNs rewritten", |one| {
            let rewritten = one.clamp_mss.then_some(one.clamped_syns);
            rewritten.map_or_else(Cell::absent, Cell::count)
        })
        .words("middlebox: packets treated", |one| {
            let treated = one.middlebox.iter().map(|(name, packets)| format!("{name}: {packets}"));
            let treated: Vec<_> = treated.collect();
            if treated.is_empty() { Cell::absent() } else { Cell::text(treated.join(", ")) }
        })
        .section("Routers, and packets that were too large for their next hop", "")
}

pub(crate) fn servers(view: &View) -> Option<Section> {
    Items::new(&view.set.document.servers)
        .words("chosen", |one| match (one.chosen, &one.error) {
            (false, None) => Cell::text("·"),
            (is_chosen, _) => Cell::new(Value::Sign(is_chosen)),
        })
        .with_hidden_title()
        .words("server", |one| Cell::text(&*one.address).with_line(one.name.clone().unwrap_or_default()))
        .number("median ping", |one| match one.ping_ms {
            None => Cell::text("no answer"),
            found => Cell::quantity(found, Unit::Duration),
        })
        .number("lost", |one| Cell::count(one.lost))
        .words("state", |one| {
            let chosen = one.chosen.then(|| "chosen".to_owned());
            let state = chosen.into_iter().chain(one.error.clone()).collect::<Vec<_>>();
            Cell::text(state.join(", ")).bad(one.error.is_some())
        })
        .with_hidden_title()
        .section("Servers", "median ping")
}

/// Reachability of the server: a sentence, the failures, and for the report each address family and port.
pub(crate) fn reachability(view: &View, all: bool) -> Option<Section> {
    let found = &view.set.document.reachability;
    if found.is_empty() {
        return None;
    }
    let details = if all {
        let rows = Items::new(found)
            .words("transport", |one| Cell::text(one.transport.name()))
            .words("IP", |one| Cell::text(one.family.name()))
            .number("port", |one| Cell::count(one.port))
            .words("reached", |one| Cell::new(Value::Sign(one.reachable)))
            .number("first answer", |one| Cell::quantity(one.rtt_ms, Unit::Duration))
            .words("why not", |one| {
                Cell::text(if one.reachable { String::new() } else { narrative::why_unreachable(one) })
            });
        Block::Table(rows.table)
    } else {
        let barriers = narrative::barriers(found).into_iter();
        Block::Findings(barriers.map(|text| Finding::new(Tone::Bad, "", text)).collect())
    };
    let blocks = vec![Block::Text(narrative::reachability(found)), details];
    Some(Section::new("Reachability", "", blocks))
}
