//! One flow in two captures, from a simulated path whose losses, delays and clock offset are known.

mod captures;
mod clocks;
mod middleboxes;
mod path;
mod properties;
mod scenarios;
