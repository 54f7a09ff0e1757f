//! The link specification: what one direction of a link does to packets, every parameter declared once.
//!
//! [`PARAMETERS`] has each parameter's key, type, range, default, engines and documentation; [`LinkModel`] has their
//! values in force and [`LinkChange`] new values for some of them. The scenario reader, `--set`, `[matrix]`, the event
//! `set`, `events.jsonl`, `requested` in results, the choice of an engine and the table in `docs/scenarios.md` follow
//! from them. This crate never moves a packet and never reads a file.

mod model;
mod parameter;
mod schedule;

pub use model::{
    ArqModel, BaseDelay, Discipline, Distribution, ETHERNET_OVERHEAD_BYTES, GilbertElliott, LinkChange,
    LinkModel, LossModel, MAX_PACKET_BYTES, RateModel, queue_bytes,
};
pub use parameter::{
    Engines, Field, Kind, PARAMETERS, Parameter, TraceOf, Value, documentation, overlay, parameter,
};
pub use schedule::{
    ChangeSchedule, DelaySchedule, End, LossSchedule, OpportunitySchedule, RateSchedule, Steps, Train,
    TrainSchedule,
};

#[cfg(test)]
pathbench_kerneltest::privilege_independent!();
