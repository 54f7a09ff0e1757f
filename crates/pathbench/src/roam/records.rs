//! Written as it comes: what is known of each run goes into the result while the run goes on, so that neither the end of a
//! network nor that of the process takes it away.

use super::plan::interactive;
use super::surroundings::Surroundings;
use super::test::{Finished, Fresh};
use super::walk::{Walk, Walked};
use crate::client::network::CLIENT;
use crate::client::{self, Clocks, mptcp};
use pathbench_analysis::assembly::{
    AssembledRun, ClientPath, Evidence, LinesSoFar, Notification, RunSetting, SeenEvent, assemble,
};
use pathbench_analysis::metrics;
use pathbench_record::connection::PathEvent;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{ProbeLine, ProbeRecord, ResultDocument, RunRecord};
use pathbench_record::end::{EndRecord, MessageRecord, PathSample};
use pathbench_record::sample::Side;
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
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

/// The pattern's name in results.
const PATTERN: &str = "interactive";

impl Walk<'_> {
    /// What the assembly of a run has to know; `duration` is what the server granted.
    pub(super) fn setting(
        &self,
        log: &RunLog,
        surroundings: &Surroundings,
        duration: Option<Duration>,
    ) -> RunSetting {
        let duration = duration.or_else(|| self.plan.durations.first().copied()).unwrap_or_default();
        let parameters = interactive(duration);
        let mut asked = client::asked_parameters(PATTERN, &parameters);
        if !self.plan.timed {
            // The duration was the server's bound, and the user's wish another one.
            asked.remove("duration_ms");
        }
        let paths = surroundings.with_all_addresses(&log.ways);
        RunSetting {
            variant: BTreeMap::new(),
            client: CLIENT.to_owned(),
            server: "server".to_owned(),
            server_address: Some(self.server.to_string()),
            pattern: PATTERN.to_owned(),
            parameters,
            asked,
            other_interfaces: surroundings.other_interfaces(&paths),
            mptcp: mptcp::kernel_setup(&paths),
            paths,
            far_interfaces: Vec::new(),
            scheduler: self.plan.scheduler.clone(),
        }
    }

    /// Puts the runs together and writes them anew, in place of what was written while they went on.
    pub(super) fn write_runs(
        &self,
        walked: Walked,
        clocks: &mut Clocks,
        counters: Option<&BTreeMap<String, i64>>,
        writer: &mut ResultWriter,
        document: &mut ResultDocument,
    ) -> Result<(), WriteError> {
        let Walked { logs, finished, lateness, surroundings, probes, ways, begun, .. } = walked;
        let probes = probe_records(&ways, &probes);
        let mut touched: Vec<String> =
            surroundings.changes.iter().map(|change| change.words.clone()).collect();
        touched.dedup();
        writer.begin_anew()?;
        document.runs.clear();
        for ((log, finished), lateness) in logs.iter().zip(finished).zip(lateness) {
            let Some(finished) = finished else { continue };
            let setting = self.setting(log, &surroundings, Some(finished.duration));
            let has_server = finished.outcome.server.is_some();
            let mut run = put_together(log, &setting, &surroundings, finished, clocks, counters);
            let notes = &mut run.assembled.record.notes;
            if let Some(zero) = run.first_due {
                let zero_ms = zero.ms_from(begun);
                notes.push(format!("its clock began {zero_ms:.0} ms after that of the probes"));
                if !has_server {
                    notes.push(half(lateness));
                }
            }
            let record = &mut run.assembled.record;
            record.probes.clone_from(&probes);
            // That networks come and go is what a walk is for: it makes no run of it invalid.
            record.touched_by.clone_from(&touched);
            let AssembledRun { record, samples, events, deliveries, messages } = run.assembled;
            writer.append_run(&samples, &events, &deliveries)?;
            writer.append_messages(&messages)?;
            document.runs.push(record);
        }
        summarise_runs(document);
        Ok(())
    }
}

/// A run, and when its first message was due.
struct PutTogether {
    assembled: AssembledRun,
    first_due: Option<Timestamp>,
}

/// What is missing without the server's record, and what is known instead.
fn half(lateness: Option<Duration>) -> String {
    let known = lateness.map_or_else(String::new, |late| {
        format!("; its requests came up to {:.0} ms late, by their own pace", late.as_secs_f64() * 1e3)
    });
    format!("only the client's half is here: the delays of the download are the server's to know{known}")
}

fn put_together(
    log: &RunLog,
    setting: &RunSetting,
    surroundings: &Surroundings,
    finished: Finished,
    clocks: &mut Clocks,
    counters: Option<&BTreeMap<String, i64>>,
) -> PutTogether {
    let Finished { outcome, note, .. } = finished;
    let client = outcome.client;
    let (server, clock_note) = outcome.server.map(|server| clocks.on_clients(&client, server)).unzip();
    let ends = [Some(&client), server.as_ref()].into_iter().flatten();
    let first_due = ends.flat_map(|end| &end.messages).map(|message| message.due).min();
    let is_mptcp = log.label.transport == Transport::Mptcp;
    let mut assembled = assemble(&Evidence {
        id: log.id.clone(),
        setting,
        label: &log.label,
        repetition: 1,
        gave_up: outcome.hung.map(|_| client.ended),
        client: Some(client),
        server,
        completed: outcome.completed,
        error: outcome.error.map(|error| error.to_string()),
        links: Vec::new(),
        invalid_because: Vec::new(),
        executed: Vec::new(),
        notifications: log.own(&surroundings.events),
        counters: counters
            .filter(|_| is_mptcp)
            .map(|counters| (Side::Client, counters.clone()))
            .into_iter()
            .collect(),
    });
    assembled.record.notes.extend(clock_note.flatten());
    assembled.record.notes.extend(note);
    PutTogether { assembled, first_due }
}

/// What came of the probes of each path.
pub(super) fn probe_records(ways: &[ClientPath], lines: &[ProbeLine]) -> Vec<ProbeRecord> {
    ways.iter().map(|way| metrics::probes(&way.name, lines)).collect()
}

/// Fills the summary of the runs as they are.
pub(super) fn summarise_runs(document: &mut ResultDocument) {
    document.summary.groups = summarise(&document.runs);
    document.summary.mobility = summarise_mobility(&document.runs);
}
