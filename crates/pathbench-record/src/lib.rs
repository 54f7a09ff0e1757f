//! The result model: what a measurement is, how it is written down, and what is computed from it.
//!
//! This room holds the schema of `run.json`, `samples.jsonl`, `events.jsonl`, `delivery.jsonl` and
//! `messages.jsonl`, the units that scenario files and results share, the metrics (dip, stall, recovery, delay) as
//! pure functions of what applications got and when, and the statistics over repetitions. It never touches a
//! socket, a namespace or a clock, and depends on no other room: time reaches it as [`time::Timestamp`] values.

pub mod address;
pub mod calendar;
pub mod connection;
pub mod delivery;
pub mod direction;
pub mod directory;
pub mod document;
pub mod end;
pub mod event;
pub mod kernel_event;
pub mod message;
pub mod network;
pub mod pattern;
pub mod random;
pub mod sample;
pub mod statistics;
pub mod summary;
pub mod test_id;
pub mod text;
pub mod time;
pub mod transport;
pub mod units;
