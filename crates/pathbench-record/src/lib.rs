//! The result model: the data of a measurement, its file formats, and the figures computed from it.
//!
//! This crate holds the schema of `run.json`, `samples.jsonl`, `events.jsonl`, `delivery.jsonl` and
//! `messages.jsonl`, the units that scenario files and results share, the metrics (dip, stall, recovery, delay) as
//! pure functions of deliveries and their times, and the statistics over repetitions. It never uses a
//! socket, namespace or clock, and depends on no other crate of the workspace: times are [`time::Timestamp`] values.
//!
//! # Modules
//! - `connection`: state of a connection and of its paths at one end
//! - `delivery`: deliveries to the receiving application over time: the basis of every goodput figure
//! - `direction`: the directions of links and of test data
//! - `directory`: the result directory: `run.json` and the JSON Lines files (docs/results.md)
//! - `document`: `run.json`: the document with the request, the host and the results
//! - `end`: the record of one end at the end of a test
//! - `event`: one line of `events.jsonl`: an event of a link, a path or a connection
//! - `kernel_event`: kernel events of MPTCP connections, interfaces and Wi-Fi associations
//! - `live`: the progress of a running test, and the live records: one line per event and interval of
//!   `--json-stream`, and the input of `--tui` (docs/live.md)
//! - `network`: addresses, names of servers, and header sizes
//! - `pattern`: the traffic patterns and their parameters
//! - `sample`: one line of `samples.jsonl`: the transport's state of a path at one time
//! - `schema`: the JSON Schema (draft 2020-12) of `run.json` and of a line of each JSON Lines file, made from the
//!   types
//! - `statistics`: statistics over repetitions: quantiles and a distribution-free interval of the median
//! - `summary`: the comparison over repetitions: runs of one label and pattern in one variant, and links over all
//!   runs
//! - `text`: text for users: quantities with three significant digits, durations, and untrusted text
//! - `time`: timestamps of the monotonic clock, and the trait through which the binary provides its clock
//! - `trace`: `trace.json`: the analysis of packet captures
//! - `transport`: the transports, and the labels of their runs in tables and expectations
//! - `units`: quantities as users write them in scenario files and on the command line, always with their unit

pub mod connection;
pub mod delivery;
pub mod direction;
pub mod directory;
pub mod document;
pub mod end;
pub mod event;
pub mod kernel_event;
pub mod live;
pub mod network;
pub mod pattern;
pub mod sample;
pub mod schema;
pub mod statistics;
pub mod summary;
pub mod text;
pub mod time;
pub mod trace;
pub mod transport;
pub mod units;
