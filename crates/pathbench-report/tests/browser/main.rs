//! Pages in a real browser.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod browser;
#[path = "../synthetic/mod.rs"]
mod synthetic;
