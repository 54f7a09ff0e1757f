//! Cells and words for connections in captures.

use crate::quantity::{NONE, Unit};
use crate::section::content::Cell;
use pathbench_record::trace::{
    CaptureRecord, Series, TraceDocument, TracedConnection, TracedDistribution, TracedSubflow,
};
use std::cmp::Reverse;
use std::fmt::Display;
use std::net::SocketAddr;

/// The number of a capture and the name of its file without directories.
pub(super) fn capture_name(index: u32, captures: &[CaptureRecord]) -> String {
    let capture = captures.get(index as usize);
    let name = capture.and_then(|capture| capture.file.rsplit('/').next()).unwrap_or_default();
    if captures.len() > 1 { format!("{index} {name}") } else { name.to_owned() }
}

/// A column of zeros is left out.
pub(super) fn counted_if_any(count: u64) -> Cell {
    positive(count).map_or_else(Cell::absent, Cell::count)
}

pub(super) fn positive(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

/// The connections with the most payload, in the order of their numbers.
pub(crate) fn largest_connections(document: &TraceDocument, most: usize) -> Vec<&TracedConnection> {
    let mut largest: Vec<&TracedConnection> = document.connections.iter().collect();
    largest.sort_by_key(|one| Reverse(payload(one)));
    largest.truncate(most);
    largest.sort_by_key(|one| one.id);
    largest
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
    format!("{} → {}", known(client), known(server))
}

/// `MPTCP, 192.0.2.1:40000 → 198.51.100.1:443`.
pub(crate) fn transport_and_ends(connection: &TracedConnection) -> String {
    format!("{}, {}", transport(connection), arrow(connection.client, connection.server))
}

pub(crate) fn subflow_name(connection: &TracedConnection, subflow: &TracedSubflow) -> String {
    let noun = if connection.transport.ends_with("quic") { "path" } else { "subflow" };
    let client = subflow.client.map_or_else(String::new, |client| format!(" {client}"));
    format!("{noun} {}{client}", subflow.id)
}

fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

/// A property of client and server: `MSS 1460 / ?`. `None` if it is not known of either.
pub(super) fn of_both(
    name: &str,
    client: Option<impl Display>,
    server: Option<impl Display>,
) -> Option<String> {
    let is_known = client.is_some() || server.is_some();
    is_known.then(|| format!("{name} {} / {}", known(client), known(server)))
}

/// A time of the capture.
pub(super) fn seconds(at_s: f64) -> Cell {
    Cell::text(time(at_s))
}

pub(super) fn time(at_s: f64) -> String {
    // Longer than any capture.
    if at_s.abs() < 1e9 { format!("{at_s:.3} s") } else { NONE.to_owned() }
}

/// A part of bytes in percent; absent if it is zero.
pub(super) fn part(count: u64, all: u64) -> Cell {
    if count == 0 { Cell::absent() } else { Cell::quantity(count as f64 / all.max(1) as f64, Unit::Percent) }
}

/// The median of times in ms, with further quantiles below.
pub(super) fn distribution(found: Option<&TracedDistribution>) -> Cell {
    let Some(found) = found else { return Cell::absent() };
    let words = Unit::Duration.words();
    let cell = Cell::quantity(found.median, Unit::Duration);
    if found.count < 2 {
        return cell;
    }
    cell.with_line(format!("p95 {}", words(found.p95))).with_line(format!("max {}", words(found.max)))
}

pub(super) fn sum(series: &Series) -> u64 {
    series.bytes.iter().copied().fold(0, u64::saturating_add)
}
