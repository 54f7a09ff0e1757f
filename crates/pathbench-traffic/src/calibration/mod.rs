//! Calibration of a link before a run: rate, round-trip time and MTU in both directions, measured with UDP.
//!
//! The lab controls both ends: [`calibrate`] sends [`CalibrationCommand`]s to a [`CalibrationEnd`] at each end of the link over a
//! separate channel, and only the measured packets cross the link. For each [`ProbeSeries`] of packets, one end is commanded
//! to expect it, the other to send it, and the first to report the arrivals. An end sends only to the other end.
//!
//! * **Round-trip time**: small echoes on the idle link.
//! * **MTU**: datagrams with DF that ignore the kernel's cached path MTU (`IP_PMTUDISC_PROBE`).
//! * **Rate**: a train of datagrams, 25 % faster than requested, after a burst that empties the token bucket of the
//!   link's shaper. The receiver computes the slope of wire bytes (IP packet plus 14 bytes of Ethernet header, for
//!   every segment, as the kernel's qdiscs count) over the kernel's arrival times. On an emulated link the train is
//!   10 % faster than requested, and missing packets count if they took transmission time at the bottleneck.
//! * **Delay and loss in one direction**: small probes on the idle link, with timestamps of the sending application and
//!   the receiving kernel. Both ends must read the same clock.

mod end;
mod link;
mod plan;
mod probes;
mod rate;
mod sequence_meter;
mod train;

pub use end::{CalibrationCommand, CalibrationEnd, EndError, EndReport, ProbeSeries};
pub use link::{CalibrationError, calibrate};
pub use plan::{CalibrationPlan, DirectionCalibration, LinkCalibration, OneWayDelays, ProbedDirection};
pub use probes::ProbeTally;
pub use rate::RateMeter;
pub use sequence_meter::SequenceMeter;
pub use train::PacketTrain;
