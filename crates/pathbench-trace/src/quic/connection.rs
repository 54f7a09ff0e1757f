//! The state of one connection: its keys, its connection ids, its paths.

use super::header::{ConnectionId, Header, Long};
use super::keylog::Secrets;
use super::keys::{self, PacketKeys};
use super::one_rtt_keys::OneRtt;
use super::path::{Direction, NumberSpace, Path};
use super::streams::Streams;
use super::tls::{CryptoStream, TransportParameters};
use crate::packet::FlowEndpoint;
use std::collections::BTreeMap;

/// Indices of the ends.
pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// 4-tuples of a connection.
const MAX_PATHS: usize = 64;
/// Connection ids of one end.
const MAX_IDS: usize = 256;

/// Sender, time and path of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketContext {
    pub(super) time_ns: u64,
    /// [`CLIENT`] or [`SERVER`] sent it.
    pub(super) side: usize,
    /// Index in [`Connection::paths`].
    pub(super) path: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Signal {
    pub(super) context: PacketContext,
    pub(super) kind: &'static str,
    pub(super) detail: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) initial: u64,
    pub(super) handshake: u64,
    pub(super) zero_rtt: u64,
    pub(super) one_rtt: u64,
    pub(super) undecrypted: u64,
    pub(super) duplicates: u64,
    pub(super) decrypted: u64,
    /// Packets with a frame that the analysis cannot read.
    pub(super) unknown_frames: u64,
    /// `CONNECTION_CLOSE` frames.
    pub(super) closes: u64,
}

/// A connection id that an end began to use, or whose state was discarded.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdChange {
    /// The end that chose the id.
    pub(super) side: usize,
    pub(super) id: ConnectionId,
    pub(super) added: bool,
}

/// Buffers that all connections share.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) header: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) version: u32,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The `ClientHello` was decrypted.
    pub(super) handshake_captured: bool,
    /// Destination connection id of the client's first Initial packet, of the one after a Retry packet.
    pub(super) original: ConnectionId,
    pub(super) initial: Option<(u32, [PacketKeys; 2])>,
    pub(super) handshake: Option<[PacketKeys; 2]>,
    pub(super) one_rtt: [Option<OneRtt>; 2],
    pub(super) secrets: Option<Secrets>,
    /// By packet number space (Initial, Handshake) and end.
    pub(super) crypto: [[CryptoStream; 2]; 2],
    pub(super) expected: [[u64; 2]; 2],
    /// 1-RTT packets, by end and path id.
    pub(super) spaces: [BTreeMap<u32, NumberSpace>; 2],
    /// With path id, by the end that chose them.
    pub(super) ids: [Vec<(ConnectionId, u32)>; 2],
    /// Of the ids that an end chooses.
    pub(super) id_length: [Option<usize>; 2],
    pub(super) id_changes: Vec<IdChange>,
    pub(super) streams: [Streams; 2],
    pub(super) paths: Vec<Path>,
    pub(super) signals: Vec<Signal>,
    pub(super) counts: Counts,
    pub(super) retry: bool,
    pub(super) version_negotiation: bool,
    pub(super) server_name: Option<String>,
    pub(super) offered_alpn: Vec<String>,
    pub(super) alpn: Vec<String>,
    pub(super) parameters: [Option<TransportParameters>; 2],
    pub(super) first_server_ns: Option<u64>,
}

impl Connection {
    pub(super) fn new(time_ns: u64, client: FlowEndpoint, server: FlowEndpoint, first: &Header<'_>) -> Self {
        let mut connection = Self { start_ns: time_ns, end_ns: time_ns, ..Self::default() };
        if let Header::Long(Long { version, destination, .. })
        | Header::UnknownVersion { version, destination, .. } = *first
        {
            connection.version = version;
            connection.rekey(version, destination);
        }
        connection.add_path(time_ns, client, server);
        connection
    }

    /// Initial keys from a new destination connection id: a first packet, a Retry packet, version negotiation.
    pub(super) fn rekey(&mut self, version: u32, destination: ConnectionId) {
        if self.original != destination && !self.original.is_empty() {
            self.id_changes.push(IdChange { side: SERVER, id: self.original, added: false });
        }
        self.original = destination;
        self.version = version;
        self.initial = keys::initial(version, &destination).map(|keys| (version, keys));
        self.crypto = Default::default();
        self.expected = Default::default();
        self.id_changes.push(IdChange { side: SERVER, id: destination, added: true });
    }

    /// The index of the 4-tuple; `None` if there are too many.
    pub(super) fn add_path(
        &mut self,
        time_ns: u64,
        client: FlowEndpoint,
        server: FlowEndpoint,
    ) -> Option<usize> {
        let known = self.paths.iter().position(|path| (path.client, path.server) == (client, server));
        if known.is_some() {
            return known;
        }
        if self.paths.len() < MAX_PATHS {
            self.paths.push(Path {
                client,
                server,
                start_ns: time_ns,
                end_ns: time_ns,
                id: None,
                backup: None,
                abandoned: false,
                directions: [Direction::default(), Direction::default()],
            });
            return Some(self.paths.len() - 1);
        }
        None
    }

    pub(super) fn direction(&mut self, context: PacketContext) -> Option<&mut Direction> {
        Some(&mut self.paths.get_mut(context.path)?.directions[context.side])
    }

    pub(super) fn learn_id(&mut self, side: usize, id: ConnectionId, path: u32) {
        let ids = &mut self.ids[side];
        if ids.iter().any(|known| known.0 == id) {
            return;
        }
        if ids.len() >= MAX_IDS {
            let (old, _) = ids.remove(0);
            self.id_changes.push(IdChange { side, id: old, added: false });
        }
        ids.push((id, path));
        self.id_length[side].get_or_insert(id.len());
        self.id_changes.push(IdChange { side, id, added: true });
    }

    /// The key log has 1-RTT secrets of this connection.
    pub(super) fn has_keys(&self) -> bool {
        self.one_rtt.iter().any(Option::is_some)
    }
}
