//! Makes the suite's runs in order: each runs on a separate thread while the network is monitored, and its record is
//! written.

use super::labels::{expected_data, put_first};
use super::plan::{SuitePattern, SuitePlan};
use crate::client::discovery::Reached;
use crate::client::network::{InterfaceWitness, NetworkMonitor};
use crate::client::{
    Clocks, ServerTarget, TestClient, TestEvidence, busy_wait, counters_since, path_probes, start_test,
};
use crate::progress::{ProgressDisplay, RunProgress};
use crate::session::MeasurementSession;
use pathbench_analysis::assembly::{AssembledRun, ClientPath, Evidence, RunSetting};
use pathbench_analysis::comparison;
use pathbench_host::counters::KernelCounters;
use pathbench_host::paths;
use pathbench_lab::study::ending::{Pace, StoppingRule, is_precise};
use pathbench_lab::study::{AttemptQueue, LoadMeter, RunOrder, ScheduledRun, ending_note, schedule};
use pathbench_program::exit::Failure;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{ResultDocument, RunRecord, Shard, StopReason, Variant};
use pathbench_record::live::LiveRunStart;
use pathbench_record::network::{MOST_TEST_PATHS, ServerName};
use pathbench_record::text::duration;
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::{ClientError, ClientOutcome, ClientPlan};
use pathbench_traffic::protocol::RefusalCode;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Time of a run in addition to its traffic until one has been measured: connections, the exchange of records.
const OVERHEAD: Duration = Duration::from_millis(500);
/// Expected time of a bulk download until one has been measured.
const UNKNOWN_DOWNLOAD: Duration = Duration::from_secs(3);
/// Interval between polls of the network and of the user's interrupt.
const TICK: Duration = Duration::from_millis(100);
/// Attempts at a busy server.
const BUSY_TRIES: u32 = 5;
/// The suite gives up a transport after this many failures to connect in a row.
const FAILURES: u32 = 2;

/// The suite's state between runs.
pub(super) struct TestSuite<'a> {
    client: &'a TestClient,
    plan: &'a SuitePlan,
    server: &'a ServerName,
    endpoints: &'a BTreeMap<Transport, SocketAddr>,
    stop: &'a AtomicBool,
    monitor: NetworkMonitor,
    clocks: Clocks,
    /// The transports that work; those on one path with each path alone.
    labels: &'a [TransportLabel],
    /// Paths to the server at the start.
    paths: usize,
    /// By label and pattern.
    pace: Pace<(TransportLabel, usize)>,
    ending: StoppingRule,
    failures: BTreeMap<TransportLabel, u32>,
    given_up: BTreeSet<TransportLabel>,
    notes: Vec<String>,
    ended: Ended,
}

#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Ids of the runs with several paths to the server at their start.
    pub(super) with_several_paths: BTreeSet<String>,
    /// Whether the server refused a run.
    pub(super) refused: bool,
    /// Whether the user stopped the suite.
    pub(super) by_user: bool,
    /// Whether no transport reaches the server any more.
    pub(super) lost: bool,
}

impl<'a> TestSuite<'a> {
    pub(super) fn new(
        client: &'a TestClient,
        plan: &'a SuitePlan,
        reached: &'a Reached,
        labels: &'a [TransportLabel],
        paths: usize,
        stop: &'a AtomicBool,
        ending: StoppingRule,
    ) -> Result<Self, Failure> {
        Ok(Self {
            client,
            plan,
            server: &reached.server,
            endpoints: &reached.endpoints,
            labels,
            paths,
            stop,
            monitor: NetworkMonitor::start(&client.clock)?,
            clocks: Clocks::default(),
            pace: Pace::new(OVERHEAD),
            ending,
            failures: BTreeMap::new(),
            given_up: BTreeSet::new(),
            notes: Vec::new(),
            ended: Ended::default(),
        })
    }

