//! `trace.json`: the analysis of packet captures.
//!
//! Times `_s` count from the first packet of all captures. Upload is the direction from the client (the end that sent
//! the SYN or the first Initial packet) to the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::net::SocketAddr;

/// Version of the format.
pub const SCHEMA: &str = "pathbench.trace/1";

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TraceDocument {
    /// `pathbench.trace/1`.
    pub schema: String,
    /// RFC 3339, of the first packet.
    pub started: String,
    /// From the first to the last packet.
    pub duration_s: f64,
    /// The captures, in the order of the command line.
    pub captures: Vec<CaptureRecord>,
    /// Sums over all connections.
    pub totals: TraceTotals,
    /// Those with the most payload, in order of their start.
    pub connections: Vec<TracedConnection>,
    /// Conclusions.
    pub findings: Vec<TraceFinding>,
}

/// One file, or one interface of a live capture.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct CaptureRecord {
    /// The name of the file, `standard input`, or the interface of a live capture.
    pub file: String,
    /// `pcap`, `pcapng`, `live`.
    pub format: String,
    /// `gzip`, `zstd`.
    pub compression: Option<String>,
    /// The interfaces that the file describes; the interface of a live capture.
    pub interfaces: Vec<CaptureInterface>,
    /// Packets read.
    pub packets: u64,
    /// As captured.
    pub captured_bytes: u64,
    /// On the wire, with link-layer headers.
    pub wire_bytes: u64,
    /// Packets truncated to the snap length.
    pub truncated_packets: u64,
    /// Packets that are neither TCP nor UDP nor an ICMP message about a path MTU, or whose headers are damaged.
    pub other_packets: u64,
    /// Those of `other_packets` in which connections may be: packets of link types, tunnels and protocols that are not
    /// decoded, and packets with damaged headers.
    pub undecoded: Vec<UndecodedPackets>,
    /// Packets that a live capture lost because they arrived faster than it took them.
    pub dropped_packets: Option<u64>,
    /// The reader stopped here: place and reason.
    pub damage: Option<String>,
}

/// Packets that the analysis does not decode, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct UndecodedPackets {
    /// Words that complete "12 packets … were not decoded": `inside ESP`, `of link type atm_rfc1483`, ….
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct CaptureInterface {
    /// The name of the interface.
    pub name: Option<String>,
    /// As in <https://www.tcpdump.org/linktypes.html>, without `LINKTYPE_`, in lower case.
    pub link_type: String,
    /// Packets of the interface.
    pub packets: u64,
}

/// Over all connections, also those that [`TraceDocument::connections`] omits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TraceTotals {
    /// TCP connections without MPTCP.
    pub tcp_connections: u64,
    /// MPTCP connections.
    pub mptcp_connections: u64,
    /// Subflows of the MPTCP connections.
    pub mptcp_subflows: u64,
    /// QUIC connections.
    pub quic_connections: u64,
    /// UDP flows without a recognised QUIC handshake.
    pub other_udp_flows: u64,
    /// Payload of TCP and UDP on the wire.
    pub payload_bytes: u64,
    /// Copies of TCP packets that the captures have already: of a mirror port, or of several interfaces in one file.
    pub duplicate_packets: u64,
    /// TCP packets with more payload than the maximum segment size, which offload (GSO, TSO, GRO) of the capturing host joined.
    pub offload_packets: u64,
    /// IP datagrams of which a fragment was not captured, or whose fragments contradict each other.
    pub incomplete_datagrams: u64,
    /// State that the analysis discarded because its bounds were reached.
    pub discarded: u64,
}

/// A connection of TCP, Multipath TCP, QUIC or Multipath QUIC.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TracedConnection {
    /// In order of the first packet, from 0.
    pub id: u64,
    /// `tcp`, `mptcp`, `quic`, `mpquic`.
    pub transport: String,
    /// Of the first subflow.
    pub client: Option<SocketAddr>,
    /// Of the first subflow.
    pub server: Option<SocketAddr>,
    /// Time of the first packet.
    pub start_s: f64,
    /// From the first to the last packet.
    pub duration_s: f64,
    /// Version of MPTCP (0, 1), or of QUIC (`0x00000001`).
    pub version: Option<String>,
    /// Evidence that groups the subflows.
    pub handshake: HandshakeEvidence,
    /// Of MPTCP, `0x` and eight hexadecimal digits: the token that a join of the peer carries.
    pub client_token: Option<String>,
    /// As `client_token`, of the server.
    pub server_token: Option<String>,
    /// DSS checksums were negotiated.
    pub checksums: Option<bool>,
    /// Mappings with a right checksum.
    pub checksums_verified: Option<u64>,
    /// Mappings with a wrong checksum.
    pub checksums_wrong: Option<u64>,
    /// Fallback to TCP.
    pub fallback: Option<Fallback>,
    /// Data from the client to the server.
    pub upload: ConnectionDirection,
    /// Data from the server to the client.
    pub download: ConnectionDirection,
    /// TCP flows, subflows or paths.
    pub subflows: Vec<TracedSubflow>,
    /// Signals, in order of time.
    pub signals: Vec<TracedSignal>,
    /// Facts of a QUIC connection.
    pub quic: Option<TracedQuic>,
    /// A Wireshark display filter of its packets, those of the first 64 subflows.
    pub filter: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum HandshakeEvidence {
    /// The first handshake is in the capture.
    Captured,
    /// The connection began before the capture; its subflows are grouped by the token of a join.
    Token,
    /// The connection began before the capture; its subflows are grouped by interleaved data sequence numbers.
    Guessed,
    #[default]
    Missing,
}

