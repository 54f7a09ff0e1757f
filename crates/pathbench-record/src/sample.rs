//! One line of `samples.jsonl`: a path as the transport sees it at one moment.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Which end of the connection took a sample or made a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The end that opened the connection.
    Client,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Being opened (TCP: SYN sent or received; QUIC: not validated yet).
    #[default]
    Opening,
    /// Open; the transport may use it. Also a QUIC path that is suspended for its silence: that is an event.
    Open,
    /// Closed (QUIC: abandoned by either end); the figures are the last that were seen.
    Closed,
}

/// The transport's own view of one path. Counters run from the start of the connection.
///
/// Sources: for tcp and mptcp, `struct tcp_info` (linux/tcp.h) of the subflow, and payload is TCP payload; a
/// field that the kernel of the host did not report is absent. For quic and mpquic, the state of the QUIC path in
/// the process (RFC 9000, RFC 9002, draft-ietf-quic-multipath), and payload is the data of STREAM frames. What counts
/// whole packets (acknowledged, lost, in flight) counts them with their headers, and those without stream data too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// Which subflow: the kernel's subflow id where it tells, else the order of appearance. From 1.
    pub subflow: u32,
    /// QUIC path id (draft-ietf-quic-multipath, section 3.1; 0 is the handshake's). Absent for tcp and mptcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_id: Option<u64>,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Open, opening or closed.
    pub state: PathState,
    /// Whether the path is marked as backup, where the transport tells (QUIC: the status in force at this end).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// Payload bytes sent, retransmissions included (`tcpi_bytes_sent`; QUIC: data of STREAM frames).
    pub bytes_sent: u64,
    /// Packets sent, acknowledgements included (`tcpi_segs_out`; QUIC: datagrams). Absent where nobody counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_sent: Option<u64>,
    /// Packets received, acknowledgements included (`tcpi_segs_in`; QUIC: datagrams). Absent where nobody counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_received: Option<u64>,
    /// UDP payload sent in packets without stream data: handshake, acknowledgements, heartbeats, MTU probes, path
    /// validation. Absent for tcp and mptcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_bytes_sent: Option<u64>,
    /// The same, received. Absent for tcp and mptcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_bytes_received: Option<u64>,
    /// Payload bytes acknowledged (`tcpi_bytes_acked`; QUIC: sizes of acknowledged packets, with and without stream
    /// data).
    pub bytes_acked: u64,
    /// Payload bytes received in order on this path (`tcpi_bytes_received`; QUIC: data of STREAM frames in
    /// any order, duplicates included).
    pub bytes_received: u64,
    /// Payload bytes of [`Self::bytes_sent`] that had been sent before (`tcpi_bytes_retrans`: on this subflow; QUIC:
    /// stream data that had been sent before on any path).
    pub retransmitted_bytes: u64,
    /// Segments retransmitted (`tcpi_total_retrans`; QUIC: packets declared lost).
    pub retransmitted_segments: u64,
    /// Sizes of packets declared lost (QUIC, RFC 9002, section 6.1), MTU probes included. Absent for tcp and mptcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_bytes: Option<u64>,
    /// Packets sent to probe for a larger path MTU (RFC 8899). Absent for tcp and mptcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_probes: Option<u64>,
    /// Times that the path MTU was found too large and reset (RFC 8899, section 4.3). Absent for tcp and mptcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub black_holes: Option<u64>,
    /// Smoothed round-trip time.
    pub srtt_ms: f64,
    /// Mean deviation of the round-trip time.
    pub rttvar_ms: f64,
    /// Smallest round-trip time seen; absent before the first measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_ms: Option<f64>,
    /// Retransmission timeout in force (QUIC: the probe timeout, RFC 9002, section 6.2.1).
    pub rto_ms: f64,
    /// Exponential back-off steps of the retransmission timer (`tcpi_backoff`; QUIC: consecutive probe timeouts).
    pub backoff: u32,
    pub cwnd_bytes: u64,
    /// Bytes in flight: for tcp and mptcp estimated as unacknowledged − sacked − lost + retransmitted segments
    /// times MSS; for QUIC as its congestion controller counts them.
    pub in_flight_bytes: u64,
    /// Bytes in the socket not yet sent (`tcpi_notsent_bytes`); zero for QUIC, where data waits in the connection.
    pub not_sent_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_rate_bps: Option<u64>,
    /// Most recent delivery-rate estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_rate_bps: Option<u64>,
    /// Sending MSS in force (QUIC: largest UDP payload in force).
    pub mss_bytes: u32,
    /// Path MTU the kernel believes in (QUIC: largest UDP payload in force + UDP and IP header).
    pub pmtu_bytes: u32,
    /// Time since data was last sent on the path.
    pub since_last_sent_ms: u64,
    /// Time since data was last received on the path.
    pub since_last_received_ms: u64,
    /// Closed paths of the same two hosts whose counters are added up here. Absent for a path of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_paths: Option<u32>,
}

