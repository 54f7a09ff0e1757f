//! Payload sizes of packets.

use pathbench_record::trace::SizeCount;

/// Most sizes that are counted apart; what exceeds them is counted with the next smaller size.
const DISTINCT: usize = 128;

/// How many packets had which payload size.
#[derive(Debug, Clone, Default)]
pub struct Sizes {
    /// Sorted by size.
    counts: Vec<SizeCount>,
    /// Index of the size of the last packet: most packets are of one size.
    last: usize,
}

impl Sizes {
    /// Loads the count of the last size into the processor's cache.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.counts.get(self.last).copied());
    }

    #[inline]
    pub fn add(&mut self, bytes: u32) {
        match self.counts.get_mut(self.last) {
            Some(count) if count.bytes == bytes => count.packets += 1,
            _ => self.add_other(bytes),
        }
    }

    fn add_other(&mut self, bytes: u32) {
        let place = match self.counts.binary_search_by_key(&bytes, |count| count.bytes) {
            Ok(place) => place,
            Err(place) if self.counts.len() < DISTINCT => {
                self.counts.insert(place, SizeCount { bytes, packets: 0 });
                place
            }
            Err(place) => place.saturating_sub(1),
        };
        self.last = place;
        if let Some(count) = self.counts.get_mut(place) {
            count.packets += 1;
        }
    }

    pub fn into_counts(self) -> Vec<SizeCount> {
        self.counts
    }
}