/// Why and when an MPTCP connection became, or stayed, a connection of plain TCP (RFC 8684, section 3.7).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct Fallback {
    /// Time of the packet that shows it.
    pub at_s: f64,
    /// `peer-declined`, `option-removed`, `option-overwritten`, `infinite-mapping`, `mp-fail`, `no-dss`.
    pub reason: String,
    /// A Wireshark display filter of that packet.
    pub filter: String,
}

/// The data level of a connection in one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct ConnectionDirection {
    /// Distinct bytes of application data.
    pub data_bytes: u64,
    /// Payload on the wire over all subflows, with retransmissions and reinjections.
    pub payload_bytes: u64,
    /// Data acknowledged by the peer (`DATA_ACK`; the acknowledgment number of TCP).
    pub acknowledged_bytes: Option<u64>,
    /// Data sent again under another (subflow, subflow sequence number).
    pub reinjected_bytes: Option<u64>,
    /// The part of it that was sent again on the subflow that had carried it.
    pub reinjected_same_subflow_bytes: Option<u64>,
    /// The part of it whose earlier copy was not acknowledged on its subflow when the peer acknowledged the data.
    pub reinjected_needed_bytes: Option<u64>,
    /// Time from the arrival of data out of order (data level) to the arrival of the data before them.
    pub out_of_order_delay_ms: Option<TracedDistribution>,
    /// Longest time without new data between two times with data.
    pub stall_ms: Option<f64>,
    /// `zero-window`: the receiver's window was zero for most of that time.
    pub stall_reason: Option<String>,
    /// Data for the first time on the wire.
    pub goodput: Series,
}

/// Bytes per window of equal length, from the start of the connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct Series {
    /// Length of a window.
    pub window_s: f64,
    /// Bytes of each window.
    pub bytes: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TracedDistribution {
    /// Number of values.
    pub count: u64,
    /// Lowest value.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Highest value.
    pub max: f64,
}

