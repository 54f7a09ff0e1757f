//! A result as a test looks at it.

use super::Finished;
use pathbench_record::direction::Direction;
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::{LinkSample, PathRecord, Phase, ResultDocument, RunRecord};
use pathbench_record::event::{DeliveryLine, Event, EventSource};
use pathbench_record::message::MessageLine;
use pathbench_record::sample::Sample;
use std::path::Path;

/// The result of a `lab run`, read back whole.
pub(crate) struct Measured {
    pub(crate) finished: Finished,
    pub(crate) document: ResultDocument,
    pub(crate) samples: Vec<Sample>,
    pub(crate) events: Vec<Event>,
    pub(crate) deliveries: Vec<DeliveryLine>,
    pub(crate) messages: Vec<MessageLine>,
    pub(crate) links: Vec<LinkSample>,
}

impl Measured {
    pub(crate) fn read(directory: &Path, finished: Finished) -> Self {
        let result = ResultDirectory::open(directory)
            .unwrap_or_else(|error| panic!("no result: {error}; {finished:#?}"));
        let samples = result.samples().unwrap();
        let events = result.events().unwrap();
        let deliveries = result.deliveries().unwrap();
        let messages = result.messages().unwrap();
        let links = result.links().unwrap();
        for warning in [&samples.warning, &events.warning, &deliveries.warning, &messages.warning] {
            assert_eq!(*warning, None);
        }
        Self {
            finished,
            samples: samples.items,
            events: events.items,
            deliveries: deliveries.items,
            messages: messages.items,
            links: links.items,
            document: result.into_document(),
        }
    }

    /// Checks the exit code; shows what was said when it is another.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.finished.code, Some(code), "{:#?}", self.finished);
        self
    }

    /// The only run of a label, which is valid.
    #[track_caller]
    pub(crate) fn run(&self, label: &str) -> &RunRecord {
        let mut runs = self.document.runs.iter().filter(|run| run.label == label);
        let run = runs.next().unwrap_or_else(|| panic!("no run of {label}"));
        assert!(runs.next().is_none(), "several runs of {label}");
        assert!(run.valid, "{label}: {:?}", run.invalid_because);
        run
    }

    /// The only run of a label with that pattern, which is valid.
    #[track_caller]
    pub(crate) fn run_of(&self, label: &str, pattern: &str) -> &RunRecord {
        let mut runs = self.document.runs.iter().filter(|run| run.label == label && run.pattern == pattern);
        let run = runs.next().unwrap_or_else(|| panic!("no run of {label} {pattern}"));
        assert!(runs.next().is_none(), "several runs of {label} {pattern}");
        assert!(run.valid, "{label} {pattern}: {:?}", run.invalid_because);
        run
    }

    /// What happened in a run, by who says so.
    pub(crate) fn events_of(&self, run: &RunRecord, source: EventSource) -> Vec<&Event> {
        self.events.iter().filter(|event| event.run == run.id && event.source == source).collect()
    }

    /// Bytes of a run's delivery lines.
    pub(crate) fn delivered(&self, run: &RunRecord, direction: Direction) -> u64 {
        let lines = self.deliveries.iter().filter(|line| line.run == run.id && line.direction == direction);
        lines.map(|line| line.bytes).sum()
    }
}

/// The path of that name.
#[track_caller]
pub(crate) fn path<'a>(run: &'a RunRecord, name: &str) -> &'a PathRecord {
    run.paths.iter().find(|path| path.name == name).unwrap_or_else(|| panic!("no path {name}: {run:#?}"))
}

/// The phase of that name.
#[track_caller]
pub(crate) fn phase<'a>(run: &'a RunRecord, name: &str) -> &'a Phase {
    run.phases.iter().find(|phase| phase.name == name).unwrap_or_else(|| panic!("no phase {name}: {run:#?}"))
}

/// Goodput of a run that must have one.
#[track_caller]
pub(crate) fn goodput(run: &RunRecord) -> f64 {
    run.goodput_mbps.unwrap_or_else(|| panic!("no goodput: {run:#?}"))
}
