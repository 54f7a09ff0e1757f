//! The input of the metrics: one direction of one run, and the time constants of the definitions.

use super::counter::PathCurves;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::event::{EventKind, PathEffect};
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Width of the windows for dip and recovery.
pub const WINDOW: Duration = Duration::from_millis(100);

/// Step between consecutive windows.
pub const STEP: Duration = Duration::from_millis(10);

/// Longest period before an event that serves as the reference for its dip.
pub const LONGEST_BASELINE: Duration = Duration::from_secs(2);

/// Shortest period before an event that may serve as the reference for its dip.
pub const SHORTEST_BASELINE: Duration = Duration::from_millis(200);

/// Time for which goodput must stay up to count as recovered.
pub const STAY: Duration = Duration::from_millis(500);

/// Shortest phase that shows the goodput of the surviving paths: its last half is evaluated, [`STAY`] to 1 s.
pub const SHORTEST_RECOVERY_PHASE: Duration = Duration::from_secs(1);

/// Events closer together than this count as one moment: no window fits between them.
pub const SAME_MOMENT: Duration = WINDOW;

/// An event of the scenario on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    pub at: Timestamp,
    pub kind: EventKind,
    pub path: Option<String>,
    pub disruptive: bool,
    pub effect: PathEffect,
}

/// The recorded data of one direction of one run. All timestamps are of one clock.
#[derive(Debug, Clone, Copy)]
pub struct Measurement<'a> {
    /// Zero of the run's clock: the sending application's first byte.
    pub origin: Timestamp,
    /// Warm-up from the first byte offered; no metric includes it.
    pub omit: Duration,
    /// Planned sending time, including warm-up; `None` for a test of a number of bytes.
    pub duration: Option<Duration>,
    pub direction: Direction,
    pub deliveries: &'a DeliverySeries,
    /// The bytes that the sending application wrote to its sockets. Each write is recorded at its *call*, because a
    /// write that blocks in an outage must count as outstanding. `None`: the sender always has data to send.
    pub offered: Option<&'a DeliverySeries>,
    /// When the receiver, or the end that waited for it, gave up the connection; `None` after a normal end.
    pub gave_up: Option<Timestamp>,
    /// The scenario's events, in any order.
    pub disturbances: &'a [Disturbance],
    /// Bytes received per path over time.
    pub paths: &'a PathCurves,
}

/// When data was first outstanding: the first byte offered, or the run's zero if that is not recorded; never after
/// the first byte delivered.
pub(super) fn start(measurement: &Measurement<'_>) -> Timestamp {
    let offered = measurement.offered.and_then(|offered| offered.first).unwrap_or(measurement.origin);
    measurement.deliveries.first.map_or(offered, |first| offered.min(first))
}
