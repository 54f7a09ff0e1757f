//! The state of a live connection and its subflows.

use super::compared::Compared;
use super::evidence::Evidence;
use super::table::FlowKey;
use crate::mptcp::checksum::Checksums;
use crate::mptcp::data::DataLevelDirection;
use crate::mptcp::keys::Key;
use crate::mptcp::mapping::Mappings;
use crate::mptcp::signal::{SIGNALS, Signal};
use crate::tcp::Flow;
use pathbench_record::trace::HandshakeEvidence;

/// Most subflows of a connection; further ones are connections of their own.
pub(super) const SUBFLOWS: usize = 1_024;

/// How a flow became part of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    Initial,
    Join,
    /// By interleaved data sequence numbers.
    Guessed,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Join => "join",
            Self::Guessed => "guessed",
        }
    }
}

/// A TCP flow as a member of its connection.
#[derive(Debug, Default)]
pub(super) struct Subflow {
    pub(super) flow: Flow,
    /// Index of the connection.
    pub(super) connection: u32,
    /// Within the connection.
    pub(super) ordinal: u32,
    /// The end that sent the SYN of this subflow is the connection's server.
    pub(super) turned: bool,
    pub(super) kind: Kind,
    /// A later flow of the same ends is in the table in its place.
    pub(super) replaced: bool,
    /// Index of the file.
    pub(super) capture: u32,
    /// Payload after a fallback to plain TCP.
    pub(super) plain_bytes: [u64; 2],
    pub(super) mptcp: Option<Box<MptcpSubflow>>,
    /// With another point of capture; only when there are several captures.
    pub(super) comparison: Option<Box<Compared>>,
    /// Frames that show findings.
    pub(super) evidence: Option<Box<Evidence>>,
}

impl Subflow {
    /// Index of the connection's end that is this subflow's end `side`.
    #[inline]
    pub(super) fn connection_side(&self, side: usize) -> usize {
        side ^ usize::from(self.turned)
    }

    /// Frame numbers that are kept for findings.
    pub(super) fn kept_frames(&self) -> usize {
        let second = self.comparison.as_ref().map_or(0, |compared| compared.evidence.len());
        self.evidence.as_ref().map_or(0, |evidence| evidence.len()) + second
    }

    #[inline]
    pub(super) fn key(&self) -> FlowKey {
        let [client, server] = self.flow.ends;
        FlowKey::new(client, server)
    }

    /// The key is that of the flow's ends, at one point of capture or the other.
    #[inline]
    pub(super) fn has(&self, key: &FlowKey) -> bool {
        let translated = || self.comparison.as_ref().and_then(|compared| compared.translated_key());
        self.key() == *key || translated() == Some(*key)
    }
}

/// The MPTCP part of a subflow; arrays by the subflow's sender.
#[derive(Debug, Default)]
pub(super) struct MptcpSubflow {
    pub(super) mappings: [Mappings; 2],
    /// Initial sequence numbers that are assumed because no SYN was captured.
    pub(super) assumed_origin: [Option<u64>; 2],
    pub(super) reinjected_bytes: [u64; 2],
    pub(super) dss_captured: [bool; 2],
    pub(super) address_ids: [Option<u8>; 2],
    pub(super) backup: Option<bool>,
    /// Nonces of `MP_JOIN`.
    pub(super) nonces: [Option<u32>; 2],
    pub(super) authenticated: Option<bool>,
    pub(super) reset_reason: Option<u8>,
    pub(super) checksums: [Option<Box<Checksums>>; 2],
}

/// A connection of TCP or MPTCP. Sides: 0 is the client.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// Indices of its subflows, by ordinal.
    pub(super) members: Vec<u32>,
    pub(super) handshake: HandshakeEvidence,
    /// Version of `MP_CAPABLE` in the SYN.
    pub(super) offered: Option<u8>,
    pub(super) fallback: Option<(u64, &'static str)>,
    /// Capture and number of the frame that shows the fallback.
    pub(super) fallback_frame: Option<(u32, u64)>,
    pub(super) mptcp: Option<Box<MptcpConnection>>,
    pub(super) closing: Closing,
}

/// The fate of a connection whose subflows have all closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Closing {
    /// A subflow is open.
    #[default]
    No,
    /// A join may follow: the ends have not closed the data level (break before make).
    AwaitsJoin,
    /// In the queue of closed connections.
    Ends,
}

impl Connection {
    /// Both ends have agreed on MPTCP, or the capture has no handshake and the segments have its options.
    pub(super) fn multipath(&self) -> bool {
        self.mptcp.as_ref().is_some_and(|mptcp| mptcp.version.is_some() || self.offered.is_none())
    }

    /// With no subflow left, a join may still open another (RFC 8684, section 3.3.3: the connection ends with the
    /// `DATA_FIN` of both ends or a fast close, not with its subflows).
    pub(super) fn may_be_joined(&self) -> bool {
        self.multipath()
            && self.fallback.is_none()
            && self.mptcp.as_ref().is_some_and(|mptcp| {
                !mptcp.fast_closed && mptcp.data.iter().any(|data| data.data_fin.is_none())
            })
    }

    /// The connection is not known to be MPTCP, or only by a join: its data may be those of another connection.
    #[inline]
    pub(super) fn lacks_data_sequence(&self) -> bool {
        match &self.mptcp {
            None => true,
            Some(mptcp) => {
                self.handshake == HandshakeEvidence::Token
                    && self.members.len() == 1
                    && mptcp.data.iter().all(DataLevelDirection::is_unused)
            }
        }
    }
}

/// The MPTCP state of a connection; arrays by sender.
#[derive(Debug, Default)]
pub(super) struct MptcpConnection {
    pub(super) version: Option<u8>,
    pub(super) keys: [Option<Key>; 2],
    /// Of each end's key.
    pub(super) tokens: [Option<u32>; 2],
    pub(super) checksum: [bool; 2],
    pub(super) data: [DataLevelDirection; 2],
    pub(super) signals: Vec<Signal>,
    pub(super) fast_closed: bool,
}

impl MptcpConnection {
    /// Ends repeat signals: one that equals one of the same sender among the kept ones' last 8 is counted there.
    pub(super) fn signal(&mut self, signal: Signal) {
        let same = |kept: &Signal| {
            let content = |signal: &Signal| {
                (signal.kind, signal.side, signal.address_ids.clone(), signal.detail.clone())
            };
            content(kept) == content(&signal)
                && kept.subflow == signal.subflow
                && kept.address == signal.address
        };
        if let Some(kept) = self.signals.iter_mut().rev().take(8).find(|kept| same(kept)) {
            kept.repeats = kept.repeats.saturating_add(1);
        } else if self.signals.len() < SIGNALS {
            self.signals.push(signal);
        }
    }
}
