//! Stream data and datagrams on each path of a connection, counted from the STREAM and DATAGRAM frames of its packets,
//! and the peer's acknowledgement delays.
//!
//! The library counts UDP payload and frames; a path's UDP payload includes heartbeats, MTU probes and
//! acknowledgements. It reports no acknowledgement delay. The meter parses the plaintext of packets: just before encryption, and right after decryption.

use super::datagram_notes::{DatagramNotes, DatagramPrefix};
use super::frames::{AckFrame, Frame, StreamFrame, frames};
use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError};
use pathbench_record::time::Timestamp;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Streams with a recorded end of sent data; more than both ends together may have open at once.
const STREAMS: usize = 512;
/// Recorded ACK frames of a packet; more than a packet has unless the peer abandons many paths at once.
const ACK_FRAMES: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StreamBytes {
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
    pub(crate) received: u64,
    pub(crate) sent_in_packets: u64,
    pub(crate) received_in_packets: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StreamMeter(Arc<Mutex<Reading>>);

#[derive(Debug, Default)]
struct Reading {
    paths: BTreeMap<PathId, StreamBytes>,
    /// Path → the path whose route its packets take.
    diverted: BTreeMap<PathId, PathId>,
    streams: SentStreams,
    /// The ACK frames of the packet that was decrypted last: the library processes it before it decrypts the next.
    acks: Vec<AckFrame>,
    datagrams: DatagramNotes,
}

impl StreamMeter {
    /// Wraps `inner` so that its connection's stream data is counted here. For one connection only.
    pub(crate) fn at_client(&self, inner: Arc<dyn ClientConfig>) -> Arc<dyn ClientConfig> {
        Arc::new(Metered { inner, meter: self.clone() })
    }

    pub(crate) fn at_server(&self, inner: Arc<dyn ServerConfig>) -> Arc<dyn ServerConfig> {
        Arc::new(Metered { inner, meter: self.clone() })
    }

    pub(crate) fn stream_bytes(&self, path: PathId) -> StreamBytes {
        self.reading().paths.get(&path).copied().unwrap_or_default()
    }

    /// The end of the data that was sent on a stream: the library sends data for the first time in order.
    pub(crate) fn sent_end(&self, stream: u64) -> u64 {
        self.reading().streams.ends.get(&stream).map_or(0, |(end, _)| *end)
    }

    /// The acknowledgement delay of packet `largest` of `path`, when the packet that was decrypted last acknowledges it.
    pub(crate) fn ack_delay(&self, path: PathId, largest: u64) -> Option<Duration> {
        let reading = self.reading();
        let ack = reading.acks.iter().find(|ack| ack.path == path && ack.largest == largest)?;
        Some(ack.delay)
    }

    /// From now on, the paths of DATAGRAM frames are noted.
    pub(crate) fn note_datagrams(&self) {
        self.reading().datagrams.enable();
    }

    /// The packets decrypted next arrived at `at`, if that is known.
    pub(crate) fn note_packet(&self, at: Option<Timestamp>) {
        self.reading().datagrams.note_packet(at);
    }

    /// The path on which the datagram of this content arrived, and when, if that is known.
    pub(crate) fn take_arrival(&self, datagram: &[u8]) -> Option<(PathId, Option<Timestamp>)> {
        self.reading().datagrams.take_arrival(datagram)
    }

    /// The datagrams that were sent since the last call, each with its path.
    pub(crate) fn take_departures(&self) -> Vec<(PathId, DatagramPrefix)> {
        self.reading().datagrams.take_departures()
    }

    /// Packets of `path` take the route of `by` from now on, and count on `by`.
    pub(crate) fn divert(&self, path: PathId, by: PathId) {
        self.reading().diverted.entry(path).or_insert(by);
    }

    pub(crate) fn forget(&self, path: PathId) -> StreamBytes {
        let mut reading = self.reading();
        reading.diverted.retain(|from, by| *from != path && *by != path);
        reading.paths.remove(&path).unwrap_or_default()
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn path(&mut self, path: PathId) -> &mut StreamBytes {
        let path = self.diverted.get(&path).copied().unwrap_or(path);
        self.paths.entry(path).or_default()
    }

    fn on_sent(&mut self, path: PathId, payload: &[u8], packet_bytes: u64) {
        let (mut sent, mut retransmitted) = (0, 0);
        for frame in frames(payload) {
            match frame {
                Frame::Stream(frame) => {
                    sent += frame.length_bytes;
                    retransmitted += self.streams.retransmitted(frame);
                }
                Frame::Datagram(datagram) => {
                    // The route that the packet takes.
                    let route = self.diverted.get(&path).copied().unwrap_or(path);
                    self.datagrams.note_departure(route, datagram);
                    sent += datagram.len() as u64;
                }
                Frame::Ack(_) => {}
            }
        }
        if sent > 0 {
            let path = self.path(path);
            path.sent += sent;
            path.retransmitted += retransmitted;
            path.sent_in_packets += packet_bytes;
        }
    }

    fn on_received(&mut self, path: PathId, payload: &[u8], packet_bytes: u64) {
        let mut received = 0;
        self.acks.clear();
        for frame in frames(payload) {
            match frame {
                Frame::Stream(frame) => received += frame.length_bytes,
                Frame::Ack(ack) if self.acks.len() < ACK_FRAMES => self.acks.push(ack),
                Frame::Ack(_) => {}
                Frame::Datagram(datagram) => {
                    self.datagrams.note_arrival(path, datagram);
                    received += datagram.len() as u64;
                }
            }
        }
        if received > 0 {
            let path = self.path(path);
            path.received += received;
            path.received_in_packets += packet_bytes;
        }
    }
}

#[derive(Debug, Default)]
struct SentStreams {
    /// Stream → the end of its sent data, and the number of the last frame that used this entry.
    ends: BTreeMap<u64, (u64, u64)>,
    frames: u64,
}

impl SentStreams {
    /// Bytes of a frame sent now that were sent before. The first transmission of a stream's data is in order.
    fn retransmitted(&mut self, frame: StreamFrame) -> u64 {
        self.frames += 1;
        if self.ends.len() >= STREAMS && !self.ends.contains_key(&frame.stream) {
            // The longest unused entry belongs to a stream that has ended.
            let idlest = self.ends.iter().min_by_key(|(_, (_, used))| *used).map(|(stream, _)| *stream);
            idlest.map(|stream| self.ends.remove(&stream));
        }
        let (end, used) = self.ends.entry(frame.stream).or_default();
        let new = frame.end().saturating_sub(frame.offset.max(*end));
        (*end, *used) = (frame.end().max(*end), self.frames);
        frame.length_bytes - new
    }
}

struct Metered<T> {
    inner: T,
    meter: StreamMeter,
}

impl<T> Metered<T> {
    fn key(&self, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(Metered { inner, meter: self.meter.clone() })
    }

    fn pair(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.key(keys.local), remote: self.key(keys.remote) }
    }
}

impl ClientConfig for Metered<Arc<dyn ClientConfig>> {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.start_session(version, server_name, params)?;
        Ok(Box::new(Metered { inner, meter: self.meter.clone() }))
    }
}

