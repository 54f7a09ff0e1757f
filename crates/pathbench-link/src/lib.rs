//! The link specification: the parameters of one direction of a link, each declared once.
//!
//! [`PARAMETERS`] has each parameter's key, type, range, default, engines and documentation; [`LinkModel`] has their
//! current values and [`LinkChange`] new values for some of them. The scenario reader, `--set`, `[matrix]`, the event
//! `set`, `events.jsonl`, `requested` in results, the choice of an engine and the table in `docs/scenarios.md` use
//! them. This crate never forwards a packet and never reads a file.

mod model;
mod parameter;
mod schedule;

pub use model::{
    ArqModel, BaseDelay, ChangeSchedule, Discipline, Distribution, GilbertElliott, LinkChange, LinkModel,
    LossModel, MAX_PACKET_BYTES, RateModel, queue_bytes,
};
pub use parameter::{Engines, Field, Kind, PARAMETERS, Parameter, TraceOf, Value, overlay, parameter};
pub use schedule::{
    DelaySchedule, End, LossSchedule, OpportunitySchedule, RateSchedule, Steps, Train, TrainSchedule,
};
