//! The analysis of packet captures: captures, totals, connections, findings.

mod cell;
mod comparison;
mod connection;
mod quic;
mod subflows;

pub(crate) use cell::{arrow, largest_connections, payload, subflow_name, transport_and_ends};
use cell::{capture_name, counted_if_any, part, positive, seconds, transport};

use super::content::{Block, Cell, Finding, Items, Section};
use crate::narrative::Tone;
use crate::quantity::{Unit, bytes, counted};
use pathbench_record::text::duration_s;
use pathbench_record::trace::{
    CaptureRecord, ConnectionDirection, SubflowDirection, TraceDocument, TraceFinding, TracedConnection,
    TracedSubflow, UndecodedPackets,
};

/// Connections with details in the terminal.
const MOST_DETAILED: usize = 5;

/// Reasons of packets that were not decoded, per capture.
const MOST_REASONS: usize = 6;

/// The sections of the terminal.
pub(crate) fn summary(document: &TraceDocument) -> Vec<Section> {
    let detailed = largest_connections(document, MOST_DETAILED).into_iter();
    let details = detailed.flat_map(|one| connection::sections(one, &document.captures, true));
    let all = [Some(captures(document)), Some(totals(document)), connections(document)];
    all.into_iter().flatten().chain(details).chain(findings(document)).collect()
}

/// The sections of the report before the figures.
pub(crate) fn opening(document: &TraceDocument) -> Vec<Section> {
    let all = [findings(document), Some(captures(document)), Some(totals(document)), connections(document)];
    all.into_iter().flatten().collect()
}

/// The sections of the report about one connection.
pub(crate) fn of_connection(connection: &TracedConnection, captures: &[CaptureRecord]) -> Vec<Section> {
    connection::sections(connection, captures, false)
}

fn captures(document: &TraceDocument) -> Section {
    let rows = document.captures.iter().enumerate();
    let table = Items::new(rows)
        .words("format", |(_, one)| {
            Cell::text(
                std::iter::once(&one.format).chain(&one.compression).cloned().collect::<Vec<_>>().join(", "),
            )
        })
        .words("interfaces", |(_, one)| interfaces(one))
        .number("packets", |(_, one)| Cell::count(one.packets))
        .number("on the wire", |(_, one)| Cell::bytes(one.wire_bytes))
        .number("truncated", |(_, one)| counted_if_any(one.truncated_packets))
        .number("other", |(_, one)| counted_if_any(one.other_packets))
        .number("dropped", |(_, one)| counted_if_any(one.dropped_packets.unwrap_or(0)))
        .each(|row, (index, one)| {
            row.group = capture_name(*index as u32, &document.captures);
            row.notes.extend(one.damage.iter().map(|damage| (Tone::Bad, format!("damaged: {damage}"))));
            row.notes
                .extend(one.undecoded.iter().take(MOST_REASONS).map(|one| (Tone::Mixed, undecoded(one))));
        })
        .without_empty_columns()
        .table;
    let remark = match document.captures.iter().map(|one| one.packets).max() {
        None | Some(0) => "no packets".to_owned(),
        _ => format!("from {}, {}", document.started, duration_s(document.duration_s)),
    };
    Section::new("Captures", remark, vec![Block::Table(table)])
}

fn undecoded(one: &UndecodedPackets) -> String {
    let verb = if one.packets == 1 { "was" } else { "were" };
    format!("{} {} {verb} not decoded", counted(one.packets, "packet"), one.reason)
}

fn interfaces(capture: &CaptureRecord) -> Cell {
    const MOST: usize = 4;
    let mut words = capture.interfaces.iter().map(|one| match &one.name {
        Some(name) => format!("{name} ({}): {}", one.link_type, one.packets),
        None => one.link_type.clone(),
    });
    let first = words.next().map_or_else(Cell::absent, Cell::text);
    let cell = words.by_ref().take(MOST - 1).fold(first, Cell::with_line);
    let more = capture.interfaces.len().saturating_sub(MOST);
    cell.with_line(if more > 0 { format!("and {more} more") } else { String::new() })
}