impl ServerConfig for Metered<Arc<dyn ServerConfig>> {
    fn initial_keys(&self, version: u32, dst_cid: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(&self, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let inner = self.inner.start_session(version, params);
        Box::new(Metered { inner, meter: self.meter.clone() })
    }
}

impl Session for Metered<Box<dyn Session>> {
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
        self.inner.early_crypto().map(|(header, packet)| (header, self.key(packet)))
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

impl PacketKey for Metered<Box<dyn PacketKey>> {
    fn encrypt(&self, path_id: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        let payload = header_len..buf.len().saturating_sub(self.inner.tag_len());
        let bytes = buf.len() as u64;
        self.meter.reading().on_sent(path_id, buf.get(payload).unwrap_or_default(), bytes);
        self.inner.encrypt(path_id, packet, buf, header_len);
    }

    fn decrypt(
        &self,
        path_id: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let bytes = (header.len() + payload.len()) as u64;
        self.inner.decrypt(path_id, packet, header, payload)?;
        self.meter.reading().on_received(path_id, payload, bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stream: u64, offset: u64, length_bytes: u64) -> StreamFrame {
        StreamFrame { stream, offset, length_bytes }
    }

    #[test]
    fn data_that_was_sent_before_is_retransmitted_on_whichever_path() {
        let mut streams = SentStreams::default();
        let found =
            [frame(0, 0, 100), frame(4, 0, 50), frame(0, 100, 100), frame(0, 0, 100), frame(0, 150, 100)]
                .map(|frame| streams.retransmitted(frame));
        assert_eq!(found, [0, 0, 0, 100, 50]);
    }

    #[test]
    fn a_peer_that_opens_streams_without_end_takes_no_memory() {
        let mut streams = SentStreams::default();
        for stream in 1..10_000 {
            assert_eq!(streams.retransmitted(frame(stream, 0, 10)), 0);
            // Stream 0 stays in use, so its entry remains.
            assert_eq!(streams.retransmitted(frame(0, 0, 10)), u64::from(stream > 1) * 10);
        }
        assert_eq!(streams.ends.len(), STREAMS);
    }

    #[test]
    fn the_delay_is_that_of_the_packet_decrypted_last() {
        let meter = StreamMeter::default();
        let (first, second) = (PathId::from(0_u32), PathId::from(1_u32));
        meter.reading().on_received(
            first,
            &[0x02, 0x05, 0x0a, 0x00, 0x01, 0x3e, 0x01, 0x07, 0x02, 0x00, 0x01],
            40,
        );
        assert_eq!(meter.ack_delay(first, 5), Some(Duration::from_micros(80)));
        assert_eq!(meter.ack_delay(second, 7), Some(Duration::from_micros(16)));
        assert_eq!(meter.ack_delay(second, 5), None);
        let many = [0x02, 0x05, 0x0a, 0x00, 0x01].repeat(10 * ACK_FRAMES);
        meter.reading().on_received(first, &many, 40);
        assert_eq!(meter.reading().acks.len(), ACK_FRAMES);
        meter.reading().on_received(first, &[0x01], 40);
        assert_eq!(meter.ack_delay(first, 5), None);
    }

    #[test]
    fn what_is_diverted_counts_where_it_goes() {
        let meter = StreamMeter::default();
        let (dead, other) = (PathId::from(0_u32), PathId::from(1_u32));
        let payload = [0x08, 0x00, 1, 2, 3];
        meter.reading().on_sent(dead, &payload, 40);
        meter.divert(dead, other);
        meter.reading().on_sent(dead, &payload, 40);
        meter.reading().on_received(dead, &payload, 41);
        assert_eq!(
            meter.stream_bytes(dead),
            StreamBytes { sent: 3, sent_in_packets: 40, ..StreamBytes::default() }
        );
        let found = meter.stream_bytes(other);
        assert_eq!((found.sent, found.retransmitted, found.received), (3, 3, 3));
        assert_eq!((found.sent_in_packets, found.received_in_packets), (40, 41));
    }
}
