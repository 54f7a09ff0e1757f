//! The suite's runs in their order: each is made, put together, written down, and judged by what happened meanwhile.

use super::display::{Display, in_words};
use super::plan::{SuitePattern, SuitePlan};
use crate::client::discovery::Approach;
use crate::client::network::{CLIENT, Change, Judge, NetworkWatch};
use crate::client::paths::{self, HostNetwork};
use crate::client::server::ServerName;
use crate::client::{self, Client, Clocks, Target, mptcp};
use crate::exit::Failure;
use pathbench_analysis::assembly::{
    AssembledRun, ClientPath, ClockOffset, Evidence, Notification, RunSetting, SeenEvent, assemble,
};
use pathbench_host::counters::Counters;
use pathbench_lab::order::{ScheduledRun, schedule};
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::ResultDocument;
use pathbench_record::sample::Side;
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::{
    ClientError, ClientObserver, ClientOutcome, ClientPlan, FetchPlan, Progress, fetch_record, run_client,
};
use pathbench_traffic::protocol::RefusalCode;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
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
        client::compare_clocks(self.client, transport, &target)
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
        let outcome = run(self.client, &plan, &ways, lookout, &mut seen, display, self.stop)?;
        let ended = self.client.clock.now();
        // Routes come and go without a word about links or addresses.
        let rerouted = self.approach.ways(address).ok().and_then(|now| paths::rerouted(&ways, &now));
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

/// How often the network and the user's wish to stop are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often a busy server is asked again, and the longest wait in between.
const BUSY_TRIES: u32 = 5;
const LONGEST_BUSY_WAIT: Duration = Duration::from_secs(30);
/// Wait where a busy server does not say how long.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// What was seen of the network while a run went on.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) notifications: Vec<SeenEvent>,
    pub(super) changes: Vec<Change>,
}

/// Looks at the network for the suite.
pub(super) struct Lookout {
    pub(super) watch: NetworkWatch,
    pub(super) judge: Judge,
}

impl Lookout {
    /// Takes in what has happened since the last look, and tells what matters.
    pub(super) fn look(&mut self, seen: &mut Seen, display: &Display) {
        for event in self.watch.take() {
            if let Notification::Link(told) = &event.what
                && let Some(change) = self.judge.change(event.at, told)
            {
                display.warn(&format!("pathbench: the network changed: {}", change.words));
                seen.changes.push(change);
            }
            seen.notifications.push(event);
        }
    }
}

/// A test's thread to the suite's.
enum Message {
    Progress(Progress),
    Done(Box<ClientOutcome>),
}

/// Passes progress on.
struct Reporter {
    sender: Sender<Message>,
}

impl ClientObserver for Reporter {
    fn on_progress(&self, progress: &Progress) {
        // The suite has stopped listening when it stops.
        let _stopped = self.sender.send(Message::Progress(progress.clone()));
    }
}

/// Runs the test of `plan`, waiting for a busy server; `None` when the user stopped it.
pub(super) fn run(
    client: &Client,
    plan: &ClientPlan,
    ways: &[ClientPath],
    lookout: &mut Lookout,
    seen: &mut Seen,
    display: &mut Display,
    stop: &AtomicBool,
) -> Option<ClientOutcome> {
    lookout.judge.know_ways(ways);
    for attempt in 1.. {
        let messages = start(client, plan.clone());
        let outcome = loop {
            lookout.look(seen, display);
            if stop.load(Ordering::Relaxed) {
                // The thread dies with the process, and with it the connection.
                return None;
            }
            match messages.recv_timeout(TICK) {
                Ok(Message::Progress(progress)) => display.progress(progress, ways),
                Ok(Message::Done(outcome)) => break outcome,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        };
        let Some(wait) = busy_for(&outcome).filter(|_| attempt < BUSY_TRIES) else {
            lookout.look(seen, display);
            return Some(*outcome);
        };
        display.line(&format!("the server is busy; asking again in {:.0} s", wait.as_secs_f64().ceil()));
        let until = client.clock.now() + wait;
        while client.clock.now() < until {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            client.clock.sleep_until((client.clock.now() + TICK).min(until));
        }
    }
    None
}

fn start(client: &Client, plan: ClientPlan) -> Receiver<Message> {
    let (sender, messages) = channel();
    let clock = client.clock.clone();
    thread::spawn(move || {
        let mut outcome = run_client(&plan, &clock, &Reporter { sender: sender.clone() });
        // What the connection could not hand over may still be had over another one.
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

/// How long to wait when the server was busy.
fn busy_for(outcome: &ClientOutcome) -> Option<Duration> {
    match &outcome.error {
        Some(ClientError::Refused { code: RefusalCode::Busy, retry_after_ms, .. }) => {
            let wait = retry_after_ms.map_or(BUSY_WAIT, Duration::from_millis);
            Some(wait.min(LONGEST_BUSY_WAIT))
        }
        _ => None,
    }
}

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
