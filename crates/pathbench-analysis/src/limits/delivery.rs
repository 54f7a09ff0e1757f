//! Head-of-line blocking at the data level, without a capture: payload arrives on the paths, and the application gets
//! none, or gets it late, because a part in front of it is missing.

use super::input::{LimitInput, delivered, record};
use super::subflow::Subflow;
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::sample::Sample;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;

/// Payload that shows in one interval that a path carries data: more than a few probes.
const ARRIVED_BYTES: f64 = 10_000.0;

/// Payload over time: at a time in milliseconds, received on the paths and delivered to the application.
pub(super) struct Arrivals {
    points: Vec<(f64, f64, f64)>,
    /// The bytes that waited out of order at each point: what exceeds the least excess from there on, because
    /// duplicates and headers only add to the excess.
    waiting: Vec<f64>,
}

impl Arrivals {
    /// `None` unless both are known. Duplicates on the paths count as received.
    pub(super) fn new(input: &LimitInput<'_>, received: &[Subflow<'_>]) -> Option<Self> {
        let curve = delivered(input)?;
        let mut samples: Vec<&Sample> = received.iter().flat_map(|one| one.samples.iter().copied()).collect();
        samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let mut latest: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        let mut points: Vec<(f64, f64, f64)> = Vec::new();
        for sample in samples {
            latest.insert((sample.stream, sample.figures.subflow), sample.figures.bytes_received as f64);
            let at: Timestamp = input.origin.plus_ms(sample.t_ms);
            let point = (sample.t_ms, latest.values().sum(), curve.bytes_before(at));
            match points.last_mut() {
                Some(last) if last.0 >= sample.t_ms => *last = point,
                _ => points.push(point),
            }
        }
        let waiting = waiting(&points);
        (points.len() > 1).then_some(Self { points, waiting })
    }

    /// Fraction of the time in which data arrived and none was delivered.
    fn blocked(&self) -> f64 {
        let whole = self.points.last().map_or(0.0, |last| last.0) - self.points.first().map_or(0.0, |p| p.0);
        let is_blocked =
            |pair: &&[(f64, f64, f64)]| pair[1].1 - pair[0].1 >= ARRIVED_BYTES && pair[1].2 - pair[0].2 < 1.0;
        let blocked: f64 = self.points.windows(2).filter(is_blocked).map(|pair| pair[1].0 - pair[0].0).sum();
        if whole > 0.0 { blocked / whole } else { 0.0 }
    }

    /// The most bytes that waited out of order in the round trip before this time: the sender does not know of a filled
    /// hole until its acknowledgement arrives.
    pub(super) fn waiting_before(&self, t_ms: f64, rtt_ms: f64) -> Option<f64> {
        let index = |t_ms: f64| self.points.partition_point(|point| point.0 <= t_ms);
        let from = index(t_ms - rtt_ms).saturating_sub(1);
        self.waiting.get(from..index(t_ms))?.iter().copied().reduce(f64::max)
    }
}

fn waiting(points: &[(f64, f64, f64)]) -> Vec<f64> {
    let mut least = f64::MAX;
    let mut waiting: Vec<f64> = points
        .iter()
        .rev()
        .map(|(_, received, delivered)| {
            let excess = received - delivered;
            least = least.min(excess);
            excess - least
        })
        .collect();
    waiting.reverse();
    waiting
}

/// Time in which data arrived on the paths and the application got none.
pub(super) fn head_of_line(input: &LimitInput<'_>, received: &[Subflow<'_>]) -> Option<LimitRecord> {
    if !input.transport.is_multipath() {
        return None;
    }
    let arrivals = Arrivals::new(input, received)?;
    let (share, most) = (arrivals.blocked(), arrivals.waiting.iter().copied().fold(0.0, f64::max));
    let because = format!(
        "data arrived on the paths and the application got none {:.0} % of the time; up to {:.0} kB waited out of order",
        share * 100.0,
        most / 1e3
    );
    Some(record(input, LimitKind::HeadOfLine, share, because))
}
