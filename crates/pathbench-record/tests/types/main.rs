//! Units, directions, series and parameters: what each type reads, writes and refuses.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod delivery;
mod event;
mod iperf_parameters;
mod network;
mod pattern_validation;
mod statistics;
mod test_id;
mod text;
mod units;