    /// Makes the runs that the document lacks, and writes each to `writer` when it ends.
    pub(super) fn run_all(
        mut self,
        session: &mut MeasurementSession,
        writer: &mut ResultWriter,
    ) -> Result<Ended, Failure> {
        let MeasurementSession { progress, document, .. } = session;
        let shard = document.study.as_ref().and_then(|study| study.shard);
        let order: Vec<(String, ScheduledRun)> = self.order(document.seed, shard);
        let retries = document.study.as_ref().and_then(|study| study.retry_invalid).unwrap_or_default();
        let mut queue = AttemptQueue::resume(&order, retries, &document.runs);
        progress.line(self.announcement(&queue, &order, document.seed));
        let pending = queue.pending_runs().filter_map(|planned| order.get(planned)).map(|(_, run)| run);
        progress.line(expected_data(self.plan, self.paths, pending));
        let (live, started) = (&progress.records, &document.host.started);
        live.start(&document.scenario.name, document.seed, started, queue.pending_count(), live.interval());
        writer.begin_runs(document).map_err(Failure::failed)?;
        self.clocks.learn(self.client.compare_clocks(self.server, self.endpoints));
        self.notes = std::mem::take(&mut document.summary.notes);
        let mut progress = RunProgress::new(progress, queue.pending_count(), false);
        let (mut stopped, mut begun) = (None, 0);
        while let Some(attempt) = queue.peek() {
            let (planned, scheduled) = &order[attempt.planned];
            if self.given_up.contains(&scheduled.label) {
                queue.begin();
                continue;
            }
            stopped = self.reason_to_stop(begun == 0, scheduled, &document.runs);
            if stopped.is_some() {
                break;
            }
            let left = self.left(&queue, &order);
            queue.begin();
            begun += 1;
            let id = attempt.id(planned);
            let start = LiveRunStart {
                run: id.clone(),
                number: begun as u32,
                runs: (begun + queue.pending_count()) as u32,
                label: scheduled.label.to_string(),
                pattern: self.plan.patterns[scheduled.pattern].name.to_owned(),
                variant: Variant::default(),
                repetition: scheduled.repetition,
                expected_ms: Some(self.expected_duration(scheduled).as_secs_f64() * 1e3),
            };
            progress.begin(start, Some(left));
            let Some(mut run) = self.run(&id, scheduled, &mut progress) else {
                self.ended.by_user = true;
                stopped = Some(StopReason::User);
                break;
            };
            attempt.mark(planned, &mut run.record);
            if scheduled.warm_up {
                run.record.leave_out_as_warm_up();
            }
            queue.finish(attempt, run.record.valid);
            write(writer, &run).map_err(Failure::failed)?;
            progress.finished(&run.record, Some(self.left(&queue, &order)));
            document.runs.push(run.record);
            self.ended.lost = self.given_up.len() == self.labels.len();
            if self.ended.refused || self.ended.lost {
                break;
            }
        }
        progress.end();
        self.conclude(document, &order, &queue, stopped);
        Ok(self.ended)
    }

    /// Completes the document, with the runs in the order of the study.
    fn conclude(
        &mut self,
        document: &mut ResultDocument,
        order: &[(String, ScheduledRun)],
        queue: &AttemptQueue,
        stopped: Option<StopReason>,
    ) {
        queue.sort(order, &mut document.runs);
        comparison::summarise_runs(document);
        let first_attempts = document.runs.iter().filter(|run| run.retry_of.is_none()).count();
        let missing = order.len().saturating_sub(first_attempts);
        let retries = queue.due_retries().count();
        let is_complete = missing == 0 && retries == 0;
        let stopped = if is_complete { StopReason::Completed } else { stopped.unwrap_or(StopReason::Server) };
        self.notes.extend(ending_note(stopped, missing, order.len(), retries));
        document.summary.notes = std::mem::take(&mut self.notes);
        if let Some(study) = &mut document.study {
            study.stopped = Some(stopped);
        }
    }

    /// The runs of this shard with their ids.
    fn order(&self, seed: u64, shard: Option<Shard>) -> Vec<(String, ScheduledRun)> {
        let course = RunOrder { repeat: self.plan.repeat, warm_up: self.plan.warm_up, seed, shard };
        let runs = schedule(&[(self.labels, self.plan.patterns.len())], &course).into_iter();
        runs.map(|run| (run.id(Some(self.plan.patterns[run.pattern].name), shard), run)).collect()
    }

    fn announcement(&self, queue: &AttemptQueue, order: &[(String, ScheduledRun)], seed: u64) -> String {
        let labels: Vec<String> = self.labels.iter().map(ToString::to_string).collect();
        let patterns: Vec<&str> = self.plan.patterns.iter().map(|pattern| pattern.name).collect();
        let (all, pending) = (order.len(), queue.pending_count());
        let earlier = match all.saturating_sub(pending) {
            0 => String::new(),
            earlier => format!(", {earlier} of them made earlier"),
        };
        format!(
            "{all} runs{earlier}: {} on {}, {} times, in the random order of seed {seed}; about {}",
            patterns.join(", "),
            labels.join(", "),
            self.plan.repeat,
            duration(self.left(queue, order))
        )
    }

