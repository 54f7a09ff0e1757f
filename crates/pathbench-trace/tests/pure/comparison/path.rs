//! A path between two points of capture.

use crate::wire::{ACK, CLIENT, Capture, End, SERVER, SYN, Segment, document};
use pathbench_record::trace::{SubflowComparison, TraceDocument};

const MSS: u64 = 1_000;
/// Time of the first SYN, in each capture's clock before its offset.
const BEGIN_MS: f64 = 1_000_000.0;

/// A packet at one point, in true time.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at_ms: f64,
    pub(crate) segment: Segment,
    pub(crate) hop_limit: u8,
    pub(crate) fill: u8,
}

/// What both points capture. Index 0 is the client's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    pub(crate) points: [Vec<Seen>; 2],
}

/// NOP, NOP, timestamps.
pub(crate) fn timestamps(value: u32) -> Vec<u8> {
    let mut option = vec![1, 1, 8, 10];
    option.extend(value.to_be_bytes());
    option.extend([0; 4]);
    option
}

/// Positions count from the initial sequence number; the first byte is 1.
pub(crate) const INITIAL: [u32; 2] = [u32::MAX - 2_000, 77];

pub(crate) fn segment(side: usize, flags: u8, start: u64, acknowledged: u64, stamp: Option<u32>) -> Segment {
    let ends: [End; 2] = if side == 0 { [CLIENT, SERVER] } else { [SERVER, CLIENT] };
    let sequence = INITIAL[side].wrapping_add(start as u32);
    let acknowledgment = INITIAL[1 - side].wrapping_add(acknowledged as u32);
    let segment = Segment::new(ends[0], ends[1], flags, sequence, acknowledgment);
    match stamp {
        Some(stamp) => segment.option(&timestamps(stamp)),
        None => segment,
    }
}

impl Flow {
    pub(crate) fn see(&mut self, point: usize, at_ms: f64, segment: Segment) {
        let hop_limit = if (segment.from == SERVER) == (point == 1) { 64 } else { 60 };
        self.points[point].push(Seen { at_ms, segment, hop_limit, fill: 0xab });
    }

    /// A packet that arrives `delay_ms` later as it was sent.
    pub(crate) fn carry(&mut self, side: usize, at_ms: f64, delay_ms: f64, segment: &Segment) {
        self.see(side, at_ms, segment.clone());
        self.see(1 - side, at_ms + delay_ms, segment.clone());
    }

    /// SYN, SYN/ACK and ACK; each direction has its delay.
    pub(crate) fn handshake(&mut self, [up, down]: [f64; 2], stamps: bool) -> f64 {
        let stamp = |at: f64| stamps.then_some(at as u32);
        self.carry(0, 0.0, up, &segment(0, SYN, 0, 0, stamp(0.0)));
        self.carry(1, up, down, &segment(1, SYN | ACK, 0, 1, stamp(up)));
        self.carry(0, up + down, up, &segment(0, ACK, 1, 1, stamp(up + down)));
        up + down
    }

    /// Both captures; the server's clock is ahead by `offset_ms`.
    pub(crate) fn captures(&self, offset_ms: f64) -> [Vec<u8>; 2] {
        [0, 1].map(|point: usize| {
            let mut seen = self.points[point].clone();
            seen.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
            let mut capture = Capture::new();
            for Seen { at_ms, segment, hop_limit, fill } in seen {
                capture.now_ms = BEGIN_MS + at_ms + if point == 1 { offset_ms } else { 0.0 };
                let mut packet = segment.packet();
                packet[8] = hop_limit;
                let payload = packet.len() - segment.payload;
                packet[payload..].fill(fill);
                capture.packet(&packet);
            }
            capture.into_bytes()
        })
    }

    pub(crate) fn document(&self, offset_ms: f64) -> TraceDocument {
        let captures = self.captures(offset_ms);
        document(&captures.each_ref().map(Vec::as_slice), 10)
    }

    /// The comparison of the only flow. The order of the captures does not matter.
    pub(crate) fn comparison(&self, offset_ms: f64) -> SubflowComparison {
        let [client, server] = self.captures(offset_ms);
        let forward = only(&document(&[&client, &server], 10));
        let backward = only(&document(&[&server, &client], 10));
        assert_eq!((forward.client_capture, forward.server_capture), (0, 1));
        let swapped = SubflowComparison { client_capture: 0, server_capture: 1, ..backward.clone() };
        assert_eq!((backward.client_capture, backward.server_capture), (1, 0));
        assert_eq!(forward, swapped);
        forward
    }
}

pub(crate) fn only(document: &TraceDocument) -> SubflowComparison {
    let [connection] = document.connections.as_slice() else { panic!("{document:#?}") };
    let [subflow] = connection.subflows.as_slice() else { panic!("{document:#?}") };
    subflow.comparison.clone().unwrap_or_else(|| panic!("no comparison: {document:#?}"))
}

impl Flow {
    /// Bytes from one end that arrived after bytes it had sent later; all segments have timestamps.
    pub(crate) fn reordered_bytes(&self, side: usize) -> u64 {
        let end = if side == 0 { CLIENT } else { SERVER };
        let sequence = |point: usize| {
            let sent = |seen: &&Seen| seen.segment.from == end && seen.segment.payload > 0;
            let mut seen: Vec<&Seen> = self.points[point].iter().filter(sent).collect();
            seen.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
            seen
        };
        let range = |seen: &Seen| {
            let start = u64::from(seen.segment.sequence.wrapping_sub(INITIAL[side]));
            (start, start + seen.segment.payload as u64)
        };
        let sent = sequence(side);
        let (mut latest, mut reordered) = ((0, 0), 0);
        for received in sequence(1 - side) {
            for (number, copy) in sent.iter().enumerate() {
                let (start, end) =
                    (range(received).0.max(range(copy).0), range(received).1.min(range(copy).1));
                if received.segment.options == copy.segment.options && start < end {
                    reordered += if (number, start) < latest { end - start } else { 0 };
                    latest = latest.max((number, start));
                }
            }
        }
        reordered
    }
}

/// Data from one end, cut into packets of one size at each point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Data {
    pub(crate) side: usize,
    pub(crate) at_ms: f64,
    pub(crate) start: u64,
    pub(crate) segments: u64,
    pub(crate) delay_ms: f64,
    /// Bit n: segment n is lost.
    pub(crate) lost: u32,
    pub(crate) stamp: Option<u32>,
    /// The receiver's point captures what arrives of it as one packet per uninterrupted range.
    pub(crate) gro: bool,
}

impl Data {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.segments * MSS
    }

    pub(crate) fn lost_bytes(&self) -> u64 {
        (0..self.segments).filter(|number| self.lost >> number & 1 == 1).count() as u64 * MSS
    }

    /// The sender's point has one GSO packet.
    pub(crate) fn run(&self, flow: &mut Flow) {
        let Self { side, at_ms, start, segments, delay_ms, lost, stamp, gro } = *self;
        let packet = |first: u64, count: u64| {
            segment(side, ACK, start + first * MSS, 1, stamp).payload((count * MSS) as usize)
        };
        flow.see(side, at_ms, packet(0, segments));
        let mut number = 0;
        while number < segments {
            if lost >> number & 1 == 1 {
                number += 1;
                continue;
            }
            let whole = (number..segments).take_while(|number| lost >> number & 1 == 0).count() as u64;
            let count = if gro { whole } else { 1 };
            flow.see(1 - side, at_ms + delay_ms + number as f64 * 0.001, packet(number, count));
            number += count;
        }
    }
}
