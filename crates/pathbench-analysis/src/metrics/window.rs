//! The measured time of a run.

use super::Measurement;
use crate::binning::Window;
use pathbench_record::time::Timestamp;

/// The measured time of a run, or `None` when it has none (no byte arrived and no end timed out, or all of it
/// was warm-up).
///
/// From the first byte offered + warm-up to the last byte delivered, but not beyond the time the sender was to
/// send. A connection that begins late, or was given up, delivered nothing meanwhile, but it took the time.
pub(super) fn measured(measurement: &Measurement<'_>) -> Option<Window> {
    let deliveries = measurement.deliveries;
    let first = start(measurement);
    let from = if deliveries.first.is_some() { first + measurement.omit } else { first };
    // A series that came from another machine may claim a last byte far outside its bins.
    let end_of_bins = deliveries.bin_start(deliveries.bytes.len());
    let last = deliveries.last.map(|last| last.min(end_of_bins));
    let end = last.max(measurement.gave_up)?;
    let until = measurement.duration.map_or(end, |duration| end.min(first + duration));
    (from < until).then_some(Window { from, until })
}

/// When data was first outstanding: the first byte the sender offered, or the run's zero where that is not
/// recorded; never after the first byte delivered.
pub(super) fn start(measurement: &Measurement<'_>) -> Timestamp {
    let offered = measurement.offered.and_then(|offered| offered.first).unwrap_or(measurement.origin);
    measurement.deliveries.first.map_or(offered, |first| offered.min(first))
}