fn totals(document: &TraceDocument) -> Section {
    let totals = &document.totals;
    let many = |count: u64, noun: &str| positive(count).map(|count| counted(count, noun));
    let parts = [
        many(totals.mptcp_connections, "MPTCP connection").map(|text| {
            let subflows = many(totals.mptcp_subflows, "subflow").unwrap_or_else(|| "no subflow".to_owned());
            format!("{text} with {subflows}")
        }),
        many(totals.tcp_connections, "TCP connection"),
        many(totals.quic_connections, "QUIC connection"),
        many(totals.other_udp_flows, "other UDP flow"),
        Some(format!("{} of payload", bytes(totals.payload_bytes))),
    ];
    let mut found: Vec<String> = parts.into_iter().flatten().collect();
    if found.len() == 1 {
        found.insert(0, "no TCP, MPTCP or QUIC connection".to_owned());
    }
    let mut blocks = vec![Block::Text(found.join(", "))];
    if totals.duplicate_packets > 0 {
        let text = format!(
            "{} left out: a mirror port, or several interfaces in one file, showed packets again.",
            counted(totals.duplicate_packets, "duplicate packet")
        );
        blocks.push(Block::Findings(vec![Finding::new(Tone::Neutral, "", text)]));
    }
    if totals.offload_packets > 0 {
        let text = format!(
            "{} more payload than the maximum segment size: offload of the capturing host (GSO, TSO, GRO) joined segments, \
             and numbers and sizes of packets are not those on the wire.",
            if totals.offload_packets == 1 {
                "1 packet has".to_owned()
            } else {
                format!("{} packets have", totals.offload_packets)
            }
        );
        blocks.push(Block::Findings(vec![Finding::new(Tone::Neutral, "", text)]));
    }
    if totals.incomplete_datagrams > 0 {
        let text = format!(
            "{} could not be put together: fragments were not captured, or contradict each other.",
            counted(totals.incomplete_datagrams, "IP datagram")
        );
        blocks.push(Block::Findings(vec![Finding::new(Tone::Neutral, "", text)]));
    }
    if totals.discarded > 0 {
        let text = format!(
            "The memory limits of the analysis were reached: it discarded the state of {} flows or packets.",
            totals.discarded
        );
        blocks.push(Block::Findings(vec![Finding::new(Tone::Mixed, "", text)]));
    }
    let flows = [totals.tcp_connections, totals.mptcp_connections, totals.quic_connections];
    let flows = flows.into_iter().fold(0, u64::saturating_add);
    let left_out = flows.saturating_sub(document.connections.len() as u64);
    if left_out > 0 {
        let text = format!(
            "Shown are {} of {flows} connections, those with the most payload; `--most` shows more.",
            document.connections.len()
        );
        blocks.push(Block::Findings(vec![Finding::new(Tone::Neutral, "", text)]));
    }
    Section::new("Totals", "", blocks)
}

/// One line per connection, if there are several.
fn connections(document: &TraceDocument) -> Option<Section> {
    if document.connections.len() < 2 {
        return None;
    }
    Items::new(&document.connections)
        .number("start", |one| seconds(one.start_s))
        .number("duration", |one| Cell::quantity(one.duration_s * 1e3, Unit::Duration))
        .number("upload", |one| Cell::bytes(data(one, &one.upload, |subflow| &subflow.upload)))
        .number("download", |one| Cell::bytes(data(one, &one.download, |subflow| &subflow.download)))
        .number("subflows", |one| Cell::count(one.subflows.len() as u64))
        .number("retransmitted", |one| {
            let both = || one.subflows.iter().flat_map(|subflow| [&subflow.upload, &subflow.download]);
            let again = both().map(|figures| figures.retransmitted_bytes).fold(0, u64::saturating_add);
            part(again, both().map(|figures| figures.payload_bytes).fold(0, u64::saturating_add))
        })
        .each(|row, one| {
            row.group = format!("{}  {}  {}", one.id, transport(one), arrow(one.client, one.server));
        })
        .without_empty_columns()
        .section("Connections", "upload and download: data, or payload where data cannot be seen")
}

/// Data of one direction; the payload where the data level cannot be seen (QUIC without keys).
fn data(
    connection: &TracedConnection,
    direction: &ConnectionDirection,
    of: impl Fn(&TracedSubflow) -> &SubflowDirection,
) -> u64 {
    if direction.data_bytes > 0 {
        return direction.data_bytes;
    }
    connection.subflows.iter().map(|one| of(one).payload_bytes).fold(0, u64::saturating_add)
}

pub(crate) fn findings(document: &TraceDocument) -> Option<Section> {
    let found: Vec<(Finding, String)> =
        document.findings.iter().map(|one| finding(one, &document.captures)).collect();
    (!found.is_empty()).then(|| Section::new("Findings", "", vec![Block::Evidence(found)]))
}

fn finding(one: &TraceFinding, captures: &[CaptureRecord]) -> (Finding, String) {
    let tone = match one.level.as_str() {
        "error" => Tone::Bad,
        "warning" => Tone::Mixed,
        _ => Tone::Neutral,
    };
    let subject = match (one.connection, one.subflow) {
        (Some(connection), Some(subflow)) => format!("Connection {connection}, subflow {subflow}:"),
        (Some(connection), None) => format!("Connection {connection}:"),
        _ => String::new(),
    };
    let text = match one.capture.filter(|_| captures.len() > 1) {
        Some(capture) => format!("{} (frames of {})", one.text, capture_name(capture, captures)),
        None => one.text.clone(),
    };
    (Finding::new(tone, subject, text), one.filter.clone())
}
