//! The collector: takes results of many hosts, keeps them, and serves their figures.
//!
//! HTTP (`http`) → checks of each line (`pathbench_api`) → one writer (`ingest`): raw parts into the raw store (`raw`),
//! summaries into the database (`store`), then the answer. Figures come from columns in memory (`columns`) that follow
//! the database, so several collectors can share one. The crate never runs a test, and never trusts what a client says
//! of itself.
//!
//! # Modules
//! - `chart`: the charts, as data: title, caption, plot and table
//! - `columns`: dimensions and figures of all results in memory, as a struct of arrays: every filter and every
//!   figure is a scan
//! - `command`: the command line of the collector
//! - `facts`: the data of one result that the figures need, in a compact form that a collector loads at its start
//! - `http`: the HTTP API
//! - `ingest`: the writer: a bounded queue, one thread, and one durable commit for all submissions that wait
//! - `keys`: the keys of a collector: one secret, from which the keys of tokens are derived
//! - `log`: the log: one JSON object per line on standard error
//! - `maintenance`: maintenance of the stored results: retention, erasure of deleted raw parts, checks, backup
//! - `memory`: bounds of the memory that clients can take
//! - `metrics`: every metric, with its labels
//! - `page`: the pages of the dashboard: HTML from the server, readable without scripts
//! - `raw`: the raw store: the raw parts of results, in segments
//! - `reader`: the reading side: columns that follow the database, and the pages and files that are made of them
//! - `refusal`: the reason why a request has no answer: an error as a JSON problem or on a page
//! - `store`: the database: summaries, deletions, and the small documents of servers, agents and experiments
//! - `viewer`: the reader of results: everybody, or the operator

pub mod chart;
pub mod columns;
pub mod command;
pub mod facts;
pub mod http;
pub mod ingest;
pub mod keys;
pub mod log;
pub mod maintenance;
pub mod memory;
pub mod metrics;
pub mod page;
pub mod raw;
pub mod reader;
pub mod refusal;
pub mod store;
pub mod viewer;
