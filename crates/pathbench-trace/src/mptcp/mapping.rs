//! Mappings of one direction of a subflow: from subflow sequence numbers to data sequence numbers (RFC 8684, section 3.3.1).

use std::collections::VecDeque;

/// Most mappings that are kept: enough for the reordering of a subflow.
const MAPPINGS: usize = 16;
/// Most ranges of payload that wait for their mapping.
const UNMAPPED: usize = 64;

/// A range of a subflow, as positions of [`crate::tcp::FlowDirection`], and the data that it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    /// Data sequence number of the first byte.
    pub data: u64,
}

/// The mappings of one direction of a subflow.
#[derive(Debug, Clone, Default)]
pub struct Mappings {
    last: Option<Range>,
    /// Those before the last.
    earlier: VecDeque<Range>,
    /// Payload that came before its mapping: its range and its time.
    waiting: VecDeque<(u64, u64, u64)>,
    /// Bytes whose mapping did not come.
    pub unmapped: u64,
}

impl Mappings {
    /// Loads the last mapping into the processor's cache.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box((self.last, self.earlier.len(), self.waiting.len()));
    }

    /// Takes a mapping; a GSO packet's is repeated on each of its segments. Returns whether it maps anything new.
    #[inline]
    pub fn add(&mut self, mapping: Range) -> bool {
        if let Some(last) = &mut self.last
            && last.data.wrapping_sub(last.start) == mapping.data.wrapping_sub(mapping.start)
            && last.start <= mapping.start
            && mapping.start <= last.end
        {
            // A repetition, or the continuation of the last.
            let is_new = mapping.end > last.end;
            last.end = last.end.max(mapping.end);
            return is_new;
        }
        self.add_apart(mapping)
    }

    fn add_apart(&mut self, mapping: Range) -> bool {
        let after_all = self.last.is_none_or(|last| mapping.start >= last.end);
        if !after_all && self.earlier.contains(&mapping) {
            return false;
        }
        if let Some(last) = self.last.replace(mapping) {
            if self.earlier.len() == MAPPINGS {
                self.earlier.pop_front();
            }
            self.earlier.push_back(last);
        }
        true
    }

    /// Calls `found` with each mapped part of `start..end`, and keeps the rest until its mapping comes.
    #[inline]
    pub fn resolve(&mut self, start: u64, end: u64, time_ns: u64, mut found: impl FnMut(Range)) {
        match self.last {
            Some(last) if last.start <= start && end <= last.end => {
                found(Range { start, end, data: last.data.wrapping_add(start - last.start) });
            }
            _ => self.resolve_parts(start, end, time_ns, &mut found),
        }
    }

    fn resolve_parts(&mut self, start: u64, end: u64, time_ns: u64, found: &mut dyn FnMut(Range)) {
        let mut at = start;
        while at < end {
            let Some(mapping) = self.covering(at) else {
                // Up to the next mapping that begins within the range.
                let next =
                    self.all().map(|mapping| mapping.start).filter(|next| *next > at && *next < end).min();
                let stop = next.unwrap_or(end);
                self.wait_for_mapping(at, stop, time_ns);
                at = stop;
                continue;
            };
            let stop = mapping.end.min(end);
            found(Range { start: at, end: stop, data: mapping.data.wrapping_add(at - mapping.start) });
            at = stop;
        }
    }

    /// Calls `found` with what a new mapping resolves, and the time of its arrival.
    pub fn resolve_waiting(&mut self, mut found: impl FnMut(Range, u64)) {
        for _ in 0..self.waiting.len() {
            let Some((start, end, time_ns)) = self.waiting.pop_front() else { return };
            self.resolve(start, end, time_ns, |range| found(range, time_ns));
        }
    }

    /// There is payload without a mapping.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn wait_for_mapping(&mut self, start: u64, end: u64, time_ns: u64) {
        if let Some(back) = self.waiting.back_mut().filter(|back| back.1 == start && back.2 == time_ns) {
            back.1 = end;
            return;
        }
        if self.waiting.len() == UNMAPPED
            && let Some((start, end, _)) = self.waiting.pop_front()
        {
            self.unmapped += end - start;
        }
        self.waiting.push_back((start, end, time_ns));
    }

    fn all(&self) -> impl Iterator<Item = &Range> {
        self.last.iter().chain(self.earlier.iter().rev())
    }

    /// The newest mapping that covers a position.
    fn covering(&self, at: u64) -> Option<Range> {
        self.all().find(|mapping| mapping.start <= at && at < mapping.end).copied()
    }

    /// Some payload of a range has no mapping. Ranges that waited for too long are not kept, and lack one.
    pub(crate) fn lacks(&self, start: u64, end: u64) -> bool {
        let waits = |&(from, until, _): &(u64, u64, u64)| from < end && start < until;
        self.waiting.iter().any(waits)
            || (self.unmapped > 0 && self.waiting.front().is_none_or(|(from, ..)| start < *from))
    }

    /// Payload that no mapping covers, at the end.
    pub fn unmapped_bytes(&self) -> u64 {
        self.unmapped + self.waiting.iter().map(|(start, end, _)| end - start).sum::<u64>()
    }
}
