//! Hand-made captures: segments of TCP and MPTCP as a pcap file of raw IP packets.

use pathbench_record::trace::{TraceDocument, TracedConnection};
use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::mptcp::keys::{self, Key};
use pathbench_trace::quic::Quic;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
pub(crate) const CLIENT_KEY: Key = Key(0x0102_0304_0506_0708);
pub(crate) const SERVER_KEY: Key = Key(0x1112_1314_1516_1718);

pub(crate) type End = ([u8; 4], u16);
pub(crate) const CLIENT: End = ([192, 0, 2, 1], 40_000);
pub(crate) const SECOND: End = ([198, 51, 100, 1], 40_001);
pub(crate) const SERVER: End = ([203, 0, 113, 9], 443);

/// A capture in the making.
#[derive(Clone)]
pub(crate) struct Capture {
    bytes: Vec<u8>,
    pub(crate) now_ms: f64,
}

impl Capture {
    pub(crate) fn new() -> Self {
        Self::with_link_type(101)
    }

    pub(crate) fn with_link_type(link_type: u16) -> Self {
        let mut bytes = Vec::new();
        // Nanoseconds, version 2.4, no snap length.
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 0, u32::from(link_type)] {
            bytes.extend(word.to_le_bytes());
        }
        Self { bytes, now_ms: 1_000_000.0 }
    }

    pub(crate) fn wait(&mut self, ms: f64) -> &mut Self {
        self.now_ms += ms;
        self
    }

    pub(crate) fn packet(&mut self, packet: &[u8]) -> &mut Self {
        let ns = (self.now_ms * 1e6) as u64;
        for word in [
            (ns / 1_000_000_000) as u32,
            (ns % 1_000_000_000) as u32,
            packet.len() as u32,
            packet.len() as u32,
        ] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(packet);
        self.now_ms += 0.01;
        self
    }

    pub(crate) fn segment(&mut self, segment: &Segment) -> &mut Self {
        let packet = segment.packet();
        self.packet(&packet)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn document(&self) -> TraceDocument {
        document(&[&self.bytes], 100)
    }

    /// The only connection.
    pub(crate) fn connection(&self) -> TracedConnection {
        let document = self.document();
        assert_eq!(document.connections.len(), 1, "{document:#?}");
        document.connections.into_iter().next().unwrap()
    }
}

pub(crate) fn document(captures: &[&[u8]], most: usize) -> TraceDocument {
    let name = |(index, bytes): (usize, &&'_ [u8])| {
        open(format!("capture-{index}"), std::io::Cursor::new(bytes.to_vec())).unwrap()
    };
    let sources = captures.iter().enumerate().map(name).collect();
    analyse(sources, &AnalysisParameters { most, seed: 1 }, Quic::new(None), ()).document
}

#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: usize,
}

impl Segment {
    pub(crate) fn new(from: End, to: End, flags: u8, sequence: u32, acknowledgment: u32) -> Self {
        Self { from, to, flags, sequence, acknowledgment, options: Vec::new(), payload: 0 }
    }

    pub(crate) fn option(mut self, option: &[u8]) -> Self {
        self.options.extend(option);
        self
    }

    pub(crate) fn payload(mut self, bytes: usize) -> Self {
        self.payload = bytes;
        self
    }

