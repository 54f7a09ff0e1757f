//! Tables of links: as asked and as measured, what emulated links did, packets on the wire, probes, routers.

use super::{Block, Cell, Row, Section, Table, Value, number, words};
use crate::carriage::{self, Stage};
use crate::narrative::Tone;
use crate::palette::is_part;
use crate::quantity::{NONE, Unit, bit_rate, bytes, duration, each_direction, percent, plain};
use crate::view::{View, variant_text};
use pathbench_record::document::{
    DirectionFigures, EmulatedDirection, LinkMeasurement, LinkRecord, OneWayDelay, RunRecord,
};

/// Lengths of a link's packets that are named.
const MOST_SIZES: usize = 6;

/// Links as asked and as measured: all of them, or for the summary those that ask for something, once for all variants
/// in which they ask for the same and nothing was out of tolerance.
pub(crate) fn links(view: &View, all: bool) -> Option<Section> {
    let links = if all { view.set.document.links.iter().collect() } else { shown_links(view) };
    let columns = vec![
        words(""),
        words("link"),
        words("between").in_report_only(),
        words("rate → / ←"),
        words("RTT, idle"),
        words("one-way delay, idle").in_report_only(),
        words("loss"),
        words("MTU"),
        words("queue").in_report_only(),
        words("engine"),
        words("tolerance").in_report_only(),
    ];
    let rows = links.into_iter().map(|link| row(view, link)).collect();
    let remark =
        "asked → measured: medians over the runs; rates count Ethernet frames without preamble and checksum";
    Section::of_table("Links", remark, Table { columns, rows })
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

/// Whether `link` is a part of a path without parameters of its own, which carries what the path's link carries.
fn is_plain_part(link: &LinkRecord, all: &[LinkRecord]) -> bool {
    let asked = &link.requested;
    let plain = |asked: &DirectionFigures| {
        asked.rate_bps.is_none() && asked.delay_ms.is_none_or(|ms| ms == 0.0) && asked.loss.is_none()
    };
    let of_path =
        |path: &LinkRecord| is_part(&link.name, &path.name) && asked.mtu_bytes >= path.requested.mtu_bytes;
    plain(&asked.forward) && plain(&asked.reverse) && all.iter().any(of_path)
}

/// What was out of tolerance on a link in any run, each thing once.
fn deviations(view: &View, link: &LinkRecord) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let is_same =
        |run: &&RunRecord| link.variant.iter().all(|(key, value)| run.variant.get(key) == Some(value));
    let runs = view.set.document.runs.iter().filter(is_same);
    let links = runs.flat_map(|run| &run.links);
    for measured in links.filter(|one| one.name == link.name && !one.within_tolerance) {
        let none = ["out of tolerance".to_owned()];
        let texts = if measured.deviations.is_empty() { &none[..] } else { &measured.deviations };
        for text in texts {
            if !found.contains(text) && found.len() < 3 {
                found.push(text.clone());
            }
        }
    }
    found
}

fn row(view: &View, link: &LinkRecord) -> Row {
    let asked = &link.requested;
    let (forward, reverse) = (&asked.forward, &asked.reverse);
    let measured = link.measured.as_ref();
    let rate = each_direction(forward.rate_bps, reverse.rate_bps, |rate| plain(&bit_rate(rate)));
    let delays = each_direction(forward.delay_ms, reverse.delay_ms, |delay| plain(&duration(delay)));
    let losses = each_direction(forward.loss, reverse.loss, percent);
    let of_delay = |one: OneWayDelay| format!("{} (p95 {})", duration(one.p50_ms), duration(one.p95_ms));
    let mtu = measured.map(|one| one.forward_mtu_bytes.min(one.reverse_mtu_bytes));
    let mtu = mtu.filter(|mtu| *mtu != asked.mtu_bytes).map(|mtu| mtu.to_string());
    let deviations = deviations(view, link);
    let sign = match (measured, deviations.is_empty()) {
        (None, _) => Cell::text("?").below("not measured"),
        (Some(_), is_good) => Cell::new(Value::Sign(is_good)),
    };
    let cells = vec![
        sign,
        Cell::path(view, &link.name).below(variant_text(&link.variant)),
        Cell::text(format!("{} – {}", link.ends[0], link.ends[1])),
        against(Some(rate.unwrap_or_else(|| "unlimited".to_owned())), measured.and_then(measured_rates)),
        against(
            asked.rtt_ms().map(|rtt| plain(&duration(rtt))),
            measured.map(|found| duration(found.rtt_ms)),
        ),
        against(
            delays,
            measured.and_then(|one| each_direction(one.forward_delay, one.reverse_delay, of_delay)),
        ),
        against(losses, measured.and_then(|one| each_direction(one.forward_loss, one.reverse_loss, percent))),
        against(Some(asked.mtu_bytes.to_string()), mtu),
        Cell::text(
            each_direction(forward.queue_bytes, reverse.queue_bytes, bytes).unwrap_or(NONE.to_owned()),
        ),
        Cell::text(&*link.engine),
        Cell::text(format!("± {}", percent(link.tolerance))),
    ];
    let notes = deviations.into_iter().map(|text| (Tone::Bad, text)).collect();
    Row { notes, ..Row::new(cells) }
}

