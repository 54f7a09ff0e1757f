//! The suite's runs in their order: each runs on a thread of its own while the network is monitored, becomes a record,
//! and is written.

use super::plan::SuitePlan;
use crate::client::discovery::Reached;
use crate::client::network::NetworkMonitor;
use crate::client::server::ServerName;
use crate::client::{Client, Clocks, Target, TestEvidence, counters_since, paths};
use crate::exit::Failure;
use crate::progress::{Progress, RunProgress, in_words};
use crate::session::Session;
use pathbench_analysis::assembly::{AssembledRun, ClientPath};
use pathbench_host::counters::Counters;
use pathbench_lab::order::{ScheduledRun, schedule};
use pathbench_record::directory::ResultWriter;
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::{
    ClientError, ClientObserver, ClientOutcome, ClientPlan, FetchPlan, Progress as Transferred, fetch_record,
    run_client,
};
use pathbench_traffic::protocol::RefusalCode;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Between two polls of the network and of the user's interrupt.
const TICK: Duration = Duration::from_millis(100);
/// Attempts at a busy server, and the longest wait in between.
const BUSY_TRIES: u32 = 5;
const LONGEST_BUSY_WAIT: Duration = Duration::from_secs(30);
/// Wait where a busy server does not say how long.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// The suite gives up a transport that could not be opened this many times in a row.
const FAILURES: u32 = 2;

/// The suite's state from run to run.
pub(super) struct Suite<'a> {
    client: &'a Client,
    plan: &'a SuitePlan,
    server: &'a ServerName,
    places: &'a BTreeMap<Transport, SocketAddr>,
    stop: &'a AtomicBool,
    monitor: NetworkMonitor,
    clocks: Clocks,
    /// Time of earlier runs by transport and pattern.
    took: BTreeMap<(Transport, usize), Vec<Duration>>,
    failures: BTreeMap<Transport, u32>,
    given_up: BTreeSet<Transport>,
    notes: Vec<String>,
    /// Ids of the runs that began with several paths to the server.
    pub(super) with_several_paths: BTreeSet<String>,
    /// The server refused a run.
    pub(super) refused: bool,
    /// The user stopped the suite.
    pub(super) stopped: bool,
}

impl<'a> Suite<'a> {
    pub(super) fn new(
        client: &'a Client,
        plan: &'a SuitePlan,
        reached: &'a Reached,
        stop: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        Ok(Self {
            client,
            plan,
            server: &reached.server,
            places: &reached.places,
            stop,
            monitor: NetworkMonitor::start(&client.clock)?,
            clocks: Clocks::default(),
            took: BTreeMap::new(),
            failures: BTreeMap::new(),
            given_up: BTreeSet::new(),
            notes: Vec::new(),
            with_several_paths: BTreeSet::new(),
            refused: false,
            stopped: false,
        })
    }

    /// Whether no transport reaches the server any more.
    pub(super) fn is_lost(&self) -> bool {
        self.given_up.len() == self.places.len()
    }

    /// Makes all runs, each written to `writer` as it ends.
    pub(super) fn run_all(
        &mut self,
        session: &mut Session,
        writer: &mut ResultWriter,
    ) -> Result<(), Failure> {
        let Session { progress, document, .. } = session;
        let order = self.order(document.seed);
        progress.line(self.announcement(&order, document.seed));
        self.clocks.learn(self.client.compare_clocks(self.server, self.places));
        self.notes = std::mem::take(&mut document.summary.notes);
        let mut progress = RunProgress::new(progress, order.len(), false);
        for (index, scheduled) in order.iter().enumerate() {
            if self.given_up.contains(&scheduled.label.transport) {
                continue;
            }
            let (number, rest) = (index + 1, order.get(index..).unwrap_or_default());
            let pattern = &self.plan.patterns[scheduled.pattern];
            let label = format!("{} {}", scheduled.label, pattern.name);
            progress.begin(number, &label, Some(pattern.expected(&[])), Some(self.left(rest)));
            let Some(run) = self.run(number, scheduled, &mut progress) else {
                self.stopped = true;
                let count = rest.len();
                self.notes
                    .push(format!("stopped by the user; {count} of {} runs were not made", order.len()));
                break;
            };
            writer.append_run(&run.samples, &run.events, &run.deliveries).map_err(Failure::failed)?;
            writer.append_messages(&run.messages).map_err(Failure::failed)?;
            progress.finished(&run.record, Some(self.left(rest.get(1..).unwrap_or_default())));
            document.runs.push(run.record);
            document.summary.groups = summarise(&document.runs);
            document.summary.mobility = summarise_mobility(&document.runs);
            document.summary.notes.clone_from(&self.notes);
            writer.write_partial(document).map_err(Failure::failed)?;
            if self.refused || self.is_lost() {
                break;
            }
        }
        progress.end();
        document.summary.notes = std::mem::take(&mut self.notes);
        Ok(())
    }

