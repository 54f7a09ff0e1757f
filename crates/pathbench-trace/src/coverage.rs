//! A set of byte ranges of a sequence space.

use std::collections::VecDeque;

/// More gaps than this are not kept.
const MAX_GAPS: usize = 1024;

/// Half-open ranges, optimised for bytes that arrive in order.
///
/// ```rust
/// use pathbench_trace::coverage::Coverage;
///
/// let mut captured = Coverage::default();
/// assert_eq!(captured.add(0, 1_000), 1_000);
/// assert_eq!(captured.add(2_000, 3_000), 1_000);
/// // A retransmission that overlaps bytes on both sides of the gap.
/// assert_eq!(captured.add(500, 2_500), 1_000);
/// assert_eq!(captured.contiguous_end(), 3_000);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// The last range; empty if there is none.
    start: u64,
    end: u64,
    /// Ranges below the last one, in order; none touches another.
    earlier: VecDeque<(u64, u64)>,
}

impl Coverage {
    /// Loads the last range into the processor's cache.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.end);
    }

    /// Adds the bytes from `start` to before `end` and returns the number of new bytes.
    #[inline]
    pub fn add(&mut self, start: u64, end: u64) -> u64 {
        if start == self.end && self.end > self.start && end > start {
            self.end = end;
            return end - start;
        }
        self.add_anywhere(start, end)
    }

    fn add_anywhere(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        if self.start == self.end {
            (self.start, self.end) = (start, end);
            return end - start;
        }
        if start > self.end {
            self.earlier.push_back((self.start, self.end));
            (self.start, self.end) = (start, end);
            self.limit();
            return end - start;
        }
        let low = self.earlier.partition_point(|range| range.1 < start);
        let high = self.earlier.partition_point(|range| range.0 <= end).max(low);
        let (mut merged, mut old) = ((start, end), 0);
        for range in self.earlier.drain(low..high) {
            old += range.1 - range.0;
            merged = (merged.0.min(range.0), merged.1.max(range.1));
        }
        if end >= self.start {
            old += self.end - self.start;
            merged = (merged.0.min(self.start), merged.1.max(self.end));
            (self.start, self.end) = merged;
        } else {
            self.earlier.insert(low, merged);
            self.limit();
        }
        merged.1 - merged.0 - old
    }

    /// Closes the lowest gap if there are too many.
    fn limit(&mut self) {
        if self.earlier.len() <= MAX_GAPS {
            return;
        }
        if let Some(lowest) = self.earlier.pop_front() {
            let next = self.earlier.front_mut().map_or(&mut self.start, |range| &mut range.0);
            *next = lowest.0;
        }
    }

    /// Number of bytes from `start` to before `end` that were added, or lie in a closed gap.
    pub fn covered(&self, start: u64, end: u64) -> u64 {
        let overlap = |range: (u64, u64)| range.1.min(end).saturating_sub(range.0.max(start));
        if start >= self.start {
            return overlap((self.start, self.end));
        }
        let low = self.earlier.partition_point(|range| range.1 <= start);
        let earlier = self.earlier.range(low..).take_while(|range| range.0 < end);
        earlier.map(|range| overlap(*range)).sum::<u64>() + overlap((self.start, self.end))
    }

    /// End of the bytes without a gap, from the first byte on.
    pub fn contiguous_end(&self) -> u64 {
        self.earlier.front().map_or(self.end, |range| range.1)
    }
}