    pub(crate) fn packet(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        while !options.len().is_multiple_of(4) {
            options.push(1);
        }
        let length = 20 + 20 + options.len() + self.payload;
        let mut packet = vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
        packet.extend(self.from.0);
        packet.extend(self.to.0);
        packet.extend(self.from.1.to_be_bytes());
        packet.extend(self.to.1.to_be_bytes());
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(self.acknowledgment.to_be_bytes());
        packet.push(((20 + options.len()) as u8 / 4) << 4);
        packet.push(self.flags);
        packet.extend([0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(options);
        packet.resize(length, 0xab);
        packet
    }
}

/// A subflow whose segments are made one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Subflow {
    pub(crate) client: End,
    pub(crate) initial: [u32; 2],
}

pub(crate) fn capable(keys: &[Key]) -> Vec<u8> {
    let mut option = vec![30, 4 + 8 * keys.len() as u8, 0x01, 0x01];
    for key in keys {
        option.extend(key.0.to_be_bytes());
    }
    option
}

/// A DSS with an 8-byte `DATA_ACK` and an 8-byte data sequence number.
pub(crate) fn dss(data_ack: u64, mapping: Option<(u64, u32, u16)>, fin: bool) -> Vec<u8> {
    let mut flags = 0x03;
    let mut rest = data_ack.to_be_bytes().to_vec();
    if let Some((data, subflow, length)) = mapping {
        flags |= 0x0c | u8::from(fin) << 4;
        rest.extend(data.to_be_bytes());
        rest.extend(subflow.to_be_bytes());
        rest.extend(length.to_be_bytes());
    }
    let mut option = vec![30, 4 + rest.len() as u8, 0x20, flags];
    option.extend(rest);
    option
}

/// Initial data sequence number of the data that an end sends.
pub(crate) fn initial_data(key: Key) -> u64 {
    keys::initial_data_sequence(1, key)
}

impl Subflow {
    pub(crate) fn new(client: End, initial: [u32; 2]) -> Self {
        Self { client, initial }
    }

    /// A segment from the client (0) or the server; positions: the first byte is 1.
    pub(crate) fn from(&self, side: usize, flags: u8, sequence: u32, acknowledgment: u32) -> Segment {
        let (from, to) = if side == 0 { (self.client, SERVER) } else { (SERVER, self.client) };
        let sequence = self.initial[side].wrapping_add(sequence);
        Segment::new(from, to, flags, sequence, self.initial[1 - side].wrapping_add(acknowledgment))
    }

    /// The three segments of an `MP_CAPABLE` handshake, 10 ms apart.
    pub(crate) fn handshake(&self, capture: &mut Capture) {
        capture.segment(&self.from(0, SYN, 0, 0).option(&[2, 4, 5, 180]).option(&capable(&[])));
        capture
            .wait(10.0)
            .segment(&self.from(1, SYN | ACK, 0, 1).option(&[2, 4, 5, 100]).option(&capable(&[SERVER_KEY])));
        capture.wait(10.0).segment(&self.from(0, ACK, 1, 1).option(&capable(&[CLIENT_KEY, SERVER_KEY])));
    }

    /// The four segments of an `MP_JOIN` handshake from the client.
    pub(crate) fn join(&self, capture: &mut Capture) {
        let token = keys::token(1, SERVER_KEY);
        let (client, server) = ((CLIENT_KEY, 7_u32), (SERVER_KEY, 9_u32));
        let mut syn = vec![30, 12, 0x10, 2];
        syn.extend(token.to_be_bytes());
        syn.extend(client.1.to_be_bytes());
        let mut syn_ack = vec![30, 16, 0x10, 0];
        syn_ack.extend(keys::join_syn_ack_hmac(1, client, server).to_be_bytes());
        syn_ack.extend(server.1.to_be_bytes());
        let mut ack = vec![30, 24, 0x10, 0];
        ack.extend(keys::join_ack_hmac(1, client, server));
        capture.segment(&self.from(0, SYN, 0, 0).option(&syn));
        capture.wait(10.0).segment(&self.from(1, SYN | ACK, 0, 1).option(&syn_ack));
        capture.wait(10.0).segment(&self.from(0, ACK, 1, 1).option(&ack));
    }

    /// Client's data: `data` counts from 1 at the data level.
    pub(crate) fn upload(&self, sequence: u32, data: u64, bytes: usize) -> Segment {
        let mapping = (initial_data(CLIENT_KEY).wrapping_add(data), sequence, bytes as u16);
        let option = dss(initial_data(SERVER_KEY).wrapping_add(1), Some(mapping), false);
        self.from(0, ACK, sequence, 1).option(&option).payload(bytes)
    }

    /// The server's acknowledgment of the subflow up to `sequence`, and of the data up to `data`.
    pub(crate) fn acknowledge(&self, sequence: u32, data: u64) -> Segment {
        let option = dss(initial_data(CLIENT_KEY).wrapping_add(data), None, false);
        self.from(1, ACK, 1, sequence).option(&option)
    }
}
