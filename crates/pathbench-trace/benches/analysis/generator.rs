//! Captures of uploads over MPTCP and TCP, generated while they are read: pcap with nanoseconds, Ethernet, IPv4.

use pathbench_trace::mptcp::keys::{self, Key};
use std::io::{self, Read};

const SYN: u8 = 2;
const ACK: u8 = 16;
const HEADERS: usize = 14 + 20 + 20;
const NOP_NOP_TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

/// The traffic of a capture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) connections: u32,
    /// Of each connection; 0 is plain TCP.
    pub(crate) subflows: u32,
    /// Subflows that have packets at the same time; one follows another.
    pub(crate) live: usize,
    /// Payload of a packet with data.
    pub(crate) payload: u16,
    /// Captured bytes of a packet at most.
    pub(crate) snap: usize,
    pub(crate) packets: u64,
}

/// Subflow: address and ports follow from its number.
struct Subflow {
    connection: u32,
    number: u32,
    step: u8,
    /// Relative sequence number of the next byte.
    next: u32,
    data_since_ack: bool,
}

struct Connection {
    keys: [Key; 2],
    initial: [u64; 2],
    token: u32,
    /// Next byte at the data level, from 1.
    next: u64,
    established: bool,
}

pub(crate) struct Generator {
    traffic: Traffic,
    connections: Vec<Connection>,
    subflows: Vec<Subflow>,
    random: u64,
    made: u64,
    now_ns: u64,
    buffer: Vec<u8>,
    read: usize,
    packet: Vec<u8>,
}

impl Generator {
    pub(crate) fn new(traffic: Traffic) -> Self {
        let connections: Vec<Connection> = (0..traffic.connections)
            .map(|number| {
                let key =
                    |side: u64| Key((u64::from(number) << 1 | side).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let keys = [key(0), key(1)];
                Connection {
                    keys,
                    initial: keys.map(|key| keys::initial_data_sequence(1, key)),
                    token: keys::token(1, keys[1]),
                    next: 1,
                    established: false,
                }
            })
            .collect();
        let each = traffic.subflows.max(1);
        let subflows: Vec<Subflow> = (0..traffic.connections * each)
            .map(|index| Subflow {
                connection: index / each,
                number: index % each,
                step: 0,
                next: 1,
                data_since_ack: false,
            })
            .collect();
        let mut buffer = Vec::with_capacity(1 << 20);
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 0x0004_0000, 1] {
            buffer.extend(word.to_le_bytes());
        }
        Self {
            traffic,
            connections,
            subflows,
            random: 0x2545_f491_4f6c_dd1d,
            made: 0,
            now_ns: 1_700_000_000_000_000_000,
            buffer,
            read: 0,
            packet: Vec::new(),
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 33) as usize) % below
    }

    fn step(&mut self) -> bool {
        if self.made >= self.traffic.packets {
            return false;
        }
        let (all, live) = (self.subflows.len(), self.traffic.live.min(self.subflows.len()));
        let first = (all - live) as u64 * self.made / self.traffic.packets;
        let index = first as usize + self.random(live);
        let chance = self.random(1_000);
        let subflow = &mut self.subflows[index];
        let connection = &mut self.connections[subflow.connection as usize];
        // A subflow joins when the connection is established.
        let (from_client, flags, sequence, length) = match subflow.step {
            0 if subflow.number > 0 && !connection.established => return true,
            0 => (true, SYN, 0, 0),
            1 => (false, SYN | ACK, 0, 0),
            2 => (true, ACK, 1, 0),
            _ if subflow.data_since_ack && chance < 400 => (false, ACK, 1, 0),
            _ => (true, ACK, subflow.next, self.traffic.payload),
        };
        self.packet.clear();
        let options = &mut self.packet;
        let multipath = self.traffic.subflows > 0;
        match subflow.step {
            0..3 if multipath => handshake(subflow, connection, options),
            0..3 => timestamps(options),
            _ if !from_client => {
                subflow.data_since_ack = false;
                timestamps(options);
                if multipath {
                    data_ack(connection.initial[0].wrapping_add(connection.next), options);
                }
            }
            _ => {
                // A reinjection carries data that were sent before.
                let reinjects = multipath && chance >= 999 && connection.next > u64::from(length);
                let retransmits = chance == 998 && subflow.next > u32::from(length);
                let data = if reinjects { connection.next - u64::from(length) } else { connection.next };
                timestamps(options);
                if multipath {
                    mapping(connection, data, subflow.next, length, options);
                }
                if !retransmits {
                    subflow.next = subflow.next.wrapping_add(u32::from(length));
                    if !reinjects {
                        connection.next += u64::from(length);
                    }
                }
                subflow.data_since_ack = true;
            }
        }
        subflow.step = (subflow.step + 1).min(3);
        connection.established |= subflow.number == 0 && subflow.step == 3;
        let acknowledgment = if flags == SYN {
            0
        } else if from_client {
            1
        } else {
            subflow.next
        };
        let segment = Segment { from_client, flags, sequence, acknowledgment, length };
        self.emit(index, &segment);
        true
    }

    fn emit(&mut self, index: usize, segment: &Segment) {
        let options = std::mem::take(&mut self.packet);
        let subflow = &self.subflows[index];
        let client = (0x0a00_0000 | subflow.connection, 10_000 + subflow.number as u16);
        let server = (0xc000_0201_u32, 443_u16);
        let (source, destination) = if segment.from_client { (client, server) } else { (server, client) };
        let length = HEADERS + options.len() + usize::from(segment.length);
        let captured = length.min(self.traffic.snap);
        self.now_ns += 1_000;
        let out = &mut self.buffer;
        for word in [
            (self.now_ns / 1_000_000_000) as u32,
            (self.now_ns % 1_000_000_000) as u32,
            captured as u32,
            length as u32,
        ] {
            out.extend(word.to_le_bytes());
        }
        let start = out.len();
        out.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
        out.extend(((length - 14) as u16).to_be_bytes());
        // Hosts with and without an identification.
        let identification = if self.traffic.subflows > 0 { 0 } else { self.made as u16 };
        out.extend(identification.to_be_bytes());
        out.extend([0x40, 0, 64, 6, 0, 0]);
        out.extend(source.0.to_be_bytes());
        out.extend(destination.0.to_be_bytes());
        out.extend(source.1.to_be_bytes());
        out.extend(destination.1.to_be_bytes());
        out.extend(segment.sequence.to_be_bytes());
        out.extend(segment.acknowledgment.to_be_bytes());
        out.extend([(((20 + options.len()) / 4) << 4) as u8, segment.flags, 0xff, 0xff, 0, 0, 0, 0]);
        out.extend(&options);
        out.resize(start + length.max(captured), 0x5a);
        out.truncate(start + captured);
        self.packet = options;
        self.made += 1;
    }
}