    fn order(&self, seed: u64) -> Vec<ScheduledRun> {
        let labels: Vec<TransportLabel> =
            self.places.keys().map(|&transport| TransportLabel { transport, path: None }).collect();
        schedule(&[(&labels, self.plan.patterns.len())], self.plan.repeat, seed)
    }

    fn announcement(&self, order: &[ScheduledRun], seed: u64) -> String {
        let transports: Vec<&str> = self.places.keys().map(|transport| transport.name()).collect();
        let patterns: Vec<&str> = self.plan.patterns.iter().map(|pattern| pattern.name).collect();
        format!(
            "{} runs: {} on {}, {} times, in the random order of seed {seed}; about {}",
            order.len(),
            patterns.join(", "),
            transports.join(", "),
            self.plan.repeat,
            in_words(self.left(order))
        )
    }

    /// Expected time of `runs`.
    fn left(&self, runs: &[ScheduledRun]) -> Duration {
        let to_be_made = runs.iter().filter(|run| !self.given_up.contains(&run.label.transport));
        let expected = |run: &ScheduledRun| {
            let took = self.took.get(&(run.label.transport, run.pattern));
            self.plan.patterns[run.pattern].expected(took.map_or(&[], Vec::as_slice))
        };
        to_be_made.map(expected).sum()
    }

    /// One run; `None` when the user stopped it.
    fn run(
        &mut self,
        number: usize,
        scheduled: &ScheduledRun,
        progress: &mut RunProgress<'_>,
    ) -> Option<AssembledRun> {
        let transport = scheduled.label.transport;
        let pattern = &self.plan.patterns[scheduled.pattern];
        let address = *self.places.get(&transport)?;
        let paths = self.client.paths_to(address).unwrap_or_else(|why| {
            progress.warn(format_args!("pathbench: {why}"));
            Vec::new()
        });
        self.poll_network(progress);
        let (_, changes) = self.monitor.take();
        if !changes.is_empty() {
            self.notes.push(format!("the network changed before run {number}: {}", changes.join(", ")));
        }
        self.monitor.follow(&paths);
        let target = Target { address, host: self.server.host.clone(), paths: paths.clone() };
        let plan = self.client.plan(transport, &target, pattern.parameters.clone());
        let (before, begun) = (Counters::read().ok(), self.client.clock.now());
        let outcome = self.run_test(&plan, &paths, progress)?;
        let took = self.client.clock.now().since(begun);
        let (notifications, mut changes) = self.monitor.take();
        // The kernel reports no change of routes as a change of links or addresses.
        let rerouted = self.client.paths_to(address).ok().and_then(|now| paths::rerouted(&paths, &now));
        if let Some(rerouted) = rerouted.filter(|_| changes.is_empty()) {
            progress.warn(format_args!("pathbench: the network changed: {rerouted}"));
            changes.push(rerouted);
        }
        let counters = counters_since(before.as_ref());
        self.learn(number, scheduled, &outcome, took, progress);
        let others = self.monitor.network.other_interfaces(&paths);
        let several = paths.len() > 1;
        let setting = self.client.run_setting(self.server, pattern.name, &pattern.parameters, paths, others);
        let evidence = TestEvidence {
            id: format!("{number:02}-{}-{}-r{}", scheduled.label, pattern.name, scheduled.repetition),
            label: &scheduled.label,
            repetition: scheduled.repetition,
            setting: &setting,
            outcome,
            notifications,
            counters,
        };
        let (mut assembled, _) = evidence.assemble(&mut self.clocks);
        let record = &mut assembled.record;
        if several {
            self.with_several_paths.insert(record.id.clone());
        }
        changes.dedup();
        if !changes.is_empty() {
            record.valid = false;
            record
                .invalid_because
                .push(format!("the network changed during the run: {}", changes.join(", ")));
            record.touched_by = changes;
        }
        Some(assembled)
    }

