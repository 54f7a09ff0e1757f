//! The records of one run on a time axis that begins with the first byte of data.

use pathbench_analysis::metrics::PathCurves;
use pathbench_record::datagram::DatagramLine;
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::directory::RunLines;
use pathbench_record::document::{LinkSample, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::sample::{PathFigures, Sample};
use pathbench_record::time::Timestamp;

/// Later times (eleven days) come from damaged records and are left out of pictures.
pub(crate) const LATEST_MS: f64 = 1e9;

/// Zero of the time axis, chosen so that earlier times are representable.
pub(crate) const ZERO: Timestamp = Timestamp::from_nanos(1 << 60);

/// The records of one run. Each list is sorted by time and contains only times between 0 and [`LATEST_MS`].
#[derive(Debug, Default)]
pub(crate) struct RunData {
    pub(crate) samples: Vec<Sample>,
    pub(crate) events: Vec<Event>,
    pub(crate) deliveries: Vec<DeliveryLine>,
    pub(crate) messages: Vec<MessageLine>,
    /// As messages that are due when they are sent; a lost one has no delay.
    pub(crate) datagrams: Vec<MessageLine>,
    pub(crate) links: Vec<LinkSample>,
}

impl RunData {
    pub(crate) fn from_lines(lines: RunLines) -> Self {
        Self {
            samples: in_order(lines.samples, |line| line.t_ms),
            events: in_order(lines.events, |line| line.t_ms),
            deliveries: in_order(lines.deliveries, |line| line.t_ms),
            messages: in_order(lines.messages, |line| line.due_ms),
            datagrams: in_order(lines.datagrams.into_iter().filter_map(message).collect(), |line| {
                line.due_ms
            }),
            links: in_order(lines.links, |line| line.t_ms),
        }
    }

    pub(crate) fn scenario_events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.source == EventSource::Scenario)
    }

    /// When the application gave up. The connection cannot react to later events.
    pub(crate) fn gave_up_ms(&self) -> Option<f64> {
        let gave_up =
            |event: &&Event| event.source == EventSource::Observer && event.kind == EventKind::GaveUp;
        self.events.iter().find(gave_up).map(|event| event.t_ms)
    }
}

fn message(line: DatagramLine) -> Option<MessageLine> {
    let due_ms = line.sent_ms?;
    Some(MessageLine {
        run: String::new(),
        direction: line.direction,
        sequence: line.sequence,
        probe: None,
        path: Some(line.path),
        phase: None,
        due_ms,
        sent_ms: line.sent_ms,
        acknowledged_ms: line.received_ms,
        answered_ms: None,
        delay_ms: line.received_ms.map_or(0.0, |received_ms| received_ms - due_ms),
        unacknowledged: line.received_ms.is_none(),
    })
}

/// Whether the one-way delays of the run's datagrams are known.
pub(crate) fn has_delays(run: &RunRecord) -> bool {
    run.datagrams.values().any(|record| record.all.delay.is_some())
}

pub(crate) type Counter = fn(&PathFigures) -> u64;

pub(crate) fn path_curves<'a>(samples: impl Iterator<Item = &'a Sample>, counter: Counter) -> PathCurves {
    PathCurves::from_samples(samples, ZERO, counter)
}

/// The lines to show, sorted by time.
fn in_order<T>(mut lines: Vec<T>, t_ms: fn(&T) -> f64) -> Vec<T> {
    // Also false for NaN.
    lines.retain(|line| (-1e4..=LATEST_MS).contains(&t_ms(line)));
    lines.sort_by(|a, b| t_ms(a).total_cmp(&t_ms(b)));
    lines
}