/// A TCP flow; a subflow of MPTCP; a path of QUIC.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TracedSubflow {
    /// Within the connection, from 0, in order of the first packet.
    pub id: u32,
    /// Address and port of the client.
    pub client: Option<SocketAddr>,
    /// Address and port of the server.
    pub server: Option<SocketAddr>,
    /// Time of the first packet.
    pub start_s: f64,
    /// Time of the last packet.
    pub end_s: f64,
    /// `initial`, `join`, `guessed`, `path` (QUIC).
    pub kind: String,
    /// MPTCP address id of the client.
    pub client_address_id: Option<u8>,
    /// MPTCP address id of the server.
    pub server_address_id: Option<u8>,
    /// A backup subflow (`B` of `MP_JOIN` or `MP_PRIO`).
    pub backup: Option<bool>,
    /// Path id of Multipath QUIC, with keys.
    pub path_id: Option<u32>,
    /// The handshake of the join carried the right HMACs (known only with both keys).
    pub authenticated: Option<bool>,
    /// The fate of the SYN: `answered`, `unanswered`, `refused` (an RST before the handshake was complete),
    /// `unacknowledged` (the SYN/ACK was not).
    pub opening: Option<String>,
    /// `client`, `server`: the end whose RST refused the SYN or the SYN/ACK.
    pub refused_by: Option<String>,
    /// SYNs of the client, with those sent again.
    pub syns: Option<u32>,
    /// `fin`, `reset`, `open`, `abandoned` (`PATH_ABANDON` of Multipath QUIC), `closed` (`CONNECTION_CLOSE` of QUIC).
    pub end: String,
    /// `MP_TCPRST` reason (RFC 8684, section 3.6).
    pub reset_reason: Option<String>,
    /// Maximum segment size option of the client's SYN.
    pub client_mss: Option<u16>,
    /// Maximum segment size option of the server's SYN/ACK.
    pub server_mss: Option<u16>,
    /// Of upload data: from data to their acknowledgment, without retransmitted data (Karn).
    pub upload_rtt_ms: Option<TracedDistribution>,
    /// Of download data: from data to their acknowledgment, without retransmitted data (Karn).
    pub download_rtt_ms: Option<TracedDistribution>,
    /// SYN to the acknowledgment of the SYN/ACK, at the point of capture both parts of it; of several SYNs, from the one
    /// that was answered.
    pub handshake_rtt_ms: Option<f64>,
    /// Packets from the client to the server.
    pub upload: SubflowDirection,
    /// Packets from the server to the client.
    pub download: SubflowDirection,
    /// ICMP messages about the path MTU.
    pub too_big: Vec<TooBigMessage>,
    /// Packets above this IP length were never acknowledged while smaller ones were.
    pub black_hole_above_bytes: Option<u32>,
    /// The two points of capture of this subflow compared.
    pub comparison: Option<SubflowComparison>,
    /// A Wireshark display filter of its packets.
    pub filter: String,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct SubflowDirection {
    /// Packets, also those without payload.
    pub packets: u64,
    /// IP bytes.
    pub ip_bytes: u64,
    /// Payload on the wire, with retransmissions.
    pub payload_bytes: u64,
    /// Payload of the STREAM frames of QUIC, with retransmissions; with keys.
    pub stream_bytes: Option<u64>,
    /// Payload whose (subflow) sequence numbers were on the wire before.
    pub retransmitted_bytes: u64,
    /// Packets with such payload.
    pub retransmitted_packets: u64,
    /// Payload that fills a gap below the highest sequence number, seen for the first time (lost before, or reordered).
    pub out_of_order_bytes: u64,
    /// Sequence numbers that were acknowledged but never captured.
    pub missing_bytes: u64,
    /// Payload acknowledged by the other end.
    pub acknowledged_bytes: u64,
    /// Payload that no mapping of MPTCP covers.
    pub unmapped_bytes: Option<u64>,
    /// Data that other (subflow, sequence number) pairs had carried before.
    pub reinjected_bytes: Option<u64>,
    /// SACK blocks that this direction carried.
    pub sack_blocks: u64,
    /// Duplicate acknowledgments that this direction carried.
    pub duplicate_acks: u64,
    /// Packets with a receive window of zero.
    pub zero_windows: u64,
    /// Longest time for which the receive window of this direction's sender was zero.
    pub zero_window_ms: Option<f64>,
    /// Keep-alives and window probes, whose byte is no data.
    pub keep_alives: u64,
    /// Copies of packets that the capture has already; the other figures leave them out.
    pub duplicate_packets: u64,
    /// Packets outside the window, such as challenge ACKs and packets of an earlier connection of the same ends: they
    /// prove nothing about this one.
    pub out_of_window_packets: u64,
    /// Packets with the ECN codepoint CE.
    pub congestion_experienced_packets: u64,
    /// Payload per packet; GSO and GRO packets as captured.
    pub segment_sizes: Vec<SizeCount>,
    /// Largest IP packet.
    pub largest_ip_bytes: u32,
    /// Payload on the wire.
    pub throughput: Series,
    /// Data that the connection had not carried before.
    pub goodput: Series,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct SizeCount {
    /// Payload of a packet.
    pub bytes: u32,
    /// Packets with this payload.
    pub packets: u64,
}

/// ICMP "fragmentation needed" or `ICMPv6` "packet too big" for a packet of this subflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TooBigMessage {
    /// Time of the message.
    pub at_s: f64,
    /// MTU in the message.
    pub mtu: u32,
    /// IP length of the packet that was too big.
    pub packet_bytes: u32,
    /// `upload`, `download`: direction of the packet that was too big.
    pub direction: String,
}

/// One signal of MPTCP (RFC 8684) or QUIC.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TracedSignal {
    /// Time of the packet.
    pub at_s: f64,
    /// `add-addr`, `add-addr-echo`, `remove-addr`, `mp-prio`, `mp-fail`, `fastclose`, `mp-tcprst`, `data-fin`;
    /// of QUIC: `path-challenge`, `path-response`, `path-abandon`, `path-status-backup`, `path-status-available`,
    /// `connection-close`.
    pub kind: String,
    /// `client`, `server`.
    pub sender: String,
    /// The subflow that carried it.
    pub subflow: u32,
    /// MPTCP address ids in the option.
    pub address_ids: Vec<u8>,
    /// Address (and port) in the option.
    pub address: Option<String>,
    /// Further content, in words.
    pub detail: Option<String>,
    /// How often it was sent again.
    pub repeats: u32,
}

