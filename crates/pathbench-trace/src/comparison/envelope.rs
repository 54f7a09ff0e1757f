//! Extremes of the time differences of packets, over time.

/// Buckets of an envelope; beyond, their length doubles.
const MOST_BUCKETS: usize = 128;
/// Length of the first buckets: 2²⁰ ns, about a millisecond.
const FIRST_SHIFT: u32 = 20;

/// The times of one packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// At point 0.
    pub(super) time_ns: u64,
    /// Time at point 1 minus time at point 0.
    pub(super) difference: i64,
}

impl Sample {
    /// Of a packet that has the time `own_ns` at `point` and `other_ns` at the other.
    pub(super) fn new(point: usize, own_ns: u64, other_ns: u64) -> Self {
        let (time_ns, second) = if point == 0 { (own_ns, other_ns) } else { (other_ns, own_ns) };
        Self { time_ns, difference: second.wrapping_sub(time_ns) as i64 }
    }

    /// With the points exchanged.
    pub(super) fn exchanged(self) -> Self {
        Self {
            time_ns: self.time_ns.wrapping_add_signed(self.difference),
            difference: self.difference.wrapping_neg(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    number: u64,
    least: Sample,
    greatest: Sample,
}

/// The least and the greatest difference of each bucket of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Envelope {
    /// By number.
    buckets: Vec<Bucket>,
    /// Doublings of the buckets' length.
    doubled: u32,
}

impl Envelope {
    pub(super) fn record(&mut self, sample: Sample) {
        let number = sample.time_ns >> (FIRST_SHIFT + self.doubled);
        let index = match self.buckets.last() {
            // The common case first.
            Some(last) if last.number == number => self.buckets.len() - 1,
            _ => self.buckets.partition_point(|bucket| bucket.number < number),
        };
        match self.buckets.get_mut(index).filter(|bucket| bucket.number == number) {
            Some(bucket) => bucket.add(sample, sample),
            None => self.buckets.insert(index, Bucket { number, least: sample, greatest: sample }),
        }
        while self.buckets.len() > MOST_BUCKETS {
            self.double();
        }
    }

    fn double(&mut self) {
        self.doubled += 1;
        self.buckets.iter_mut().for_each(|bucket| bucket.number >>= 1);
        self.buckets.dedup_by(|later, earlier| {
            let same = later.number == earlier.number;
            if same {
                earlier.add(later.least, later.greatest);
            }
            same
        });
    }

    pub(super) fn least(&self) -> impl Iterator<Item = Sample> {
        self.buckets.iter().map(|bucket| bucket.least)
    }

    pub(super) fn greatest(&self) -> impl Iterator<Item = Sample> {
        self.buckets.iter().map(|bucket| bucket.greatest)
    }
}

impl Bucket {
    fn add(&mut self, least: Sample, greatest: Sample) {
        if least.difference < self.least.difference {
            self.least = least;
        }
        if greatest.difference > self.greatest.difference {
            self.greatest = greatest;
        }
    }
}
