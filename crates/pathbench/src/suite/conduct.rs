//! The suite's runs in their order: each is made, put together, written down, and judged by what happened meanwhile.

use super::display::{Display, in_words};
use super::knowledge::Knowledge;
use super::plan::{SuitePattern, SuitePlan};
use super::run::{self, Lookout, Seen};
use crate::client::address::ServerName;
use crate::client::approach::Approach;
use crate::client::clocks::Clocks;
use crate::client::network::{CLIENT, Change};
use crate::client::ways::{self, HostNetwork};
use crate::client::{Client, Target, clocks, mptcp};
use crate::exit::Failure;
use pathbench_host::counters::Counters;
use pathbench_lab::assembly::{AssembledRun, ClientPath, ClockOffset, RunSetting};
use pathbench_lab::order::{ScheduledRun, schedule};
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::ResultDocument;
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::transport::{Transport, TransportLabel};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What the suite goes by.
pub(super) struct Suite<'a> {
    pub(super) approach: Approach<'a>,
    pub(super) client: &'a Client,
    pub(super) plan: &'a SuitePlan,
    pub(super) server: &'a ServerName,
    /// Where each transport that works is run.
    pub(super) places: BTreeMap<Transport, SocketAddr>,
    pub(super) stop: &'a Arc<AtomicBool>,
}

/// How the suite ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ending {
    /// The user stopped it.
    pub(super) stopped: bool,
    /// The server refused in the middle of it.
    pub(super) refused: bool,
    /// No transport gets through to the server any more.
    pub(super) lost: bool,
    /// Ids of the runs that began with several ways to the server.
    pub(super) with_several_ways: BTreeSet<String>,
}

