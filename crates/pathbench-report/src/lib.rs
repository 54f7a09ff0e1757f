//! The output of a result: the summary in the terminal, the figures (SVG and PNG) and the HTML report.
//!
//! This crate turns the records of [`pathbench_record`] into text and pictures. It computes layouts and sentences;
//! the metrics come from the record. Its output is a pure function of the result: the same result gives the same
//! bytes, independent of the fonts, locale and clock of the machine. It never reads a socket, a clock or an
//! environment variable. The only files it accesses are those of the result that [`ResultSet::read`] reads and those
//! that [`write()`] creates.

mod carriage;
mod chart;
pub mod command;
mod compare;
pub mod export;
mod figure;
pub mod html;
mod list;
pub mod narrative;
mod output;
mod palette;
mod pattern;
pub mod plot;
pub mod quantity;
#[cfg(feature = "png")]
pub mod raster;
mod rate_axis;
mod restoration;
mod result_set;
mod run_data;
mod section;
mod series;
pub mod svg;
pub mod terminal;
pub mod trace;
mod view;

pub use compare::{ComparedResults, FailureCondition};
pub use figure::{Figure, figures};
pub use output::{FigureFormat, PNG_AVAILABLE, ReportFiles, ReportWriteError, write};
pub use result_set::{LineSource, ResultSet};
