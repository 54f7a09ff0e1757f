//! Runs all tests in parallel, one thread each, with further threads for the probes and the Wi-Fi. This thread
//! receives from all others, shows and writes the figures; at the end it assembles the runs from the records of both
//! ends.

use super::context::{RoamContext, WifiState, follow_wifi};
use super::plan::{MESSAGE_INTERVAL, Roam};
use super::records::{PATTERN, RunLog};
use super::test::{Control, Finished, Test, TestEvent};
use crate::client::network::InterfaceWitness;
use crate::client::{Clocks, ServerTarget, TestEvidence};
use crate::live::{LiveRuns, path_name};
use crate::progress::ProgressDisplay;
use crate::session::MeasurementSession;
use pathbench_analysis::assembly::{AssembledRun, ClientPath};
use pathbench_analysis::comparison::summarise_runs;
use pathbench_analysis::metrics;
use pathbench_analysis::metrics::live::{ProbeFigures, TestFigures};
use pathbench_analysis::wifi::LossDetector;
use pathbench_program::exit::Failure;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{ProbeLine, ProbeRecord, ResultDocument, Variant};
use pathbench_record::live::{LiveProbedPath, LiveProbes, LiveRecord, LiveRunStart};
use pathbench_record::text::duration;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_report::terminal::live::{self, Names};
use pathbench_traffic::datagram::UdpPath;
use pathbench_traffic::probe::{ProbeOutcome, ProbePlan, ProbeSample, run_probes};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Longest time for which this thread receives before it writes and checks for the end.
const TICK: Duration = Duration::from_millis(100);
/// Interval between writes to the operating system.
const FLUSH: Duration = Duration::from_millis(500);
/// Interval between partial documents, which take at most 1/[`PARTIAL_PART`] of the time.
const PARTIAL: Duration = Duration::from_secs(2);
const PARTIAL_PART: u32 = 20;
/// Time for the tests to fetch the server's records after the end.
const FETCH_RECORDS: Duration = Duration::from_secs(30);
/// The tests end after their own duration; they are stopped if they last this much longer.
const OVERTIME: Duration = Duration::from_secs(1);
/// Interval between probes of a path.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Why the tests ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RoamEnd {
    User,
    Time,
    WifiLost(String),
    /// No test is running any more.
    Over,
}

impl RoamEnd {
    pub(super) fn words(&self) -> String {
        match self {
            Self::User => "stopped by the user".to_owned(),
            Self::Time => "the time is over".to_owned(),
            Self::WifiLost(why) => format!("ended because {why}"),
            Self::Over => "no transport works any more".to_owned(),
        }
    }
}

impl Roam<'_> {
    /// Runs the tests, from the first connection to the receipt of the server's records.
    pub(super) fn run(
        &self,
        writer: &mut ResultWriter,
        session: &mut MeasurementSession,
    ) -> Result<RoamRecorder<'_>, Failure> {
        let mut recorder = RoamRecorder::new(self, session)?;
        let plan = self.probe_plan(&recorder.paths);
        let (control, quit) = (&Control::default(), &AtomicBool::new(false));
        let (sender, events) = channel();
        let (wifi_sender, wifi) = channel();
        let (probe_sender, probes) = channel();
        let clock = &self.client.clock;
        let ended = thread::scope(|scope| {
            for (number, (transport, paths)) in self.tests.iter().enumerate() {
                let Some(&address) = self.reached.endpoints.get(transport) else { continue };
                let host = self.reached.server.host.clone();
                let target = ServerTarget { address, host, paths: paths.clone(), is_bound: false };
                let (sender, transport) = (sender.clone(), *transport);
                let test = Test { roam: self, control, transport, target, sender, number };
                scope.spawn(move || test.run());
            }
            drop(sender);
            scope.spawn(move || follow_wifi(clock.as_ref(), quit, &wifi_sender));
            let plan = plan.as_ref();
            scope.spawn(move || {
                let Some(plan) = plan else { return };
                // This thread stops receiving before the probes end.
                let sink = |sample| drop(probe_sender.send(sample));
                // The prober accepts this interval.
                let _never_refused = run_probes(plan, clock, quit, &sink);
            });
            let ended = recorder.record(control, &Channels { events, wifi, probes }, writer, session);
            if ended.is_err() {
                control.stop(clock.now(), clock.now());
                control.abort();
            }
            quit.store(true, Ordering::Relaxed);
            ended
        });
        ended.map(|()| recorder)
    }

    fn probe_plan(&self, paths: &[ClientPath]) -> Option<ProbePlan> {
        let server = self.reached.udp_address()?;
        // The address of the interface may change.
        let path = |path: &ClientPath| UdpPath { interface: Some(path.interface.clone()), local: None };
        Some(ProbePlan {
            server,
            token: self.client.arguments.server.token.clone(),
            paths: paths.iter().map(path).collect(),
            interval: PROBE_INTERVAL,
        })
    }
}

