//! Units, directions, series and parameters: what each type reads, writes and refuses.

mod delivery;
mod end;
mod network;
mod pattern;
mod sample;
mod statistics;
mod text;
mod time;
mod units;
