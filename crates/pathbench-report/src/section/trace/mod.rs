//! The analysis of packet captures: captures, totals, connections, findings.

mod comparison;
mod connection;
mod quic;
mod subflows;

use super::{Block, Cell, Finding, Items, Section};
use crate::narrative::Tone;
use crate::quantity::{NONE, Unit, bytes};
use pathbench_record::text::duration_s;
use pathbench_record::trace::{
    CaptureRecord, ConnectionDirection, Distribution, Series, SubflowDirection, TraceDocument, TraceFinding,
    TraceTotals, TracedConnection, TracedSubflow,
};
use std::fmt::Display;
use std::net::SocketAddr;

/// Connections with details in the terminal.
const MOST_DETAILED: usize = 5;

/// The sections of the terminal.
pub(crate) fn summary(document: &TraceDocument) -> Vec<Section> {
    let mut detailed: Vec<&TracedConnection> = document.connections.iter().collect();
    detailed.sort_by_key(|one| std::cmp::Reverse(payload(one)));
    detailed.truncate(MOST_DETAILED);
    detailed.sort_by_key(|one| one.id);
    let details = detailed.into_iter().flat_map(|one| connection::sections(one, &document.captures, true));
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
    let table = Items::of(rows)
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
        })
        .without_empty_columns()
        .table;
    let remark = match document.captures.iter().map(|one| one.packets).max() {
        None | Some(0) => "no packets".to_owned(),
        _ => format!("from {}, {}", document.started, duration_s(document.duration_s)),
    };
    Section::new("Captures", remark, vec![Block::Table(table)])
}

/// The number of a capture and the name of its file without directories.
fn capture_name(index: u32, captures: &[CaptureRecord]) -> String {
    let capture = captures.get(index as usize);
    let name = capture.and_then(|capture| capture.file.rsplit('/').next()).unwrap_or_default();
    if captures.len() > 1 { format!("{index} {name}") } else { name.to_owned() }
}

fn interfaces(capture: &CaptureRecord) -> Cell {
    const MOST: usize = 4;
    let mut words = capture.interfaces.iter().map(|one| match &one.name {
        Some(name) => format!("{name} ({}): {}", one.link_type, one.packets),
        None => one.link_type.clone(),
    });
    let first = words.next().map_or_else(Cell::absent, Cell::text);
    let cell = words.by_ref().take(MOST - 1).fold(first, Cell::below);
    let more = capture.interfaces.len().saturating_sub(MOST);
    cell.below(if more > 0 { format!("and {more} more") } else { String::new() })
}

/// A column of zeros is left out.
fn counted_if_any(count: u64) -> Cell {
    if count == 0 { Cell::absent() } else { Cell::count(count) }
}

fn totals(document: &TraceDocument) -> Section {
    let TraceTotals {
        tcp_connections,
        mptcp_connections,
        mptcp_subflows,
        quic_connections,
        other_udp_flows,
        payload_bytes,
        discarded,
    } = document.totals;
    let parts = [
        many(mptcp_connections, "MPTCP connection").map(|text| {
            let subflows = many(mptcp_subflows, "subflow").unwrap_or_else(|| "no subflow".to_owned());
            format!("{text} with {subflows}")
        }),
        many(tcp_connections, "TCP connection"),
        many(quic_connections, "QUIC connection"),
        many(other_udp_flows, "other UDP flow"),
        Some(format!("{} of payload", bytes(payload_bytes))),
    ];
    let mut found: Vec<String> = parts.into_iter().flatten().collect();
    if found.len() == 1 {
        found.insert(0, "no TCP, MPTCP or QUIC connection".to_owned());
    }
    let mut blocks = vec![Block::Text(found.join(", "))];
    if discarded > 0 {
        let text = format!(
            "The memory limits of the analysis were reached: it discarded the state of {discarded} flows or packets."
        );
        blocks.push(Block::Findings(vec![Finding::new(Tone::Mixed, "", text)]));
    }
    let flows = tcp_connections.saturating_add(mptcp_connections).saturating_add(quic_connections);
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

fn many(count: u64, noun: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        count => Some(format!("{count} {noun}s")),
    }
}

/// One line per connection, if there are several.
fn connections(document: &TraceDocument) -> Option<Section> {
    if document.connections.len() < 2 {
        return None;
    }
    Items::of(&document.connections)
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
    let found: Vec<(Finding, String)> = document.findings.iter().map(finding).collect();
    (!found.is_empty()).then(|| Section::new("Findings", "", vec![Block::Evidence(found)]))
}

fn finding(one: &TraceFinding) -> (Finding, String) {
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
    (Finding::new(tone, subject, &*one.text), one.filter.clone())
}

pub(crate) fn transport(connection: &TracedConnection) -> String {
    match connection.transport.as_str() {
        "tcp" => "TCP".to_owned(),
        "mptcp" => "MPTCP".to_owned(),
        "quic" => "QUIC".to_owned(),
        "mpquic" => "MPQUIC".to_owned(),
        other => other.to_owned(),
    }
}

pub(crate) fn payload(connection: &TracedConnection) -> u64 {
    connection.upload.payload_bytes.saturating_add(connection.download.payload_bytes)
}

pub(crate) fn arrow(client: Option<SocketAddr>, server: Option<SocketAddr>) -> String {
    format!("{} → {}", address(client), address(server))
}

fn address(address: Option<impl Display>) -> String {
    address.map_or_else(|| "?".to_owned(), |address| address.to_string())
}

/// A time of the capture.
fn seconds(at_s: f64) -> Cell {
    Cell::text(time(at_s))
}

fn time(at_s: f64) -> String {
    // Longer than any capture.
    if at_s.abs() < 1e9 { format!("{at_s:.3} s") } else { NONE.to_owned() }
}

/// A part of bytes in percent; absent if it is zero.
fn part(count: u64, all: u64) -> Cell {
    if count == 0 { Cell::absent() } else { Cell::quantity(count as f64 / all.max(1) as f64, Unit::Percent) }
}

/// The median of times in ms, with further quantiles below.
fn distribution(found: Option<&Distribution>) -> Cell {
    let Some(found) = found else { return Cell::absent() };
    let words = Unit::Duration.words();
    let cell = Cell::quantity(found.median, Unit::Duration);
    if found.count < 2 {
        return cell;
    }
    cell.below(format!("p95 {}", words(found.p95))).below(format!("max {}", words(found.max)))
}

fn sum(series: &Series) -> u64 {
    series.bytes.iter().copied().fold(0, u64::saturating_add)
}
