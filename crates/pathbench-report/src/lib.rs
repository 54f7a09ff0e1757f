//! What people see of a result: the summary in the terminal, the figures (SVG and PNG) and the HTML report.
//!
//! This room turns the records of [`pathbench_record`] into text and pictures. It computes how a picture is
//! laid out and how a finding reads in words; the metrics themselves come from the record. Its output is a
//! pure function of the result: the same result gives the same bytes, whatever fonts, locale or clock the
//! machine has. It never reads a socket, a clock or an environment variable, and the only files it touches are
//! those of the result that [`ResultSet::read`] takes in and those that [`write()`] creates.

use pathbench_record::directory::{ReadError, ResultDirectory};
use pathbench_record::document::{LinkSample, ProbeLine, ResultDocument};
use pathbench_record::event::{DeliveryLine, Event};
use pathbench_record::message::MessageLine;
use pathbench_record::sample::Sample;
use std::path::PathBuf;

mod carriage;
mod chart;
pub mod figure;
pub mod html;
pub mod narrative;
mod output;
mod palette;
mod pattern;
pub mod quantity;
#[cfg(feature = "png")]
pub mod raster;
mod section;
mod series;
pub mod svg;
pub mod terminal;
mod view;

pub use output::{FigureFormat, WriteError, Written, write};

/// Whether this build draws PNG (feature `png`).
pub const PNG_AVAILABLE: bool = cfg!(feature = "png");

#[derive(Debug, Clone)]
pub struct ResultSet {
    pub document: ResultDocument,
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
    pub deliveries: Vec<DeliveryLine>,
    pub messages: Vec<MessageLine>,
    pub links: Vec<LinkSample>,
    pub probes: Vec<ProbeLine>,
    pub directory: Option<PathBuf>,
}

impl ResultSet {
    /// Everything in an opened result directory, and what a reader should be told of it (a file that is missing,
    /// a result that was never finished).
    ///
    /// # Errors
    /// [`ReadError`] when a file cannot be read, or one of its lines is broken.
    pub fn read(directory: ResultDirectory) -> Result<(Self, Vec<String>), ReadError> {
        let (samples, events) = (directory.samples()?, directory.events()?);
        let (deliveries, messages) = (directory.deliveries()?, directory.messages()?);
        let (links, probes) = (directory.links()?, directory.probes()?);
        let of_files = [
            samples.warning,
            events.warning,
            deliveries.warning,
            messages.warning,
            links.warning,
            probes.warning,
        ];
        let warnings =
            directory.warning().map(str::to_owned).into_iter().chain(of_files.into_iter().flatten());
        let warnings = warnings.collect();
        let path = directory.path().to_owned();
        let set = Self {
            document: directory.into_document(),
            samples: samples.items,
            events: events.items,
            deliveries: deliveries.items,
            messages: messages.items,
            links: links.items,
            probes: probes.items,
            directory: Some(path),
        };
        Ok((set, warnings))
    }
}
