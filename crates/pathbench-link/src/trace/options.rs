//! The options with which a trace is read.

use super::format::TraceFormat;
use super::unit::{RateUnit, TimeUnit};
use pathbench_record::direction::Direction;

/// The user's statements about a file; without them, the content decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceOptions {
    pub format: Option<TraceFormat>,
    /// Unit of the rate.
    pub unit: Option<RateUnit>,
    /// Unit of the delay, in a column without one.
    pub delay_unit: Option<TimeUnit>,
    /// Names of the columns of values; empty: those whose names fit.
    pub columns: Vec<String>,
    /// Direction, in a file that has both.
    pub direction: Option<Direction>,
}
