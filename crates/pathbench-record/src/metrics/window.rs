//! The measured time of a run.

use super::Measurement;
use crate::time::Timestamp;

/// A stretch of time with both its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Begin.
    pub from: Timestamp,
    /// End, not before the begin.
    pub until: Timestamp,
}

impl Window {
    /// The measured time of a run, or `None` when it has none (no byte came and nobody gave up, or all of it
    /// was warm-up).
    ///
    /// From the first byte offered + warm-up to the last byte delivered, but not beyond the time the sender was to
    /// send. A connection that begins late, or was given up, delivered nothing meanwhile, but it took the time.
    pub(super) fn of(measurement: &Measurement<'_>) -> Option<Self> {
        let deliveries = measurement.deliveries;
        let first = start(measurement);
        let from = if deliveries.first.is_some() { first + measurement.omit } else { first };
        // A series that came from another machine may claim a last byte far outside its bins.
        let end_of_bins = deliveries.bin_start(deliveries.bytes.len());
        let last = deliveries.last.map(|last| last.min(end_of_bins));
        let end = last.max(measurement.gave_up)?;
        let until = measurement.duration.map_or(end, |duration| end.min(first + duration));
        (from < until).then_some(Self { from, until })
    }

    /// Length in milliseconds.
    #[must_use]
    pub fn length_ms(self) -> f64 {
        self.until.since(self.from).as_nanos() as f64 / 1e6
    }

    /// The rate of `bytes` over the window in Mbit/s; `None` for a window without length.
    pub(super) fn mbps(self, bytes: f64) -> Option<f64> {
        let nanos = self.until.since(self.from).as_nanos();
        (nanos > 0).then(|| bytes * 8.0 * 1e3 / nanos as f64)
    }
}

/// When data was first outstanding: the first byte the sender offered, or the run's zero where that is not
/// recorded; never after the first byte delivered.
pub(super) fn start(measurement: &Measurement<'_>) -> Timestamp {
    let offered = measurement.offered.and_then(|offered| offered.first).unwrap_or(measurement.origin);
    measurement.deliveries.first.map_or(offered, |first| offered.min(first))
}
