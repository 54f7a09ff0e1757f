//! The metrics of one direction of one run, as pure functions of what the receiving application got and when.
//!
//! `docs/metrics.md` defines each of them with an example; this module is its implementation. Nothing here
//! reads a clock, and no input makes it panic: what cannot be said is `None`, with the reason in words.

mod combination;
mod counter;
mod delay;
mod handover;
mod impact;
mod phase;
mod probe;
mod stall;
pub mod unified_mss;
mod window;

pub use combination::{RunFigures, combine};
pub use counter::PathCurves;
pub use delay::{delay, delay_of_flows, ping};
pub use handover::{PathHistory, handover};
pub use probe::probes;

use crate::binning::{ByteCurve, Window};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DirectionRecord, Impact, Phase};
use pathbench_record::event::EventKind;
use pathbench_record::time::Timestamp;
use stall::Stalls;
use std::time::Duration;

/// Width of the windows in which dip and recovery are sought.
pub const WINDOW: Duration = Duration::from_millis(100);

/// Step by which those windows slide.
pub const STEP: Duration = Duration::from_millis(10);

/// Longest stretch before an event that its dip is compared with.
pub const LONGEST_BASELINE: Duration = Duration::from_secs(2);

/// Shortest stretch before an event that its dip may be compared with.
pub const SHORTEST_BASELINE: Duration = Duration::from_millis(200);

/// How long goodput must stay up to count as recovered.
pub const STAY: Duration = Duration::from_millis(500);

/// Shortest phase whose end says what the surviving paths give: half of it is looked at, at least [`STAY`].
pub const SHORTEST_RECOVERY_PHASE: Duration = Duration::from_secs(1);

/// Events closer together than this are one moment: no window fits between them.
pub const SAME_MOMENT: Duration = WINDOW;

/// Something that was done to a path at a moment of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    pub at: Timestamp,
    pub kind: EventKind,
    pub path: Option<String>,
    pub disruptive: bool,
}

/// What is known of one direction of one run. All timestamps are of one clock.
#[derive(Debug, Clone, Copy)]
pub struct Measurement<'a> {
    /// Zero of the run's clock: the sending application's first byte.
    pub origin: Timestamp,
    /// Warm-up that counts in no metric, from the first byte offered on.
    pub omit: Duration,
    /// How long the sender was to send, warm-up included; `None` for a test by bytes.
    pub duration: Option<Duration>,
    /// Which way the data went.
    pub direction: Direction,
    /// What reached the receiving application.
    pub deliveries: &'a DeliverySeries,
    /// What the sending application handed to its sockets, each write recorded when it is *asked for* (a write
    /// that blocks in an outage must count as outstanding). `None`: the sender always has data to send.
    pub offered: Option<&'a DeliverySeries>,
    /// When the receiver (or whoever waited for it) gave the connection up; `None` when it ended in order.
    pub gave_up: Option<Timestamp>,
    /// The scenario's events, in any order.
    pub disturbances: &'a [Disturbance],
    /// Bytes received per path over time.
    pub paths: &'a PathCurves,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DirectionAnalysis {
    /// Which way the data went.
    pub direction: Direction,
    /// The measured time: where [`Self::goodput_mbps`] is counted.
    pub window: Option<Window>,
    /// Bytes delivered within the measured time.
    pub measured_bytes: u64,
    /// Goodput over the measured time.
    pub goodput_mbps: Option<f64>,
    /// All bytes delivered, warm-up included.
    pub delivered_bytes: u64,
    /// First to last byte delivered.
    pub duration_ms: f64,
    /// Longest time without a byte while data was outstanding.
    pub stall_ms: Option<f64>,
    /// Last byte (or start) to giving up.
    pub hung_ms: Option<f64>,
    /// One per disruptive event, in order.
    pub impacts: Vec<Impact>,
    /// The stretches between events.
    pub phases: Vec<Phase>,
    /// Why a figure is missing, in words.
    pub notes: Vec<String>,
}

impl DirectionAnalysis {
    /// The part of it that stands in a run's `directions`; delays are not of deliveries ([`delay()`]).
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
    let curve = ByteCurve::of_series(deliveries);
    let stalls = Stalls::of(measurement);
    let window = window::measured(measurement);
    let measured_bytes = window.map_or(0, |window| curve.within(window).round() as u64);
    let moments = phase::moments(measurement.disturbances);
    let mut notes = Vec::new();
    let impacts = impact::impacts(measurement, &curve, &stalls, window, &moments, &mut notes);
    DirectionAnalysis {
        direction: measurement.direction,
        window,
        measured_bytes,
        goodput_mbps: window.and_then(|window| window.mbps(measured_bytes as f64)),
        delivered_bytes: deliveries.total_bytes(),
        duration_ms: match (deliveries.first, deliveries.last) {
            (Some(first), Some(last)) => last.since(first).as_nanos() as f64 / 1e6,
            _ => 0.0,
        },
        stall_ms: stalls.longest_ms(),
        hung_ms: measurement.gave_up.map(|gave_up| {
            let from = deliveries.last.unwrap_or_else(|| window::start(measurement));
            gave_up.since(from).as_nanos() as f64 / 1e6
        }),
        impacts,
        phases: window.map_or_else(Vec::new, |window| phase::phases(measurement, &curve, window, &moments)),
        notes,
    }
}
