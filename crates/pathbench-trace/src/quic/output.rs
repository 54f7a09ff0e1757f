//! A connection as the result shows it.

use super::connection::{CLIENT, Connection, SERVER, Signal};
use super::header::ConnectionId;
use super::path::{Direction, Path, Windows};
use crate::display_filter::display_filter;
use pathbench_record::trace::{
    ConnectionDirection, HandshakeEvidence, SubflowDirection, TracedConnection, TracedQuic, TracedSignal,
    TracedSubflow,
};

/// Connection ids of one end in the result.
const SHOWN_IDS: usize = 32;

/// Times count from `origin_ns`.
pub(super) fn connection(id: u64, connection: &Connection, origin_ns: u64) -> TracedConnection {
    let seconds = |time_ns: u64| time_ns.saturating_sub(origin_ns) as f64 / 1e9;
    let has_path_ids = connection.paths.iter().any(|path| path.id.is_some_and(|id| id > 0));
    let negotiated = connection.parameters.iter().all(|parameters| {
        parameters.as_ref().is_some_and(|parameters| parameters.initial_max_path_id.is_some())
    });
    let first = connection.paths.first();
    TracedConnection {
        id,
        transport: if has_path_ids || negotiated { "mpquic" } else { "quic" }.to_owned(),
        client: first.map(|path| path.client.into()),
        server: first.map(|path| path.server.into()),
        start_s: seconds(connection.start_ns),
        duration_s: connection.end_ns.saturating_sub(connection.start_ns) as f64 / 1e9,
        version: Some(format!("{:#010x}", connection.version)),
        handshake: if connection.handshake_captured {
            HandshakeEvidence::Captured
        } else {
            HandshakeEvidence::Missing
        },
        upload: direction(connection, CLIENT),
        download: direction(connection, SERVER),
        subflows: (0..)
            .zip(&connection.paths)
            .map(|(number, path)| subflow(number, path, connection, &seconds))
            .collect(),
        signals: connection.signals.iter().map(|signal| traced_signal(signal, &seconds)).collect(),
        quic: Some(quic(connection)),
        filter: connection
            .paths
            .iter()
            .map(|path| format!("({})", display_filter("udp", [path.client, path.server])))
            .collect::<Vec<_>>()
            .join(" || "),
        ..TracedConnection::default()
    }
}

/// Moves all times.
pub(super) fn shift(connection: &mut TracedConnection, seconds: f64) {
    connection.start_s += seconds;
    for subflow in &mut connection.subflows {
        subflow.start_s += seconds;
        subflow.end_s += seconds;
    }
    for signal in &mut connection.signals {
        signal.at_s += seconds;
    }
}

fn direction(connection: &Connection, side: usize) -> ConnectionDirection {
    let directions = || connection.paths.iter().map(|path| &path.directions[side]);
    let sum = |figure: fn(&Direction) -> u64| directions().map(figure).sum::<u64>();
    let mut goodput = Windows::default();
    directions().for_each(|direction| goodput.merge(&direction.goodput));
    ConnectionDirection {
        data_bytes: sum(|direction| direction.data_bytes),
        payload_bytes: sum(|direction| direction.payload_bytes),
        reinjected_bytes: (connection.counts.decrypted > 0)
            .then(|| sum(|direction| direction.reinjected_bytes)),
        goodput: goodput.series(),
        ..ConnectionDirection::default()
    }
}

fn subflow(id: u32, path: &Path, connection: &Connection, seconds: &impl Fn(u64) -> f64) -> TracedSubflow {
    let rtt = |side: usize| path.directions[side].rtt.distribution();
    let figures = |side: usize| subflow_direction(&path.directions[side], connection.counts.decrypted > 0);
    TracedSubflow {
        id,
        client: Some(path.client.into()),
        server: Some(path.server.into()),
        start_s: seconds(path.start_ns),
        end_s: seconds(path.end_ns),
        kind: if id == 0 { "initial" } else { "path" }.to_owned(),
        backup: path.backup,
        path_id: path.id,
        end: end(path, connection).to_owned(),
        upload_rtt_ms: rtt(CLIENT),
        download_rtt_ms: rtt(SERVER),
        handshake_rtt_ms: handshake_rtt_ms(connection).filter(|_| id == 0),
        upload: figures(CLIENT),
        download: figures(SERVER),
        filter: display_filter("udp", [path.client, path.server]),
        ..TracedSubflow::default()
    }
}

