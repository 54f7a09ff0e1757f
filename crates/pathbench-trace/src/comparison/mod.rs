//! One TCP flow at two points of capture: bytes lost and reordered between them, one-way delays, middleboxes.
//!
//! Ranges of sequence numbers are matched, never packets: the sender's point captures GSO packets before they are cut,
//! the receiver's point captures GRO packets after they were joined. A copy of a range matches the copy with the same
//! TCP timestamp; without timestamps the copies match in order, and give no delay.
//!
//! The two clocks differ by an offset. With θ = server's clock − client's clock, the differences of
//! a packet's times are its delay + θ in upload and its delay − θ in download. No delay is negative, so that the least
//! differences bound θ from both sides; the estimate is the middle. All flows of two captures have one pair of clocks
//! ([`Clocks`]). Asymmetric least delays are within the stated uncertainty, and so is a drift of up to 200 ppm, which is
//! corrected where no constant offset explains both directions: the offset stated is that in the middle of the flow. Of
//! copies of a SYN, those with the same time stamp or IP identification are one packet. The time of a GSO packet is that
//! of its first byte: delays include the time for which the kernel and the device send the rest.

mod acknowledgments;
mod clock;
mod context;
mod envelope;
mod handshake;
mod matching;
mod point;
mod reordering;

use crate::packet::tcp_options::{TcpOption, options};
use crate::packet::{PacketHeaders, Tcp};
use crate::tcp::{ACK, FIN, RST, SYN};
use acknowledgments::Acknowledgments;
use clock::Differences;
use envelope::Sample;
use handshake::{Copies, Copy};
use matching::{Matcher, Piece};
use pathbench_record::trace::{DirectionComparison, SubflowComparison};
use point::PointState;

pub use clock::{Clocks, FlowDelays, FlowTimes};
pub use context::{CaptureSpan, ObservationContext};

/// Direction of one sender.
#[derive(Debug, Default)]
struct Side {
    points: [PointState; 2],
    handshake: Copies,
    matcher: Matcher,
    acknowledgments: Acknowledgments,
    differences: Differences,
}

/// A flow at two points; sides are those of the flow: 0 sent the SYN.
#[derive(Debug, Default)]
pub struct FlowComparison {
    sides: [Side; 2],
    observed: [bool; 2],
}

/// Numbers of the first packets that show a difference between the points, in the capture of the sender, by sender.
#[derive(Debug, Clone, Default)]
pub struct ComparedFrames {
    pub lost: [Vec<u64>; 2],
    pub rewritten: [Vec<u64>; 2],
}

/// Options of one segment.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    timestamp: Option<u32>,
    mss: Option<u16>,
    /// A bit per option that an end offers in its SYN.
    kinds: u8,
    data_sequence: bool,
}

const MULTIPATH_KIND: u8 = 1 << 4;

fn find(tcp: &Tcp<'_>) -> Found {
    let mut found = Found::default();
    for option in options(tcp.options) {
        match option {
            TcpOption::Mss(mss) => {
                found.mss = Some(mss);
                found.kinds |= 1;
            }
            TcpOption::WindowScale(_) => found.kinds |= 1 << 1,
            TcpOption::SackPermitted => found.kinds |= 1 << 2,
            TcpOption::Timestamps { value, .. } => {
                found.timestamp = Some(value);
                found.kinds |= 1 << 3;
            }
            TcpOption::Mptcp(bytes) => {
                let subtype = bytes.get(2).map(|byte| byte >> 4);
                found.data_sequence |= subtype == Some(2);
                if matches!(subtype, Some(0 | 1)) {
                    found.kinds |= MULTIPATH_KIND;
                }
            }
            _ => {}
        }
    }
    found
}

