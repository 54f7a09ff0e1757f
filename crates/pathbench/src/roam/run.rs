//! All tests at the same time, each on a thread of its own, beside the probes and the Wi-Fi on two more. This thread
//! receives from all of them, shows the figures and writes them down.

use super::context::{LossDetector, PathContext, WifiState, follow_wifi};
use super::figures::{Figures, ProbeFigures, State, TestFigures};
use super::plan::RoamPlan;
use super::records::{self, RunLog};
use super::test::{Control, Finished, Test, TestEvent};
use super::view::{self, Names};
use crate::client::discovery::Reached;
use crate::client::{Client, Target};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::session::Session;
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{ProbeLine, ResultDocument};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::probe::{ProbeOutcome, ProbePath, ProbePlan, ProbeSample, run_probes};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Longest time in which this thread receives before it writes and looks for the end.
const TICK: Duration = Duration::from_millis(100);
/// Between two writes to the operating system.
const FLUSH: Duration = Duration::from_millis(500);
/// Between two partial documents, which take at most one part in this many of the time.
const PARTIAL: Duration = Duration::from_secs(2);
const PARTIAL_PART: u32 = 20;
/// How long the tests try to fetch the server's records after the end.
const FETCH_RECORDS: Duration = Duration::from_secs(30);
/// The tests end by their own duration; they are stopped when they last this much longer.
const OVERTIME: Duration = Duration::from_secs(1);
/// Between two probes of a path.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// Between two messages of the interactive pattern.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Roam<'a> {
    pub(super) client: &'a Client,
    pub(super) plan: &'a RoamPlan,
    pub(super) reached: &'a Reached,
    /// The transports in the order in which they start, each with its paths.
    pub(super) tests: Vec<(Transport, Vec<ClientPath>)>,
    /// The Wi-Fi interface whose loss ends the tests, and how long it has to be lost.
    pub(super) until_gone: Option<(String, Duration)>,
    pub(super) stop: Arc<AtomicBool>,
}

/// Everything that was recorded.
pub(super) struct Recorded {
    pub(super) logs: Vec<RunLog>,
    /// One per log, as long as the test has not ended `None`.
    pub(super) finished: Vec<Option<Finished>>,
    /// The longest delay of the server's requests by their own pace, one per log.
    pub(super) longest_delays: Vec<Option<Duration>>,
    pub(super) context: PathContext,
    pub(super) probes: Vec<ProbeLine>,
    /// The probed paths.
    pub(super) paths: Vec<ClientPath>,
    pub(super) begun: Timestamp,
    pub(super) end: End,
    /// Without the wait for the server's records.
    pub(super) lasted: Duration,
}

/// Why the tests ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    User,
    Time,
    /// The Wi-Fi was lost.
    Gone(String),
    /// No test runs any more.
    Over,
}

impl End {
    pub(super) fn words(&self) -> String {
        match self {
            Self::User => "stopped by the user".to_owned(),
            Self::Time => "the time is over".to_owned(),
            Self::Gone(why) => format!("ended because {why}"),
            Self::Over => "no transport works any more".to_owned(),
        }
    }
}

