//! The packets of a datagram, and the handshake in those with a long header.

use super::connection::{CLIENT, Connection, PacketContext, SERVER, Scratch};
use super::frames::{QuicFrame, QuicFrames};
use super::header::{ConnectionId, Header, Long, LongType, parse};
use super::keylog::Keylog;
use super::keys::{self, PacketKeys, Suite};
use super::one_rtt_keys::OneRtt;
use super::tls::{self, Hello};

/// Largest UDP payload in an IPv4 packet of 1500 bytes; longer ones may be GSO packets.
const MAX_ETHERNET: usize = 1472;
/// Shortest connection id whose repetition shows the segments of a GSO packet.
const MIN_REPEATED_ID: usize = 4;

impl Connection {
    /// Reads the packets of a datagram.
    pub(super) fn datagram(
        &mut self,
        context: PacketContext,
        payload: &[u8],
        keylog: &Keylog,
        scratch: &mut Scratch,
    ) {
        self.end_ns = self.end_ns.max(context.time_ns);
        if context.side == SERVER {
            self.first_server_ns.get_or_insert(context.time_ns);
        }
        let mut rest = payload;
        let mut coalesced_to: Option<ConnectionId> = None;
        while let Some((header, after)) = parse(rest) {
            match header {
                Header::Long(long) => {
                    self.long(context, &long, keylog, scratch);
                    coalesced_to = Some(long.destination);
                }
                Header::Short { packet } => {
                    // RFC 9000, section 12.2: bytes without the first packet's connection id are no packet.
                    let after_first = packet.get(1..).unwrap_or_default();
                    // Behind the packets to a zero-length connection id, padding looks like a packet.
                    if coalesced_to.is_some() && packet.iter().all(|&byte| byte == 0) {
                        return;
                    }
                    if coalesced_to.is_none_or(|id| after_first.starts_with(id.as_slice())) {
                        for packet in packet.chunks(self.segment_length(context.side, packet)) {
                            self.short(context, packet, scratch);
                        }
                    }
                }
                Header::Retry { version, source, .. } => {
                    if context.side == SERVER
                        && !self.retry
                        && keys::is_retry_valid(version, &self.original, rest)
                    {
                        self.retry = true;
                        self.rekey(version, source);
                    }
                }
                Header::VersionNegotiation { .. } => self.version_negotiation |= context.side == SERVER,
                Header::UnknownVersion { version, source, .. } => {
                    // The client's version after version negotiation.
                    if context.side == CLIENT {
                        self.version = version;
                    }
                    self.learn_id(context.side, source, 0);
                }
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
        let id = self.id_length[1 - side].filter(|&length| length >= MIN_REPEATED_ID);
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

    fn long(&mut self, context: PacketContext, long: &Long<'_>, keylog: &Keylog, scratch: &mut Scratch) {
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
        if self.version_negotiation && context.side == CLIENT {
            self.version = long.version;
        }
        if self.open_long(context.side, space, long, scratch).is_some() {
            self.version = long.version;
            self.learn_id(context.side, long.source, 0);
            self.crypto_frames(context.side, space, &scratch.payload, keylog);
        } else if self.id_length[context.side].is_none() {
            self.learn_id(context.side, long.source, 0);
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
        let expected = &mut self.expected[space][side];
        let number = open(&keys?[side], long, *expected, scratch)?;
        *expected = (*expected).max(number + 1);
        Some(())
    }

    fn crypto_frames(&mut self, side: usize, space: usize, payload: &[u8], keylog: &Keylog) {
        let stream = &mut self.crypto[space][side];
        let mut added = false;
        for frame in QuicFrames::new(payload) {
            if let QuicFrame::Crypto { offset, data } = frame {
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
        if hello.parameters.is_some() {
            self.parameters[side].clone_from(&hello.parameters);
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
        for (keys, secret) in self.one_rtt.iter_mut().zip(&secrets.traffic) {
            *keys = secret.as_ref().and_then(|secret| OneRtt::new(secret, suite, self.version));
        }
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
