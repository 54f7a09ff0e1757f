//! Durations in bounded memory.

use pathbench_record::trace::Distribution;

/// Buckets per power of two: a relative error of at most 1/128.
const SUB_BITS: u32 = 6;

/// A histogram of nanoseconds whose buckets grow with the value; it stores only buckets in use.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Bucket and count, sorted by bucket.
    buckets: Vec<(u16, u32)>,
    count: u64,
    min_ns: u64,
    max_ns: u64,
}

fn bucket(value: u64) -> u16 {
    let bits = 64 - value.leading_zeros();
    if bits <= SUB_BITS {
        return value as u16;
    }
    let shift = bits - SUB_BITS - 1;
    ((shift << SUB_BITS) + (value >> shift) as u32) as u16
}

/// Middle of a bucket.
fn value(bucket: u16) -> f64 {
    let (shift, rest) = (u32::from(bucket) >> SUB_BITS, u32::from(bucket) & ((1 << SUB_BITS) - 1));
    if shift <= 1 {
        return f64::from(bucket);
    }
    let scale = f64::from(shift - 1).exp2();
    (f64::from(rest + (1 << SUB_BITS)) + 0.5) * scale
}

impl Histogram {
    pub fn record(&mut self, value_ns: u64) {
        let bucket = bucket(value_ns);
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(place) => self.buckets[place].1 = self.buckets[place].1.saturating_add(1),
            Err(place) => self.buckets.insert(place, (bucket, 1)),
        }
        self.min_ns = if self.count == 0 { value_ns } else { self.min_ns.min(value_ns) };
        self.max_ns = self.max_ns.max(value_ns);
        self.count += 1;
    }

    /// `None` without values.
    pub fn distribution_ms(&self) -> Option<Distribution> {
        let ms = |ns: f64| ns.clamp(self.min_ns as f64, self.max_ns as f64) / 1e6;
        (self.count > 0).then(|| Distribution {
            count: self.count,
            min: ms(self.min_ns as f64),
            median: ms(self.quantile(0.5)),
            p95: ms(self.quantile(0.95)),
            max: ms(self.max_ns as f64),
        })
    }

    fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += u64::from(*count);
            if seen >= rank {
                return value(*bucket);
            }
        }
        self.max_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_contains_its_value() {
        for exponent in 0..63 {
            for offset in [0, 1, 3, 1 << (exponent / 2)] {
                let exact = (1_u64 << exponent) + offset;
                let near = value(bucket(exact));
                assert!((near - exact as f64).abs() <= exact as f64 / 100.0 + 0.5, "{exact}: {near}");
            }
        }
        assert!(
            (0..u64::MAX - 1_000_000)
                .step_by(usize::MAX >> 10)
                .all(|value| bucket(value) <= bucket(value + 1_000_000))
        );
    }
}
