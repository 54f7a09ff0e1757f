//! The analysis of hand-made captures.

mod fallbacks;
mod live;
mod multipath;
mod plain;
mod several;
