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
        let next = self.bytes.len();
        if let Some(window) = self.bytes.get_mut(index as usize) {
            *window += bytes;
        } else if index == next as u64 && next < self.bytes.capacity().min(MOST_WINDOWS) {
            self.bytes.push(bytes);
        } else {
            self.extend(since_start_ns, bytes);
        }
    }

    #[cold]
    fn extend(&mut self, since_start_ns: u64, bytes: u64) {
        let first = since_start_ns / FIRST_WINDOW_NS;
        while first >> self.doublings >= MOST_WINDOWS as u64 {
            for window in 0..self.bytes.len().div_ceil(2) {
                let second = self.bytes.get(2 * window + 1).copied().unwrap_or(0);
                self.bytes[window] = self.bytes[2 * window] + second;
            }
            self.bytes.truncate(self.bytes.len().div_ceil(2));
            self.doublings += 1;
        }
        let index = (first >> self.doublings) as usize;
        if index >= self.bytes.capacity() {
            // Few steps: each copies the windows.
            let capacity = if index < 8 { 8 } else { MOST_WINDOWS };
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_double_and_keep_all_bytes() {
        let mut windows = Windows::default();
        for number in 0..10_000_u64 {
            windows.add(number * 7_000_000, number);
            // Times may go back.
            windows.add(number * 3_000_000, 1);
        }
        let series = windows.into_series();
        assert_eq!(series.bytes.iter().sum::<u64>(), 10_000 * 9_999 / 2 + 10_000);
        assert!((64..=128).contains(&series.bytes.len()), "{}", series.bytes.len());
        assert!((series.window_s - 0.64).abs() < 1e-9, "{}", series.window_s);
        let mut late = Windows::default();
        late.add(u64::MAX, 5);
        assert_eq!(late.into_series().bytes.iter().sum::<u64>(), 5);
    }
}
