//! The stage that a subflow reached: attempted, answered, negotiated, opened, carried. Pure.
//!
//! A counter of the host is evidence for a subflow only where nothing else can have raised it; the caller leaves the other
//! counters out.

use crate::sample::{PathFigures, PathState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The farthest stage of a subflow, or of a connection that asked for MPTCP. A later stage includes the earlier ones.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
pub enum SubflowStage {
    /// A SYN was sent, and nothing answered.
    Attempted,
    /// The peer or a middlebox answered: by a reset, or by a SYN/ACK without the MPTCP option.
    Answered,
    /// The SYN/ACK had the MPTCP option, and the handshake was not completed with it.
    Negotiated,
    /// The MPTCP handshake was completed.
    Opened,
    /// Payload was received, or sent and acknowledged.
    Carried,
}

impl SubflowStage {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Attempted => "attempted and never answered",
            Self::Answered => "answered without MPTCP",
            Self::Negotiated => "negotiated, but its handshake was not completed",
            Self::Opened => "opened, but carried no payload",
            Self::Carried => "carried payload",
        }
    }

    /// Whether the subflow exists or existed, rather than only the attempt to open it.
    pub fn is_opened(self) -> bool {
        self >= Self::Opened
    }
}

/// The option by which a subflow asks for MPTCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubflowOpening {
    /// `MP_CAPABLE`: the initial subflow of a connection.
    #[default]
    Initial,
    /// `MP_JOIN`
    Join,
}

/// The farthest state of a subflow's TCP socket that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum HandshakeState {
    /// No socket was seen, or only a closed one.
    #[default]
    Unseen,
    /// `SYN_SENT`
    SynSent,
    /// `SYN_RECV`
    SynReceived,
    /// `ESTABLISHED` or a state after it.
    Established,
}

impl HandshakeState {
    /// From `TCP_*` of `net/tcp_states.h`. A closed socket does not show the states before.
    pub const fn from_tcp(state: u8) -> Self {
        match state {
            2 => Self::SynSent,
            3 | 12 => Self::SynReceived,
            1 | 4 | 5 | 6 | 8 | 9 | 11 => Self::Established,
            _ => Self::Unseen,
        }
    }
}

/// Counters of `MPTcpExt` and `TcpExt` over a time in which no other subflow can have raised them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HandshakeCounters {
    /// SYNs with the option: `MPCapableSYNTX`, `MPJoinSynTx`.
    pub syn_sent: u64,
    /// `MPCapableSYNTXDrop`: a SYN without the option was answered after those with it were not.
    pub syn_dropped: u64,
    /// `MPCapableSYNTXDisabled`: the SYN was sent without the option.
    pub syn_disabled: u64,
    /// SYN/ACKs with the option: `MPCapableSYNACKRX`, `MPJoinSynAckRx`.
    pub syn_ack_received: u64,
    /// `MPCapableFallbackSYNACK`: a SYN/ACK without the option.
    pub fallback: u64,
    /// Resets of MPTCP that were sent: `MPRstTx`.
    pub reset_sent: u64,
    /// Resets of MPTCP that were received: `MPRstRx`.
    pub reset_received: u64,
}

impl HandshakeCounters {
    /// From differences of counters, with or without their group: `MPTcpExt.MPJoinSynTx` → 1.
    pub fn from_differences(counters: &BTreeMap<String, i64>, opening: SubflowOpening) -> Self {
        let rise = |name: &str| {
            let found = counters.get(&format!("MPTcpExt.{name}")).or_else(|| counters.get(name));
            found.map_or(0, |difference| u64::try_from(*difference).unwrap_or_default())
        };
        let resets = Self { reset_sent: rise("MPRstTx"), reset_received: rise("MPRstRx"), ..Self::default() };
        match opening {
            SubflowOpening::Initial => Self {
                syn_sent: rise("MPCapableSYNTX"),
                syn_dropped: rise("MPCapableSYNTXDrop"),
                syn_disabled: rise("MPCapableSYNTXDisabled"),
                syn_ack_received: rise("MPCapableSYNACKRX"),
                fallback: rise("MPCapableFallbackSYNACK"),
                ..resets
            },
            SubflowOpening::Join => {
                Self { syn_sent: rise("MPJoinSynTx"), syn_ack_received: rise("MPJoinSynAckRx"), ..resets }
            }
        }
    }