/// `1 Gbit/s → 941 Mbit/s`: asked and measured.
fn against(asked: Option<String>, measured: Option<String>) -> Cell {
    match (asked, measured) {
        (None, None) => Cell::absent(),
        (Some(one), None) | (None, Some(one)) => Cell::text(one),
        (Some(asked), Some(measured)) => Cell::text(format!("{asked} → {measured}")),
    }
}

fn measured_rates(measured: &LinkMeasurement) -> Option<String> {
    let [forward, reverse] = [measured.forward_bps, measured.reverse_bps].map(|bps| bps.map(bit_rate));
    // The unit stands once where it is the same.
    match (&forward, &reverse) {
        (Some(one), Some(other)) if one != other => match (one.split_once(' '), other.split_once(' ')) {
            (Some((number, unit)), Some((_, same))) if unit == same => Some(format!("{number} / {other}")),
            _ => Some(format!("{one} / {other}")),
        },
        _ => each_direction(forward, reverse, |rate| rate),
    }
}

pub(super) fn emulated(view: &View, run: &RunRecord) -> Option<Section> {
    let columns = vec![
        words("link"),
        words(""),
        number("packets in"),
        number("out"),
        words("dropped, by cause"),
        words("otherwise"),
        number("largest queue"),
        number("lateness p50 / p99 / max"),
    ];
    let mut rows = Vec::new();
    for (link, emulation) in run.links.iter().filter_map(|link| Some((link, link.emulation.as_ref()?))) {
        for (arrow, one) in [("→", &emulation.forward), ("←", &emulation.reverse)] {
            let late = &one.lateness_ms;
            let [p50, p99, max] = [late.p50, late.p99, late.max].map(duration);
            rows.push(Row::new(vec![
                Cell::path(view, &link.name),
                Cell::text(arrow),
                Cell::count(one.offered_packets),
                Cell::count(one.delivered_packets),
                Cell::text(drops(one)),
                Cell::text(otherwise(one)),
                Cell::bytes(one.largest_queue_bytes),
                Cell::text(format!("{p50} / {p99} / {max}")),
            ]));
        }
    }
    Section::of_table("Emulated links", "", Table { columns, rows })
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

/// The sizes of the packets that crossed a run's links: a row per path, direction and link.
pub(super) fn packets(view: &View, run: &RunRecord) -> Option<Section> {
    let columns = vec![
        words("path"),
        words("direction"),
        words("link"),
        number("MTU"),
        number("packets"),
        number("bytes"),
        words("length: part of the bytes (packets)"),
    ];
    let mut rows = Vec::new();
    for one in carriage::carriages(view, run) {
        for stage in one.stages() {
            rows.push(Row::new(vec![
                Cell::path(view, one.path),
                Cell::text(one.direction.name()),
                Cell::text(stage.link),
                Cell::size(stage.mtu_bytes.unwrap_or(0)),
                Cell::count(stage.packets()),
                Cell::bytes(stage.bytes()),
                Cell::text(sizes(&stage)),
            ]));
        }
    }
    Section::of_table("Packets on the wire", "", Table { columns, rows })
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
    let columns = vec![
        words("path"),
        words("answered"),
        number("RTT, median"),
        number("slowest"),
        number("longest silence"),
    ];
    let row = |one: &pathbench_record::document::ProbeRecord| {
        Row::new(vec![
            Cell::path(view, &one.path),
            Cell::text(format!("{} of {} probes", one.answered, one.sent)),
            Cell::quantity(one.p50_ms, Unit::Duration),
            Cell::quantity(one.max_ms, Unit::Duration),
            Cell::quantity(one.longest_silence_ms, Unit::Duration),
        ])
    };
    let rows = run.probes.iter().map(row).collect();
    Section::of_table("Probes of each interface", "", Table { columns, rows })
}

/// The lab's routers and packets that are larger than the MTU of the next hop.
pub(super) fn routers(run: &RunRecord) -> Option<Section> {
    let columns = vec![
        words("router"),
        words("too big messages"),
        number("sent"),
        number("suppressed"),
        words("MSS of SYNs"),
        number("SYNs rewritten"),
    ];
    let row = |router: &pathbench_record::document::RouterRecord| {
        let clamped = if router.clamp_mss { Cell::count(router.clamped_syns) } else { Cell::absent() };
        Row::new(vec![
            Cell::text(&*router.name),
            Cell::text(&*router.icmp),
            Cell::count(router.too_big_sent),
            Cell::count(router.too_big_suppressed).bad(router.too_big_suppressed > 0),
            Cell::text(if router.clamp_mss { "clamped" } else { "left alone" }),
            clamped,
        ])
    };
    let rows = run.routers.iter().map(row).collect();
    let title = "Routers, and packets that were too large for their next hop";
    Section::of_table(title, "", Table { columns, rows })
}

pub(crate) fn servers(view: &View) -> Option<Section> {
    let columns = vec![words(""), words("server"), number("median ping"), number("lost"), words("")];
    let row = |server: &pathbench_record::document::ServerRecord| {
        let sign = match (server.chosen, &server.error) {
            (true, _) => Cell::new(Value::Sign(true)),
            (false, Some(_)) => Cell::new(Value::Sign(false)),
            (false, None) => Cell::text("·"),
        };
        let ping = server
            .ping_ms
            .map_or_else(|| Cell::text("no answer"), |ping_ms| Cell::quantity(ping_ms, Unit::Duration));
        let chosen = server.chosen.then(|| "chosen".to_owned());
        let state = chosen.into_iter().chain(server.error.clone()).collect::<Vec<_>>().join(", ");
        Row::new(vec![
            sign,
            Cell::text(&*server.address).below(server.name.clone().unwrap_or_default()),
            ping,
            Cell::count(server.lost),
            Cell::text(state).bad(server.error.is_some()),
        ])
    };
    let rows = view.set.document.servers.iter().map(row).collect();
    Section::of_table("Servers", "median ping", Table { columns, rows })
}

/// Which transport gets through: in short, what does not, and for the report each address family and port.
pub(crate) fn reachability(view: &View, all: bool) -> Option<Section> {
    let found = &view.set.document.reachability;
    if found.is_empty() {
        return None;
    }
    let barriers = crate::narrative::barriers(found).into_iter();
    let barriers = barriers.map(|text| super::Finding::new(Tone::Bad, "", text)).collect();
    let mut blocks = vec![Block::Text(crate::narrative::reachability(found)), Block::Findings(barriers)];
    if all {
        let columns = vec![
            words("transport"),
            words("IP"),
            number("port"),
            words("reached"),
            number("first answer"),
            words("why not"),
        ];
        let row = |one: &pathbench_record::document::Reachability| {
            let why = if one.reachable { String::new() } else { crate::narrative::why_unreachable(one) };
            Row::new(vec![
                Cell::text(one.transport.name()),
                Cell::text(one.family.name()),
                Cell::count(one.port),
                Cell::new(Value::Sign(one.reachable)),
                Cell::quantity(one.rtt_ms, Unit::Duration),
                Cell::text(why),
            ])
        };
        blocks[1] = Block::Table(Table { columns, rows: found.iter().map(row).collect() });
    }
    Some(Section::new("What gets through", "", blocks))
}
