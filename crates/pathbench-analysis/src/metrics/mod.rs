//! The metrics of one direction of one run: pure functions of the bytes delivered to the application and their times.
//!
//! `docs/metrics.md` defines each metric with an example; this module implements them. Nothing here reads a clock,
//! and no input causes a panic: a figure that cannot be computed is `None`, with the reason in words.
//!
//! An outage of 300 ms on a path of 100 Mbit/s:
//!
//! ```rust
//! use pathbench_analysis::metrics::{Disturbance, Measurement, PathCurves, analyse};
//! use pathbench_record::delivery::DeliverySeries;
//! use pathbench_record::direction::Direction;
//! use pathbench_record::event::{EventKind, PathEffect};
//! use pathbench_record::time::Timestamp;
//! use std::time::Duration;
//!
//! let origin = Timestamp::default();
//! let at = |ms: u64| origin + Duration::from_millis(ms);
//! let mut deliveries = DeliverySeries::starting_at(origin);
//! for ms in (0..3_000).chain(3_300..10_000) {
//!     deliveries.record(at(ms), 12_500);
//! }
//! let outage = Disturbance { at: at(3_000), kind: EventKind::Outage, path: None, disruptive: true, effect: PathEffect::Worse };
//! let analysis = analyse(&Measurement {
//!     origin,
//!     omit: Duration::ZERO,
//!     duration: Some(Duration::from_secs(10)),
//!     direction: Direction::Download,
//!     deliveries: &deliveries,
//!     offered: None,
//!     gave_up: None,
//!     disturbances: &[outage],
//!     paths: &PathCurves::empty(),
//! });
//! assert_eq!(analysis.stall_ms, Some(301.0), "from the last byte before the outage to the first one after it");
//! let impact = &analysis.impacts[0];
//! assert_eq!((impact.stall_ms, impact.recovery_ms), (Some(300.0), Some(300.0)));
//! assert_eq!(impact.dip, Some(1.0), "a window of 100 ms without a byte");
//! assert!((impact.before_mbps.unwrap() - 100.0).abs() < 0.1);
//! ```

mod counter;
mod datagrams;
mod delay;
mod failback;
mod handover;
mod impact;
pub mod live;
mod measurement;
mod phase;
mod response;
mod stall;
pub mod unified_mss;

pub use counter::PathCurves;
pub use datagrams::{DatagramFate, DatagramLogs, datagram_fates, datagrams};
pub use delay::{delay, delay_of_flows, ping, probes};
pub use failback::{Demand, FailbackInput, failback_notes, failbacks, slowest_failback_ms};
pub use handover::{PathHistory, handover};
pub use measurement::{
    Disturbance, LONGEST_BASELINE, Measurement, SAME_MOMENT, SHORTEST_BASELINE, SHORTEST_RECOVERY_PHASE,
    STAY, STEP, WINDOW,
};
pub use response::{ResponseInput, phase_at, responsiveness};

use crate::binning::{ByteCurve, Window};
use measurement::start;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DirectionRecord, Impact, Phase, RunRecord};
use stall::Stalls;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub struct DirectionAnalysis {
    pub direction: Direction,
    /// The measured time, over which [`Self::goodput_mbps`] is computed.
    pub window: Option<Window>,
    /// Bytes delivered within the measured time.
    pub measured_bytes: u64,
    pub goodput_mbps: Option<f64>,
    pub delivered_bytes: u64,
    /// Length of the transfer, in which all delivered bytes arrived; it contains the measured time.
    pub duration_ms: f64,
    /// Longest time without a byte while data was outstanding.
    pub stall_ms: Option<f64>,
    /// Time from the last byte (or the start) to giving up.
    pub hung_ms: Option<f64>,
    /// One per disruptive event, in order.
    pub impacts: Vec<Impact>,
    pub phases: Vec<Phase>,
    /// Reasons for missing figures, in words.
    pub notes: Vec<String>,
}

impl DirectionAnalysis {
    /// The entry in a run's `directions`, without delays ([`delay()`] computes them).
    pub fn record(&self) -> DirectionRecord {
        DirectionRecord {
            direction: self.direction,
            goodput_mbps: self.goodput_mbps,
            delivered_bytes: self.delivered_bytes,
            stall_ms: self.stall_ms,
            delay_ms: None,
        }
    }
}

