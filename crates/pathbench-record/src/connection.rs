//! What the ends of a connection know of it and of its paths.

use crate::document::HandoverReason;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Whether multipath is in force on a connection, by the kernel's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Negotiation {
    /// The transport is a single-path one.
    #[default]
    NotAsked,
    /// The peer agreed, and it still holds.
    Negotiated,
    /// mpquic: the peer did not agree to several paths.
    NotNegotiated,
    /// The connection is plain TCP now.
    FellBack {
        /// When, as far as the connection itself tells.
        reason: FallbackReason,
    },
}

/// What a connection itself tells of its fallback; the counters of the host tell more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackReason {
    /// Accepted from a peer whose SYN did not ask for MPTCP, or lost the option on the way.
    PeerAskedForPlainTcp,
    /// It had fallen back before the first look: in the handshake, or right after.
    InHandshake,
    /// It had been seen as MPTCP before.
    InMidLife,
}

/// What the kernel says of an MPTCP connection as a whole (`struct mptcp_info`).
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

/// What is in force on a connected socket, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    /// `tcp` or `mptcp`: the protocol of the socket. Whether an mptcp connection fell back is for
    /// [`crate::connection::Negotiation`] to say.
    pub protocol: String,
    /// Congestion control; of the first subflow for mptcp.
    pub congestion: String,
    /// Send buffer including the kernel's bookkeeping: twice what was asked for, when something was.
    pub send_buffer_bytes: u64,
    /// Receive buffer including the kernel's bookkeeping: twice what was asked for, when something was.
    pub receive_buffer_bytes: u64,
    /// Whether small segments are sent at once.
    pub no_delay: bool,
    /// What it is encrypted with, e.g. `TLS 1.3 TLS13_AES_128_GCM_SHA256`; absent for clear text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<String>,
}

/// Which path new data takes on an mpquic connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "name")]
pub enum Scheduler {
    /// The path with room in its congestion window on which the smallest RTT is to be expected: the smoothed one, less
    /// what has drained since of a queue that this connection made.
    #[default]
    LowestRtt,
    RoundRobin,
    Weighted,
    /// `MultipathTester`'s: the preferred path, and another one only while the preferred one is in trouble.
    Backup {
        /// Trouble: smoothed RTT of the preferred path above this.
        #[serde(with = "crate::units::milliseconds", rename = "srtt_above_ms")]
        srtt_above: Duration,
        /// Trouble: retransmission timeout of the preferred path above this.
        #[serde(with = "crate::units::milliseconds", rename = "rto_above_ms")]
        rto_above: Duration,
    },
}

impl Scheduler {
    /// The backup scheduler with the thresholds of `MultipathTester`'s paper: 600 ms and 1500 ms.
    pub const fn backup() -> Self {
        Self::Backup { srtt_above: Duration::from_millis(600), rto_above: Duration::from_millis(1500) }
    }

    /// `lowest-rtt`, `round-robin`, `weighted` or `backup`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LowestRtt => "lowest-rtt",
            Self::RoundRobin => "round-robin",
            Self::Weighted => "weighted",
            Self::Backup { .. } => "backup",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEvent {
    pub at: Timestamp,
    /// The path's id (draft-ietf-quic-multipath section 2.1); absent for an interface without a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<u64>,
    /// The path's local address, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<IpAddr>,
    /// The peer's address on the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
    #[serde(flatten)]
    pub kind: PathEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum PathEventKind {
    PathOpened,
    /// It could not even be begun.
    PathRefused {
        reason: String,
    },
    /// It can carry data.
    PathEstablished,
    /// This end asked for its end.
    PathGivenUp {
        reason: String,
    },
    /// One of the ends gave it up, and it carries nothing more.
    PathAbandoned {
        reason: String,
    },
    /// Its last traces are gone.
    PathClosed,
    /// It is a backup path from now on, or no longer.
    PathStatus {
        backup: bool,
        by_peer: bool,
    },
    /// Nothing was heard on it for too long while another path was heard: it gets no new data.
    PathSuspended,
    PathResumed,
    InterfaceGone {
        change: String,
    },
    /// Its interface and address are back, in words.
    InterfaceBack {
        change: String,
    },
    /// The scheduler took to other paths than the preferred one, or returned to it.
    Scheduler {
        reason: String,
        /// Which condition made it leave the preferred path; absent when it returned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<HandoverReason>,
    },
    /// Packets of the path MTU no longer arrive: the search begins again at 1200 bytes.
    MtuBlackHole,
    /// More happened than is kept of one connection; what followed is counted only.
    EventsOmitted {
        /// Events that are not kept.
        count: u64,
    },
}

impl PathEventKind {
    /// `path-opened`, `path-established`, ….
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PathOpened => "path-opened",
            Self::PathRefused { .. } => "path-refused",
            Self::PathEstablished => "path-established",
            Self::PathGivenUp { .. } => "path-given-up",
            Self::PathAbandoned { .. } => "path-abandoned",
            Self::PathClosed => "path-closed",
            Self::PathStatus { .. } => "path-status",
            Self::PathSuspended => "path-suspended",
            Self::PathResumed => "path-resumed",
            Self::InterfaceGone { .. } => "interface-gone",
            Self::InterfaceBack { .. } => "interface-back",
            Self::Scheduler { .. } => "scheduler",
            Self::MtuBlackHole => "mtu-black-hole",
            Self::EventsOmitted { .. } => "events-omitted",
        }
    }
}
