//! The result model: what a measurement is, how it is written down, and what is computed from it.
//!
//! This room holds the schema of `run.json`, `samples.jsonl`, `events.jsonl`, `delivery.jsonl` and
//! `messages.jsonl`, the units that scenario files and results share, the metrics (dip, stall, recovery, delay) as
//! pure functions of what applications got and when, and the statistics over repetitions. It never touches a
//! socket, a namespace or a clock, and depends on no other room: time reaches it as [`time::Timestamp`] values.

pub mod binning;
pub mod calendar;
pub mod delivery;
pub mod direction;
pub mod directory;
pub mod document;
pub mod event;
pub mod message;
pub mod metrics;
pub mod random;
pub mod sample;
pub mod statistics;
pub mod summary;
pub mod text;
pub mod time;
pub mod transport;
pub mod units;
