//! Durations in bounded memory.

use pathbench_record::trace::TracedDistribution;

/// Buckets per power of two, as a power of two: a bucket's middle is at most 1/64 from its values.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;

/// Values that are counted together: counts of thousands of flows do not fit into the processor's cache.
const WAITING: usize = 4;

/// A histogram of nanoseconds whose buckets grow with the value. It stores the powers of two in use.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct DurationHistogram {
    waiting: [u64; WAITING],
    count: u64,
    min_ns: u64,
    max_ns: u64,
    octaves: Vec<Octave>,
}

#[derive(Debug, Clone)]
struct Octave {
    number: u32,
    /// Halved in all octaves when one reaches its limit: the shape stays.
    counts: [u16; SUB],
}

/// Octave and bucket of a value; octave 0 has the values below `SUB`, each in a bucket of its own.
#[inline]
fn octave_and_bucket(value: u64) -> (u32, usize) {
    let octave = (64 - value.leading_zeros()).saturating_sub(SUB_BITS);
    let shift = octave.saturating_sub(1);
    (octave, (value >> shift) as usize & (SUB - 1))
}

/// Middle of a bucket.
fn middle((octave, bucket): (u32, usize)) -> f64 {
    if octave == 0 {
        return bucket as f64;
    }
    let width = f64::from(octave - 1).exp2();
    ((bucket + SUB) as f64 + 0.5) * width - 0.5
}

impl DurationHistogram {
    /// Loads the last values into the processor's cache.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.count);
    }

    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        let index = (self.count % WAITING as u64) as usize;
        self.waiting[index] = value_ns;
        self.min_ns = if self.count == 0 { value_ns } else { self.min_ns.min(value_ns) };
        self.max_ns = self.max_ns.max(value_ns);
        self.count += 1;
        if index + 1 == WAITING {
            let waiting = self.waiting;
            count(&mut self.octaves, &waiting);
        }
    }

    /// `None` without values.
    pub fn distribution_ms(&self) -> Option<TracedDistribution> {
        let ms = |ns: f64| ns.clamp(self.min_ns as f64, self.max_ns as f64) / 1e6;
        (self.count > 0).then(|| TracedDistribution {
            count: self.count,
            min: ms(self.min_ns as f64),
            median: ms(self.quantile(0.5)),
            p95: ms(self.quantile(0.95)),
            max: ms(self.max_ns as f64),
        })
    }

    fn quantile(&self, share: f64) -> f64 {
        let mut octaves = self.octaves.clone();
        count(&mut octaves, &self.waiting[..(self.count % WAITING as u64) as usize]);
        octaves.sort_by_key(|octave| octave.number);
        let counted: u64 = octaves.iter().flat_map(|octave| octave.counts).map(u64::from).sum();
        let rank = (share * counted as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for octave in octaves {
            for (bucket, count) in octave.counts.iter().enumerate() {
                seen += u64::from(*count);
                if seen >= rank {
                    return middle((octave.number, bucket));
                }
            }
        }
        self.max_ns as f64
    }
}

fn count(octaves: &mut Vec<Octave>, values: &[u64]) {
    for value in values {
        let (number, bucket) = octave_and_bucket(*value);
        let known = octaves.iter().position(|octave| octave.number == number);
        let index = known.unwrap_or_else(|| {
            octaves.push(Octave { number, counts: [0; SUB] });
            octaves.len() - 1
        });
        if octaves[index].counts[bucket] == u16::MAX {
            octaves
                .iter_mut()
                .flat_map(|octave| &mut octave.counts)
                .for_each(|count| *count = count.div_ceil(2));
        }
        octaves[index].counts[bucket] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_near_its_values() {
        for exponent in 0..63 {
            for offset in [0, 1, 3, 1 << (exponent / 2)] {
                let exact = (1_u64 << exponent) + offset;
                let near = middle(octave_and_bucket(exact));
                assert!((near - exact as f64).abs() <= exact as f64 / 64.0, "{exact}: {near}");
            }
        }
        assert!(
            (0..100_000_u64)
                .all(|value| middle(octave_and_bucket(value)) <= middle(octave_and_bucket(value + 1)))
        );
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = DurationHistogram::default();
        (1..=1_000_u64).rev().for_each(|ms| histogram.record(ms * 1_000_000));
        let found = histogram.distribution_ms().unwrap();
        assert_eq!((found.count, found.min, found.max), (1_000, 1.0, 1_000.0));
        assert!((found.median - 500.0).abs() <= 500.0 / 64.0, "{found:?}");
        assert!((found.p95 - 950.0).abs() <= 950.0 / 64.0, "{found:?}");
        (0..1_000_000).for_each(|_| histogram.record(500_000_000));
        let found = histogram.distribution_ms().unwrap();
        assert_eq!((found.count, found.max), (1_001_000, 1_000.0));
        assert!((found.p95 - 500.0).abs() <= 500.0 / 64.0, "{found:?}");
        assert_eq!(DurationHistogram::default().distribution_ms(), None);
    }
}