/// Computes every metric of one direction of one run.
pub fn analyse(measurement: &Measurement<'_>) -> DirectionAnalysis {
    let deliveries = measurement.deliveries;
    let curve = ByteCurve::from_series(deliveries);
    let stalls = Stalls::from_measurement(measurement);
    let window = measured(measurement);
    let measured_bytes = window.map_or(0, |window| curve.bytes_within(window).round() as u64);
    let moments = phase::moments(measurement.disturbances);
    let mut notes = Vec::new();
    let impacts = impact::impacts(measurement, &curve, &stalls, window, &moments, &mut notes);
    DirectionAnalysis {
        direction: measurement.direction,
        window,
        measured_bytes,
        goodput_mbps: window.and_then(|window| window.mbps(measured_bytes as f64)),
        delivered_bytes: deliveries.total_bytes(),
        duration_ms: transfer(measurement).map_or(0.0, Window::length_ms),
        stall_ms: stalls.longest_ms(),
        hung_ms: measurement.gave_up.map(|gave_up| {
            let from = deliveries.last.unwrap_or_else(|| start(measurement));
            gave_up.duration_since(from).as_nanos() as f64 / 1e6
        }),
        impacts,
        phases: window.map_or_else(Vec::new, |window| phase::phases(measurement, &curve, window, &moments)),
        notes,
    }
}

/// The measured time of a run: from the first byte offered + warm-up to the last byte delivered, at most the planned
/// sending time. The time before a late start or until giving up is included, although nothing was delivered then.
///
/// `None` if no byte arrived and no end timed out, or if the whole run was warm-up.
fn measured(measurement: &Measurement<'_>) -> Option<Window> {
    let whole = transfer(measurement)?;
    let omit = if measurement.deliveries.first.is_some() { measurement.omit } else { Duration::ZERO };
    let (from, end) = (whole.from + omit, whole.until);
    let until = measurement.duration.map_or(end, |duration| end.min(whole.from + duration));
    (from < until).then_some(Window { from, until })
}

/// From the first byte offered to the last byte delivered, or to giving up if that is later. `None` if no byte
/// arrived and no end timed out.
fn transfer(measurement: &Measurement<'_>) -> Option<Window> {
    let deliveries = measurement.deliveries;
    let from = start(measurement);
    // A series from another machine may claim a last byte far outside its bins.
    let end_of_bins = deliveries.bin_start(deliveries.bytes.len());
    let last = deliveries.last.map(|last| last.min(end_of_bins));
    let until = last.max(measurement.gave_up)?;
    Some(Window { from, until: until.max(from) })
}

/// The figures at the top of a run's record: sums over the directions, or the longest, deepest or slowest. A recovery
/// is absent if either direction did not recover.
pub fn combine(directions: &[DirectionAnalysis]) -> RunRecord {
    let largest = |values: &mut dyn Iterator<Item = f64>| values.max_by(f64::total_cmp);
    let first_impacts: Vec<_> = directions.iter().filter_map(|direction| direction.impacts.first()).collect();
    let recoveries: Option<Vec<f64>> = first_impacts.iter().map(|impact| impact.recovery_ms).collect();
    RunRecord {
        goodput_mbps: directions.iter().filter_map(|direction| direction.goodput_mbps).reduce(|a, b| a + b),
        delivered_bytes: directions
            .iter()
            .map(|direction| direction.delivered_bytes)
            .fold(0, u64::saturating_add),
        duration_ms: largest(&mut directions.iter().map(|d| d.duration_ms)).unwrap_or_default(),
        hung_ms: largest(&mut directions.iter().filter_map(|d| d.hung_ms)),
        stall_ms: largest(&mut directions.iter().filter_map(|d| d.stall_ms)),
        recovery_ms: recoveries.and_then(|values| largest(&mut values.into_iter())),
        dip: largest(&mut first_impacts.iter().filter_map(|impact| impact.dip)),
        ..RunRecord::default()
    }
}
