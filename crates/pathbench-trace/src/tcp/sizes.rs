//! Payload sizes of packets.

use pathbench_record::trace::SizeCount;

/// Most sizes that are counted apart; what exceeds them is counted with the next smaller size.
const DISTINCT: usize = 128;

/// How many packets had which payload size.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct Sizes {
    /// The size of the last packet, which most packets share, and those that `counts` lacks.
    last: SizeCount,
    /// Sorted by size.
    counts: Vec<SizeCount>,
}

impl Sizes {
    #[inline]
    pub fn add(&mut self, bytes: u32) {
        if self.last.bytes != bytes {
            self.change(bytes);
        }
        self.last.packets += 1;
    }

    fn change(&mut self, bytes: u32) {
        let SizeCount { bytes: old, packets } =
            std::mem::replace(&mut self.last, SizeCount { bytes, packets: 0 });
        if packets == 0 {
            return;
        }
        let index = match self.counts.binary_search_by_key(&old, |count| count.bytes) {
            Ok(index) => index,
            Err(index) if self.counts.len() < DISTINCT => {
                self.counts.insert(index, SizeCount { bytes: old, packets: 0 });
                index
            }
            Err(index) => index.saturating_sub(1),
        };
        if let Some(count) = self.counts.get_mut(index) {
            count.packets += packets;
        }
    }

    /// Packets of more than so many bytes.
    pub fn packets_above(&self, bytes: u32) -> u64 {
        let sizes = self.counts.iter().chain([&self.last]);
        sizes.filter(|size| size.bytes > bytes).map(|size| size.packets).sum()
    }

    pub fn into_counts(mut self) -> Vec<SizeCount> {
        self.change(0);
        self.counts
    }
}
