//! A wrapper of the client's cryptography, in which a test can change or reject the plaintext of packets.

use super::*;
use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError};
use std::any::Any;

#[derive(Clone, Copy)]
pub(super) struct Hooks {
    /// May change the payload of the packet of this number before it is encrypted.
    pub(super) sends: fn(u64, &mut [u8]),
    /// Whether a packet with this payload can be decrypted.
    pub(super) accepts: fn(&[u8]) -> bool,
}

impl Default for Hooks {
    fn default() -> Self {
        Self { sends: |_, _| {}, accepts: |_| true }
    }
}

pub(super) fn tampered(crypto: QuicClientConfig, hooks: Hooks) -> Arc<dyn ClientConfig> {
    Arc::new(Tampered { inner: crypto, hooks })
}

struct Tampered<T> {
    inner: T,
    hooks: Hooks,
}

impl<T> Tampered<T> {
    fn pair(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        let key = |inner| Box::new(Tampered { inner, hooks: self.hooks });
        KeyPair { local: key(keys.local), remote: key(keys.remote) }
    }
}

/// Whether a packet has a short header (RFC 9000 section 17.3), and so is not of the handshake.
fn is_short(header: &[u8]) -> bool {
    header.first().is_some_and(|first| first & 0x80 == 0)
}

impl ClientConfig for Tampered<QuicClientConfig> {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.start_session(version, server_name, params)?;
        Ok(Box::new(Tampered { inner, hooks: self.hooks }))
    }
}

impl Session for Tampered<Box<dyn Session>> {
    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        Some(Keys { header: keys.header, packet: self.pair(keys.packet) })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.pair(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

impl PacketKey for Tampered<Box<dyn PacketKey>> {
    fn encrypt(&self, path_id: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        if is_short(buf) {
            let payload = header_len..buf.len() - self.inner.tag_len();
            (self.hooks.sends)(packet, &mut buf[payload]);
        }
        self.inner.encrypt(path_id, packet, buf, header_len);
    }

    fn decrypt(
        &self,
        path_id: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(path_id, packet, header, payload)?;
        if is_short(header) && !(self.hooks.accepts)(payload) {
            return Err(CryptoError);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