/// Receivers of data from the other threads.
struct Channels {
    events: Receiver<(usize, TestEvent)>,
    wifi: Receiver<WifiState>,
    probes: Receiver<ProbeSample>,
}

pub(super) struct RoamRecorder<'a> {
    roam: &'a Roam<'a>,
    pub(super) logs: Vec<RunLog>,
    context: RoamContext,
    witness: InterfaceWitness,
    paths: Vec<ClientPath>,
    probes: Vec<ProbeFigures>,
    pub(super) probe_lines: Vec<ProbeLine>,
    probes_written: usize,
    detector: Option<LossDetector>,
    pub(super) begun: Timestamp,
    /// Why and when the tests ended; the wait for the server's records comes after this time.
    pub(super) ended: Option<(RoamEnd, Timestamp)>,
    live: LiveRuns,
    /// Begin of the current interval of the probes' live records.
    probed_from: Timestamp,
}

impl<'a> RoamRecorder<'a> {
    fn new(roam: &'a Roam<'a>, session: &MeasurementSession) -> Result<Self, Failure> {
        let log = |(index, (transport, paths)): (usize, &(Transport, Vec<ClientPath>))| {
            RunLog::new(format!("{:02}-{transport}-interactive-r1", index + 1), *transport, paths.clone())
        };
        let logs: Vec<RunLog> = roam.tests.iter().enumerate().map(log).collect();
        let paths = logs.first().map(|log| log.paths.clone()).unwrap_or_default();
        let begun = roam.client.clock.now();
        Ok(Self {
            live: begin_live(roam, &logs, session),
            probed_from: begun,
            roam,
            logs,
            context: RoamContext::start(&roam.client.clock, &paths)?,
            witness: InterfaceWitness::start(),
            probes: paths.iter().map(|path| ProbeFigures::new(path.name.clone())).collect(),
            paths,
            probe_lines: Vec::new(),
            probes_written: 0,
            detector: roam.until_gone.as_ref().map(|(_, gone_for)| LossDetector::new(*gone_for)),
            begun,
            ended: None,
        })
    }

    fn record(
        &mut self,
        control: &Control,
        channels: &Channels,
        writer: &mut ResultWriter,
        session: &mut MeasurementSession,
    ) -> Result<(), Failure> {
        let clock = &self.roam.client.clock;
        let MeasurementSession { progress, document, .. } = session;
        let (mut next_flush, mut next_partial) = (self.begun, self.begun);
        loop {
            self.receive(channels, progress);
            let now = clock.now();
            self.show(progress, now);
            self.report_probes(now);
            if now >= next_flush {
                self.write(writer, now)?;
                next_flush = now + FLUSH;
            }
            if now >= next_partial {
                self.write_partial(writer, document)?;
                let took = clock.now().duration_since(now);
                next_partial = now + PARTIAL.max(took * PARTIAL_PART);
            }
            let is_done = self.logs.iter().all(|log| log.finished.is_some());
            if self.ended.is_none() {
                let end = self.end(now).or(is_done.then_some(RoamEnd::Over));
                if let Some(end) = end.as_ref().filter(|_| !is_done) {
                    let words = end.words();
                    progress
                        .line(format_args!("{words}; waiting for the last answers and the server's records"));
                    control.stop(now, now + FETCH_RECORDS);
                }
                self.ended = end.map(|end| (end, now));
            }
            if is_done {
                return self.write(writer, now);
            }
        }
    }

    /// Receives events for at most one tick.
    fn receive(&mut self, channels: &Channels, progress: &ProgressDisplay) {
        let clock = &self.roam.client.clock;
        let until = clock.now() + TICK;
        loop {
            match channels.events.recv_timeout(until.duration_since(clock.now())) {
                Ok((number, event)) => self.add(number, event, progress),
                Err(RecvTimeoutError::Timeout) => break,
                // All tests have ended, and the channel returns immediately.
                Err(RecvTimeoutError::Disconnected) => {
                    clock.sleep_until(until);
                    break;
                }
            }
        }
        let mut changes = self.context.monitor.poll();
        for state in channels.wifi.try_iter() {
            changes.extend(self.context.add_wifi(state));
        }
        for change in changes {
            progress.line(format_args!("{}: {change}", live::clock(until.duration_since(self.begun))));
        }
        for sample in channels.probes.try_iter() {
            self.add_probe(sample);
        }
    }

