//! What the suite learns as it goes: clocks, how long runs take, what stopped working.

use super::display::Display;
use super::run::{Lookout, Seen};
use crate::client::clocks::Clocks;
use pathbench_lab::assembly::{AssembledRun, Evidence, RunSetting, assemble};
use pathbench_lab::order::ScheduledRun;
use pathbench_record::sample::Side;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientError, ClientOutcome};
use pathbench_traffic::protocol::RefusalCode;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A transport that could not be opened this many times in a row is given up.
const FAILURES: u32 = 2;

/// What the suite knows by now.
#[derive(Default)]
pub(super) struct Knowledge {
    pub(super) clocks: Clocks,
    /// By transport and pattern, how long runs took.
    pub(super) took: BTreeMap<(Transport, usize), Vec<Duration>>,
    pub(super) failures: BTreeMap<Transport, u32>,
    pub(super) given_up: BTreeSet<Transport>,
    /// Ids of the runs that began with several ways to the server.
    pub(super) with_several_ways: BTreeSet<String>,
    pub(super) notes: Vec<String>,
    pub(super) refused: bool,
}

impl Knowledge {
    /// What has changed since the run before.
    pub(super) fn look_before(&mut self, number: usize, lookout: &mut Lookout, display: &Display) {
        let mut seen = Seen::default();
        lookout.look(&mut seen, display);
        let words: Vec<String> = seen.changes.into_iter().map(|change| change.words).collect();
        if !words.is_empty() {
            self.notes.push(format!("the network changed before run {number}: {}", words.join(", ")));
        }
    }

    /// What a run tells about those to come.
    pub(super) fn learn(
        &mut self,
        number: usize,
        scheduled: &ScheduledRun,
        outcome: &ClientOutcome,
        took: Duration,
        display: &Display,
    ) {
        let transport = scheduled.label.transport;
        match &outcome.error {
            None => {
                self.took.entry((transport, scheduled.pattern)).or_default().push(took);
                self.failures.remove(&transport);
            }
            Some(ClientError::Refused { code, message, .. }) if *code != RefusalCode::Busy => {
                self.refused = true;
                self.notes.push(format!("the server refused run {number}: {message}"));
            }
            Some(ClientError::Broken { .. }) => {}
            Some(error) => {
                let failures = self.failures.entry(transport).or_default();
                *failures += 1;
                if *failures >= FAILURES {
                    self.given_up.insert(transport);
                    let words =
                        format!("{transport} became unusable and was given up after run {number}: {error}");
                    display.warn(&format!("pathbench: {words}"));
                    self.notes.push(words);
                }
            }
        }
    }

    /// Puts a run together, the server's times on the client's clock.
    pub(super) fn assemble(
        &mut self,
        number: usize,
        scheduled: &ScheduledRun,
        setting: &RunSetting,
        outcome: ClientOutcome,
        seen: &Seen,
        counters: Option<BTreeMap<String, i64>>,
    ) -> AssembledRun {
        let ClientOutcome { client, server, completed, error, hung } = outcome;
        let (server, note) = server.map(|server| self.clocks.on_clients(&client, server)).unzip();
        let pattern = &setting.pattern;
        let mut assembled = assemble(&Evidence {
            id: format!("{number:02}-{}-{pattern}-r{}", scheduled.label, scheduled.repetition),
            setting,
            label: &scheduled.label,
            repetition: scheduled.repetition,
            gave_up: hung.map(|_| client.ended),
            client: Some(client),
            server,
            completed,
            error: error.map(|error| error.to_string()),
            links: Vec::new(),
            invalid_because: Vec::new(),
            executed: Vec::new(),
            notifications: seen.notifications.clone(),
            counters: counters.into_iter().map(|counters| (Side::Client, counters)).collect(),
        });
        assembled.record.notes.extend(note.flatten());
        assembled
    }
}