struct Segment {
    from_client: bool,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    length: u16,
}

fn handshake(subflow: &Subflow, connection: &Connection, out: &mut Vec<u8>) {
    let (client, server) = ((connection.keys[0], 7_u32), (connection.keys[1], 9_u32));
    match (subflow.number, subflow.step) {
        (0, 0) => out.extend([30, 4, 1, 1]),
        (0, 1) => {
            out.extend([30, 12, 1, 1]);
            out.extend(connection.keys[1].0.to_be_bytes());
        }
        (0, _) => {
            out.extend([30, 20, 1, 1]);
            connection.keys.iter().for_each(|key| out.extend(key.0.to_be_bytes()));
        }
        (number, 0) => {
            out.extend([30, 12, 0x10, number as u8]);
            out.extend(connection.token.to_be_bytes());
            out.extend(client.1.to_be_bytes());
        }
        (_, 1) => {
            out.extend([30, 16, 0x10, 0]);
            out.extend(keys::join_syn_ack_hmac(1, client, server).to_be_bytes());
            out.extend(server.1.to_be_bytes());
        }
        _ => {
            out.extend([30, 24, 0x10, 0]);
            out.extend(keys::join_ack_hmac(1, client, server));
        }
    }
}

fn timestamps(out: &mut Vec<u8>) {
    out.extend(NOP_NOP_TIMESTAMPS);
    out.extend([0, 0, 0, 1, 0, 0, 0, 2]);
}

/// Flags 0x0d, 22 bytes: a `DATA_ACK` of 4 bytes, a data sequence number of 8.
fn mapping(connection: &Connection, data: u64, subflow: u32, length: u16, out: &mut Vec<u8>) {
    out.extend([30, 22, 0x20, 0x0d]);
    out.extend((connection.initial[1] as u32).wrapping_add(1).to_be_bytes());
    out.extend(connection.initial[0].wrapping_add(data).to_be_bytes());
    out.extend(subflow.to_be_bytes());
    out.extend(length.to_be_bytes());
    out.extend([1, 1]);
}

fn data_ack(data: u64, out: &mut Vec<u8>) {
    out.extend([30, 12, 0x20, 3]);
    out.extend(data.to_be_bytes());
}

impl Read for Generator {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.buffer.len() {
            self.buffer.clear();
            self.read = 0;
            while self.buffer.len() < 1 << 19 && self.step() {}
        }
        let length = out.len().min(self.buffer.len() - self.read);
        out[..length].copy_from_slice(&self.buffer[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}
