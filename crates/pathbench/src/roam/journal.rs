//! Written as it comes: what is known of each run goes into the result while the run goes on, so that neither the end of a
//! network nor that of the process takes it away.

use super::test::Fresh;
use pathbench_lab::assembly::{
    ClientPath, Evidence, LinesSoFar, Notification, RunSetting, SeenEvent, assemble,
};
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::RunRecord;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::record::{EndRecord, MessageRecord, PathSample};
use pathbench_transport::PathEvent;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A message that waits longer than this for its acknowledgement is written down as one that waits.
const LATE: Duration = Duration::from_secs(1);
/// Samples kept for the figures of a run that was never finished; beyond, every other one goes.
const MOST_SAMPLES: usize = 20_000;
/// What an unfinished result says of each of its runs.
const UNFINISHED: &str = "Pathbench was ended before the run was over";

/// What is known of one run while it goes on.
pub(super) struct RunLog {
    pub(super) id: String,
    pub(super) label: TransportLabel,
    /// The ways at its begin, the one to start on first.
    pub(super) ways: Vec<ClientPath>,
    /// The latest record so far.
    so_far: Option<EndRecord>,
    /// The zero of the lines' clock: when the first message was due.
    origin: Option<Timestamp>,
    /// All messages, with the last that is known of each.
    messages: BTreeMap<u32, MessageRecord>,
    /// Those of which the last word is not written.
    open: BTreeMap<u32, MessageRecord>,
    /// When they were heard of.
    heard: Timestamp,
    /// Those of them that are written as waiting.
    written_as_waiting: BTreeSet<u32>,
    samples: Vec<PathSample>,
    path_events: Vec<PathEvent>,
    /// How many of the surroundings' events are written.
    events_written: usize,
    kept_samples: Vec<PathSample>,
}

impl RunLog {
    pub(super) fn new(id: String, transport: Transport, ways: Vec<ClientPath>) -> Self {
        Self {
            id,
            label: TransportLabel { transport, path: None },
            ways,
            so_far: None,
            origin: None,
            messages: BTreeMap::new(),
            open: BTreeMap::new(),
            heard: Timestamp::default(),
            written_as_waiting: BTreeSet::new(),
            samples: Vec::new(),
            path_events: Vec::new(),
            events_written: 0,
            kept_samples: Vec::new(),
        }
    }

    /// Takes in what the test has seen.
    pub(super) fn hear(&mut self, fresh: Fresh) {
        if let Some(first) = fresh.messages.first() {
            self.origin.get_or_insert(first.due);
        }
        self.heard = fresh.at;
        self.messages.extend(fresh.messages.iter().map(|message| (message.sequence, *message)));
        self.open.extend(fresh.messages.into_iter().map(|message| (message.sequence, message)));
        self.kept_samples.extend(fresh.samples.iter().cloned());
        if self.kept_samples.len() > MOST_SAMPLES {
            thin(&mut self.kept_samples);
        }
        self.samples.extend(fresh.samples);
        self.path_events.extend(fresh.path_events);
        self.so_far = fresh.so_far.or_else(|| self.so_far.take());
    }

    /// What of the surroundings' events belongs to this run: subflows are those of mptcp alone.
    pub(super) fn own(&self, events: &[SeenEvent]) -> Vec<SeenEvent> {
        let is_mptcp = self.label.transport == Transport::Mptcp;
        let own = |event: &&SeenEvent| is_mptcp || !matches!(event.what, Notification::Mptcp(_));
        events.iter().filter(own).cloned().collect()
    }

    /// Appends what is not written yet.
    pub(super) fn write(
        &mut self,
        writer: &mut ResultWriter,
        setting: &RunSetting,
        events: &[SeenEvent],
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let (Some(so_far), Some(origin)) = (&self.so_far, self.origin) else { return Ok(()) };
        let record = EndRecord {
            ended: now,
            messages: Vec::new(),
            samples: std::mem::take(&mut self.samples),
            path_events: std::mem::take(&mut self.path_events),
            streams: Vec::new(),
            ..empty_of(so_far)
        };
        let record = EndRecord { messages: self.messages_to_write(now), ..record };
        let news = self.own(events.get(self.events_written..).unwrap_or_default());
        self.events_written = events.len();
        let evidence = self.evidence(setting, Some(record), news);
        let lines = LinesSoFar::of(&evidence, origin);
        writer.append_run(&lines.samples, &lines.events, &[])?;
        writer.append_messages(&lines.messages)
    }

    /// Those with their last word, and those that have been waiting for a while.
    fn messages_to_write(&mut self, now: Timestamp) -> Vec<MessageRecord> {
        let mut messages = Vec::new();
        for (&sequence, &message) in &self.open {
            let settled = message.answered.is_some();
            if settled || (now.since(message.due) >= LATE && self.written_as_waiting.insert(sequence)) {
                messages.push(message);
            }
        }
        self.open.retain(|_, message| message.answered.is_none());
        messages
    }

    /// The run's record as far as it is known; `None` before it began.
    pub(super) fn record(&self, setting: &RunSetting, events: &[SeenEvent]) -> Option<RunRecord> {
        let mut client = self.so_far.clone()?;
        client.samples.clone_from(&self.kept_samples);
        client.messages = self.messages.values().copied().collect();
        client.ended = self.heard;
        let evidence = self.evidence(setting, Some(client), self.own(events));
        Some(assemble(&evidence).record)
    }

    fn evidence<'a>(
        &'a self,
        setting: &'a RunSetting,
        client: Option<EndRecord>,
        notifications: Vec<SeenEvent>,
    ) -> Evidence<'a> {
        Evidence {
            id: self.id.clone(),
            setting,
            label: &self.label,
            repetition: 1,
            client,
            server: None,
            completed: false,
            error: Some(UNFINISHED.to_owned()),
            gave_up: None,
            links: Vec::new(),
            invalid_because: Vec::new(),
            executed: Vec::new(),
            notifications,
            counters: BTreeMap::new(),
        }
    }
}

/// A record of the same test in which nothing was sent or received.
fn empty_of(record: &EndRecord) -> EndRecord {
    let nothing = || pathbench_record::delivery::DeliverySeries::starting_at(record.started);
    EndRecord {
        side: record.side,
        test: record.test,
        transport: record.transport,
        parameters: record.parameters.clone(),
        started: record.started,
        ended: record.ended,
        deliveries: nothing(),
        offered: nothing(),
        messages: Vec::new(),
        path_events: Vec::new(),
        handshake: record.handshake,
        completion: None,
        rate_limit_bps: None,
        streams: Vec::new(),
        samples: Vec::new(),
        samples_thinned_by: 1,
        completed: false,
        errors: Vec::new(),
    }
}

/// Drops the samples of every other moment.
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