impl FlowComparison {
    /// Takes a packet that end `side` sent, at point 0 or 1, in order of time. Returns by how much the number of ranges
    /// in memory changed.
    pub fn observe(
        &mut self,
        (side, point): (usize, usize),
        time_ns: u64,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        context: &ObservationContext,
    ) -> isize {
        let [first, second] = &mut self.sides;
        let (own, peer) = if side == 0 { (first, second) } else { (second, first) };
        self.observed[point] = true;
        let before = own.matcher.waiting();
        let found = find(tcp);
        let syn = tcp.flags & SYN != 0;
        let known = own.points[1 - point].origin;
        own.points[point].begin(tcp.sequence, syn, known, packet.hop_limit);
        if syn {
            let (kinds, mss, stamp) = (found.kinds, found.mss, found.timestamp);
            let serial = own.matcher.number(point);
            let identification = packet.identification;
            own.handshake.add(point, Copy { time_ns, serial, kinds, mss, stamp, identification });
            own.matcher.stamp_shift = own.handshake.stamp_shift();
            let start = own.points[point].position(tcp.sequence);
            own.points[point].repeats(start, start + 1);
        }
        let stamp = found.timestamp;
        let start = own.points[point].position(tcp.sequence);
        if tcp.payload_length > 0 && tcp.flags & RST == 0 {
            let start = start + u64::from(syn);
            let end = start + u64::from(tcp.payload_length);
            let whole = tcp.payload.len() as u64 == end - start;
            let digest = if whole { digest(tcp.payload) } else { 0 };
            let state = &mut own.points[point];
            state.payload_bytes += end - start;
            state.data_segments += 1;
            state.data_sequence_segments += u64::from(found.data_sequence);
            own.range(point, Piece { digest, ..Piece::new(start, end, time_ns, stamp) }, context);
        } else if tcp.flags & (SYN | FIN | RST | ACK) == ACK
            && let Some(position) = peer.points[point].existing_position(tcp.acknowledgment)
            && let Some(sample) =
                own.acknowledgments.observe(point, position, own.stamp(point, stamp), time_ns)
        {
            own.differences.record(sample);
        }
        let receiver = own.matcher.order.is_full().then(|| 1 - (self.nearer_client() ^ side));
        let own = &mut self.sides[side];
        if let Some(receiver) = receiver {
            own.matcher.order.settle(receiver);
        }
        own.matcher.waiting() as isize - before as isize
    }

    /// Ranges in memory.
    pub fn waiting(&self) -> usize {
        self.sides.iter().map(|side| side.matcher.waiting()).sum()
    }

    /// Initial sequence number of an end at a point, from its SYN.
    pub fn initial_sequence(&self, side: usize, point: usize) -> Option<u32> {
        let origin = self.sides[side].points[point].origin?;
        origin.syn.then_some(origin.sequence)
    }

    /// Hop limit of the first packet of an end at a point.
    pub fn hop_limit(&self, side: usize, point: usize) -> Option<u8> {
        self.sides[side].points[point].hop_limit
    }

    /// Timestamp value of the first SYN of an end at a point.
    pub fn syn_timestamp(&self, side: usize, point: usize) -> Option<u32> {
        self.sides[side].handshake.first(point)?.stamp
    }

    /// Which point is nearer to the end that sent the SYN.
    ///
    /// There the SYN/ACK comes later after the SYN. Without the handshake, no round-trip time is negative; without
    /// data in both directions, each router decrements the hop limit.
    fn nearer_client(&self) -> usize {
        let [client, server] = &self.sides;
        let interval = |point: usize| {
            let times = |side: &Side| {
                let same = side.handshake.pairs().last().map(|pair| pair[point].time_ns);
                same.or_else(|| side.handshake.first(point).map(|copy| copy.time_ns))
            };
            Some(times(server)?.wrapping_sub(times(client)?) as i64)
        };
        if let (Some(first), Some(second)) = (interval(0), interval(1))
            && first != second
        {
            return usize::from(first < second);
        }
        if let (Some(up), Some(down)) = (client.differences.bounds(), server.differences.bounds()) {
            return usize::from(up.0.saturating_sub(down.1) < down.0.saturating_sub(up.1));
        }
        let hops = |side: &Side| {
            side.points[0].hop_limit.zip(side.points[1].hop_limit).map(|(a, b)| i32::from(a) - i32::from(b))
        };
        let (up, down) = (hops(client).unwrap_or(0), hops(server).unwrap_or(0));
        usize::from(up - down < 0)
    }

