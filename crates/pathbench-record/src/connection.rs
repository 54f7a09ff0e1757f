//! State of a connection and of its paths at one end.

use crate::document::HandoverReason;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Whether multipath is in use on a connection, according to the kernel (mptcp) or the QUIC connection (mpquic).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Negotiation {
    /// The transport is a single-path one.
    #[default]
    NotAsked,
    /// The peer agreed, and multipath is still in use.
    Negotiated,
    /// mpquic: the peer did not agree to multipath.
    NotNegotiated,
    /// The connection has fallen back to plain TCP.
    FellBack {
        /// Time of the fallback, as observed on the connection.
        reason: FallbackReason,
    },
}

/// A fallback as observed on the connection; the host's MIB counters show the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackReason {
    /// The server accepted a SYN without `MP_CAPABLE`: the peer did not request MPTCP, or the path removed the option.
    PeerAskedForPlainTcp,
    /// The SYN was sent without `MP_CAPABLE`, although MPTCP was requested.
    BeforeHandshake,
    /// No reading showed MPTCP in force: the fallback was in the handshake or just after it.
    InHandshake,
    /// The connection was MPTCP at an earlier reading.
    InMidLife,
}

/// The kernel's figures of an MPTCP connection as a whole (`struct mptcp_info`).
///
/// Counters run from the start of the connection. Fields that this kernel does not report are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MptcpFigures {
    /// Additional subflows, *without* the initial one (`mptcpi_subflows`).
    pub extra_subflows: u8,
    /// Addresses announced to the peer (`mptcpi_add_addr_signal`).
    pub add_addr_signal: u8,
    /// Announced addresses of the peer that were accepted (`mptcpi_add_addr_accepted`).
    pub add_addr_accepted: u8,
    /// Limit for additional subflows (`mptcpi_subflows_max`).
    pub extra_subflows_max: u8,
    /// Endpoints with the signal flag (`mptcpi_add_addr_signal_max`).
    pub add_addr_signal_max: u8,
    /// Limit for accepted addresses (`mptcpi_add_addr_accepted_max`).
    pub add_addr_accepted_max: u8,
    /// Fallback to plain TCP is done (`mptcpi_flags` bit 0).
    pub fallback: bool,
    /// The peer's key has been received (`mptcpi_flags` bit 1).
    pub remote_key_received: bool,
    /// Local token, as in path-manager events (`mptcpi_token`).
    pub token: u32,
    /// Next data sequence number to write (`mptcpi_write_seq`).
    pub write_seq: Option<u64>,
    /// First unacknowledged data sequence number (`mptcpi_snd_una`).
    pub snd_una: Option<u64>,
    /// Next data sequence number expected (`mptcpi_rcv_nxt`).
    pub rcv_nxt: Option<u64>,
    /// Local addresses in use for subflows (`mptcpi_local_addr_used`, 5.12).
    pub local_addr_used: Option<u8>,
    /// Endpoints with the subflow flag (`mptcpi_local_addr_max`, 5.12).
    pub local_addr_max: Option<u8>,
    /// DSS checksums in use (`mptcpi_csum_enabled`, 5.14).
    pub checksum: Option<bool>,
    /// MPTCP-level retransmission timer firings (`mptcpi_retransmits`, 6.5).
    pub retransmits: Option<u32>,
    /// Payload retransmitted at the MPTCP level (`mptcpi_bytes_retrans`, 6.5).
    pub bytes_retransmitted: Option<u64>,
    /// Payload sent (`mptcpi_bytes_sent`, 6.5).
    pub bytes_sent: Option<u64>,
    /// Payload received (`mptcpi_bytes_received`, 6.5).
    pub bytes_received: Option<u64>,
    /// Payload acknowledged at the MPTCP level (`mptcpi_bytes_acked`, 6.5).
    pub bytes_acked: Option<u64>,
    /// Subflows open now, the initial one included (`mptcpi_subflows_total`, 6.8).
    pub subflows_total: Option<u8>,
    /// Time since data was last sent (`mptcpi_last_data_sent`, 6.10).
    pub since_last_sent_ms: Option<u32>,
    /// Time since data was last received (`mptcpi_last_data_recv`, 6.10).
    pub since_last_received_ms: Option<u32>,
    /// Time since the last MPTCP-level acknowledgement (`mptcpi_last_ack_recv`, 6.10).
    pub since_last_ack_ms: Option<u32>,
}

