//! One line of `samples.jsonl`: a path as the transport sees it at one moment.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Which end of the connection took a sample or made a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

/// State of a path inside a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Being opened (TCP: SYN sent or received).
    Opening,
    /// Open; the transport may use it.
    Open,
    /// Closed; the figures are the last that were seen.
    Closed,
}

/// The transport's own view of one path. Counters run from the start of the connection.
///
/// Sources: `struct tcp_info` (linux/tcp.h) of the subflow for tcp and mptcp. A field that the kernel of
/// the host did not report is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// Which subflow: the kernel's subflow id where it tells, else the order of appearance. From 1.
    pub subflow: u32,
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// Open, opening or closed.
    pub state: PathState,
    /// Whether the path is marked as backup, where the kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// Payload bytes sent, retransmissions included (`tcpi_bytes_sent`).
    pub bytes_sent: u64,
    /// Payload bytes acknowledged (`tcpi_bytes_acked`).
    pub bytes_acked: u64,
    /// Payload bytes received in order on this path (`tcpi_bytes_received`).
    pub bytes_received: u64,
    /// Payload bytes retransmitted on this path (`tcpi_bytes_retrans`).
    pub retransmitted_bytes: u64,
    /// Segments retransmitted (`tcpi_total_retrans`).
    pub retransmitted_segments: u64,
    /// Smoothed round-trip time.
    pub srtt_ms: f64,
    /// Mean deviation of the round-trip time.
    pub rttvar_ms: f64,
    /// Smallest round-trip time seen; absent before the first measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_ms: Option<f64>,
    /// Retransmission timeout in force.
    pub rto_ms: f64,
    /// Exponential back-off steps of the retransmission timer (`tcpi_backoff`).
    pub backoff: u32,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Bytes in flight, estimated as unacknowledged − sacked − lost + retransmitted segments times MSS.
    pub in_flight_bytes: u64,
    /// Bytes in the socket not yet sent (`tcpi_notsent_bytes`).
    pub not_sent_bytes: u64,
    /// Pacing rate, where one is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_rate_bps: Option<u64>,
    /// Most recent delivery-rate estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_rate_bps: Option<u64>,
    /// Sending MSS in force.
    pub mss_bytes: u32,
    /// Path MTU the kernel believes in.
    pub pmtu_bytes: u32,
    /// Time since data was last sent on the path.
    pub since_last_sent_ms: u64,
    /// Time since data was last received on the path.
    pub since_last_received_ms: u64,
}

/// One line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The run's id.
    pub run: String,
    /// Time on the run's clock (zero: first byte of data).
    pub t_ms: f64,
    /// Lab host, or host name.
    pub host: String,
    /// Which end.
    pub side: Side,
    /// Connection within the run (parallel streams count from 0).
    pub stream: u32,
    /// The path's name, as in the scenario; the local address where none is known.
    pub path: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: PathFigures,
}