    fn add(&mut self, number: usize, event: TestEvent, progress: &ProgressDisplay) {
        let Some(log) = self.logs.get_mut(number) else { return };
        if let TestEvent::Done(finished) = &event
            && let Some(error) = &finished.outcome.error
        {
            let hint = if finished.is_server_busy() {
                "; roam runs several tests at once: the server's operator allows that with `pathbench serve \
                 --max-tests-per-client 4`"
            } else {
                ""
            };
            progress.warn(format_args!("pathbench: {}: {error}{hint}", log.figures.name));
        }
        log.add(event, &mut self.live);
    }

    fn add_probe(&mut self, sample: ProbeSample) {
        let Some(figures) = self.probes.get_mut(sample.path) else { return };
        let (rtt, error) = match sample.outcome {
            ProbeOutcome::Answered { rtt } => (Some(rtt), None),
            ProbeOutcome::Lost => (None, None),
            ProbeOutcome::Refused { error } => (None, Some(error)),
        };
        figures.add(rtt);
        self.probe_lines.push(ProbeLine {
            t_ms: sample.sent_at.ms_from(self.begun),
            path: figures.name.clone(),
            sequence: sample.sequence,
            rtt_ms: rtt.map(|rtt| rtt.as_nanos() as f64 / 1e6),
            error,
        });
    }

    /// The reason to end, if any.
    fn end(&mut self, now: Timestamp) -> Option<RoamEnd> {
        if self.roam.stop.load(Ordering::Relaxed) {
            return Some(RoamEnd::User);
        }
        let lasted = now.duration_since(self.begun);
        let time = self.roam.plan.durations.first().filter(|_| self.roam.plan.timed);
        if self.logs.iter().all(RunLog::is_over) {
            // The last message is due one interval before the end of the time.
            let in_time = time.is_some_and(|time| lasted + MESSAGE_INTERVAL >= *time);
            return Some(if in_time { RoamEnd::Time } else { RoamEnd::Over });
        }
        if time.is_some_and(|time| lasted >= *time + OVERTIME) {
            return Some(RoamEnd::Time);
        }
        let (interface, _) = self.roam.until_gone.as_ref()?;
        let state = self.context.interface(interface);
        self.detector.as_mut()?.add(now, state).map(RoamEnd::WifiLost)
    }

    fn show(&self, progress: &mut ProgressDisplay, now: Timestamp) {
        if !progress.is_due(now) {
            return;
        }
        let context = &self.context;
        let paths = context.monitor.with_all_addresses(&self.paths);
        let of_address = |local: IpAddr| path_name(&paths, local);
        let wifi_of = |name: &str| context.wifi.network(name).cloned();
        let names = Names { of_address: &of_address, wifi_of: &wifi_of };
        let tests: Vec<&TestFigures> = self.logs.iter().map(|log| &log.figures).collect();
        let lasted = now.duration_since(self.begun);
        if progress.is_live() {
            progress.show(None, &live::lines(lasted, &tests, &self.probes, &names, now));
        } else {
            progress.line(live::line(lasted, &tests, &self.probes, &names, now));
        }
    }

    /// Sends the latest figures of the probes as a live record.
    fn report_probes(&mut self, now: Timestamp) {
        let live = &self.live.live;
        if !live.is_on() || now.duration_since(self.probed_from) < live.interval() {
            return;
        }
        let path = |probe: &ProbeFigures| LiveProbedPath {
            name: probe.name.clone(),
            rtt_ms: probe.latest.filter(|_| probe.unanswered == 0).map(|rtt| rtt.as_nanos() as f64 / 1e6),
            lost: probe.lost,
        };
        live.send(|| {
            LiveRecord::ProbeInterval(LiveProbes {
                from_ms: self.probed_from.ms_from(self.begun),
                to_ms: now.ms_from(self.begun),
                paths: self.probes.iter().map(path).collect(),
            })
        });
        self.probed_from = now;
    }

    /// Writes all new lines to the operating system.
    fn write(&mut self, writer: &mut ResultWriter, now: Timestamp) -> Result<(), Failure> {
        for log in &mut self.logs {
            let setting = self.roam.setting(log, &self.context, None);
            let events =
                log.write(writer, &setting, &self.context.monitor.events, now).map_err(Failure::failed)?;
            self.live.paths(&log.id, &setting.paths);
            self.live.events(events);
        }
        let fresh = self.probe_lines.get(self.probes_written..).unwrap_or_default();
        writer.append(fresh).map_err(Failure::failed)?;
        self.probes_written = self.probe_lines.len();
        Ok(())
    }