    const fn is_attempted(&self) -> bool {
        self.syn_sent > 0 || self.syn_disabled > 0
    }

    /// A reset of MPTCP follows a SYN/ACK: without the option, or with a handshake that then failed.
    const fn is_answered(&self) -> bool {
        self.syn_ack_received > 0
            || self.fallback > 0
            || self.syn_dropped > 0
            || self.reset_sent > 0
            || self.reset_received > 0
    }
}

/// Evidence for the stage of a subflow. Unknown values stay empty or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubflowEvidence {
    pub opening: SubflowOpening,
    pub state: HandshakeState,
    /// Whether the peer agreed to MPTCP on it and no fallback followed.
    pub is_agreed: Option<bool>,
    /// Whether the last acknowledgement of the MPTCP handshake arrived (`MPTCP_SUBFLOW_FLAG_FULLY_ESTABLISHED`).
    pub is_fully_established: Option<bool>,
    /// Packets that arrived on it, a reset included.
    pub packets_received: u64,
    /// The connection was refused: its SYN was answered by a reset.
    pub is_refused: bool,
    /// Payload that the peer acknowledged, without SYN and FIN.
    pub acked_bytes: u64,
    /// Payload that arrived, without SYN and FIN.
    pub received_bytes: u64,
    pub counters: HandshakeCounters,
}

impl SubflowEvidence {
    /// The evidence in a subflow's figures; `is_agreed` and the counters are for the caller to add.
    pub fn from_figures(figures: &PathFigures, opening: SubflowOpening) -> Self {
        Self {
            opening,
            state: match figures.state {
                PathState::Opening => HandshakeState::SynSent,
                PathState::Open => HandshakeState::Established,
                PathState::Closed => HandshakeState::Unseen,
            },
            packets_received: figures.packets_received.unwrap_or_default(),
            acked_bytes: figures.bytes_acked,
            received_bytes: figures.bytes_received,
            ..Self::default()
        }
    }

    /// The farthest stage that the evidence proves; `None` without a sign of an attempt.
    pub fn stage(&self) -> Option<SubflowStage> {
        let counters = &self.counters;
        let is_agreed = self.is_agreed.or_else(|| self.agreed_by_counters());
        let has_payload = self.acked_bytes > 0 || self.received_bytes > 0;
        let is_established = self.state == HandshakeState::Established;
        if has_payload && is_agreed != Some(false) {
            return Some(SubflowStage::Carried);
        }
        if is_established && is_agreed != Some(false) {
            let is_complete = !self.is_incomplete();
            return Some(if is_complete { SubflowStage::Opened } else { SubflowStage::Negotiated });
        }
        if is_agreed == Some(true) {
            return Some(SubflowStage::Negotiated);
        }
        let is_received = self.state == HandshakeState::SynReceived || is_established || has_payload;
        if is_received || self.packets_received > 0 || self.is_refused || counters.is_answered() {
            return Some(SubflowStage::Answered);
        }
        let is_attempted = self.state == HandshakeState::SynSent || counters.is_attempted();
        is_attempted.then_some(SubflowStage::Attempted)
    }

    const fn agreed_by_counters(&self) -> Option<bool> {
        let counters = &self.counters;
        if counters.syn_ack_received > 0 {
            return Some(true);
        }
        // A join's SYN/ACK without the option is answered by a reset of MPTCP.
        let is_join = matches!(self.opening, SubflowOpening::Join);
        let is_stripped = is_join && counters.syn_sent > 0 && counters.reset_sent > 0;
        let is_refused = counters.fallback > 0 || counters.syn_dropped > 0 || counters.syn_disabled > 0;
        if is_stripped || is_refused { Some(false) } else { None }
    }

    /// Whether an established join was not accepted by both ends: its last acknowledgement is missing, or a reset of MPTCP
    /// ended it.
    const fn is_incomplete(&self) -> bool {
        let is_join = matches!(self.opening, SubflowOpening::Join);
        let is_unconfirmed = matches!(self.is_fully_established, Some(false));
        is_join && (is_unconfirmed || self.counters.reset_sent > 0 || self.counters.reset_received > 0)
    }
}
