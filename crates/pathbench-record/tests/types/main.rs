//! Units, directions, series and parameters: what each type reads, writes and refuses.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod delivery;
mod network;
mod pattern;
mod sample;
mod statistics;
mod text;
mod time;
mod units;
