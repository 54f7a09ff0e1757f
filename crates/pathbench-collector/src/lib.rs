//! The collector: takes results of many hosts, keeps them, and serves their figures.
//!
//! HTTP (`http`) → checks of each line (`pathbench_api`) → one writer (`ingest`): raw parts into the raw store (`raw`),
//! summaries into the database (`store`), then the answer. Figures come from columns in memory (`columns`) that follow
//! the database, so several collectors can share one. The crate never runs a test, and never trusts what a client says
//! of itself.

pub mod assignment;
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
pub mod task;
pub mod turn;
pub mod viewer;