    fn reason_to_stop(
        &mut self,
        is_first: bool,
        next: &ScheduledRun,
        runs: &[RunRecord],
    ) -> Option<StopReason> {
        if !is_first && self.ending.is_late(self.client.clock.now(), self.expected_duration(next)) {
            return Some(StopReason::TimeLimit);
        }
        let complete = if next.warm_up { 0 } else { next.repetition - 1 };
        let percent = self.ending.precision_after(complete)?;
        let is_counted = |run: &&RunRecord| {
            let is_given_up = || self.given_up.iter().any(|label| label.to_string() == run.label);
            run.repetition <= complete && !is_given_up()
        };
        is_precise(runs.iter().filter(is_counted), percent).then_some(StopReason::Precision)
    }

    fn expected_duration(&self, run: &ScheduledRun) -> Duration {
        let nominal = self.plan.patterns[run.pattern].nominal().unwrap_or(UNKNOWN_DOWNLOAD);
        self.pace.expected_time(&(run.label.clone(), run.pattern), Some(nominal))
    }

    /// Expected time of the runs that have not begun.
    fn left(&self, queue: &AttemptQueue, order: &[(String, ScheduledRun)]) -> Duration {
        let runs = queue.pending_runs().filter_map(|planned| order.get(planned));
        let to_be_made = runs.filter(|(_, run)| !self.given_up.contains(&run.label));
        to_be_made.map(|(_, run)| self.expected_duration(run)).sum()
    }

    /// Makes one run; `None` if the user stopped it.
    fn run(
        &mut self,
        id: &str,
        scheduled: &ScheduledRun,
        progress: &mut RunProgress<'_>,
    ) -> Option<AssembledRun> {
        let pattern = &self.plan.patterns[scheduled.pattern];
        let (target, known) = self.target(scheduled, progress)?;
        let (address, paths) = (target.address, &target.paths);
        self.poll_network(progress);
        let (_, changes) = self.monitor.take();
        if !changes.is_empty() {
            self.notes.push(format!("the network changed before run {id}: {}", changes.join(", ")));
        }
        self.monitor.follow(paths);
        let transport = scheduled.label.transport;
        let plan = ClientPlan {
            path_probes: self
                .udp_address()
                .map(|server| path_probes(server, paths, transport.is_multipath())),
            ..self.client.plan(transport, &target, pattern.parameters.clone())
        };
        let setting = self.setting(pattern, paths);
        let so_far = Evidence::new(id.to_owned(), &setting, &scheduled.label, scheduled.repetition);
        let (before, begun) = (KernelCounters::read().ok(), self.client.clock.now());
        let witness = InterfaceWitness::start();
        progress.connecting(id, paths);
        let meter = LoadMeter::start(self.client.clock.as_ref());
        let outcome = self.run_test(&plan, paths, so_far, progress)?;
        let load = meter.load(self.client.clock.as_ref());
        let took = self.client.clock.now().duration_since(begun);
        let (notifications, mut changes) = self.monitor.take();
        // The kernel does not report a route change as a change of links or addresses.
        let rerouted =
            self.client.paths_to(address).ok().and_then(|now| paths::describe_reroute(&known, &now));
        if let Some(rerouted) = rerouted.filter(|_| changes.is_empty()) {
            progress.warn(format_args!("pathbench: the network changed: {rerouted}"));
            changes.push(rerouted);
        }
        let counters = counters_since(before.as_ref());
        self.learn(id, scheduled, &outcome, took, progress);
        let setting = self.setting(pattern, paths);
        let evidence = TestEvidence {
            id: id.to_owned(),
            label: &scheduled.label,
            repetition: scheduled.repetition,
            setting: &setting,
            outcome,
            notifications,
            counters,
            carried: witness.carried(),
        };
        let (mut assembled, _) = evidence.assemble(&mut self.clocks);
        assembled.record.load = load;
        if paths.len() > 1 {
            self.ended.with_several_paths.insert(assembled.record.id.clone());
        }
        changes.dedup();
        mark_changes(&mut assembled.record, changes);
        Some(assembled)
    }

