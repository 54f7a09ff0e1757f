//! The parts of the TLS 1.3 handshake that the analysis shows (RFC 8446; RFC 9001, section 8.2).

use super::Reader;

/// Bytes of CRYPTO frames kept per end and packet number space.
const MAX_CRYPTO: usize = 16 * 1024;
/// Ranges of bytes between gaps.
const MAX_RANGES: usize = 64;
/// Names of ALPN and bytes of a name.
const MAX_NAMES: usize = 16;

/// The handshake messages of one end in one packet number space, put together from CRYPTO frames.
#[derive(Debug, Clone, Default)]
pub struct CryptoStream {
    bytes: Vec<u8>,
    /// Received ranges, ascending, without overlap.
    ranges: Vec<(usize, usize)>,
}

impl CryptoStream {
    /// Bytes above 16 KiB are ignored.
    pub fn push(&mut self, offset: u64, data: &[u8]) {
        let Some(start) = usize::try_from(offset).ok().filter(|&start| start < MAX_CRYPTO) else { return };
        let data = data.get(..MAX_CRYPTO - start).unwrap_or(data);
        let end = start + data.len();
        if data.is_empty() || self.ranges.len() >= MAX_RANGES {
            return;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if let Some(received) = self.bytes.get_mut(start..end) {
            received.copy_from_slice(data);
        }
        let mut merged = (start, end);
        self.ranges.retain(|&(from, to)| {
            let apart = to < merged.0 || merged.1 < from;
            if !apart {
                merged = (merged.0.min(from), merged.1.max(to));
            }
            apart
        });
        let at = self.ranges.partition_point(|&(from, _)| from < merged.0);
        self.ranges.insert(at, merged);
    }

    /// The messages so far: type and body. Stops at the first gap.
    pub fn messages(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let end = self.ranges.first().filter(|range| range.0 == 0).map_or(0, |range| range.1);
        let mut reader = Reader(self.bytes.get(..end).unwrap_or_default());
        std::iter::from_fn(move || {
            let kind = reader.u8()?;
            let length = reader.u24()?;
            Some((kind, reader.take(length as usize)?))
        })
    }
}

/// Handshake types (RFC 8446, section 4).
pub const CLIENT_HELLO: u8 = 1;
pub const SERVER_HELLO: u8 = 2;
pub const ENCRYPTED_EXTENSIONS: u8 = 8;

/// Fields of a `ClientHello`, a `ServerHello` or `EncryptedExtensions`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hello {
    pub random: [u8; 32],
    /// Of a `ServerHello`.
    pub cipher_suite: Option<u16>,
    pub server_name: Option<String>,
    pub alpn: Vec<String>,
    pub parameters: Option<TransportParameters>,
}

/// Transport parameters (RFC 9000, section 18).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransportParameters {
    /// draft-ietf-quic-multipath, section 2.1.
    pub initial_max_path_id: Option<u64>,
    pub max_idle_timeout_ms: Option<u64>,
    /// Connection id of the server's preferred address, sequence number 1 (RFC 9000, section 5.1.1).
    pub preferred_connection_id: Option<Vec<u8>>,
}

pub fn client_hello(body: &[u8]) -> Option<Hello> {
    let mut reader = Reader(body);
    let mut hello = hello_start(&mut reader)?;
    // Cipher suites and compression methods.
    reader.u16_bytes()?;
    reader.u8_bytes()?;
    extensions(&mut reader, &mut hello)?;
    Some(hello)
}

pub fn server_hello(body: &[u8]) -> Option<Hello> {
    let mut reader = Reader(body);
    let mut hello = hello_start(&mut reader)?;
    hello.cipher_suite = Some(reader.u16()?);
    Some(hello)
}

/// Version, random and session id.
fn hello_start(reader: &mut Reader<'_>) -> Option<Hello> {
    reader.u16()?;
    let random = reader.take(32)?.try_into().ok()?;
    reader.u8_bytes()?;
    Some(Hello { random, ..Hello::default() })
}

pub fn encrypted_extensions(body: &[u8]) -> Option<Hello> {
    let mut hello = Hello::default();
    extensions(&mut Reader(body), &mut hello)?;
    Some(hello)
}

fn extensions(reader: &mut Reader<'_>, hello: &mut Hello) -> Option<()> {
    let mut reader = Reader(reader.u16_bytes()?);
    while !reader.is_empty() {
        let kind = reader.u16()?;
        let body = reader.u16_bytes()?;
        match kind {
            0 => hello.server_name = server_name(body).or(hello.server_name.take()),
            16 => hello.alpn = alpn(body).unwrap_or_default(),
            // RFC 9001, section 8.2; the second is that of its drafts.
            0x39 | 0xffa5 => hello.parameters = transport_parameters(body),
            _ => {}
        }
    }
    Some(())
}

/// RFC 6066, section 3.
fn server_name(body: &[u8]) -> Option<String> {
    let mut reader = Reader(body);
    reader.u16()?;
    let kind = reader.u8()?;
    let name = reader.u16_bytes()?;
    (kind == 0 && name.len() <= 255).then(|| printable(name))
}

/// RFC 7301, section 3.1.
fn alpn(body: &[u8]) -> Option<Vec<String>> {
    let mut reader = Reader(body);
    reader.u16()?;
    let mut names = Vec::new();
    while !reader.is_empty() && names.len() < MAX_NAMES {
        names.push(printable(reader.u8_bytes()?));
    }
    Some(names)
}

/// Control characters do not reach a terminal.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// RFC 9000, section 18.
pub fn transport_parameters(body: &[u8]) -> Option<TransportParameters> {
    let mut reader = Reader(body);
    let mut parameters = TransportParameters::default();
    while !reader.is_empty() {
        let id = reader.varint()?;
        let value = reader.varint_bytes()?;
        let number = || Reader(value).varint();
        match id {
            0x01 => parameters.max_idle_timeout_ms = number(),
            // Two addresses and ports precede the connection id.
            0x0d => {
                let mut value = Reader(value);
                value.take(4 + 2 + 16 + 2)?;
                parameters.preferred_connection_id = Some(value.u8_bytes()?.to_vec());
            }
            0x3e => parameters.initial_max_path_id = number(),
            _ => {}
        }
    }
    Some(parameters)
}
