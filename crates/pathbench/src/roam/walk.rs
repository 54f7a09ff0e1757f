//! A walk: every transport's test on a thread of its own, the probes and the Wi-Fi on two more, and this one between
//! them, which listens to all, shows it, and writes it down.

use super::display::Display;
use super::figures::{Dashboard, ProbeFigures, State, TestFigures};
use super::plan::RoamPlan;
use super::records::RunLog;
use super::surroundings::Surroundings;
use super::test::{Control, Finished, Test, Told};
use super::view::{self, Names};
use super::wifi;
use super::wifi::Presence;
use crate::client::discovery::Approach;
use crate::client::server::ServerName;
use crate::client::{Client, Target};
use crate::exit::Failure;
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{ProbeLine, ResultDocument};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::probe::{ProbeOutcome, ProbePath, ProbePlan, ProbeSample, run_probes};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often everything is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Between two times that what was seen is handed to the operating system.
const FLUSH: Duration = Duration::from_millis(500);
/// Between two documents of what is known so far, and this part of the time at most is spent on them.
const PARTIAL: Duration = Duration::from_secs(2);
const PARTIAL_PART: u32 = 20;
/// How long the server's records are sought once the walk is over.
const SEEK_RECORDS: Duration = Duration::from_secs(30);
/// A duration is the tests' own; they are told to end only when they are this late.
const OVERTIME: Duration = Duration::from_secs(1);
/// Between two probes of a path.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// Between two messages of the interactive pattern.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(100);

/// What a walk goes by.
pub(super) struct Walk<'a> {
    pub(super) client: &'a Client,
    pub(super) plan: &'a RoamPlan,
    pub(super) approach: Approach<'a>,
    pub(super) server: &'a ServerName,
    /// Where each transport that works is run.
    pub(super) places: &'a BTreeMap<Transport, SocketAddr>,
    /// The transports in the order in which they start, each with its ways.
    pub(super) tests: Vec<(Transport, Vec<ClientPath>)>,
    /// The Wi-Fi interface whose loss ends the walk, and how long it has to be lost.
    pub(super) until_gone: Option<(String, Duration)>,
    pub(super) stop: &'a AtomicBool,
}

/// What a walk leaves.
pub(super) struct Walked {
    pub(super) logs: Vec<RunLog>,
    /// One per log.
    pub(super) finished: Vec<Option<Finished>>,
    /// How late the server's requests came at most by their own pace, one per log.
    pub(super) lateness: Vec<Option<Duration>>,
    pub(super) surroundings: Surroundings,
    pub(super) probes: Vec<ProbeLine>,
    /// Those that were probed.
    pub(super) ways: Vec<ClientPath>,
    pub(super) begun: Timestamp,
    pub(super) end: End,
    /// How long it went on, the wait for the records not included.
    pub(super) lasted: Duration,
}

/// Why a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The user stopped it.
    User,
    /// Its time was over.
    Time,
    /// The Wi-Fi was gone.
    Gone(String),
    /// No test runs any more.
    Over,
}

