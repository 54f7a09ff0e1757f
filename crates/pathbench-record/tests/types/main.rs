//! Units, directions, series and parameters: what each type reads, writes and refuses.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod delivery;
mod event;
mod network;
mod pattern;
mod statistics;
mod test_id;
mod text;
mod units;
