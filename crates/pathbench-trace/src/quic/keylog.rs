//! Files that `SSLKEYLOGFILE` names (RFC 9850).

use std::collections::HashMap;

/// Connections of a key log; further ones are ignored.
const MAX_CONNECTIONS: usize = 100_000;

/// TLS 1.3 secrets of one connection.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secrets {
    /// Of the client and of the server.
    pub handshake: [Option<Vec<u8>>; 2],
    pub traffic: [Option<Vec<u8>>; 2],
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

/// Secrets by the random of the `ClientHello`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keylog {
    connections: HashMap<[u8; 32], Secrets>,
}

impl Keylog {
    /// Ignores lines of other labels and damaged lines.
    pub fn parse(text: &[u8]) -> Self {
        let mut keylog = Self::default();
        keylog.extend(text);
        keylog
    }

    /// Adds the lines of a text, as [`parse`](Self::parse) reads them.
    pub fn extend(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            self.add(line);
        }
    }

    /// Adds one line; `false` if the line has no secret that QUIC uses.
    pub fn add(&mut self, line: &[u8]) -> bool {
        self.read(line).is_some()
    }

    fn read(&mut self, line: &[u8]) -> Option<()> {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let (label, random, secret) = (fields.next()?, fields.next()?, fields.next()?);
        let (is_traffic, side) = match label {
            b"CLIENT_HANDSHAKE_TRAFFIC_SECRET" => (false, 0),
            b"SERVER_HANDSHAKE_TRAFFIC_SECRET" => (false, 1),
            b"CLIENT_TRAFFIC_SECRET_0" => (true, 0),
            b"SERVER_TRAFFIC_SECRET_0" => (true, 1),
            _ => return None,
        };
        let random: [u8; 32] = hex(random)?.try_into().ok()?;
        let secret = hex(secret).filter(|secret| matches!(secret.len(), 32 | 48))?;
        if self.connections.len() >= MAX_CONNECTIONS && !self.connections.contains_key(&random) {
            return None;
        }
        let secrets = self.connections.entry(random).or_default();
        let level = if is_traffic { &mut secrets.traffic } else { &mut secrets.handshake };
        level[side] = Some(secret);
        Some(())
    }

    pub fn get(&self, client_random: &[u8; 32]) -> Option<&Secrets> {
        self.connections.get(client_random)
    }

    pub fn len(&self) -> usize {
        self.connections.len()
    }

    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

/// At most 48 bytes.
fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || digits.len() > 96 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    digits.chunks_exact(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.last()?)?)).collect()
}
