//! Parameters that change with time: what traces become. All times count from when the schedule is put in force.

use crate::model::ModelChange;
use std::time::Duration;

/// What comes after the end of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The last value stays.
    Hold,
    /// It begins anew after this much time in all, which is not before the last step.
    Repeat(Duration),
}

/// Values that hold from their time on until the next; the first at zero, times strictly increasing.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps<V> {
    /// Time and value; at least one.
    pub steps: Vec<(Duration, V)>,
    /// What follows.
    pub end: End,
}

/// Bits per second; 0 is no service at all.
pub type RateSchedule = Steps<u64>;
/// One-way delays.
pub type DelaySchedule = Steps<Duration>;
/// Loss probabilities, 0 to 1.
pub type LossSchedule = Steps<f64>;

/// Moments at which up to [`OpportunitySchedule::BYTES`] may leave; what is not used is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpportunitySchedule {
    /// Milliseconds, not decreasing, the last above zero; a millisecond may occur several times.
    pub at_ms: Vec<u64>,
}

impl OpportunitySchedule {
    /// Bytes of an opportunity (mahimahi's MTU without its TUN header).
    pub const BYTES: u32 = 1_500;
}

/// `CellReplay`'s packet trains: what a train of packets that begins at a time meets.
///
/// A train begins with a packet that comes when the train before is over. It meets the opportunities of the last line
/// whose time has come, and a base delay between those of this line and the next, in proportion. Where packets still wait
/// when its opportunities are used up, another train follows, as far from the last opportunity as they were from each
/// other in the mean. Small packets share an opportunity, large ones span several, unused ones are lost. The trace
/// repeats when its last line's time is reached.
///
/// (`CellReplay` goes on with a second trace, recorded under load, when a train is used up, and begins a new one with
/// every packet that comes after the last one's departure, which lets a paced sender exceed what was measured.)
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSchedule {
    /// In the order of their times; at least one.
    pub trains: Vec<Train>,
}

/// What a train of packets that begins at `at` meets.
#[derive(Debug, Clone, PartialEq)]
pub struct Train {
    /// When.
    pub at: Duration,
    /// Delay of its first packet.
    pub base_delay: Duration,
    /// When each 1500-byte packet of it may leave, counted from the first's departure; not decreasing.
    pub opportunities: Vec<Duration>,
}

/// Changes of a model at their times: what a fade becomes. Times do not decrease.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeSchedule {
    /// When, and what.
    pub changes: Vec<(Duration, ModelChange)>,
}
