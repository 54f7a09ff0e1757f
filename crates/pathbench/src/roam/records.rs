//! The records of each run, written while the run goes on, so that neither a lost network nor a lost process takes them
//! away; and the runs that follow from both ends' records at the end.

use super::context::PathContext;
use super::plan::interactive;
use super::run::{Recorded, Roam};
use super::test::{Finished, Fresh};
use crate::client::{Clocks, TestEvidence};
use pathbench_analysis::assembly::{
    AssembledRun, ClientPath, Evidence, LinesSoFar, Notification, RunSetting, SeenEvent, assemble,
};
use pathbench_analysis::metrics;
use pathbench_record::connection::PathEvent;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{ProbeLine, ProbeRecord, ResultDocument, RunRecord};
use pathbench_record::end::{EndRecord, MessageRecord, PathSample};
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A message that is unacknowledged for longer than this is written as such.
const UNACKNOWLEDGED: Duration = Duration::from_secs(1);
/// Samples kept for the figures of an unfinished run; beyond, every other moment is dropped.
const MOST_SAMPLES: usize = 20_000;
const UNFINISHED: &str = "Pathbench was ended before the run was over";

/// Everything recorded of one run while it goes on.
pub(super) struct RunLog {
    pub(super) id: String,
    pub(super) label: TransportLabel,
    /// The paths at the start, the first one first.
    pub(super) paths: Vec<ClientPath>,
    so_far: Option<EndRecord>,
    /// Zero of the clock of all lines: when the first message was due.
    origin: Option<Timestamp>,
    /// All messages, in their latest state.
    messages: BTreeMap<u32, MessageRecord>,
    /// Messages whose final state is not written.
    open: BTreeMap<u32, MessageRecord>,
    /// When the latest events came.
    updated: Timestamp,
    /// Open messages that are written as unacknowledged.
    written_unacknowledged: BTreeSet<u32>,
    samples: Vec<PathSample>,
    path_events: Vec<PathEvent>,
    /// How many of the context's events are written.
    events_written: usize,
    kept_samples: Vec<PathSample>,
}

impl RunLog {
    pub(super) fn new(id: String, transport: Transport, paths: Vec<ClientPath>) -> Self {
        Self {
            id,
            label: TransportLabel { transport, path: None },
            paths,
            so_far: None,
            origin: None,
            messages: BTreeMap::new(),
            open: BTreeMap::new(),
            updated: Timestamp::default(),
            written_unacknowledged: BTreeSet::new(),
            samples: Vec::new(),
            path_events: Vec::new(),
            events_written: 0,
            kept_samples: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, fresh: Fresh) {
        if let Some(first) = fresh.messages.first() {
            self.origin.get_or_insert(first.due);
        }
        self.updated = fresh.at;
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

    /// The context's events of this run: only mptcp has subflows.
    pub(super) fn own(&self, events: &[SeenEvent]) -> Vec<SeenEvent> {
        let is_mptcp = self.label.transport == Transport::Mptcp;
        let own = |event: &&SeenEvent| is_mptcp || !matches!(event.what, Notification::Mptcp(_));
        events.iter().filter(own).cloned().collect()
    }

    /// Appends everything new.
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

    /// Messages in their final state, and those that have been unacknowledged for a while.
    fn messages_to_write(&mut self, now: Timestamp) -> Vec<MessageRecord> {
        let mut messages = Vec::new();
        for (&sequence, &message) in &self.open {
            let settled = message.answered.is_some();
            if settled
                || (now.since(message.due) >= UNACKNOWLEDGED && self.written_unacknowledged.insert(sequence))
            {
                messages.push(message);
            }
        }
        self.open.retain(|_, message| message.answered.is_none());
        messages
    }

    /// The run's record so far; `None` before it began.
    pub(super) fn record(&self, setting: &RunSetting, events: &[SeenEvent]) -> Option<RunRecord> {
        let mut client = self.so_far.clone()?;
        client.samples.clone_from(&self.kept_samples);
        client.messages = self.messages.values().copied().collect();
        client.ended = self.updated;
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

impl Roam<'_> {
    /// The run's setting; `duration` is what the server granted.
    pub(super) fn setting(
        &self,
        log: &RunLog,
        context: &PathContext,
        duration: Option<Duration>,
    ) -> RunSetting {
        let duration = duration.or_else(|| self.plan.durations.first().copied()).unwrap_or_default();
        let paths = context.monitor.with_all_addresses(&log.paths);
        let others = context.other_interfaces(&paths);
        let server = &self.reached.server;
        let mut setting = self.client.run_setting(server, PATTERN, &interactive(duration), paths, others);
        if !self.plan.timed {
            // The duration is the server's limit, not the user's choice.
            setting.asked.remove("duration_ms");
        }
        setting
    }

    /// Assembles the runs from both ends' records, and writes them in place of what was written during the tests.
    pub(super) fn write_runs(
        &self,
        recorded: Recorded,
        clocks: &mut Clocks,
        counters: Option<&BTreeMap<String, i64>>,
        writer: &mut ResultWriter,
        document: &mut ResultDocument,
    ) -> Result<(), WriteError> {
        let Recorded { logs, finished, longest_delays, context, probes, paths, begun, .. } = recorded;
        let probes = probe_records(&paths, &probes);
        let mut changes = context.monitor.changes.clone();
        changes.dedup();
        writer.begin_anew()?;
        document.runs.clear();
        for ((log, finished), longest_delay) in logs.iter().zip(finished).zip(longest_delays) {
            let Some(Finished { outcome, duration, note }) = finished else { continue };
            let setting = self.setting(log, &context, Some(duration));
            let has_server = outcome.server.is_some();
            let is_mptcp = log.label.transport == Transport::Mptcp;
            let evidence = TestEvidence {
                id: log.id.clone(),
                label: &log.label,
                repetition: 1,
                setting: &setting,
                outcome,
                notifications: log.own(&context.monitor.events),
                counters: counters.filter(|_| is_mptcp).cloned(),
            };
            let (AssembledRun { mut record, samples, events, deliveries, messages }, first_due) =
                evidence.assemble(clocks);
            record.notes.extend(note);
            if let Some(zero) = first_due {
                let zero_ms = zero.ms_from(begun);
                record.notes.push(format!("its clock began {zero_ms:.0} ms after that of the probes"));
                if !has_server {
                    record.notes.push(without_server(longest_delay));
                }
            }
            record.probes.clone_from(&probes);
            // Changes of the network are what the command records: they do not invalidate a run.
            record.touched_by.clone_from(&changes);
            writer.append_run(&samples, &events, &deliveries)?;
            writer.append_messages(&messages)?;
            document.runs.push(record);
        }
        summarise_runs(document);
        Ok(())
    }
}

fn without_server(longest_delay: Option<Duration>) -> String {
    let known = longest_delay.map_or_else(String::new, |delay| {
        format!(
            "; the server's requests were delayed by up to {:.0} ms, by their own pace",
            delay.as_secs_f64() * 1e3
        )
    });
    format!("the run has the client's record only: the delays of the download are in the server's{known}")
}

pub(super) fn probe_records(paths: &[ClientPath], lines: &[ProbeLine]) -> Vec<ProbeRecord> {
    paths.iter().map(|path| metrics::probes(&path.name, lines)).collect()
}

pub(super) fn summarise_runs(document: &mut ResultDocument) {
    document.summary.groups = summarise(&document.runs);
    document.summary.mobility = summarise_mobility(&document.runs);
}
