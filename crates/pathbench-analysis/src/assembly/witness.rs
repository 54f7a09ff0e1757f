//! The second witness of a path's bytes: the counters of its link in a lab, of its interface on a host.
//!
//! The bytes of `paths[]` and those of the counters may not differ by more than 5 % without a note.

use super::paths::figures_of;
use super::resolved::{ResolvedFlow, ResolvedRun};
use crate::attribution::CarriedBytes;
use pathbench_record::direction::Direction;
use pathbench_record::network::{AddressFamily, ETHERNET_HEADER_BYTES, TCP_HEADER_BYTES};
use pathbench_record::sample::PathFigures;
use pathbench_record::transport::Transport;

/// Largest relative difference without a note.
const TOLERANCE: f64 = 0.05;
/// Handshakes, address resolution and the end of the connection, which figures do not include.
const ALLOWANCE_BYTES: f64 = 20_000.0;
/// Largest packet of most paths: a larger one has fewer headers.
const PACKET_BYTES: u64 = 1_500;
/// Most header bytes of a packet with payload: Ethernet, IPv6, TCP with time stamps and a DSS option (RFC 8684, section 3.3);
/// or UDP and QUIC.
const MOST_HEADER_BYTES: u64 = 120;

/// Bounds of the bytes that a path's link can have carried in one direction.
#[derive(Debug, Clone, Copy)]
struct Expected {
    delivered: u64,
    least: f64,
    /// `None` where the sender's record is missing.
    most: Option<f64>,
}

/// A note for each path and direction in which figures and counters contradict each other.
pub(super) fn notes(run: &ResolvedRun<'_>) -> Vec<String> {
    if run.evidence.label.transport == Transport::Udp {
        // The figures are those of the control connection; the logs of datagrams have both ends.
        return Vec::new();
    }
    let of_flow =
        |flow| run.names.carried.iter().filter_map(move |(path, bytes)| note(run, flow, path, *bytes));
    run.flows.iter().flat_map(of_flow).collect()
}

fn note(run: &ResolvedRun<'_>, flow: &ResolvedFlow<'_>, path: &str, bytes: CarriedBytes) -> Option<String> {
    let (carried, towards) = match flow.direction {
        Direction::Upload => (bytes.from_client, "to the server"),
        Direction::Download => (bytes.to_client, "to the client"),
    };
    let expected = expected(run, flow, path)?;
    let too_few = (carried as f64) < expected.least * (1.0 - TOLERANCE) && expected.least > ALLOWANCE_BYTES;
    let too_many = || {
        // The server's record follows its data over the same connection.
        let record = || match flow.direction {
            Direction::Upload => 0.0,
            Direction::Download => record_bytes(run),
        };
        let is_above = |most: f64| carried as f64 > most * (1.0 + TOLERANCE) + ALLOWANCE_BYTES;
        bytes.only_of_run && expected.most.is_some_and(|most| is_above(most) && is_above(most + record()))
    };
    if !too_few && !too_many() {
        return None;
    }
    let what = if bytes.only_of_run { "link" } else { "interface" };
    Some(format!(
        "the {what} of path {path} carried {} kB {towards}, and its subflows delivered {} kB: they differ by more than 5 %, \
         so that the shares of the paths are uncertain",
        carried / 1000,
        expected.delivered / 1000
    ))
}

fn expected(run: &ResolvedRun<'_>, flow: &ResolvedFlow<'_>, path: &str) -> Option<Expected> {
    let of = |end| figures_of(run, end, flow.direction, path);
    let sum = |figures: &[PathFigures], of: fn(&PathFigures) -> u64| {
        figures.iter().map(of).fold(0, u64::saturating_add)
    };
    let sent = flow.sender.map(of);
    let delivered = match (flow.receiver, &sent) {
        (Some(receiver), _) => sum(&of(receiver), |figures| figures.bytes_received),
        (None, Some(sent)) => sum(sent, PathFigures::payload_acked),
        (None, None) => return None,
    };
    let header = AddressFamily::Ipv4.header_bytes() + TCP_HEADER_BYTES + ETHERNET_HEADER_BYTES;
    let headers = delivered.div_ceil(PACKET_BYTES).saturating_mul(header.into());
    let most = sent.map(|sent| {
        let payload = sum(&sent, |one| one.bytes_sent.saturating_add(one.control_bytes_sent.unwrap_or(0)));
        let packets = sum(&sent, |one| one.packets_sent.unwrap_or(one.bytes_sent / 500));
        payload as f64 + packets.saturating_mul(MOST_HEADER_BYTES) as f64
    });
    // An interface of a tunnel has no Ethernet header, and GSO packets count once: 1 % of the payload.
    Some(Expected { delivered, least: delivered as f64 + headers as f64 / 2.0, most })
}

fn record_bytes(run: &ResolvedRun<'_>) -> f64 {
    let record = run.evidence.server.as_ref();
    record.and_then(|record| serde_json::to_vec(record).ok()).map_or(0.0, |bytes| bytes.len() as f64 * 1.1)
}
