//! The output of a result: the summary in the terminal, the figures (SVG and PNG) and the HTML report.
//!
//! This crate turns the records of [`pathbench_record`] into text and pictures. It computes layouts and sentences;
//! the metrics come from the record. Its output is a pure function of the result: the same result gives the same
//! bytes, independent of the fonts, locale and clock of the machine. It never reads a socket, a clock or an
//! environment variable. The only files it accesses are those of the result that [`ResultSet::read`] reads and those
//! that [`write()`] creates.
//!
//! # Modules
//! - `carriage`: packets on the links of a path: at the sending host, and behind the hop with the smallest MTU
//! - `chart`: A chart as data: facets on shared axes, each a stack of strips with marks in data coordinates
//! - `command`: the command line that repeats a result, from its document alone
//! - `compare`: results of different commands compared with the first of them: what changed, and whether conditions
//!   hold
//! - `export`: results in formats of other programs: tables as CSV and Parquet, the summary as Markdown, runs as
//!   Perfetto traces and Flent's data files (docs/data.md)
//! - `figure`: builds charts from results: goodput by path over time, delay over time and as a distribution,
//!   comparisons of all repetitions, emulated links, packet sizes
//! - `html`: the report as one self-contained HTML page: nothing from elsewhere, readable without scripts
//! - `list`: lists in the order of first appearance
//! - `narrative`: the behaviour of each label and its reasons, in sentences
//! - `output`: writing the report and the figures
//! - `palette`: colours with a meaning, for light and dark paper
//! - `pattern`: the patterns and their figures, the main figure first
//! - `plot`: plots of values that are not from one result, in the style of the figures of a result: distributions,
//!   rows and courses over days
//! - `quantity`: quantities in words: three significant digits, a unit for the magnitude, a dash for values that
//!   are not numbers
//! - `raster`: pictures as PNG with built-in fonts: the same bytes on every machine
//! - `restoration`: returns of paths to service, and whether traffic came back to them
//! - `result_set`: A result as read from files, and the order of its paths
//! - `run_data`: the records of one run on a time axis that begins with the first byte of data
//! - `section`: findings and tables as data, built once from results
//! - `series`: goodput over time per path: heights from the receiver's deliveries, colours from the paths' counters
//! - `svg`: figures as SVG
//! - `terminal`: renders the summary of a result for the terminal
//! - `trace`: files of the analysis of packet captures
//! - `view`: A result prepared for display: the lines of each run, the groups, and the representative run of each
//!   group

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
