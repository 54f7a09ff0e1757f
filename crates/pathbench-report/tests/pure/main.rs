//! Computes only: no sockets, no child processes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod arbitrary;
mod axis;
mod claims;
mod comparisons;
mod escaping;
mod expectations;
mod fuzz_bodies;
mod golden;
mod live;
mod output;
mod page;
#[path = "../parts/mod.rs"]
mod parts;
mod path_mtu;
mod quantity;
#[path = "../results/mod.rs"]
mod results;
mod schemas;
mod stories;
#[path = "../synthetic/mod.rs"]
mod synthetic;
mod words;
