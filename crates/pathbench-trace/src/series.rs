//! Bytes over time in bounded memory.

use pathbench_record::trace::Series;

const FIRST_WINDOW_NS: u64 = 10_000_000;
const MOST_WINDOWS: usize = 128;

/// Bytes per window. When a time lies beyond the last window, windows become twice as long.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    bytes: Vec<u64>,
    doublings: u32,
}

impl Windows {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Loads the last window into the processor's cache.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.bytes.last().copied());
    }

    /// Adds bytes at a time since the start. Times may go back.
    #[inline]
    pub fn add(&mut self, since_start_ns: u64, bytes: u64) {
        let index = (since_start_ns / FIRST_WINDOW_NS) >> self.doublings;
        match self.bytes.get_mut(index as usize) {
            Some(window) => *window += bytes,
            None => self.extend(since_start_ns, bytes),
        }
    }

    fn extend(&mut self, since_start_ns: u64, bytes: u64) {
        let first = since_start_ns / FIRST_WINDOW_NS;
        while first >> self.doublings >= MOST_WINDOWS as u64 {
            let halves = self.bytes.chunks(2).map(|pair| pair.iter().sum());
            self.bytes = halves.collect();
            self.doublings += 1;
        }
        let index = (first >> self.doublings) as usize;
        if self.bytes.len() <= index {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] += bytes;
    }

    pub fn into_series(self) -> Series {
        let window_s = FIRST_WINDOW_NS as f64 / 1e9 * f64::from(self.doublings).exp2();
        Series { window_s, bytes: self.bytes }
    }
}
