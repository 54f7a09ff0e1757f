//! The lines of the JSON Lines files, by their type.

use crate::datagram::DatagramLine;
use crate::delivery::DeliveryLine;
use crate::document::{LinkSample, ProbeLine, ResultDocument};
use crate::end::MessageLine;
use crate::event::Event;
use crate::sample::Sample;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, Write};

/// The type of a line in one of the JSON Lines files.
pub trait Line: Serialize + DeserializeOwned {
    const FILE: &'static str;

    /// Whether a missing file causes a warning. Such a file exists from the start; others are created with their first
    /// line.
    fn is_expected(_document: &ResultDocument) -> bool {
        true
    }
}

impl Line for Sample {
    const FILE: &'static str = "samples.jsonl";
}

impl Line for Event {
    const FILE: &'static str = "events.jsonl";
}

impl Line for DeliveryLine {
    const FILE: &'static str = "delivery.jsonl";
}

impl Line for MessageLine {
    const FILE: &'static str = "messages.jsonl";

    fn is_expected(document: &ResultDocument) -> bool {
        document.runs.iter().any(|run| run.delay_ms.is_some() || run.ping.is_some())
    }
}

impl Line for DatagramLine {
    const FILE: &'static str = "datagrams.jsonl";

    fn is_expected(document: &ResultDocument) -> bool {
        document.runs.iter().any(|run| !run.datagrams.is_empty())
    }
}

impl Line for LinkSample {
    const FILE: &'static str = "links.jsonl";

    fn is_expected(document: &ResultDocument) -> bool {
        document.runs.iter().flat_map(|run| &run.links).any(|link| link.emulation.is_some())
    }
}

impl Line for ProbeLine {
    const FILE: &'static str = "probes.jsonl";

    fn is_expected(document: &ResultDocument) -> bool {
        document.runs.iter().any(|run| !run.probes.is_empty())
    }
}

/// A line of one run; in the file its first field is `run`.
pub(super) trait RunLine: Line {
    fn run(&self) -> &str;

    /// The line's record if it is exactly as Pathbench writes it, in less time than by `serde_json`.
    fn written(_line: &[u8]) -> Option<Self> {
        None
    }
}

macro_rules! run_lines {
    ($($line:ident $(: $written:path)?),*) => {
        $(impl RunLine for $line {
            fn run(&self) -> &str {
                &self.run
            }
            $(fn written(line: &[u8]) -> Option<Self> {
                $written(line)
            })?
        })*
    };
}

run_lines!(Sample: Self::written, Event, DeliveryLine: Self::written, MessageLine, LinkSample, DatagramLine);

/// The run that a line belongs to.
#[derive(Deserialize)]
pub(super) struct LineOwner<'a> {
    #[serde(borrow)]
    pub(super) run: Cow<'a, str>,
}

pub(super) fn write_lines<T: Serialize>(to: &mut impl Write, lines: &[T]) -> io::Result<()> {
    for line in lines {
        serde_json::to_writer(&mut *to, line)?;
        to.write_all(b"\n")?;
    }
    to.flush()
}
