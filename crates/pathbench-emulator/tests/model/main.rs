//! The link model in virtual time: tables of scenarios, and laws that hold for all of them.

mod bench;
mod fades;
mod laws;
mod links;
mod losses;
mod queues;
mod traces;