impl PathFigures {
    /// A path of which nothing is known but its ends: opening, all counters at zero.
    pub const fn between(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            subflow: 0,
            path_id: None,
            local,
            remote,
            state: PathState::Opening,
            backup: None,
            bytes_sent: 0,
            packets_sent: None,
            packets_received: None,
            control_bytes_sent: None,
            control_bytes_received: None,
            bytes_acked: 0,
            bytes_received: 0,
            retransmitted_bytes: 0,
            retransmitted_segments: 0,
            lost_bytes: None,
            mtu_probes: None,
            black_holes: None,
            srtt_ms: 0.0,
            rttvar_ms: 0.0,
            min_rtt_ms: None,
            rto_ms: 0.0,
            backoff: 0,
            cwnd_bytes: 0,
            in_flight_bytes: 0,
            not_sent_bytes: 0,
            pacing_rate_bps: None,
            delivery_rate_bps: None,
            mss_bytes: 0,
            pmtu_bytes: 0,
            since_last_sent_ms: 0,
            since_last_received_ms: 0,
            closed_paths: None,
        }
    }

    /// Payload sent on this path for the first time.
    pub const fn new_bytes_sent(&self) -> u64 {
        self.bytes_sent.saturating_sub(self.retransmitted_bytes)
    }

    /// Payload that arrived, as far as the sender knows: the acknowledged packets of a QUIC path need not have carried
    /// any.
    pub fn payload_acked(&self) -> u64 {
        self.bytes_acked.min(self.new_bytes_sent())
    }

    /// Adds the counters of `later`, a closed path, to those of closed paths before it. All other figures are the
    /// later path's.
    pub fn add_closed(&mut self, later: &Self) {
        // Without `..`, so that a new counter cannot be forgotten here.
        let Self {
            subflow: _,
            path_id: _,
            local: _,
            remote: _,
            state: _,
            backup: _,
            bytes_sent,
            packets_sent,
            packets_received,
            control_bytes_sent,
            control_bytes_received,
            bytes_acked,
            bytes_received,
            retransmitted_bytes,
            retransmitted_segments,
            lost_bytes,
            mtu_probes,
            black_holes,
            srtt_ms: _,
            rttvar_ms: _,
            min_rtt_ms,
            rto_ms: _,
            backoff: _,
            cwnd_bytes: _,
            in_flight_bytes: _,
            not_sent_bytes: _,
            pacing_rate_bps: _,
            delivery_rate_bps: _,
            mss_bytes: _,
            pmtu_bytes: _,
            since_last_sent_ms: _,
            since_last_received_ms: _,
            closed_paths,
        } = &*self;
        let sum = |a: u64, b: u64| a.saturating_add(b);
        let each = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(sum(a, b)),
            (a, b) => a.or(b),
        };
        *self = Self {
            subflow: self.subflow,
            path_id: None,
            local: self.local,
            remote: self.remote,
            state: PathState::Closed,
            bytes_sent: sum(*bytes_sent, later.bytes_sent),
            packets_sent: each(*packets_sent, later.packets_sent),
            packets_received: each(*packets_received, later.packets_received),
            control_bytes_sent: each(*control_bytes_sent, later.control_bytes_sent),
            control_bytes_received: each(*control_bytes_received, later.control_bytes_received),
            bytes_acked: sum(*bytes_acked, later.bytes_acked),
            bytes_received: sum(*bytes_received, later.bytes_received),
            retransmitted_bytes: sum(*retransmitted_bytes, later.retransmitted_bytes),
            retransmitted_segments: sum(*retransmitted_segments, later.retransmitted_segments),
            lost_bytes: each(*lost_bytes, later.lost_bytes),
            mtu_probes: each(*mtu_probes, later.mtu_probes),
            black_holes: each(*black_holes, later.black_holes),
            min_rtt_ms: match (*min_rtt_ms, later.min_rtt_ms) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            in_flight_bytes: 0,
            not_sent_bytes: 0,
            closed_paths: Some(closed_paths.unwrap_or(1).saturating_add(later.closed_paths.unwrap_or(1))),
            ..later.clone()
        };
    }
}

/// One line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub run: String,
    /// Time on the run's clock (zero: first byte of data).
    pub t_ms: f64,
    pub host: String,
    pub side: Side,
    /// Connection within the run (parallel streams count from 0).
    pub stream: u32,
    /// The path's name, as in the scenario; the local address where none is known.
    pub path: String,
    #[serde(flatten)]
    pub figures: PathFigures,
}
