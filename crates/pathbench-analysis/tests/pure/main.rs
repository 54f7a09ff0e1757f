//! Metrics, verdicts and diagnoses from records.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod assembly_any_record;
mod attribution;
mod binning;
mod client;
mod clock;
mod comparison;
mod datagrams;
mod delay;
mod diagnosis;
mod events;
mod failback;
mod handover;
mod headline;
mod intervals;
mod limits;
mod line;
mod metric_properties;
mod metrics;
mod path_curves;
mod probes;
mod response;
mod unified_mss;
mod verdict;
