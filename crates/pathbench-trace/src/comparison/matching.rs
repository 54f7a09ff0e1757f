//! Matches the ranges of one direction at two points.

use super::clock::Differences;
use super::context::ObservationContext;
use super::envelope::Sample;
use super::reordering::Order;
use std::collections::VecDeque;

/// A range that has not been matched when this many later packets of its point were is lost.
const REORDERED: u64 = 4_096;
/// A queue of this length is searched for every [`SELDOM`]th packet only, after [`FAILED`] packets without a counterpart:
/// the points have no range in common.
const LONG: usize = 8_192;
const FAILED: u32 = 1_024;
const SELDOM: u64 = 64;

/// A range at one point, or the part of it that has no counterpart yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) time_ns: u64,
    pub(super) stamp: Option<u32>,
    /// Number of the packet at its point.
    pub(super) serial: u64,
    /// Number of the packet in its capture.
    pub(super) frame: u64,
    /// Of the payload of a whole packet; 0 of a part.
    pub(super) digest: u64,
    /// Some of it was at this point before.
    pub(super) repeated: bool,
}

impl Piece {
    pub(super) fn new(start: u64, end: u64, time_ns: u64, stamp: Option<u32>) -> Self {
        Self { start, end, time_ns, stamp, serial: 0, frame: 0, digest: 0, repeated: false }
    }

    fn bytes(&self) -> u64 {
        self.end - self.start
    }

    fn overlap(&self, other: &Self) -> Option<(u64, u64)> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some((start, end))
    }

    fn intersects(&self, (start, end): (u64, u64)) -> bool {
        self.start < end && start < self.end
    }

    /// Copies of one packet have equal timestamps; `shift` is what a middlebox adds between this one's point and the
    /// other's.
    fn may_be(&self, other: &Self, shift: u32) -> bool {
        match (self.stamp.map(|stamp| stamp.wrapping_add(shift)), other.stamp) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        }
    }

    /// The parts outside a range.
    fn without(self, (start, end): (u64, u64)) -> [Option<Self>; 2] {
        let part = |start: u64, end: u64| (start < end).then_some(Self { start, end, digest: 0, ..self });
        [part(self.start, start), part(end, self.end)]
    }
}

/// One direction; arrays by point.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    waiting: [VecDeque<Piece>; 2],
    /// Time stamps of point 1 minus those of point 0.
    pub(super) stamp_shift: u32,
    serials: [u64; 2],
    /// Serial numbers of the first and the last packet with a counterpart.
    matched: [Option<(u64, u64)>; 2],
    /// Serial number of the last packet that repeats a range.
    last_repeated: [u64; 2],
    /// Packets without a counterpart since the last with one.
    failed: [u32; 2],
    /// Payload that both captures cover, given up without a counterpart.
    given_up_bytes: [u64; 2],
    /// Payload given up before anything had a counterpart, and its first serial number.
    given_up_early: [Option<(u64, u64)>; 2],
    pub(super) order: Order,
    pub(super) matched_bytes: u64,
    /// Equal ranges of whole packets with different payload.
    pub(super) rewritten_ranges: u64,
    /// The first packets with them, by point.
    pub(super) rewritten_frames: [Vec<u64>; 2],
    /// The first packets that were given up, by point.
    given_up_frames: [Vec<u64>; 2],
}

/// Numbers of packets that are kept for a finding.
const MOST_FRAMES: usize = 32;

fn keep(frames: &mut Vec<u64>, frame: u64) {
    if frames.len() < MOST_FRAMES && frames.last() != Some(&frame) {
        frames.push(frame);
    }
}