impl Suite<'_> {
    /// The order of all runs, and about how long they take.
    pub(super) fn order(&self, seed: u64) -> (Vec<ScheduledRun>, Duration) {
        let labels: Vec<TransportLabel> =
            self.places.keys().map(|&transport| TransportLabel { transport, path: None }).collect();
        let order = schedule(&[(&labels, self.plan.patterns.len())], self.plan.repeat, seed);
        let total = order.iter().map(|run| self.plan.patterns[run.pattern].expected(&[])).sum();
        (order, total)
    }

    /// Makes all runs, each written to `writer` as it ends.
    pub(super) fn conduct(
        &self,
        order: &[ScheduledRun],
        lookout: &mut Lookout,
        display: &mut Display,
        writer: &mut ResultWriter,
        document: &mut ResultDocument,
    ) -> Result<Ending, Failure> {
        let mut state = Knowledge {
            clocks: Clocks::differing_by(self.compare_clocks()),
            notes: std::mem::take(&mut document.summary.notes),
            ..Knowledge::default()
        };
        display.begin(order.len());
        let mut stopped = false;
        for (index, scheduled) in order.iter().enumerate() {
            if state.given_up.contains(&scheduled.label.transport) {
                continue;
            }
            let rest = order.get(index..).unwrap_or_default();
            let pattern = &self.plan.patterns[scheduled.pattern];
            let what = format!("{} {}", scheduled.label, pattern.name);
            display.run(index + 1, order.len(), &what, self.left(rest, &state));
            let Some(run) = self.run(index + 1, scheduled, lookout, display, &mut state) else {
                stopped = true;
                state.notes.push(format!(
                    "stopped by the user; {} of {} runs were not made",
                    rest.len(),
                    order.len()
                ));
                break;
            };
            writer.append_run(&run.samples, &run.events, &run.deliveries).map_err(Failure::failed)?;
            writer.append_messages(&run.messages).map_err(Failure::failed)?;
            display.finished(&run.record, self.left(rest.get(1..).unwrap_or_default(), &state));
            document.runs.push(run.record);
            document.summary.groups = summarise(&document.runs);
            document.summary.mobility = summarise_mobility(&document.runs);
            document.summary.notes.clone_from(&state.notes);
            writer.write_partial(document).map_err(Failure::failed)?;
            if state.refused || state.given_up.len() == self.places.len() {
                break;
            }
        }
        display.end();
        document.summary.notes = state.notes;
        Ok(Ending {
            stopped,
            refused: state.refused,
            lost: state.given_up.len() == self.places.len(),
            with_several_ways: state.with_several_ways,
        })
    }

    /// About how long `runs` take.
    fn left(&self, runs: &[ScheduledRun], state: &Knowledge) -> Duration {
        let to_be_made = runs.iter().filter(|run| !state.given_up.contains(&run.label.transport));
        let expected = |run: &ScheduledRun| {
            let took = state.took.get(&(run.label.transport, run.pattern));
            self.plan.patterns[run.pattern].expected(took.map_or(&[], Vec::as_slice))
        };
        to_be_made.map(expected).sum()
    }

    fn compare_clocks(&self) -> Option<ClockOffset> {
        let (&transport, &address) = self.places.first_key_value()?;
        let target = self.target(address, self.approach.ways(address).unwrap_or_default());
        clocks::compare(self.client, transport, &target)
    }

    fn target(&self, address: SocketAddr, ways: Vec<ClientPath>) -> Target {
        Target { address, host: self.server.host.clone(), ways }
    }

    /// One run, put together; `None` when the user stopped it.
    fn run(
        &self,
        number: usize,
        scheduled: &ScheduledRun,
        lookout: &mut Lookout,
        display: &mut Display,
        state: &mut Knowledge,
    ) -> Option<AssembledRun> {
        let transport = scheduled.label.transport;
        let pattern = &self.plan.patterns[scheduled.pattern];
        let address = *self.places.get(&transport)?;
        let ways = self.approach.ways(address).unwrap_or_else(|why| {
            display.warn(&format!("pathbench: {why}"));
            Vec::new()
        });
        state.look_before(number, lookout, display);
        let target = self.target(address, ways.clone());
        let plan = self.client.plan(transport, &target, pattern.parameters.clone());
        let before = Counters::read().ok();
        let begun = self.client.clock.now();
        let mut seen = Seen::default();
        let outcome = run::run(self.client, &plan, &ways, lookout, &mut seen, display, self.stop)?;
        let ended = self.client.clock.now();
        // Routes come and go without a word about links or addresses.
        let rerouted = self.approach.ways(address).ok().and_then(|now| ways::rerouted(&ways, &now));
        if let Some(words) = rerouted.filter(|_| seen.changes.is_empty()) {
            display.warn(&format!("pathbench: the network changed: {words}"));
            seen.changes.push(Change { at: ended, words });
        }
        let after = Counters::read().ok();
        let counters = before.zip(after).map(|(before, after)| Counters::difference(&before, &after));
        state.learn(number, scheduled, &outcome, ended.since(begun), display);
        let setting = self.setting(pattern, &ways);
        let mut assembled = state.assemble(number, scheduled, &setting, outcome, &seen, counters);
        if ways.len() > 1 {
            state.with_several_ways.insert(assembled.record.id.clone());
        }
        let mut touched: Vec<String> = seen.changes.into_iter().map(|change| change.words).collect();
        touched.dedup();
        if !touched.is_empty() {
            let record = &mut assembled.record;
            record.valid = false;
            record
                .invalid_because
                .push(format!("the network changed during the run: {}", touched.join(", ")));
            record.touched_by = touched;
        }
        Some(assembled)
    }

    fn setting(&self, pattern: &SuitePattern, ways: &[ClientPath]) -> RunSetting {
        RunSetting {
            variant: BTreeMap::new(),
            client: CLIENT.to_owned(),
            server: "server".to_owned(),
            server_address: Some(self.server.to_string()),
            pattern: pattern.name.to_owned(),
            parameters: pattern.parameters.clone(),
            asked: pattern.asked(),
            paths: ways.to_vec(),
            other_interfaces: HostNetwork::read().map(|host| host.other_interfaces(ways)).unwrap_or_default(),
            far_interfaces: Vec::new(),
            mptcp: mptcp::kernel_setup(ways),
            scheduler: self.plan.scheduler.clone(),
        }
    }
}

/// The line that says what is about to happen.
pub(super) fn announcement(suite: &Suite<'_>, runs: usize, total: Duration, seed: u64) -> String {
    let transports: Vec<&str> = suite.places.keys().map(|transport| transport.name()).collect();
    let patterns: Vec<&str> = suite.plan.patterns.iter().map(|pattern| pattern.name).collect();
    format!(
        "{runs} runs: {} on {}, {} times, in the random order of seed {seed}; about {}",
        patterns.join(", "),
        transports.join(", "),
        suite.plan.repeat,
        in_words(total)
    )
}
