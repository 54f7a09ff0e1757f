//! The records of each run, written during the run, so that they survive a network failure and a killed process.

use super::context::RoamContext;
use super::plan::{MESSAGE_INTERVAL, Roam, interactive};
use super::test::{Finished, TestEvent};
use crate::live::LiveRuns;
use crate::progress::bytes_per_path;
use pathbench_analysis::assembly::{
    ClientPath, Evidence, LinesSoFar, Notification, RunSetting, SeenEvent, assemble,
};
use pathbench_analysis::metrics::live::{State, TestFigures};
use pathbench_record::connection::PathEvent;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::RunRecord;
use pathbench_record::end::{EndRecord, MessageRecord, PathSample};
use pathbench_record::event::Event;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::Update;
use std::collections::BTreeMap;
use std::time::Duration;

/// A message that is unacknowledged for longer than this is recorded as unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(1);
/// Maximum number of samples kept for an unfinished run's figures; above it, every other sampling time is dropped.
const MOST_SAMPLES: usize = 20_000;
const UNFINISHED: &str = "Pathbench was ended before the run was over";

/// All records of a run in progress.
pub(super) struct RunLog {
    pub(super) id: String,
    pub(super) label: TransportLabel,
    /// The paths at the start, the initial path first.
    pub(super) paths: Vec<ClientPath>,
    pub(super) figures: TestFigures,
    /// Set when the test has ended.
    pub(super) finished: Option<Finished>,
    so_far: Option<EndRecord>,
    /// Zero of the clock of all lines: the time when the first message was due.
    origin: Option<Timestamp>,
    /// All messages in their latest state.
    messages: BTreeMap<u32, MessageRecord>,
    /// Messages without a written final state, and whether they are written as unacknowledged.
    open: BTreeMap<u32, bool>,
    /// When the latest events arrived.
    updated: Timestamp,
    samples: Vec<PathSample>,
    path_events: Vec<PathEvent>,
    /// Number of written events of the context.
    events_written: usize,
    kept_samples: Vec<PathSample>,
}

impl RunLog {
    pub(super) fn new(id: String, transport: Transport, paths: Vec<ClientPath>) -> Self {
        Self {
            id,
            label: TransportLabel { transport, path: None },
            paths,
            figures: TestFigures::new(transport.to_string(), MESSAGE_INTERVAL),
            finished: None,
            so_far: None,
            origin: None,
            messages: BTreeMap::new(),
            open: BTreeMap::new(),
            updated: Timestamp::default(),
            samples: Vec::new(),
            path_events: Vec::new(),
            events_written: 0,
            kept_samples: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, event: TestEvent, live: &mut LiveRuns) {
        match event {
            TestEvent::Transferred(transferred) => {
                self.figures.transferred(transferred.at, bytes_per_path(&transferred));
                live.progress(&self.id, transferred);
            }
            TestEvent::Update(update) => self.update(*update),
            TestEvent::SoFar(record) => self.so_far = Some(*record),
            TestEvent::Over => self.figures.state = State::Over(None),
            TestEvent::Done(finished) => {
                let error = finished.outcome.error.as_ref().map(ToString::to_string);
                self.figures.state = State::Over(error);
                self.finished = Some(*finished);
            }
        }
    }

    fn update(&mut self, update: Update) {
        let arrivals = update.arrivals.iter().map(|arrival| (arrival.sequence, arrival.at));
        self.figures.add(&update.messages, arrivals, update.is_exchanged);
        if let Some(first) = update.messages.first() {
            self.origin.get_or_insert(first.due);
        }
        self.updated = update.at;
        for message in update.messages {
            self.messages.insert(message.sequence, message);
            self.open.entry(message.sequence).or_default();
        }
        self.kept_samples.extend(update.samples.iter().cloned());
        if self.kept_samples.len() > MOST_SAMPLES {
            thin(&mut self.kept_samples);
        }
        self.samples.extend(update.samples);
        self.path_events.extend(update.path_events);
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.figures.state, State::Over(_))
    }