    /// The result, unless one of the points has no packet; its offset and its delays are known when all flows of the two
    /// captures have ended ([`Clocks`]). `captures` and `spans` by point.
    pub fn finish(
        mut self,
        captures: [u32; 2],
        spans: [CaptureSpan; 2],
    ) -> Option<(SubflowComparison, FlowTimes, ComparedFrames)> {
        if self.observed != [true, true] {
            return None;
        }
        self.sides.iter_mut().for_each(Side::match_handshake);
        let client = self.nearer_client();
        let server = 1 - client;
        let middlebox = self.middlebox(client);
        let fallback = [self.sides[1].differences.bounds(), self.sides[0].differences.bounds()];
        let context = ObservationContext { spans, ..ObservationContext::default() };
        let mut frames = ComparedFrames::default();
        let mut directions = [DirectionComparison::default(), DirectionComparison::default()];
        for (index, side) in self.sides.iter_mut().enumerate() {
            let (sender, receiver) = if index == 0 { (client, server) } else { (server, client) };
            side.matcher.order.settle_all(receiver);
            let bounds = side.differences.bounds().or(fallback[index]);
            frames.lost[index] = side.matcher.lost_frames(sender, bounds, &context);
            frames.rewritten[index] = std::mem::take(&mut side.matcher.rewritten_frames[sender]);
            directions[index] = DirectionComparison {
                sent_bytes: side.points[sender].payload_bytes,
                received_bytes: side.points[receiver].payload_bytes,
                lost_bytes: side.matcher.lost(sender, bounds, &context),
                reordered_bytes: side.matcher.order.reordered_bytes(),
                delay_ms: None,
            };
        }
        let [upload, download] = directions;
        let comparison = SubflowComparison {
            client_capture: captures[client],
            server_capture: captures[server],
            clock_offset_ms: None,
            clock_offset_uncertainty_ms: None,
            upload,
            download,
            middlebox,
        };
        let times = FlowTimes::new(captures, client, self.sides.map(|side| side.differences));
        Some((comparison, times, frames))
    }

    fn middlebox(&self, client: usize) -> Vec<String> {
        let mut found = Vec::new();
        let any = |test: &dyn Fn(&Side, usize) -> bool| {
            let [up, down] = &self.sides;
            test(up, client) || test(down, 1 - client)
        };
        let mut add = |name: &str, present: bool| {
            if present {
                found.push(name.to_owned());
            }
        };
        add("sequence-rewritten", any(&|side, _| side.sequence_rewritten()));
        add("payload-rewritten", any(&|side, _| side.matcher.rewritten_ranges > 0));
        add("options-removed", any(&Side::options_removed));
        add("mss-clamped", any(&Side::mss_clamped));
        add("hop-limit", any(&|side, _| side.hop_limits_differ()));
        found
    }
}

impl Side {
    /// A time stamp as the first point has it.
    fn stamp(&self, point: usize, value: Option<u32>) -> Option<u32> {
        let shift = if point == 0 { 0 } else { self.matcher.stamp_shift };
        value.map(|value| value.wrapping_sub(shift))
    }

    /// The copies of SYNs give delays as data do.
    fn match_handshake(&mut self) {
        for [first, second] in self.handshake.pairs() {
            self.differences.record(Sample::new(0, first.time_ns, second.time_ns));
            self.matcher.found_both([first.serial, second.serial]);
        }
    }

    fn range(&mut self, point: usize, mut piece: Piece, context: &ObservationContext) {
        piece.repeated = self.points[point].repeats(piece.start, piece.end);
        self.matcher.observe(point, piece, &mut self.differences, context);
    }

    fn sequence_rewritten(&self) -> bool {
        let [first, second] = &self.points;
        matches!((first.origin, second.origin), (Some(a), Some(b)) if a.syn && b.syn && a.sequence != b.sequence)
    }

    /// An option that the sender's point has is absent at the receiver's point.
    fn options_removed(&self, sender: usize) -> bool {
        let (from, to) = (&self.points[sender], &self.points[1 - sender]);
        let removed = |pair: &[Copy; 2]| pair[sender].kinds & !pair[1 - sender].kinds != 0;
        let syn = self.handshake.pairs().iter().any(removed);
        let data = from.data_sequence_segments > 0 && to.data_sequence_segments == 0 && to.data_segments > 0;
        syn || (data && self.matcher.matched_bytes > 0)
    }

    fn mss_clamped(&self, sender: usize) -> bool {
        let clamped = |pair: &[Copy; 2]| matches!((pair[sender].mss, pair[1 - sender].mss), (Some(sent), Some(received)) if received < sent);
        self.handshake.pairs().iter().any(clamped)
    }

    fn hop_limits_differ(&self) -> bool {
        let [first, second] = &self.points;
        first.hop_limit.zip(second.hop_limit).is_some_and(|(a, b)| a != b)
    }
}

/// Tells payloads of equal length apart; 0 is no digest.
fn digest(payload: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = payload.as_chunks::<8>();
    let mut lanes = [1_u64, 2, 3, 4];
    let (quads, last) = words.as_chunks::<4>();
    for quad in quads {
        for (lane, word) in lanes.iter_mut().zip(quad) {
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29);
        }
    }
    let mut sum = payload.len() as u64;
    let single =
        last.iter().map(|word| u64::from_le_bytes(*word)).chain(rest.iter().map(|byte| u64::from(*byte)));
    for word in lanes.into_iter().chain(single) {
        sum = (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    }
    sum.max(1)
}