/// Options in force on a connected socket, as the kernel reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    /// `tcp` or `mptcp`: the protocol of the socket. [`crate::connection::Negotiation`] has
    /// the fallback of an mptcp connection.
    pub protocol: String,
    pub congestion: String,
    /// Send buffer including the kernel's bookkeeping: twice the requested size, if one was requested.
    pub send_buffer_bytes: u64,
    /// Receive buffer including the kernel's bookkeeping: twice the requested size, if one was requested.
    pub receive_buffer_bytes: u64,
    /// Whether small segments are sent at once (`TCP_NODELAY`).
    pub no_delay: bool,
    /// Protocol and cipher suite, e.g. `TLS 1.3 TLS13_AES_128_GCM_SHA256`; absent without encryption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<String>,
}

/// Scheduler: selects the path of new data on an mpquic connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case", tag = "name")]
pub enum Scheduler {
    /// The path with the smallest expected RTT among those with free congestion window: the smoothed RTT minus the part
    /// of this connection's own queue that has drained since.
    #[default]
    LowestRtt,
    RoundRobin,
    Weighted,
    /// As in `MultipathTester`: the preferred path; another one only while the preferred one exceeds a threshold.
    Backup {
        /// Threshold of the preferred path's smoothed RTT.
        #[serde(with = "crate::units::milliseconds", rename = "srtt_above_ms")]
        srtt_above: Duration,
        /// Threshold of the preferred path's retransmission timeout.
        #[serde(with = "crate::units::milliseconds", rename = "rto_above_ms")]
        rto_above: Duration,
    },
    /// As `lowest-rtt`, but each DATAGRAM frame (RFC 9221) is sent on every open path; the first copy counts.
    Redundant,
}

impl Scheduler {
    /// The backup scheduler with the thresholds of `MultipathTester`'s paper: 600 ms and 1500 ms.
    pub const fn backup() -> Self {
        Self::Backup { srtt_above: Duration::from_millis(600), rto_above: Duration::from_millis(1500) }
    }

    pub fn name(&self) -> &'static str {
        self.into()
    }
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEvent {
    pub at: Timestamp,
    /// The path ID (draft-ietf-quic-multipath section 2.1); absent for an interface without a path.
    pub path: Option<u64>,
    /// The path's local address, if known.
    pub local: Option<IpAddr>,
    pub remote: Option<SocketAddr>,
    #[serde(flatten)]
    pub kind: PathEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum PathEventKind {
    PathOpened,
    /// The path could not be opened.
    PathRefused {
        reason: String,
    },
    /// The path can carry data.
    PathEstablished,
    /// This end requested to abandon the path.
    PathGivenUp {
        reason: String,
    },
    /// One of the ends abandoned the path; it carries no more data.
    PathAbandoned {
        reason: String,
    },
    /// The path's state has been discarded.
    PathClosed,
    /// The path became a backup path, or is no longer one.
    PathStatus {
        backup: bool,
        by_peer: bool,
    },
    /// Nothing was received on the path for too long while another path received: it gets no new data.
    PathSuspended,
    PathResumed,
    InterfaceGone {
        change: String,
    },
    /// The path's interface and address are back, as text.
    InterfaceBack {
        change: String,
    },
    /// The scheduler switched from the preferred path to others, or returned to it.
    Scheduler {
        reason: String,
        /// The condition of the switch from the preferred path; absent for the return.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<HandoverReason>,
    },
    /// Packets of the path MTU no longer arrive: the search restarts at 1200 bytes.
    MtuBlackHole,
    /// The limit of events per connection is reached; later ones are only counted.
    EventsOmitted {
        /// Number of events that are not kept.
        count: u64,
    },
}

impl PathEventKind {
    pub fn name(&self) -> &'static str {
        self.into()
    }
}
