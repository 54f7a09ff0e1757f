//! The rate of a bottleneck, from the arrivals of a train that was sent faster.

const MIN_ARRIVALS: usize = 8;

/// Fraction of the train's time left out at the beginning, where the shaper still settles.
const SETTLING: f64 = 0.2;

/// Limit of kept arrivals; beyond it, every other arrival is discarded.
const MOST_ARRIVALS: usize = 16_384;

/// A pause this many times as long as an arrival takes at the requested rate means that the bottleneck's queue was
/// empty because the sender was not scheduled; shorter pauses are jitter.
const PAUSE_ARRIVALS: u64 = 8;
const SHORTEST_PAUSE_NS: u64 = 300_000;

/// Estimates the rate from the arrivals of a train, by least squares over its steady stretches.
///
/// Stretches are separated by pauses in which the bottleneck's queue was empty. The burst that a token bucket
/// accumulates during a pause is excluded; all stretches share one slope.
///
/// Datagrams dropped by the receiving socket for lack of buffer space have still passed the bottleneck: the kernel
/// counts them (`SO_RXQ_OVFL`), and each counts as much as the largest arrival.
#[derive(Debug, Clone)]
pub struct RateMeter {
    asked_bps: u64,
    bucket_bytes: u64,
    points: Vec<Point>,
    seen: u64,
    keep_every: u64,
    received: u64,
    first_drops: Option<u32>,
    largest: u64,
    last_at_ns: Option<u64>,
    stretch: u32,
    /// Bytes of the token bucket's burst that are still to arrive in this stretch; they do not show the rate.
    saved_up: u64,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    at_ns: u64,
    stretch: u32,
    received: u64,
    drops: u64,
}

impl RateMeter {
    /// A meter without arrivals, for a bottleneck of about `asked_bps` with a bucket of `bucket_bytes`.
    pub fn new(asked_bps: u64, bucket_bytes: u64) -> Self {
        Self {
            asked_bps: asked_bps.max(1),
            bucket_bytes,
            points: Vec::new(),
            seen: 0,
            keep_every: 1,
            received: 0,
            first_drops: None,
            largest: 0,
            last_at_ns: None,
            stretch: 0,
            saved_up: 0,
        }
    }

    /// `wire_bytes` arrived at `at_ns` (on any steady clock); `drops` is the socket's running count of datagrams
    /// dropped up to that time.
    pub fn arrived(&mut self, at_ns: u64, wire_bytes: u64, drops: u32) {
        let first = *self.first_drops.get_or_insert(drops);
        self.received += wire_bytes;
        self.largest = self.largest.max(wire_bytes);
        self.seen += 1;
        let pause = at_ns.saturating_sub(self.last_at_ns.replace(at_ns).unwrap_or(at_ns));
        if pause > (self.time_of(wire_bytes) * PAUSE_ARRIVALS).max(SHORTEST_PAUSE_NS) {
            self.stretch += 1;
            let saved = u128::from(self.asked_bps) * u128::from(pause) / 8_000_000_000;
            self.saved_up = self.bucket_bytes.min(u64::try_from(saved).unwrap_or(u64::MAX));
        }
        if self.saved_up > 0 {
            self.saved_up = self.saved_up.saturating_sub(wire_bytes);
        } else if self.seen.is_multiple_of(self.keep_every) {
            let drops = u64::from(drops.wrapping_sub(first));
            self.points.push(Point { at_ns, stretch: self.stretch, received: self.received, drops });
        }
        if self.points.len() > MOST_ARRIVALS {
            let mut index = 0_u64;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.keep_every *= 2;
        }
    }

    pub const fn arrivals(&self) -> u64 {
        self.seen
    }

    /// Bits per second; `None` with too few arrivals.
    pub fn rate_bps(&self) -> Option<u64> {
        let (first, last) = (self.points.first()?.at_ns, self.points.last()?.at_ns);
        let settled = first + (last.saturating_sub(first) as f64 * SETTLING) as u64;
        let steady = &self.points[self.points.partition_point(|point| point.at_ns < settled)..];
        let (mut both, mut square) = (0.0, 0.0);
        for stretch in steady.chunk_by(|left, right| left.stretch == right.stretch) {
            if stretch.len() < MIN_ARRIVALS {
                continue;
            }
            let count = stretch.len() as f64;
            let time = |point: &Point| point.at_ns.saturating_sub(settled) as f64;
            let bytes = |point: &Point| (point.received + point.drops * self.largest) as f64;
            let mean_time = stretch.iter().map(time).sum::<f64>() / count;
            let mean_bytes = stretch.iter().map(bytes).sum::<f64>() / count;
            for point in stretch {
                let late = time(point) - mean_time;
                both += late * (bytes(point) - mean_bytes);
                square += late * late;
            }
        }
        let bytes_per_ns = both / square;
        (bytes_per_ns.is_finite() && bytes_per_ns > 0.0).then(|| (bytes_per_ns * 8e9).round() as u64)
    }

    fn time_of(&self, bytes: u64) -> u64 {
        u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(self.asked_bps)).unwrap_or(u64::MAX)
    }
}