impl Walk<'_> {
    /// From the first connection to the server's records.
    pub(super) fn go(
        &self,
        writer: &mut ResultWriter,
        document: &mut ResultDocument,
        display: &mut Display,
    ) -> Result<Walked, Failure> {
        let ways: Vec<ClientPath> = self.tests.first().map(|(_, ways)| ways.clone()).unwrap_or_default();
        let surroundings = Surroundings::watch(&self.client.clock, &ways)?;
        let (control, quit) = (Control::default(), AtomicBool::new(false));
        let (sender, told) = channel();
        let (looking, looks) = channel();
        let (probing, probed) = channel();
        let ways_to = |address| self.approach.ways(address).unwrap_or_default();
        let plan = self.probe_plan(&ways);
        thread::scope(|scope| {
            for test in self.tests(&control, &ways_to, &sender) {
                scope.spawn(move || test.conduct());
            }
            drop(sender);
            let clock = &self.client.clock;
            let quit = &quit;
            scope.spawn(move || wifi::watch(clock.as_ref(), quit, &looking));
            let probe = plan.as_ref();
            scope.spawn(move || {
                let Some(plan) = probe else { return };
                // Listening ends before probing does.
                let sink = |sample| drop(probing.send(sample));
                // The interval is ours, and long enough.
                let _never_refused = run_probes(plan, clock, quit, &sink);
            });
            let mut course = Course {
                walk: self,
                control: &control,
                surroundings,
                dashboard: self.dashboard(&ways),
                logs: self.logs(),
                finished: self.tests.iter().map(|_| None).collect(),
                over: vec![false; self.tests.len()],
                probes: Vec::new(),
                fresh_probes: 0,
                ways: &ways,
                presence: self.until_gone.as_ref().map(|(_, gone_for)| Presence::new(*gone_for)),
                begun: clock.now(),
            };
            let ended = course.run(&Ears { told, looks, probed }, writer, document, display);
            if ended.is_err() {
                control.stop(clock.now(), clock.now());
                control.abort();
            }
            quit.store(true, Ordering::Relaxed);
            let (end, at) = ended?;
            Ok(course.into_walked(end, at))
        })
    }

    fn tests<'b>(
        &'b self,
        control: &'b Control,
        ways: &'b (dyn Fn(SocketAddr) -> Vec<ClientPath> + Sync),
        sender: &Sender<(usize, Told)>,
    ) -> Vec<Test<'b>> {
        let of_number = |(number, (transport, ways_of_test)): (usize, &(Transport, Vec<ClientPath>))| {
            let address = self.places.get(transport).copied()?;
            Some(Test {
                client: self.client,
                transport: *transport,
                target: Target { address, host: self.server.host.clone(), ways: ways_of_test.clone() },
                durations: &self.plan.durations,
                patience: self.plan.patience,
                control,
                sources: self.sources(),
                ways,
                sender: sender.clone(),
                number,
            })
        };
        self.tests.iter().enumerate().filter_map(of_number).collect()
    }

    /// An mptcp listener serves tcp, too, and an mpquic listener quic: one path is enough for a record.
    fn sources(&self) -> Vec<(Transport, SocketAddr)> {
        let first = |[single, multipath]: [Transport; 2]| {
            let place = self.places.get(&single).or_else(|| self.places.get(&multipath))?;
            Some((single, *place))
        };
        [[Transport::Tcp, Transport::Mptcp], [Transport::Quic, Transport::Mpquic]]
            .into_iter()
            .filter_map(first)
            .collect()
    }

    fn probe_plan(&self, ways: &[ClientPath]) -> Option<ProbePlan> {
        let of_quic = [Transport::Quic, Transport::Mpquic].iter().find_map(|one| self.places.get(one));
        let server = *of_quic.or_else(|| self.places.values().next())?;
        let path = |way: &ClientPath| ProbePath {
            name: way.name.clone(),
            interface: way.interface.clone(),
            // The interface may get another one on the way.
            local: None,
        };
        Some(ProbePlan {
            server,
            token: self.approach.access.token.clone(),
            paths: ways.iter().map(path).collect(),
            interval: PROBE_INTERVAL,
        })
    }

    fn dashboard(&self, ways: &[ClientPath]) -> Dashboard {
        let test =
            |(transport, _): &(Transport, _)| TestFigures::new(transport.to_string(), MESSAGE_INTERVAL);
        Dashboard {
            begun: self.client.clock.now(),
            tests: self.tests.iter().map(test).collect(),
            probes: ways.iter().map(|way| ProbeFigures::of(way.name.clone())).collect(),
        }
    }

    fn logs(&self) -> Vec<RunLog> {
        let log = |(index, (transport, ways)): (usize, &(Transport, Vec<ClientPath>))| {
            RunLog::new(format!("{:02}-{transport}-interactive-r1", index + 1), *transport, ways.clone())
        };
        self.tests.iter().enumerate().map(log).collect()
    }
}

/// What the threads tell.
struct Ears {
    told: Receiver<(usize, Told)>,
    looks: Receiver<wifi::Look>,
    probed: Receiver<ProbeSample>,
}

