//! What a walk comes to: a run per transport, put together of both ends' records.

use super::journal::RunLog;
use super::plan::interactive;
use super::surroundings::Surroundings;
use super::test::Finished;
use super::walk::{Walk, Walked};
use crate::client::clocks::Clocks;
use crate::client::network::CLIENT;
use crate::client::{mptcp, parameters};
use pathbench_lab::assembly::{AssembledRun, ClientPath, Evidence, RunSetting, assemble};
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{ProbeLine, ProbeRecord, ResultDocument};
use pathbench_record::metrics;
use pathbench_record::sample::Side;
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;
use std::time::Duration;

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
        let mut asked = parameters::asked(PATTERN, &parameters);
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
