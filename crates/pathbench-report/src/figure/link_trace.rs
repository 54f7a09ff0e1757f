//! One direction of a link over time.

use pathbench_record::document::LinkSample;

/// More stretches than this are put together, by twos, fours, ….
const MOST_STRETCHES: usize = 400;

/// What happened between two samples, and what was so at the later one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    pub(super) from_ms: f64,
    pub(super) until_ms: f64,
    pub(super) delivered_mbps: f64,
    pub(super) dropped: u64,
    pub(super) queue_kb: f64,
    pub(super) rate_mbps: Option<f64>,
    pub(super) loss: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) stretches: Vec<Stretch>,
}

impl Trace {
    /// From samples in order of time; counters that go back count as standing still.
    pub(super) fn of<'a>(samples: impl Iterator<Item = &'a LinkSample>) -> Self {
        let samples: Vec<&LinkSample> = samples.filter(|sample| sample.t_ms.is_finite()).collect();
        let stride = samples.len().div_ceil(MOST_STRETCHES).max(1);
        let mut stretches = Vec::new();
        let mut before: Option<&LinkSample> = None;
        for group in samples.chunks(stride) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            if let Some(before) = before.filter(|before| last.t_ms > before.t_ms) {
                let bytes = last.delivered_bytes.saturating_sub(before.delivered_bytes);
                stretches.push(Stretch {
                    from_ms: before.t_ms,
                    until_ms: last.t_ms,
                    delivered_mbps: bytes as f64 * 8e-3 / (last.t_ms - before.t_ms),
                    dropped: last.dropped_packets.saturating_sub(before.dropped_packets),
                    // A queue that was full for a moment must not vanish among the others.
                    queue_kb: group.iter().map(|one| one.queue_bytes).max().unwrap_or_default() as f64 / 1e3,
                    rate_mbps: last.rate_bps.map(|bps| bps as f64 / 1e6),
                    loss: last.loss.filter(|loss| loss.is_finite()),
                });
            }
            before = Some(if before.is_none() && stride > 1 { first } else { last });
        }
        Self { stretches }
    }

    pub(super) fn end_ms(&self) -> f64 {
        self.stretches.last().map_or(0.0, |stretch| stretch.until_ms)
    }

    /// The most that came out; the rate in force is cut off well above it, so that a fast link that is hardly used
    /// still shows what it carried.
    pub(super) fn peak_mbps(&self) -> f64 {
        let delivered = self.most(|stretch| stretch.delivered_mbps);
        let in_force = self.most(|stretch| stretch.rate_mbps.unwrap_or_default());
        delivered.max(in_force.min(delivered * 4.0))
    }

    pub(super) fn peak_queue_kb(&self) -> f64 {
        self.most(|stretch| stretch.queue_kb)
    }

    pub(super) fn peak_loss(&self) -> f64 {
        self.most(|stretch| stretch.loss.unwrap_or_default())
    }

    pub(super) fn has_rate(&self) -> bool {
        self.stretches.iter().any(|stretch| stretch.rate_mbps.is_some())
    }

    pub(super) fn has_drops(&self) -> bool {
        self.stretches.iter().any(|stretch| stretch.dropped > 0)
    }

    fn most(&self, of: fn(&Stretch) -> f64) -> f64 {
        self.stretches.iter().map(of).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::direction::LinkDirection;

    fn sample(t_ms: f64, delivered_bytes: u64, dropped_packets: u64, queue_bytes: u64) -> LinkSample {
        LinkSample {
            run: "r".to_owned(),
            t_ms,
            link: "wlan".to_owned(),
            direction: LinkDirection::Forward,
            queue_bytes,
            queue_packets: 0,
            offered_bytes: 0,
            delivered_bytes,
            dropped_packets,
            rate_bps: Some(20_000_000),
            loss: None,
            delay_ms: None,
        }
    }

    #[test]
    fn counters_become_rates_and_drops_of_stretches() {
        let samples = [sample(0.0, 0, 0, 0), sample(100.0, 250_000, 3, 5_000), sample(200.0, 250_000, 3, 0)];
        let trace = Trace::of(samples.iter());
        let found: Vec<_> = trace
            .stretches
            .iter()
            .map(|one| (one.delivered_mbps.round() as u32, one.dropped, one.queue_kb.round() as u32))
            .collect();
        assert_eq!(found, [(20, 3, 5), (0, 0, 0)]);
        assert!(trace.has_drops() && trace.has_rate());
    }

    #[test]
    fn many_samples_become_few_stretches_and_the_fullest_queue_stays() {
        let samples: Vec<LinkSample> = (0..5000_u32)
            .map(|index| {
                sample(f64::from(index) * 10.0, u64::from(index), 0, u64::from(index == 777) * 9_000)
            })
            .collect();
        let trace = Trace::of(samples.iter());
        assert!(trace.stretches.len() <= MOST_STRETCHES);
        assert!((trace.peak_queue_kb() - 9.0).abs() < 1e-9);
        assert!((trace.end_ms() - 49_990.0).abs() < 1e-9);
        assert!(Trace::of([].into_iter()).stretches.is_empty());
    }
}
