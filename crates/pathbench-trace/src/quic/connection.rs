//! One connection: its handshake, its connection ids, its paths.

use super::frames::{Frame, Frames};
use super::header::{ConnectionId, Header, Long, LongType, parse};
use super::keylog::{Keylog, Secrets};
use super::keys::{self, PacketKeys, Suite};
use super::one_rtt::{OneRtt, Scratch};
use super::path::{Direction, NumberSpace, Path};
use super::streams::Streams;
use super::tls::{self, CryptoStream, Hello, TransportParameters};
use crate::packet::Endpoint;
use std::collections::BTreeMap;

/// Indices of the ends.
pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// 4-tuples of a connection.
const MAX_PATHS: usize = 64;
/// Largest UDP payload in an IPv4 packet of 1500 bytes; longer ones may be GSO packets.
const MAX_ETHERNET: usize = 1472;
/// Shortest connection id whose repetition shows the segments of a GSO packet.
const MIN_REPEATED_ID: usize = 4;
/// Connection ids of one end.
const MAX_IDS: usize = 256;

/// Sender, time and path of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) time_ns: u64,
    /// [`CLIENT`] or [`SERVER`] sent it.
    pub(super) side: usize,
    /// Index in [`Connection::paths`].
    pub(super) path: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Signal {
    pub(super) place: Place,
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

#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) version: u32,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The `ClientHello` was decrypted.
    pub(super) handshake_captured: bool,
    /// Destination connection id of the client's first Initial packet, of the one after a Retry packet.
    pub(super) original: ConnectionId,
    initial: Option<(u32, [PacketKeys; 2])>,
    handshake: Option<[PacketKeys; 2]>,
    pub(super) one_rtt: [Option<OneRtt>; 2],
    secrets: Option<Secrets>,
    /// By packet number space (Initial, Handshake) and end.
    crypto: [[CryptoStream; 2]; 2],
    expected: [[u64; 2]; 2],
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
    pub(super) fn new(time_ns: u64, client: Endpoint, server: Endpoint, first: &Header<'_>) -> Self {
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
    pub(super) fn add_path(&mut self, time_ns: u64, client: Endpoint, server: Endpoint) -> Option<usize> {
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

    pub(super) fn direction(&mut self, place: Place) -> Option<&mut Direction> {
        self.paths.get_mut(place.path)?.directions.get_mut(place.side)
    }

    pub(super) fn learn_id(&mut self, side: usize, id: ConnectionId, path: u32) {
        let Some(ids) = self.ids.get_mut(side) else { return };
        if ids.iter().any(|known| known.0 == id) {
            return;
        }
        if ids.len() >= MAX_IDS {
            let (old, _) = ids.remove(0);
            self.id_changes.push(IdChange { side, id: old, added: false });
        }
        ids.push((id, path));
        if let Some(length) = self.id_length.get_mut(side) {
            length.get_or_insert(id.len());
        }
        self.id_changes.push(IdChange { side, id, added: true });
    }

    /// Reads the packets of a datagram.
    pub(super) fn datagram(&mut self, place: Place, payload: &[u8], keylog: &Keylog, scratch: &mut Scratch) {
        self.end_ns = self.end_ns.max(place.time_ns);
        if place.side == SERVER {
            self.first_server_ns.get_or_insert(place.time_ns);
        }
        let mut rest = payload;
        let mut coalesced_to: Option<ConnectionId> = None;
        while let Some((header, after)) = parse(rest) {
            match header {
                Header::Long(long) => {
                    self.long(place, &long, keylog, scratch);
                    coalesced_to = Some(long.destination);
                }
                Header::Short { packet } => {
                    // RFC 9000, section 12.2: bytes without the first packet's connection id are no packet.
                    let after_first = packet.get(1..).unwrap_or_default();
                    if coalesced_to.is_none_or(|id| after_first.starts_with(id.as_slice())) {
                        for packet in packet.chunks(self.segment_length(place.side, packet)) {
                            self.short(place, packet, scratch);
                        }
                    }
                }
                Header::Retry { version, source, .. } => {
                    if place.side == SERVER
                        && !self.retry
                        && keys::is_retry_valid(version, &self.original, rest)
                    {
                        self.retry = true;
                        self.rekey(version, source);
                    }
                }
                Header::VersionNegotiation { .. } => self.version_negotiation |= place.side == SERVER,
                Header::UnknownVersion { source, .. } => self.learn_id(place.side, source, 0),
            }
            rest = after;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Of a GSO packet that was captured before its segmentation: each segment begins with the same connection id.
    fn segment_length(&self, side: usize, packet: &[u8]) -> usize {
        let whole = packet.len().max(1);
        let id = self.id_length.get(1 - side).copied().flatten().filter(|&length| length >= MIN_REPEATED_ID);
        let Some(id) = id.filter(|_| whole > MAX_ETHERNET).and_then(|length| packet.get(1..)?.get(..length))
        else {
            return whole;
        };
        let after = packet.get(1 + id.len()..).unwrap_or_default();
        let Some(at) = after.windows(id.len()).position(|bytes| bytes == id) else { return whole };
        let segment = id.len() + at;
        let same = |segment: &[u8]| segment.get(1..).is_some_and(|after| after.starts_with(id));
        if packet.chunks(segment).all(same) { segment } else { whole }
    }

    fn long(&mut self, place: Place, long: &Long<'_>, keylog: &Keylog, scratch: &mut Scratch) {
        let space = match long.long_type {
            LongType::Initial => {
                self.counts.initial += 1;
                0
            }
            LongType::Handshake => {
                self.counts.handshake += 1;
                1
            }
            LongType::ZeroRtt => {
                self.counts.zero_rtt += 1;
                return;
            }
        };
        if self.open_long(place.side, space, long, scratch).is_some() {
            self.version = long.version;
            self.learn_id(place.side, long.source, 0);
            self.crypto_frames(place.side, space, &scratch.payload, keylog);
        } else if self.id_length.get(place.side).is_some_and(Option::is_none) {
            self.learn_id(place.side, long.source, 0);
        }
    }

    fn open_long(&mut self, side: usize, space: usize, long: &Long<'_>, scratch: &mut Scratch) -> Option<()> {
        if long.is_truncated() {
            return None;
        }
        // Compatible version negotiation (RFC 9368, section 2.3) keeps the connection id.
        if space == 0 && self.initial.as_ref().is_none_or(|initial| initial.0 != long.version) {
            self.initial = keys::initial(long.version, &self.original).map(|keys| (long.version, keys));
        }
        let keys = if space == 0 {
            self.initial.as_ref().map(|initial| &initial.1)
        } else {
            self.handshake.as_ref()
        };
        let keys = keys?.get(side)?;
        let expected = self.expected.get_mut(space)?.get_mut(side)?;
        let number = open(keys, long, *expected, scratch)?;
        *expected = (*expected).max(number + 1);
        Some(())
    }

    fn crypto_frames(&mut self, side: usize, space: usize, payload: &[u8], keylog: &Keylog) {
        let Some(stream) = self.crypto.get_mut(space).and_then(|streams| streams.get_mut(side)) else {
            return;
        };
        let mut added = false;
        for frame in Frames::new(payload) {
            if let Frame::Crypto { offset, data } = frame {
                stream.push(offset, data);
                added = true;
            }
        }
        if !added {
            return;
        }
        let hello = stream.messages().find_map(|(kind, body)| match (space, side, kind) {
            (0, CLIENT, tls::CLIENT_HELLO) => tls::client_hello(body),
            (0, SERVER, tls::SERVER_HELLO) => tls::server_hello(body),
            (1, SERVER, tls::ENCRYPTED_EXTENSIONS) => tls::encrypted_extensions(body),
            _ => None,
        });
        if let Some(hello) = hello {
            self.hello(side, space, hello, keylog);
        }
    }

    fn hello(&mut self, side: usize, space: usize, hello: Hello, keylog: &Keylog) {
        if let Some(place) = self.parameters.get_mut(side).filter(|_| hello.parameters.is_some()) {
            place.clone_from(&hello.parameters);
        }
        match (side, space) {
            (CLIENT, _) => {
                self.handshake_captured = true;
                self.server_name = hello.server_name;
                self.offered_alpn = hello.alpn;
                if let Some(secrets) = keylog.get(&hello.random) {
                    self.secrets = Some(secrets.clone());
                }
            }
            (_, 0) => {
                self.derive(hello.cipher_suite);
                // Nothing further is read at this level, nor at any level without keys.
                self.crypto = Default::default();
            }
            _ => {
                self.alpn = hello.alpn;
                let preferred = hello.parameters.and_then(|parameters| parameters.preferred_connection_id);
                if let Some(id) = preferred.and_then(|id| ConnectionId::new(&id)) {
                    self.learn_id(SERVER, id, 0);
                }
                // The certificates are of no use.
                self.crypto = Default::default();
            }
        }
    }

    /// Keys of Handshake and 1-RTT packets, once the cipher suite is known.
    fn derive(&mut self, suite: Option<u16>) {
        let Some(suite) = suite.and_then(Suite::from_code).filter(|_| self.handshake.is_none()) else {
            return;
        };
        let Some(secrets) = &self.secrets else { return };
        if let [Some(client), Some(server)] = &secrets.handshake {
            let keys = |secret: &[u8]| PacketKeys::new(secret, suite, self.version);
            self.handshake = keys(client).zip(keys(server)).map(|(client, server)| [client, server]);
        }
        for (place, secret) in self.one_rtt.iter_mut().zip(&secrets.traffic) {
            *place = secret.as_ref().and_then(|secret| OneRtt::new(secret, suite, self.version));
        }
    }

    /// The key log has 1-RTT secrets of this connection.
    pub(super) fn has_keys(&self) -> bool {
        self.one_rtt.iter().any(Option::is_some)
    }
}

/// Packet number; the frames are in `scratch.payload`.
pub(super) fn open(keys: &PacketKeys, long: &Long<'_>, expected: u64, scratch: &mut Scratch) -> Option<u64> {
    let buffer = &mut scratch.header;
    buffer.clear();
    buffer.extend_from_slice(long.packet);
    let unprotected = keys.unprotect(buffer, long.number_offset)?;
    let number = keys::decode_number(expected, unprotected.number, unprotected.number_length);
    let plain = keys.open(buffer, long.number_offset + unprotected.number_length, 0, number)?;
    scratch.payload.clear();
    scratch.payload.extend_from_slice(plain);
    Some(number)
}
