//! The link model in virtual time: tables of scenarios, and laws that hold for all of them.
#![allow(clippy::unchecked_time_subtraction, reason = "a time that would be negative is to fail the test")]

mod bench;
mod chance;
mod correlation;
mod fades;
mod fairness;
mod laws;
mod links;
mod losses;
mod policing;
mod queues;
mod traces;