fn end(path: &Path, connection: &Connection) -> &'static str {
    if path.abandoned {
        "abandoned"
    } else if connection.counts.closes > 0 {
        "closed"
    } else {
        "open"
    }
}

fn subflow_direction(direction: &Direction, decrypted: bool) -> SubflowDirection {
    SubflowDirection {
        packets: direction.packets,
        ip_bytes: direction.ip_bytes,
        payload_bytes: direction.payload_bytes,
        stream_bytes: decrypted.then_some(direction.stream_bytes),
        retransmitted_bytes: direction.retransmitted_bytes,
        retransmitted_packets: direction.retransmitted_packets,
        out_of_order_bytes: direction.gap_bytes,
        reinjected_bytes: decrypted.then_some(direction.reinjected_bytes),
        congestion_experienced_packets: direction.congestion_experienced,
        segment_sizes: direction.sizes.counts(),
        largest_ip_bytes: direction.largest_ip_bytes,
        throughput: direction.throughput.series(),
        goodput: direction.goodput.series(),
        ..SubflowDirection::default()
    }
}

fn traced_signal(signal: &Signal, seconds: &impl Fn(u64) -> f64) -> TracedSignal {
    TracedSignal {
        at_s: seconds(signal.context.time_ns),
        kind: signal.kind.to_owned(),
        sender: if signal.context.side == CLIENT { "client" } else { "server" }.to_owned(),
        subflow: signal.context.path as u32,
        detail: signal.detail.clone(),
        ..TracedSignal::default()
    }
}

fn handshake_rtt_ms(connection: &Connection) -> Option<f64> {
    let server = connection.first_server_ns.filter(|_| connection.handshake_captured)?;
    Some(server.saturating_sub(connection.start_ns) as f64 / 1e6)
}

fn quic(connection: &Connection) -> TracedQuic {
    let ids = |side: usize| -> Vec<String> {
        connection.ids[side]
            .iter()
            .map(|(id, _): &(ConnectionId, u32)| id.to_string())
            .take(SHOWN_IDS)
            .collect()
    };
    let max_path_id = |side: usize| connection.parameters[side].as_ref()?.initial_max_path_id;
    let counts = connection.counts;
    let chosen = if connection.alpn.is_empty() { &connection.offered_alpn } else { &connection.alpn };
    TracedQuic {
        client_connection_ids: ids(CLIENT),
        server_connection_ids: ids(SERVER),
        server_name: connection.server_name.clone(),
        alpn: chosen.clone(),
        retry: connection.retry,
        version_negotiation: connection.version_negotiation,
        initial_packets: counts.initial,
        handshake_packets: counts.handshake,
        zero_rtt_packets: counts.zero_rtt,
        one_rtt_packets: counts.one_rtt,
        handshake_rtt_ms: handshake_rtt_ms(connection),
        decrypted: (connection.counts.decrypted > 0),
        undecrypted_packets: connection.has_keys().then_some(counts.undecrypted),
        duplicate_packets: connection.has_keys().then_some(counts.duplicates),
        key_updates: connection
            .has_keys()
            .then(|| connection.one_rtt.iter().flatten().map(|keys| keys.updates).sum()),
        limits: limits(connection),
        client_max_path_id: max_path_id(CLIENT),
        server_max_path_id: max_path_id(SERVER),
    }
}

fn limits(connection: &Connection) -> Vec<String> {
    let mut limits = Vec::new();
    if !connection.handshake_captured {
        limits.push(
            "the capture has no complete first Initial packet: server name, ALPN and keys are unknown"
                .to_owned(),
        );
    }
    if !connection.has_keys() {
        limits.push(
            "without the TLS secrets (SSLKEYLOGFILE) the packet numbers, retransmissions, round trips and further \
             paths of this connection cannot be seen; packets of further paths count as other UDP flows"
                .to_owned(),
        );
    } else if connection.counts.undecrypted > 0 {
        limits.push(format!(
            "{} of {} 1-RTT packets could not be decrypted: truncated, or captured out of order",
            connection.counts.undecrypted, connection.counts.one_rtt
        ));
    }
    if connection.counts.unknown_frames > 0 {
        limits.push(format!(
            "{} 1-RTT packets have frames of unknown types: what follows them in the packet is not counted",
            connection.counts.unknown_frames
        ));
    }
    limits
}