    /// The server on the paths of a label, its own path first; and all current paths to the server.
    fn target(
        &self,
        scheduled: &ScheduledRun,
        progress: &RunProgress<'_>,
    ) -> Option<(ServerTarget, Vec<ClientPath>)> {
        let address = *self.endpoints.get(&scheduled.label.transport)?;
        let known = self.client.paths_to(address).unwrap_or_else(|why| {
            progress.warn(format_args!("pathbench: {why}"));
            Vec::new()
        });
        let mut paths: Vec<ClientPath> = known.iter().take(MOST_TEST_PATHS).cloned().collect();
        let own = scheduled.label.path.as_ref();
        if let Some(own) = own {
            put_first(&mut paths, own);
        }
        let is_bound = own.is_some() || self.client.initial.get().is_some();
        Some((ServerTarget { address, host: self.server.host.clone(), paths, is_bound }, known))
    }

    /// The server's address that answers UDP probes, if one is known.
    fn udp_address(&self) -> Option<SocketAddr> {
        let of_transport = |transport| self.endpoints.get(&transport).copied();
        of_transport(Transport::Quic).or_else(|| of_transport(Transport::Mpquic))
    }

    fn setting(&self, pattern: &SuitePattern, paths: &[ClientPath]) -> RunSetting {
        let network = &self.monitor.network;
        self.client.run_setting(self.server, pattern.name, &pattern.parameters, paths.to_vec(), network)
    }

    /// Runs the test of `plan`, and waits for a busy server; `None` if the user stopped it. `so_far` is the run's
    /// evidence without its events.
    fn run_test(
        &mut self,
        plan: &ClientPlan,
        paths: &[ClientPath],
        mut so_far: Evidence<'_>,
        progress: &mut RunProgress<'_>,
    ) -> Option<ClientOutcome> {
        let mut reported = 0;
        let clock = &self.client.clock;
        for attempt in 1.. {
            let (transferred, test) = start_test(self.client, plan.clone());
            let outcome = loop {
                self.poll_network(progress);
                if self.stop.load(Ordering::Relaxed) {
                    // The thread and its connection end with the process.
                    return None;
                }
                match transferred.recv_timeout(TICK) {
                    Ok(transferred) => {
                        let origin = transferred.first_byte;
                        progress.transferred(&so_far.id, transferred, paths);
                        let fresh = self.monitor.events.get(reported..).unwrap_or_default();
                        so_far.notifications = fresh.to_vec();
                        reported = self.monitor.events.len();
                        progress.events(&so_far, origin);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break test.join().ok()?,
                }
            };
            let Some(wait) = busy_wait(&outcome).filter(|_| attempt < BUSY_TRIES) else {
                self.poll_network(progress);
                return Some(outcome);
            };
            progress.line(format_args!("the server is busy; trying again in {}", duration(wait)));
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

    fn poll_network(&mut self, progress: &ProgressDisplay) {
        for change in self.monitor.poll() {
            progress.warn(format_args!("pathbench: the network changed: {change}"));
        }
    }

    /// Uses a run's results for later runs: their expected time, transports to give up.
    fn learn(
        &mut self,
        run: &str,
        scheduled: &ScheduledRun,
        outcome: &ClientOutcome,
        took: Duration,
        progress: &ProgressDisplay,
    ) {
        let label = &scheduled.label;
        match &outcome.error {
            None => {
                let nominal = self.plan.patterns[scheduled.pattern].nominal();
                self.pace.add((label.clone(), scheduled.pattern), took, nominal);
                self.failures.remove(label);
            }
            Some(ClientError::Refused { code, message, .. }) if *code != RefusalCode::Busy => {
                self.ended.refused = true;
                self.notes.push(format!("the server refused run {run}: {message}"));
            }
            Some(ClientError::Broken { .. }) => {}
            Some(error) => {
                let failures = self.failures.entry(label.clone()).or_default();
                *failures += 1;
                if *failures >= FAILURES {
                    self.given_up.insert(label.clone());
                    let note = format!("{label} became unusable and was given up after run {run}: {error}");
                    progress.warn(format_args!("pathbench: {note}"));
                    self.notes.push(note);
                }
            }
        }
    }
}

/// A run during which the network changed is not valid.
fn mark_changes(record: &mut RunRecord, changes: Vec<String>) {
    if changes.is_empty() {
        return;
    }
    record.valid = false;
    record.invalid_because.push(format!("the network changed during the run: {}", changes.join(", ")));
    record.touched_by = changes;
}

/// Writes the lines of a run, then its record.
fn write(writer: &mut ResultWriter, run: &AssembledRun) -> Result<(), WriteError> {
    writer.append(&run.samples)?;
    writer.append(&run.events)?;
    writer.append(&run.deliveries)?;
    writer.append(&run.messages)?;
    writer.append(&run.datagrams)?;
    writer.append_run(&run.record)
}