/// The walk as it goes.
struct Course<'a> {
    walk: &'a Walk<'a>,
    control: &'a Control,
    surroundings: Surroundings,
    dashboard: Dashboard,
    logs: Vec<RunLog>,
    finished: Vec<Option<Finished>>,
    /// Tests that are over.
    over: Vec<bool>,
    probes: Vec<ProbeLine>,
    /// How many of them are written.
    fresh_probes: usize,
    ways: &'a [ClientPath],
    presence: Option<Presence>,
    begun: Timestamp,
}

impl Course<'_> {
    fn run(
        &mut self,
        ears: &Ears,
        writer: &mut ResultWriter,
        document: &mut ResultDocument,
        display: &mut Display,
    ) -> Result<(End, Timestamp), Failure> {
        let clock = &self.walk.client.clock;
        let mut ended: Option<(End, Timestamp)> = None;
        let (mut next_flush, mut next_partial) = (self.begun, self.begun);
        loop {
            self.listen(ears, display);
            let now = clock.now();
            self.show(display, now);
            if now >= next_flush {
                self.write(writer, now)?;
                next_flush = now + FLUSH;
            }
            if now >= next_partial {
                self.write_partial(writer, document)?;
                let took = clock.now().since(now);
                next_partial = now + PARTIAL.max(took * PARTIAL_PART);
            }
            if self.finished.iter().all(Option::is_some) {
                self.write(writer, now)?;
                return Ok(ended.unwrap_or_else(|| (self.end(now).unwrap_or(End::Over), now)));
            }
            if ended.is_none()
                && let Some(end) = self.end(now)
            {
                display
                    .line(&format!("{}; waiting for the last answers and the server's records", end.words()));
                self.control.stop(now, now + SEEK_RECORDS);
                ended = Some((end, now));
            }
        }
    }

    /// Takes in what was told, for a tick at most.
    fn listen(&mut self, ears: &Ears, display: &Display) {
        let until = self.walk.client.clock.now() + TICK;
        loop {
            let wait = until.since(self.walk.client.clock.now());
            match ears.told.recv_timeout(wait) {
                Ok((number, told)) => self.hear(number, told, display),
                Err(RecvTimeoutError::Timeout) => break,
                // All tests are done: nothing comes, at once.
                Err(RecvTimeoutError::Disconnected) => {
                    self.walk.client.clock.sleep_until(until);
                    break;
                }
            }
        }
        let mut words = self.surroundings.look();
        for look in ears.looks.try_iter() {
            words.extend(self.surroundings.see_wifi(look));
        }
        for changed in words {
            display.line(&format!("{}: {changed}", view::clock(until.since(self.begun))));
        }
        for sample in ears.probed.try_iter() {
            self.hear_probe(sample);
        }
    }

    fn hear(&mut self, number: usize, told: Told, display: &Display) {
        let (Some(log), Some(figures)) = (self.logs.get_mut(number), self.dashboard.tests.get_mut(number))
        else {
            return;
        };
        match told {
            Told::Progress(progress) => figures.progress(&progress),
            Told::Fresh(fresh) => {
                figures.hear(&fresh);
                log.hear(*fresh);
            }
            Told::Over => {
                figures.state = State::Over(None);
                self.over[number] = true;
            }
            Told::Done(finished) => {
                let error = finished.outcome.error.as_ref().map(ToString::to_string);
                if let Some(error) = &error {
                    let hint = if finished.is_crowded_out() {
                        "; a walk runs several at once: its operator can allow that with `pathbench serve \
                         --max-tests-per-client 4`"
                    } else {
                        ""
                    };
                    display.warn(&format!("pathbench: {}: {error}{hint}", figures.name));
                }
                figures.state = State::Over(error);
                self.over[number] = true;
                self.finished[number] = Some(*finished);
            }
        }
    }

    fn hear_probe(&mut self, sample: ProbeSample) {
        let Some(figures) = self.dashboard.probes.get_mut(sample.path) else { return };
        figures.hear(&sample);
        let (rtt_ms, error) = match sample.outcome {
            ProbeOutcome::Answered { rtt } => (Some(rtt.as_nanos() as f64 / 1e6), None),
            ProbeOutcome::Lost => (None, None),
            ProbeOutcome::Refused { error } => (None, Some(error)),
        };
        self.probes.push(ProbeLine {
            t_ms: sample.sent_at.ms_from(self.begun),
            path: figures.name.clone(),
            sequence: sample.sequence,
            rtt_ms,
            error,
        });
    }

    /// Whether the walk is over.
    fn end(&mut self, now: Timestamp) -> Option<End> {
        if self.walk.stop.load(Ordering::Relaxed) {
            return Some(End::User);
        }
        let walked = now.since(self.begun);
        let time = self.walk.plan.durations.first().filter(|_| self.walk.plan.timed);
        if self.over.iter().all(|over| *over) {
            // The last message of all is due one interval before the time is over.
            let in_time = time.is_some_and(|time| walked + MESSAGE_INTERVAL >= *time);
            return Some(if in_time { End::Time } else { End::Over });
        }
        if time.is_some_and(|time| walked >= *time + OVERTIME) {
            return Some(End::Time);
        }
        let (interface, _) = self.walk.until_gone.as_ref()?;
        let sight = self.surroundings.sight(interface);
        self.presence.as_mut()?.look(now, sight).map(End::Gone)
    }

    fn show(&self, display: &mut Display, now: Timestamp) {
        let ways = self.surroundings.with_all_addresses(self.ways);
        let of_address = |local: IpAddr| {
            let way = ways.iter().find(|way| way.addresses.contains(&local));
            way.map_or_else(|| local.to_string(), |way| way.name.clone())
        };
        let wifi_of = |name: &str| self.surroundings.wifi.network(name).cloned();
        let names = Names { of_address: &of_address, wifi_of: &wifi_of };
        let lines = || view::lines(&self.dashboard, &names, now);
        display.show(now, now.since(self.begun), lines, || view::line(&self.dashboard, &names, now));
    }

    /// Hands what was seen to the operating system.
    fn write(&mut self, writer: &mut ResultWriter, now: Timestamp) -> Result<(), Failure> {
        for log in &mut self.logs {
            let setting = self.walk.setting(log, &self.surroundings, None);
            log.write(writer, &setting, &self.surroundings.events, now).map_err(Failure::failed)?;
        }
        let fresh = self.probes.get(self.fresh_probes..).unwrap_or_default();
        writer.append_probes(fresh).map_err(Failure::failed)?;
        self.fresh_probes = self.probes.len();
        Ok(())
    }

    /// Writes the document of what is known so far, and makes it all outlive the machine.
    fn write_partial(&self, writer: &mut ResultWriter, document: &mut ResultDocument) -> Result<(), Failure> {
        let probes = super::records::probe_records(self.ways, &self.probes);
        let record = |log: &RunLog| {
            let setting = self.walk.setting(log, &self.surroundings, None);
            let mut record = log.record(&setting, &self.surroundings.events)?;
            record.probes.clone_from(&probes);
            Some(record)
        };
        document.runs = self.logs.iter().filter_map(record).collect();
        super::records::summarise_runs(document);
        writer.write_partial(document).and_then(|()| writer.sync()).map_err(Failure::failed)
    }

    fn into_walked(self, end: End, ended: Timestamp) -> Walked {
        Walked {
            logs: self.logs,
            finished: self.finished,
            lateness: self.dashboard.tests.iter().map(|test| test.download.longest()).collect(),
            surroundings: self.surroundings,
            probes: self.probes,
            ways: self.ways.to_vec(),
            begun: self.begun,
            end,
            lasted: ended.since(self.begun),
        }
    }
}

impl End {
    /// As a line of the result.
    pub(super) fn words(&self) -> String {
        match self {
            Self::User => "the walk was ended by the user".to_owned(),
            Self::Time => "the walk's time is over".to_owned(),
            Self::Gone(why) => format!("the walk ended because {why}"),
            Self::Over => "no transport goes on any more".to_owned(),
        }
    }
}
