//! A result as read by a test.

use super::Finished;
use pathbench_record::datagram::DatagramLine;
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::direction::{Direction, LinkDirection};
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::{LinkSample, PathRecord, Phase, ResultDocument, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::Sample;
use pathbench_trace::capture::CaptureReader;
use std::fs::File;
use std::path::Path;

/// The complete result of a `lab run`.
pub(crate) struct Measured {
    pub(crate) finished: Finished,
    pub(crate) document: ResultDocument,
    pub(crate) samples: Vec<Sample>,
    pub(crate) events: Vec<Event>,
    pub(crate) deliveries: Vec<DeliveryLine>,
    pub(crate) messages: Vec<MessageLine>,
    pub(crate) links: Vec<LinkSample>,
    pub(crate) datagrams: Vec<DatagramLine>,
}

/// Runs labs that mostly wait side by side, and returns their results in the order of `scenarios`.
pub(crate) fn measure_in_parallel<S: Sync, const N: usize>(
    scenarios: &[S; N],
    measure: impl Fn(&S) -> Measured + Sync,
) -> [Measured; N] {
    std::thread::scope(|scope| {
        let threads = scenarios.each_ref().map(|scenario| scope.spawn(|| measure(scenario)));
        threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

impl Measured {
    pub(crate) fn read(directory: &Path, finished: Finished) -> Self {
        let result = ResultDirectory::open(directory)
            .unwrap_or_else(|error| panic!("no result: {error}; {finished:#?}"));
        let samples = result.lines().unwrap();
        let events = result.lines().unwrap();
        let deliveries = result.lines().unwrap();
        let messages = result.messages().unwrap();
        let links = result.lines().unwrap();
        let datagrams = result.lines().unwrap();
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
            datagrams: datagrams.items,
            document: result.document,
        }
    }

    /// Checks the exit code; prints the output if it differs.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.finished.code, Some(code), "{:#?}", self.finished);
        self
    }

    /// The runs, without those of which a later attempt was made.
    fn last_attempts(&self) -> impl Iterator<Item = &RunRecord> {
        let runs = &self.document.runs;
        runs.iter().filter(|run| {
            let is_later = |other: &RunRecord| other.attempt_number() > run.attempt_number();
            !runs.iter().any(|other| other.planned_id() == run.planned_id() && is_later(other))
        })
    }

    /// The last attempt at the only run of a label; it must be valid.
    #[track_caller]
    pub(crate) fn run(&self, label: &str) -> &RunRecord {
        let mut runs = self.last_attempts().filter(|run| run.label == label);
        let run = runs.next().unwrap_or_else(|| panic!("no run of {label}"));
        assert!(runs.next().is_none(), "several runs of {label}");
        assert!(run.valid, "{label}: {:?}", run.invalid_because);
        run
    }

    /// The last attempt at the only run of a label with that pattern; it must be valid.
    #[track_caller]
    pub(crate) fn run_of(&self, label: &str, pattern: &str) -> &RunRecord {
        let mut runs = self.last_attempts().filter(|run| run.label == label && run.pattern == pattern);
        let run = runs.next().unwrap_or_else(|| panic!("no run of {label} {pattern}"));
        assert!(runs.next().is_none(), "several runs of {label} {pattern}");
        assert!(run.valid, "{label} {pattern}: {:?}", run.invalid_because);
        run
    }

    /// The events of a run from one source.
    pub(crate) fn events_of(&self, run: &RunRecord, source: EventSource) -> Vec<&Event> {
        self.events.iter().filter(|event| event.run == run.id && event.source == source).collect()
    }

    /// Bytes of a run's delivery lines.
    pub(crate) fn delivered(&self, run: &RunRecord, direction: Direction) -> u64 {
        let lines = self.deliveries.iter().filter(|line| line.run == run.id && line.direction == direction);
        lines.map(|line| line.bytes).sum()
    }
}

/// A packet that entered an emulated link.
pub(crate) struct CapturedPacket {
    pub(crate) direction: LinkDirection,
    /// When it entered the link, in nanoseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) ip: Vec<u8>,
    /// The comment of the capture: `delivered after 10.012 ms (due 10.000)`, `dropped: loss, after 0.000 ms`.
    pub(crate) fate: String,
}

/// The packets of the capture of an emulated link.
#[track_caller]
pub(crate) fn read_capture(file: &Path) -> Vec<CapturedPacket> {
    let mut reader = CaptureReader::open(File::open(file).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(batch) = reader.batch().unwrap() {
        packets.extend(batch.iter().map(|frame| CapturedPacket {
            direction: if frame.interface == 0 { LinkDirection::Forward } else { LinkDirection::Reverse },
            at_ns: frame.time_ns,
            ip: frame.bytes.to_vec(),
            fate: String::from_utf8_lossy(frame.comment.unwrap_or_default()).into_owned(),
        }));
    }
    packets
}

#[track_caller]
pub(crate) fn path<'a>(run: &'a RunRecord, name: &str) -> &'a PathRecord {
    run.paths.iter().find(|path| path.name == name).unwrap_or_else(|| panic!("no path {name}: {run:#?}"))
}

#[track_caller]
pub(crate) fn phase<'a>(run: &'a RunRecord, name: &str) -> &'a Phase {
    run.phases.iter().find(|phase| phase.name == name).unwrap_or_else(|| panic!("no phase {name}: {run:#?}"))
}

/// Goodput of a run; panics without one.
#[track_caller]
pub(crate) fn goodput(run: &RunRecord) -> f64 {
    run.goodput_mbps.unwrap_or_else(|| panic!("no goodput: {run:#?}"))
}