/// The properties of a QUIC connection that a capture shows without keys, and with them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TracedQuic {
    /// Connection ids of the client, hexadecimal, in order of their first use.
    pub client_connection_ids: Vec<String>,
    /// Connection ids of the server, hexadecimal, in order of their first use.
    pub server_connection_ids: Vec<String>,
    /// SNI of the `ClientHello`.
    pub server_name: Option<String>,
    /// Protocols that the client offers (ALPN).
    pub alpn: Vec<String>,
    /// The server sent a Retry packet.
    pub retry: bool,
    /// The server sent a Version Negotiation packet.
    pub version_negotiation: bool,
    /// Initial packets of both ends.
    pub initial_packets: u64,
    /// Handshake packets of both ends.
    pub handshake_packets: u64,
    /// 0-RTT packets.
    pub zero_rtt_packets: u64,
    /// 1-RTT packets of both ends.
    pub one_rtt_packets: u64,
    /// First Initial packet to the first packet of the server.
    pub handshake_rtt_ms: Option<f64>,
    /// 1-RTT packets were decrypted.
    pub decrypted: bool,
    /// 1-RTT packets that the keys did not decrypt.
    pub undecrypted_packets: Option<u64>,
    /// 1-RTT packets whose packet number was captured before: at another point, or duplicated by the network.
    pub duplicate_packets: Option<u64>,
    /// Key updates of both ends (RFC 9001, section 6).
    pub key_updates: Option<u64>,
    /// Why packet numbers and further paths are absent.
    pub limits: Vec<String>,
    /// `initial_max_path_id` of the client (Multipath QUIC).
    pub client_max_path_id: Option<u64>,
    /// `initial_max_path_id` of the server (Multipath QUIC), with keys.
    pub server_max_path_id: Option<u64>,
}

/// A conclusion with its evidence.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct TraceFinding {
    /// `retransmissions`, `reinjections`, `fallback`, `option-removed`, `sequence-rewritten`, `payload-rewritten`,
    /// `black-hole`, `too-big`, `one-path`, `checksum`, `connect-unanswered`, `join-refused`, `never-joined`, ….
    pub id: String,
    /// `info`, `warning`, `error`.
    pub level: String,
    /// The connection.
    pub connection: Option<u64>,
    /// The subflow.
    pub subflow: Option<u32>,
    /// The conclusion, in words.
    pub text: String,
    /// A Wireshark display filter of the packets that show it; of frame numbers, the first 32 of them.
    pub filter: String,
    /// Index of the capture whose frame numbers the filter has.
    pub capture: Option<u32>,
}

/// A subflow at two points of capture.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct SubflowComparison {
    /// Index of the capture nearer to the client.
    pub client_capture: u32,
    /// Index of the capture nearer to the server.
    pub server_capture: u32,
    /// Clock of the server's capture minus clock of the client's.
    pub clock_offset_ms: Option<f64>,
    /// Half the width of the interval of the offset.
    pub clock_offset_uncertainty_ms: Option<f64>,
    /// Packets from the client to the server.
    pub upload: DirectionComparison,
    /// Packets from the server to the client.
    pub download: DirectionComparison,
    /// `sequence-rewritten`, `payload-rewritten`, `options-removed`, `mss-clamped`, `hop-limit`.
    pub middlebox: Vec<String>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct DirectionComparison {
    /// Payload at the sender's point of capture.
    pub sent_bytes: u64,
    /// Payload at the receiver's point of capture.
    pub received_bytes: u64,
    /// Payload at the sender's point of capture that never arrived at the receiver's.
    pub lost_bytes: u64,
    /// Payload that arrived after payload that was sent later.
    pub reordered_bytes: u64,
    /// One-way delay, clock offset removed.
    pub delay_ms: Option<TracedDistribution>,
}

/// One line of `sequence.jsonl`: a time-sequence graph of one direction of a subflow, or of a connection's data level.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct SequenceLine {
    /// `id` of the connection.
    pub connection: u64,
    /// `id` of the subflow; absent for the data level, whose segments name their subflow.
    pub subflow: Option<u32>,
    /// `upload`, `download`.
    pub direction: String,
    /// Segments with payload, in the order of capture.
    pub segments: Vec<SequenceSegment>,
    /// `[at_s, position]` of each new acknowledgment by the peer: it acknowledges the bytes before the position.
    pub acknowledgments: Vec<(f64, u64)>,
    /// Of so many segments and acknowledgments one is kept; retransmissions and reinjections are thinned last.
    pub thinned: u32,
}

/// Payload of one packet.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default)]
pub struct SequenceSegment {
    /// Time of the packet.
    pub at_s: f64,
    /// Relative sequence number of the first byte: that of the direction's first byte is 1. Without the handshake, they
    /// begin at 2³² (subflow) or 2⁴⁰ (data).
    pub start: u64,
    /// Relative sequence number after the last byte.
    pub end: u64,
    /// `data`, `out-of-order`, `retransmission`, `reinjection`.
    pub kind: String,
    /// At the data level: the subflow that carried it.
    pub subflow: Option<u32>,
}
