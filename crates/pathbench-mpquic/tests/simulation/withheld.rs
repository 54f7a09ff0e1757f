//! A client that acknowledges everything but the first packet of a stream.

use super::*;
use bytes::{Bytes, BytesMut};
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, StreamId, TransportError, VarInt};
use pathbench_mpquic::MOST_HELD_BYTES;
use std::any::Any;

/// Longest piece that is handed to the library at a time.
const PIECE_BYTES: u64 = 128 << 10;

/// What the stream begins with.
const BEGINNING: [u8; 16] = *b"the first packet";

/// A client's cryptography that cannot decrypt packets with [`BEGINNING`] in them.
struct Deaf<T>(T);

fn deaf(keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: keys.local, remote: Box::new(Deaf(keys.remote)) }
}

impl ClientConfig for Deaf<QuicClientConfig> {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Deaf(self.0.start_session(version, server_name, params)?)))
    }
}

impl Session for Deaf<Box<dyn Session>> {
    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        self.0.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.0.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.0.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.0.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.0.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.0.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.0.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.0.write_handshake(buf)?;
        Some(Keys { header: keys.header, packet: deaf(keys.packet) })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.0.next_1rtt_keys().map(deaf)
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.0.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.0.export_keying_material(output, label, context)
    }
}

impl PacketKey for Deaf<Box<dyn PacketKey>> {
    fn encrypt(&self, path_id: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        self.0.encrypt(path_id, packet, buf, header_len);
    }

    fn decrypt(
        &self,
        path_id: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.0.decrypt(path_id, packet, header, payload)?;
        if payload.windows(BEGINNING.len()).any(|part| part == BEGINNING) {
            return Err(CryptoError);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

/// The library counts what is not acknowledged, but frees only what lies before the first of that: a server once kept
/// all that it had ever sent to such a client.
#[test]
fn a_client_that_acknowledges_all_but_the_first_packet_does_not_make_a_server_keep_everything() {
    let mut setup = Setup::new(&[LinkModel::new(100_000, 0)], Scheduler::LowestRtt);
    setup.library_only = [true, false];
    setup.adjust[0] = |transport| {
        let huge = VarInt::from_u32(1 << 30);
        transport.stream_receive_window(huge).receive_window(huge).send_window(1 << 20);
    };
    setup.client_crypto = |crypto| Arc::new(Deaf(crypto));
    let mut world = World::established(&setup);
    world.client.reads_unordered = true;
    world.client.wanted_streams = 1;
    world.run_for(ms(20));
    let id: StreamId = *world.server.streams.first().expect("a stream");
    let mut block = vec![0; 256 << 10];
    block[..BEGINNING.len()].copy_from_slice(&BEGINNING);
    let (mut sent, mut most_held, mut refused) = (0, 0, 0);
    for _ in 0..100_000 {
        match world.server.core().write(id, &block, &mut Bytes::new()) {
            Ok(count) if count > 0 => {
                sent += count as u64;
                refused = 0;
                block[..BEGINNING.len()].fill(0);
            }
            _ => refused += 1,
        }
        world.run_for(ms(1));
        most_held = most_held.max(world.server.core().held_bytes());
        if refused > 1000 || sent > 3 * MOST_HELD_BYTES {
            break;
        }
    }
    assert!(world.server.ended().is_none(), "{:?}", world.server.ended());
    assert!(sent > MOST_HELD_BYTES / 2, "only {sent} bytes were sent: the hole was not tried");
    assert!(refused > 1000, "{sent} bytes were taken, {most_held} of them held");
    assert!(most_held <= MOST_HELD_BYTES + 2 * PIECE_BYTES, "{most_held} bytes held");
}
