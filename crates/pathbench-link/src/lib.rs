//! The link model: the parameters of one direction of a link, each declared once, and what a link with these parameters
//! does to each packet.
//!
//! A [`pipe`] models one direction of a link, sans-IO: the input is a packet and its arrival time, the output a packet and
//! its departure time, or a drop and its cause.
//!
//! [`PARAMETERS`] has each parameter's key, type, range, default, engines and documentation; [`LinkModel`] has their
//! current values and [`LinkChange`] new values for some of them. The scenario reader, `--set`, `[matrix]`, the event
//! `set`, `events.jsonl`, `requested` in results, the choice of an engine and the table in `docs/scenarios.md` use
//! them. This crate never opens a device and never reads a clock.

pub mod fading;
mod model;
pub mod packet;
mod parameter;
pub mod pipe;
mod queue;
mod schedule;
pub mod trace;

pub use model::{
    ArqModel, BaseDelay, ChangeSchedule, Discipline, GilbertElliott, JitterDistribution, LinkChange,
    LinkModel, LossModel, MAX_PACKET_BYTES, PolicerModel, QueueIsolation, RateModel, queue_bytes,
};
pub use parameter::{
    Engines, Field, LinkParameter, PARAMETERS, ParameterKind, TraceOf, Value, overlay, parameter,
};
pub use schedule::{
    DelaySchedule, LossSchedule, OpportunitySchedule, RateSchedule, ScheduleEnd, Steps, Train, TrainSchedule,
};