    /// Writes the partial document, and all files to the disk.
    fn write_partial(&self, writer: &mut ResultWriter, document: &mut ResultDocument) -> Result<(), Failure> {
        let probes = probe_records(&self.paths, &self.probe_lines);
        let record = |log: &RunLog| {
            let setting = self.roam.setting(log, &self.context, None);
            let mut record = log.record(&setting, &self.context.monitor.events)?;
            record.probes.clone_from(&probes);
            Some(record)
        };
        document.runs = self.logs.iter().filter_map(record).collect();
        summarise_runs(document);
        writer.write_partial(document).and_then(|()| writer.sync()).map_err(Failure::failed)
    }

    /// Assembles the runs from the records of both ends, and replaces the lines written during the tests.
    pub(super) fn write_runs(
        mut self,
        clocks: &mut Clocks,
        counters: Option<&BTreeMap<String, i64>>,
        writer: &mut ResultWriter,
        document: &mut ResultDocument,
    ) -> Result<(), WriteError> {
        let probes = probe_records(&self.paths, &self.probe_lines);
        let mut changes = self.context.monitor.changes.clone();
        changes.dedup();
        let carried = self.witness.carried();
        writer.begin_anew()?;
        document.runs.clear();
        for mut log in self.logs {
            let Some(Finished { outcome, duration, note }) = log.finished.take() else { continue };
            let setting = self.roam.setting(&log, &self.context, Some(duration));
            let has_server = outcome.server.is_some();
            let is_mptcp = log.label.transport == Transport::Mptcp;
            let evidence = TestEvidence {
                id: log.id.clone(),
                label: &log.label,
                repetition: 1,
                setting: &setting,
                outcome,
                notifications: log.own(&self.context.monitor.events),
                counters: counters.filter(|_| is_mptcp).cloned(),
                carried: carried.clone(),
            };
            let (assembled, first_due) = evidence.assemble(clocks);
            let AssembledRun { mut record, samples, events, deliveries, messages, datagrams } = assembled;
            record.notes.extend(note);
            if let Some(zero) = first_due {
                let zero_ms = zero.ms_from(self.begun);
                record.notes.push(format!("its clock began {zero_ms:.0} ms after that of the probes"));
                if !has_server {
                    record.notes.push(without_server(log.figures.download.longest()));
                }
            }
            record.probes.clone_from(&probes);
            // Changes of the network do not invalidate a run: the command measures during such changes.
            record.touched_by.clone_from(&changes);
            writer.append(&samples)?;
            writer.append(&events)?;
            writer.append(&deliveries)?;
            writer.append(&messages)?;
            writer.append(&datagrams)?;
            self.live.end(&record);
            document.runs.push(record);
        }
        summarise_runs(document);
        Ok(())
    }
}

/// The live records of the runs, which all begin together.
fn begin_live(roam: &Roam<'_>, logs: &[RunLog], session: &MeasurementSession) -> LiveRuns {
    let document = &session.document;
    let live = session.progress.records.clone();
    let name = &document.scenario.name;
    live.start(name, document.seed, &document.host.started, logs.len(), live.interval());
    let mut runs = LiveRuns::new(live);
    let time = roam.plan.durations.first().filter(|_| roam.plan.timed);
    for (index, log) in logs.iter().enumerate() {
        runs.begin(LiveRunStart {
            run: log.id.clone(),
            number: index as u32 + 1,
            runs: logs.len() as u32,
            label: log.label.to_string(),
            pattern: PATTERN.to_owned(),
            variant: Variant::default(),
            repetition: 1,
            expected_ms: time.map(|time| time.as_secs_f64() * 1e3),
        });
        runs.paths(&log.id, &log.paths);
    }
    runs
}

fn without_server(longest_delay: Option<Duration>) -> String {
    let known = longest_delay.map_or_else(String::new, |delay| {
        format!("; the server's requests were delayed by up to {}, by their own pace", duration(delay))
    });
    format!("the run has the client's record only: the delays of the download are in the server's{known}")
}

fn probe_records(paths: &[ClientPath], lines: &[ProbeLine]) -> Vec<ProbeRecord> {
    paths.iter().map(|path| metrics::probes(&path.name, lines)).collect()
}