impl Matcher {
    pub(super) fn waiting(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    pub(super) fn observe(
        &mut self,
        point: usize,
        mut piece: Piece,
        differences: &mut Differences,
        context: &ObservationContext,
    ) {
        // From this point's time stamps to the other's.
        let shift = if point == 0 { self.stamp_shift } else { self.stamp_shift.wrapping_neg() };
        piece.serial = self.serials[point];
        piece.frame = context.frame;
        self.serials[point] += 1;
        if piece.repeated {
            self.last_repeated[point] = piece.serial;
        }
        // Parts of it to search, each with the first index in the queue that may be its counterpart.
        let mut parts = Vec::new();
        let mut next = Some((piece, 0));
        if self.failed[point] > FAILED
            && self.waiting[1 - point].len() > LONG
            && !piece.serial.is_multiple_of(SELDOM)
        {
            self.waiting[point].push_back(piece);
            next = None;
        }
        self.failed[point] = self.failed[point].saturating_add(1);
        while let Some((part, from)) = next {
            next = match self.counterpart(1 - point, &part, from, shift) {
                None => {
                    self.waiting[point].push_back(part);
                    parts.pop()
                }
                Some((index, overlap)) => {
                    self.failed[point] = 0;
                    self.matches(point, &part, index, overlap, differences);
                    let behind = self.cut(1 - point, index, overlap);
                    match part.without(overlap) {
                        [Some(before), after] => {
                            parts.extend(after.map(|after| (after, behind)));
                            Some((before, index))
                        }
                        [None, Some(after)] => Some((after, behind)),
                        [None, None] => parts.pop(),
                    }
                }
            };
        }
        self.give_up(point, differences, context);
    }

    /// Index and common range of the first waiting piece that a part matches.
    fn counterpart(
        &self,
        point: usize,
        part: &Piece,
        from: usize,
        shift: u32,
    ) -> Option<(usize, (u64, u64))> {
        let waiting = self.waiting[point].iter().enumerate().skip(from);
        waiting
            .filter(|(_, found)| part.may_be(found, shift))
            .find_map(|(index, found)| Some((index, part.overlap(found)?)))
    }

    fn matches(
        &mut self,
        point: usize,
        piece: &Piece,
        index: usize,
        overlap: (u64, u64),
        differences: &mut Differences,
    ) {
        let Some(found) = self.waiting[1 - point].get(index) else { return };
        let shift = if point == 0 { self.stamp_shift } else { self.stamp_shift.wrapping_neg() };
        // Of several copies that may be the counterpart, none gives a delay (as Karn's algorithm has it).
        let several = self.last_repeated[1 - point] > found.serial
            && self.waiting[1 - point]
                .iter()
                .skip(index + 1)
                .take_while(|other| other.stamp == found.stamp)
                .any(|other| other.repeated && other.intersects(overlap) && piece.may_be(other, shift));
        let known = piece.stamp.is_some() && found.stamp.is_some();
        let ambiguous = several || (!known && (piece.repeated || found.repeated));
        if piece.digest != 0
            && found.digest != 0
            && piece.digest != found.digest
            && (piece.start, piece.end) == (found.start, found.end)
        {
            self.rewritten_ranges += 1;
            let mut frames = [piece.frame; 2];
            frames[1 - point] = found.frame;
            for (kept, frame) in self.rewritten_frames.iter_mut().zip(frames) {
                keep(kept, frame);
            }
        }
        let mut serials = [piece.serial; 2];
        serials[1 - point] = found.serial;
        if !ambiguous {
            differences.record(Sample::new(point, piece.time_ns, found.time_ns));
            self.order.push(serials, overlap.0, overlap.1 - overlap.0);
        }
        self.matched_bytes += overlap.1 - overlap.0;
        self.found_both(serials);
    }

    /// Number of the next packet of a point, which has no payload.
    pub(super) fn number(&mut self, point: usize) -> u64 {
        self.serials[point] += 1;
        self.serials[point] - 1
    }

    /// Packets with these numbers are the same.
    pub(super) fn found_both(&mut self, serials: [u64; 2]) {
        for (matched, serial) in self.matched.iter_mut().zip(serials) {
            let (first, last) = matched.get_or_insert((serial, serial));
            (*first, *last) = ((*first).min(serial), (*last).max(serial));
        }
    }

    /// Removes a range from a waiting piece. Returns the index behind the rest.
    fn cut(&mut self, point: usize, index: usize, overlap: (u64, u64)) -> usize {
        let queue = &mut self.waiting[point];
        let Some(piece) = queue.get_mut(index) else { return index };
        match piece.without(overlap) {
            [None, None] => {
                queue.remove(index);
                index
            }
            [Some(left), None] | [None, Some(left)] => {
                *piece = left;
                index + 1
            }
            [Some(before), Some(after)] => {
                *piece = before;
                queue.insert(index + 1, after);
                index + 2
            }
        }
    }

    /// Drops what is too old to find a counterpart, and what exceeds the bound.
    fn give_up(&mut self, arrived: usize, differences: &Differences, context: &ObservationContext) {
        for point in [arrived, 1 - arrived] {
            let last = self.matched[point].map_or(0, |(_, last)| last);
            while let Some(front) = self.waiting[point].front()
                && (front.serial + REORDERED < last || self.waiting[point].len() > context.waiting)
            {
                if differences.bounds().is_none() {
                    let (_, bytes) = self.given_up_early[point].get_or_insert((front.serial, 0));
                    *bytes += front.bytes();
                } else if self.covered(point, front, differences.bounds(), context) {
                    self.given_up_bytes[point] += front.bytes();
                    keep(&mut self.given_up_frames[point], front.frame);
                }
                self.waiting[point].pop_front();
            }
        }
    }

    /// The other capture ran when the packet passed its point. `bounds` are those of the differences of time.
    fn covered(
        &self,
        point: usize,
        piece: &Piece,
        bounds: Option<(i64, i64)>,
        context: &ObservationContext,
    ) -> bool {
        let Some((least, greatest)) = bounds else { return false };
        let (least, greatest) =
            if point == 0 { (least, greatest) } else { (greatest.saturating_neg(), least.saturating_neg()) };
        let span = &context.spans[1 - point];
        let matched = self.matched[point];
        let since = matched.is_some_and(|(first, _)| piece.serial > first)
            || piece.time_ns.saturating_add_signed(least) >= span.first_ns;
        let until = matched.is_some_and(|(_, last)| piece.serial < last)
            || !span.ended
            || piece.time_ns.saturating_add_signed(greatest) <= span.last_ns;
        since && until
    }

    /// Packets at point `sender` with payload that the other point has not, the first ones.
    pub(super) fn lost_frames(
        &self,
        sender: usize,
        bounds: Option<(i64, i64)>,
        context: &ObservationContext,
    ) -> Vec<u64> {
        let mut frames = self.given_up_frames[sender].clone();
        let unmatched = self.waiting[sender].iter();
        for piece in unmatched.filter(|piece| self.covered(sender, piece, bounds, context)) {
            keep(&mut frames, piece.frame);
        }
        frames
    }

    /// Payload that point `sender` has and the other point, which covers it, has not.
    pub(super) fn lost(
        &self,
        sender: usize,
        bounds: Option<(i64, i64)>,
        context: &ObservationContext,
    ) -> u64 {
        let unmatched = |point: usize| -> u64 {
            let covered =
                self.waiting[point].iter().filter(|piece| self.covered(point, piece, bounds, context));
            covered.map(Piece::bytes).sum()
        };
        let given_up = |point: usize| {
            let after_the_first =
                |early: &(u64, u64)| self.matched[point].is_some_and(|(first, _)| first < early.0);
            let early = self.given_up_early[point].filter(after_the_first);
            self.given_up_bytes[point] + early.map_or(0, |(_, bytes)| bytes)
        };
        // A range that one point gave up has its counterpart among the unmatched of the other.
        let receiver = 1 - sender;
        let counterparts = given_up(receiver) + unmatched(receiver).min(given_up(sender));
        (unmatched(sender) + given_up(sender)).saturating_sub(counterparts)
    }
}