impl Roam<'_> {
    /// From the first connection to the server's records.
    pub(super) fn run(&self, writer: &mut ResultWriter, session: &mut Session) -> Result<Recorded, Failure> {
        let paths: Vec<ClientPath> = self.tests.first().map(|(_, paths)| paths.clone()).unwrap_or_default();
        let context = PathContext::start(&self.client.clock, &paths)?;
        let (control, quit) = (Control::default(), AtomicBool::new(false));
        let (sender, events) = channel();
        let (wifi_sender, wifi) = channel();
        let (probe_sender, probes) = channel();
        let paths_to = |address| self.client.paths_to(address).unwrap_or_default();
        let plan = self.probe_plan(&paths);
        thread::scope(|scope| {
            for test in self.tests(&control, &paths_to, &sender) {
                scope.spawn(move || test.run());
            }
            drop(sender);
            let clock = &self.client.clock;
            let quit = &quit;
            scope.spawn(move || follow_wifi(clock.as_ref(), quit, &wifi_sender));
            let plan = plan.as_ref();
            scope.spawn(move || {
                let Some(plan) = plan else { return };
                // This thread stops to receive before the probes end.
                let sink = |sample| drop(probe_sender.send(sample));
                // The interval is long enough for the prober.
                let _never_refused = run_probes(plan, clock, quit, &sink);
            });
            let mut recorder = Recorder {
                roam: self,
                control: &control,
                recorded: self.nothing_recorded(context, paths),
                figures: self.figures(),
                over: vec![false; self.tests.len()],
                probes_written: 0,
                detector: self.until_gone.as_ref().map(|(_, gone_for)| LossDetector::new(*gone_for)),
            };
            let ended = recorder.run(&Channels { events, wifi, probes }, writer, session);
            if ended.is_err() {
                control.stop(clock.now(), clock.now());
                control.abort();
            }
            quit.store(true, Ordering::Relaxed);
            let (end, at) = ended?;
            Ok(recorder.into_recorded(end, at))
        })
    }

    fn tests<'b>(
        &'b self,
        control: &'b Control,
        paths_to: &'b (dyn Fn(SocketAddr) -> Vec<ClientPath> + Sync),
        sender: &Sender<(usize, TestEvent)>,
    ) -> Vec<Test<'b>> {
        let test = |(number, (transport, paths)): (usize, &(Transport, Vec<ClientPath>))| {
            let address = self.reached.places.get(transport).copied()?;
            Some(Test {
                client: self.client,
                transport: *transport,
                target: Target { address, host: self.reached.server.host.clone(), paths: paths.clone() },
                durations: &self.plan.durations,
                patience: self.plan.patience,
                control,
                sources: self.record_sources(),
                paths_to,
                sender: sender.clone(),
                number,
            })
        };
        self.tests.iter().enumerate().filter_map(test).collect()
    }

    /// Where records can be fetched: an mptcp listener serves tcp, too, and an mpquic listener quic.
    fn record_sources(&self) -> Vec<(Transport, SocketAddr)> {
        let first = |[single, multipath]: [Transport; 2]| {
            let places = &self.reached.places;
            let place = places.get(&single).or_else(|| places.get(&multipath))?;
            Some((single, *place))
        };
        [[Transport::Tcp, Transport::Mptcp], [Transport::Quic, Transport::Mpquic]]
            .into_iter()
            .filter_map(first)
            .collect()
    }

    fn probe_plan(&self, paths: &[ClientPath]) -> Option<ProbePlan> {
        let places = &self.reached.places;
        let of_quic = [Transport::Quic, Transport::Mpquic].iter().find_map(|one| places.get(one));
        let server = *of_quic.or_else(|| places.values().next())?;
        let path = |path: &ClientPath| ProbePath {
            name: path.name.clone(),
            interface: path.interface.clone(),
            // The address of the interface may change.
            local: None,
        };
        Some(ProbePlan {
            server,
            token: self.client.arguments.server.token.clone(),
            paths: paths.iter().map(path).collect(),
            interval: PROBE_INTERVAL,
        })
    }

    fn figures(&self) -> Figures {
        let test =
            |(transport, _): &(Transport, _)| TestFigures::new(transport.to_string(), MESSAGE_INTERVAL);
        let paths = self.tests.first().map(|(_, paths)| paths.as_slice()).unwrap_or_default();
        Figures {
            begun: self.client.clock.now(),
            tests: self.tests.iter().map(test).collect(),
            probes: paths.iter().map(|path| ProbeFigures::new(path.name.clone())).collect(),
        }
    }

    fn nothing_recorded(&self, context: PathContext, paths: Vec<ClientPath>) -> Recorded {
        let log = |(index, (transport, paths)): (usize, &(Transport, Vec<ClientPath>))| {
            RunLog::new(format!("{:02}-{transport}-interactive-r1", index + 1), *transport, paths.clone())
        };
        Recorded {
            logs: self.tests.iter().enumerate().map(log).collect(),
            finished: self.tests.iter().map(|_| None).collect(),
            longest_delays: Vec::new(),
            context,
            probes: Vec::new(),
            paths,
            begun: self.client.clock.now(),
            end: End::Over,
            lasted: Duration::ZERO,
        }
    }
}

