//! The agent: a collector's experiments on schedule, within the limits of the host's owner, and the owner's own
//! measurements from a local page; and the client of a collector, which submits results with the owner's consent.
//! It never measures itself (the program does, as a child process), and reads time only from the clock of its host.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files by themselves"))]

pub mod answer;
pub mod arguments;
mod budget;
pub mod client;
mod courier;
pub mod durable;
mod execution;
mod history;
pub mod host;
pub mod limits;
mod measurement;
pub mod networks;
mod page;
mod pending;
mod schedule;
pub mod service;
mod state;
mod status;
pub mod submit;
pub mod target;
