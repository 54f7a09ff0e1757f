//! The result model: the data of a measurement, its file formats, and the figures computed from it.
//!
//! This crate holds the schema of `run.json`, `samples.jsonl`, `events.jsonl`, `delivery.jsonl` and
//! `messages.jsonl`, the units that scenario files and results share, the metrics (dip, stall, recovery, delay) as
//! pure functions of deliveries and their times, and the statistics over repetitions. It never uses a
//! socket, namespace or clock, and depends on no other crate of the workspace: times are [`time::Timestamp`] values.

pub mod connection;
pub mod datagram;
pub mod delivery;
pub mod direction;
pub mod directory;
pub mod document;
pub mod end;
pub mod event;
pub mod file;
pub mod kernel_event;
pub mod live;
pub mod mptcp;
pub mod network;
pub mod pattern;
pub mod resource;
pub mod response;
pub mod sample;
pub mod schema;
pub mod stage;
pub mod statistics;
pub mod summary;
pub mod text;
pub mod time;
pub mod trace;
pub mod transport;
pub mod units;