    /// The context's events that concern this run: only mptcp has subflows.
    pub(super) fn own(&self, events: &[SeenEvent]) -> Vec<SeenEvent> {
        let is_mptcp = self.label.transport == Transport::Mptcp;
        let own = |event: &&SeenEvent| is_mptcp || !matches!(event.what, Notification::Mptcp(_));
        events.iter().filter(own).cloned().collect()
    }

    /// Appends all new lines; returns the events among them.
    pub(super) fn write(
        &mut self,
        writer: &mut ResultWriter,
        setting: &RunSetting,
        events: &[SeenEvent],
        now: Timestamp,
    ) -> Result<Vec<Event>, WriteError> {
        let (Some(so_far), Some(origin)) = (self.so_far.clone(), self.origin) else { return Ok(Vec::new()) };
        let nothing = DeliverySeries::starting_at(so_far.started);
        let record = EndRecord {
            ended: now,
            messages: self.messages_to_write(now),
            samples: std::mem::take(&mut self.samples),
            path_events: std::mem::take(&mut self.path_events),
            deliveries: nothing.clone(),
            offered: nothing,
            ..so_far
        };
        let new_events = self.own(events.get(self.events_written..).unwrap_or_default());
        self.events_written = events.len();
        let lines = LinesSoFar::from_evidence(&self.evidence(setting, record, new_events), origin);
        writer.append(&lines.samples)?;
        writer.append(&lines.events)?;
        writer.append(&lines.messages)?;
        Ok(lines.events)
    }

    /// Messages in their final state, and messages that have been unacknowledged for longer than [`UNACKNOWLEDGED`].
    fn messages_to_write(&mut self, now: Timestamp) -> Vec<MessageRecord> {
        let mut to_write = Vec::new();
        self.open.retain(|sequence, is_written| {
            let Some(message) = self.messages.get(sequence) else { return false };
            let is_final = message.answered.is_some();
            if is_final || (!*is_written && now.duration_since(message.due) >= UNACKNOWLEDGED) {
                to_write.push(*message);
                *is_written = true;
            }
            !is_final
        });
        to_write
    }

    /// The run's record so far; `None` before the run began.
    pub(super) fn record(&self, setting: &RunSetting, events: &[SeenEvent]) -> Option<RunRecord> {
        let mut client = self.so_far.clone()?;
        client.samples.clone_from(&self.kept_samples);
        client.messages = self.messages.values().copied().collect();
        client.ended = self.updated;
        let evidence = self.evidence(setting, client, self.own(events));
        Some(assemble(&evidence).record)
    }

    fn evidence<'a>(
        &'a self,
        setting: &'a RunSetting,
        client: EndRecord,
        notifications: Vec<SeenEvent>,
    ) -> Evidence<'a> {
        Evidence {
            client: Some(client),
            error: Some(UNFINISHED.to_owned()),
            notifications,
            ..Evidence::new(self.id.clone(), setting, &self.label, 1)
        }
    }
}

/// Drops the samples of every other sampling time.
fn thin(samples: &mut Vec<PathSample>) {
    let mut moment = None;
    let mut keep = false;
    samples.retain(|sample| {
        if moment != Some(sample.at) {
            (moment, keep) = (Some(sample.at), !keep);
        }
        keep
    });
}

/// The pattern's name in results.
pub(super) const PATTERN: &str = "interactive";

impl Roam<'_> {
    /// The run's setting; `duration` is the duration that the server granted.
    pub(super) fn setting(
        &self,
        log: &RunLog,
        context: &RoamContext,
        duration: Option<Duration>,
    ) -> RunSetting {
        let duration = duration.or_else(|| self.plan.durations.first().copied()).unwrap_or_default();
        let paths = context.monitor.with_all_addresses(&log.paths);
        let others = context.other_interfaces(&paths);
        let (server, network) = (&self.reached.server, &context.monitor.network);
        let mut setting = self.client.run_setting(server, PATTERN, &interactive(duration), paths, network);
        setting.other_interfaces = others;
        if !self.plan.timed {
            // The duration is the server's limit, not the user's choice.
            setting.asked.remove("duration_ms");
        }
        setting
    }
}
