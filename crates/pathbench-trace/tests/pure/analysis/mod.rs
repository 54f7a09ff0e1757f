//! The analysis of hand-made captures.

mod attempts;
mod bounds;
mod copies;
mod fallbacks;
mod live;
mod multipath;
mod plain;
mod several;
mod splits;
mod state;