/// From the other threads.
struct Channels {
    events: Receiver<(usize, TestEvent)>,
    wifi: Receiver<WifiState>,
    probes: Receiver<ProbeSample>,
}

struct Recorder<'a> {
    roam: &'a Roam<'a>,
    control: &'a Control,
    recorded: Recorded,
    figures: Figures,
    /// Tests that are over.
    over: Vec<bool>,
    probes_written: usize,
    detector: Option<LossDetector>,
}

impl Recorder<'_> {
    fn run(
        &mut self,
        channels: &Channels,
        writer: &mut ResultWriter,
        session: &mut Session,
    ) -> Result<(End, Timestamp), Failure> {
        let clock = &self.roam.client.clock;
        let Session { progress, document, .. } = session;
        let mut ended: Option<(End, Timestamp)> = None;
        let (mut next_flush, mut next_partial) = (self.recorded.begun, self.recorded.begun);
        loop {
            self.receive(channels, progress);
            let now = clock.now();
            self.show(progress, now);
            if now >= next_flush {
                self.write(writer, now)?;
                next_flush = now + FLUSH;
            }
            if now >= next_partial {
                self.write_partial(writer, document)?;
                let took = clock.now().since(now);
                next_partial = now + PARTIAL.max(took * PARTIAL_PART);
            }
            if self.recorded.finished.iter().all(Option::is_some) {
                self.write(writer, now)?;
                return Ok(ended.unwrap_or_else(|| (self.end(now).unwrap_or(End::Over), now)));
            }
            if ended.is_none()
                && let Some(end) = self.end(now)
            {
                let words = end.words();
                progress.line(format_args!("{words}; waiting for the last answers and the server's records"));
                self.control.stop(now, now + FETCH_RECORDS);
                ended = Some((end, now));
            }
        }
    }

    /// Takes in events for a tick at most.
    fn receive(&mut self, channels: &Channels, progress: &Progress) {
        let clock = &self.roam.client.clock;
        let until = clock.now() + TICK;
        loop {
            match channels.events.recv_timeout(until.since(clock.now())) {
                Ok((number, event)) => self.add(number, event, progress),
                Err(RecvTimeoutError::Timeout) => break,
                // All tests are done, and the channel returns at once.
                Err(RecvTimeoutError::Disconnected) => {
                    clock.sleep_until(until);
                    break;
                }
            }
        }
        let context = &mut self.recorded.context;
        let mut changes = context.monitor.poll();
        for state in channels.wifi.try_iter() {
            changes.extend(context.add_wifi(state));
        }
        for change in changes {
            progress.line(format_args!("{}: {change}", view::clock(until.since(self.recorded.begun))));
        }
        for sample in channels.probes.try_iter() {
            self.add_probe(sample);
        }
    }

    fn add(&mut self, number: usize, event: TestEvent, progress: &Progress) {
        let log = self.recorded.logs.get_mut(number);
        let (Some(log), Some(figures)) = (log, self.figures.tests.get_mut(number)) else { return };
        match event {
            TestEvent::Transferred(transferred) => figures.transferred(&transferred),
            TestEvent::Fresh(fresh) => {
                figures.add(&fresh);
                log.add(*fresh);
            }
            TestEvent::Over => {
                figures.state = State::Over(None);
                self.over[number] = true;
            }
            TestEvent::Done(finished) => {
                let error = finished.outcome.error.as_ref().map(ToString::to_string);
                if let Some(error) = &error {
                    let hint = if finished.is_server_busy() {
                        "; roam runs several tests at once: the server's operator allows that with `pathbench serve \
                         --max-tests-per-client 4`"
                    } else {
                        ""
                    };
                    progress.warn(format_args!("pathbench: {}: {error}{hint}", figures.name));
                }
                figures.state = State::Over(error);
                self.over[number] = true;
                self.recorded.finished[number] = Some(*finished);
            }
        }
    }

    fn add_probe(&mut self, sample: ProbeSample) {
        let Some(figures) = self.figures.probes.get_mut(sample.path) else { return };
        figures.add(&sample);
        let (rtt_ms, error) = match sample.outcome {
            ProbeOutcome::Answered { rtt } => (Some(rtt.as_nanos() as f64 / 1e6), None),
            ProbeOutcome::Lost => (None, None),
            ProbeOutcome::Refused { error } => (None, Some(error)),
        };
        self.recorded.probes.push(ProbeLine {
            t_ms: sample.sent_at.ms_from(self.recorded.begun),
            path: figures.name.clone(),
            sequence: sample.sequence,
            rtt_ms,
            error,
        });
    }

    /// The reason to end, once there is one.
    fn end(&mut self, now: Timestamp) -> Option<End> {
        if self.roam.stop.load(Ordering::Relaxed) {
            return Some(End::User);
        }
        let lasted = now.since(self.recorded.begun);
        let time = self.roam.plan.durations.first().filter(|_| self.roam.plan.timed);
        if self.over.iter().all(|over| *over) {
            // The last message of all is due one interval before the time is over.
            let in_time = time.is_some_and(|time| lasted + MESSAGE_INTERVAL >= *time);
            return Some(if in_time { End::Time } else { End::Over });
        }
        if time.is_some_and(|time| lasted >= *time + OVERTIME) {
            return Some(End::Time);
        }
        let (interface, _) = self.roam.until_gone.as_ref()?;
        let state = self.recorded.context.interface(interface);
        self.detector.as_mut()?.add(now, state).map(End::Gone)
    }

    fn show(&self, progress: &mut Progress, now: Timestamp) {
        if !progress.is_due(now) {
            return;
        }
        let context = &self.recorded.context;
        let paths = context.monitor.with_all_addresses(&self.recorded.paths);
        let of_address = |local: IpAddr| {
            let path = paths.iter().find(|path| path.addresses.contains(&local));
            path.map_or_else(|| local.to_string(), |path| path.name.clone())
        };
        let wifi_of = |name: &str| context.wifi.network(name).cloned();
        let names = Names { of_address: &of_address, wifi_of: &wifi_of };
        if progress.is_live() {
            progress.show(None, &view::lines(&self.figures, &names, now));
        } else {
            progress.line(view::line(&self.figures, &names, now));
        }
    }

    /// Writes everything new to the operating system.
    fn write(&mut self, writer: &mut ResultWriter, now: Timestamp) -> Result<(), Failure> {
        let Recorded { logs, context, probes, .. } = &mut self.recorded;
        for log in logs {
            let setting = self.roam.setting(log, context, None);
            log.write(writer, &setting, &context.monitor.events, now).map_err(Failure::failed)?;
        }
        let fresh = probes.get(self.probes_written..).unwrap_or_default();
        writer.append_probes(fresh).map_err(Failure::failed)?;
        self.probes_written = probes.len();
        Ok(())
    }

    /// Writes the partial document, and all files to the disk.
    fn write_partial(&self, writer: &mut ResultWriter, document: &mut ResultDocument) -> Result<(), Failure> {
        let Recorded { logs, context, probes, paths, .. } = &self.recorded;
        let probes = records::probe_records(paths, probes);
        let record = |log: &RunLog| {
            let setting = self.roam.setting(log, context, None);
            let mut record = log.record(&setting, &context.monitor.events)?;
            record.probes.clone_from(&probes);
            Some(record)
        };
        document.runs = logs.iter().filter_map(record).collect();
        records::summarise_runs(document);
        writer.write_partial(document).and_then(|()| writer.sync()).map_err(Failure::failed)
    }

    fn into_recorded(self, end: End, ended: Timestamp) -> Recorded {
        let longest_delays = self.figures.tests.iter().map(|test| test.download.longest()).collect();
        let lasted = ended.since(self.recorded.begun);
        Recorded { longest_delays, end, lasted, ..self.recorded }
    }
}