    /// Runs the test of `plan`, and waits for a busy server; `None` when the user stopped it.
    fn run_test(
        &mut self,
        plan: &ClientPlan,
        paths: &[ClientPath],
        progress: &mut RunProgress<'_>,
    ) -> Option<ClientOutcome> {
        let clock = &self.client.clock;
        for attempt in 1.. {
            let messages = start(self.client, plan.clone());
            let outcome = loop {
                self.poll_network(progress);
                if self.stop.load(Ordering::Relaxed) {
                    // The thread dies with the process, and with it the connection.
                    return None;
                }
                match messages.recv_timeout(TICK) {
                    Ok(Message::Transferred(transferred)) => progress.transferred(&transferred, paths),
                    Ok(Message::Done(outcome)) => break outcome,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            };
            let Some(wait) = busy_wait(&outcome).filter(|_| attempt < BUSY_TRIES) else {
                self.poll_network(progress);
                return Some(*outcome);
            };
            let seconds = wait.as_secs_f64().ceil();
            progress.line(format_args!("the server is busy; trying again in {seconds:.0} s"));
            let until = clock.now() + wait;
            while clock.now() < until {
                if self.stop.load(Ordering::Relaxed) {
                    return None;
                }
                clock.sleep_until((clock.now() + TICK).min(until));
            }
        }
        None
    }

    fn poll_network(&mut self, progress: &Progress) {
        for change in self.monitor.poll() {
            progress.warn(format_args!("pathbench: the network changed: {change}"));
        }
    }

    /// Draws conclusions from a run for later runs: their time, transports to give up.
    fn learn(
        &mut self,
        number: usize,
        scheduled: &ScheduledRun,
        outcome: &ClientOutcome,
        took: Duration,
        progress: &Progress,
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
                    let note =
                        format!("{transport} became unusable and was given up after run {number}: {error}");
                    progress.warn(format_args!("pathbench: {note}"));
                    self.notes.push(note);
                }
            }
        }
    }
}

/// From the thread of a test.
enum Message {
    Transferred(Transferred),
    Done(Box<ClientOutcome>),
}

struct Reporter {
    sender: Sender<Message>,
}

impl ClientObserver for Reporter {
    fn on_progress(&self, progress: &Transferred) {
        // A suite that was stopped has dropped the receiver.
        let _stopped = self.sender.send(Message::Transferred(progress.clone()));
    }
}

fn start(client: &Client, plan: ClientPlan) -> Receiver<Message> {
    let (sender, messages) = channel();
    let clock = client.clock.clone();
    thread::spawn(move || {
        let mut outcome = run_client(&plan, &clock, &Reporter { sender: sender.clone() });
        // A record that the test's connection could not carry may come over another one.
        if outcome.server.is_none() && !outcome.client.streams.is_empty() {
            match fetch_record(&FetchPlan::after(&plan), &outcome.client, &clock) {
                Ok(record) => outcome.server = Some(record),
                Err(failure) => outcome.report_fetch(&failure),
            }
        }
        let _stopped = sender.send(Message::Done(Box::new(outcome)));
    });
    messages
}

/// How long to wait, where the server was busy.
fn busy_wait(outcome: &ClientOutcome) -> Option<Duration> {
    match &outcome.error {
        Some(ClientError::Refused { code: RefusalCode::Busy, retry_after_ms, .. }) => {
            let wait = retry_after_ms.map_or(BUSY_WAIT, Duration::from_millis);
            Some(wait.min(LONGEST_BUSY_WAIT))
        }
        _ => None,
    }
}
