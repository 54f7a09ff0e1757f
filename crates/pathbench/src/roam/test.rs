//! The test of one transport, on a thread of its own, and the server's record of it over any path that is left.

use super::plan::interactive;
use crate::client::{Client, Target};
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::connection::PathEvent;
use pathbench_record::document::UnreachableBecause;
use pathbench_record::end::{EndRecord, MessageRecord, PathSample};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{
    ClientError, ClientObserver, ClientOutcome, ClientPlan, FetchError, FetchPlan, News, Progress, Wish,
    fetch_record, run_client,
};
use pathbench_traffic::messages::Arrival;
use pathbench_traffic::protocol::RefusalCode;
use pathbench_transport::{LocalPath, QuicOptions};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Between two complete records so far, which take at most one part in this many of the time.
const SO_FAR: Duration = Duration::from_secs(5);
const SO_FAR_PART: u32 = 20;
/// How long one path may take for the server's record.
const FETCH_TIMEOUT: Duration = Duration::from_secs(4);
/// Between two attempts on all paths.
const FETCH_PAUSE: Duration = Duration::from_secs(1);
/// After so many refusals on every path no server runs any more.
const REFUSALS: u32 = 2;
/// Time for a test to end, the wait for the last answers included; then it is aborted.
const FORCE_AFTER: Duration = Duration::from_secs(8);
/// Time for the records, once the data of both directions has arrived.
const HAND_OVER: Duration = Duration::from_secs(60);
/// The server's samples give the shares of the paths; its record has to pass the network that is left.
const SERVER_SAMPLES: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Ends the tests.
#[derive(Debug, Default)]
pub(super) struct Control {
    abort: AtomicBool,
    /// When the tests stop, and until when they try to fetch the server's record.
    stopped: Mutex<Option<(Timestamp, Timestamp)>>,
}

impl Control {
    /// The tests stop at `now`, and try to fetch records until `deadline`.
    pub(super) fn stop(&self, now: Timestamp, deadline: Timestamp) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, deadline));
    }

    pub(super) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }

    /// What a test is to do at `now`; `is_exchanged`: only its records are missing.
    fn wish(&self, now: Timestamp, is_exchanged: bool) -> Wish {
        let Some((since, _)) = self.stopped() else { return Wish::GoOn };
        let most = if is_exchanged { HAND_OVER } else { FORCE_AFTER };
        let overdue = now.since(since) >= most;
        if overdue || self.abort.load(Ordering::Acquire) { Wish::Abort } else { Wish::Stop }
    }

    fn stopped(&self) -> Option<(Timestamp, Timestamp)> {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) enum TestEvent {
    Transferred(Progress),
    Fresh(Box<Fresh>),
    /// The test is over; only the server's record may follow.
    Over,
    Done(Box<Finished>),
}

/// Everything new since the last event of this kind.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) at: Timestamp,
    pub(super) messages: Vec<MessageRecord>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) samples: Vec<PathSample>,
    pub(super) path_events: Vec<PathEvent>,
    /// Only the records are missing.
    pub(super) is_exchanged: bool,
    /// The record so far, without samples; not every time.
    pub(super) so_far: Option<EndRecord>,
}

#[derive(Debug)]
pub(super) struct Finished {
    pub(super) outcome: ClientOutcome,
    /// The duration that the server granted.
    pub(super) duration: Duration,
    /// Where the server's record came from, unless the test itself brought it.
    pub(super) note: Option<String>,
}

impl Finished {
    pub(super) fn is_server_busy(&self) -> bool {
        matches!(&self.outcome.error, Some(ClientError::Refused { code: RefusalCode::Busy, .. }))
    }
}

pub(super) struct Test<'a> {
    pub(super) client: &'a Client,
    pub(super) transport: Transport,
    pub(super) target: Target,
    pub(super) durations: &'a [Duration],
    pub(super) patience: Duration,
    pub(super) control: &'a Control,
    /// Where a record can be fetched, in this order.
    pub(super) sources: Vec<(Transport, SocketAddr)>,
    /// The paths to an address, now.
    pub(super) paths_to: &'a (dyn Fn(SocketAddr) -> Vec<ClientPath> + Sync),
    pub(super) sender: Sender<(usize, TestEvent)>,
    pub(super) number: usize,
}

impl Test<'_> {
    /// Runs the test to its end and fetches the server's record, in this thread.
    pub(super) fn run(&self) {
        let (plan, duration, mut outcome) = self.run_test();
        self.send(TestEvent::Over);
        let mut note = None;
        // Where no stream was ever opened, the server has nothing either.
        if outcome.server.is_none() && !outcome.client.streams.is_empty() {
            match self.fetch_record(&plan, &outcome.client) {
                Ok((record, path)) => {
                    outcome.server = Some(record);
                    note = Some(format!("the server's record was fetched afterwards, over {path}"));
                }
                Err(why) => note = Some(format!("the server's record could not be fetched: {why}")),
            }
        }
        self.send(TestEvent::Done(Box::new(Finished { outcome, duration, note })));
    }

    /// For the longest of the durations that the server grants.
    fn run_test(&self) -> (ClientPlan, Duration, ClientOutcome) {
        let mut durations = self.durations.iter().copied().peekable();
        loop {
            let duration = durations.next().unwrap_or_default();
            let plan = ClientPlan {
                patience: self.patience,
                server_sample_interval: Some(SERVER_SAMPLES),
                ..self.client.plan(self.transport, &self.target, interactive(duration))
            };
            let outcome = run_client(&plan, &self.client.clock, &Reporter::new(self));
            let too_long =
                matches!(&outcome.error, Some(ClientError::Refused { code: RefusalCode::Limit, .. }));
            if !too_long || durations.peek().is_none() {
                return (plan, duration, outcome);
            }
        }
    }

    /// Fetches the record over each path in turn until the deadline; returns the path that worked, too.
    fn fetch_record(&self, plan: &ClientPlan, client: &EndRecord) -> Result<(EndRecord, String), String> {
        let clock = &self.client.clock;
        let mut refusals = 0;
        loop {
            let mut last = "there is no path to the server".to_owned();
            let mut all_refused = true;
            for fetch in self.fetches(plan) {
                let path = fetch.interface.clone().unwrap_or_default();
                match fetch_record(&fetch, client, clock) {
                    Ok(record) => return Ok((record, path)),
                    Err(error @ (FetchError::NotFound { .. } | FetchError::Invalid(_))) => {
                        return Err(error.to_string());
                    }
                    Err(error) => {
                        all_refused &= is_refusal(&error);
                        last = error.to_string();
                    }
                }
            }
            refusals = if all_refused { refusals + 1 } else { 0 };
            let ended = self.control.stopped();
            if ended.is_some_and(|(_, deadline)| clock.now() >= deadline || refusals >= REFUSALS) {
                return Err(last);
            }
            let next = clock.now() + FETCH_PAUSE;
            while clock.now() < next {
                clock.sleep_until((clock.now() + TICK).min(next));
            }
        }
    }

    fn fetches(&self, plan: &ClientPlan) -> Vec<FetchPlan> {
        let mut fetches = Vec::new();
        for &(transport, server) in &self.sources {
            let fetch = |path: ClientPath| FetchPlan {
                transport,
                server,
                local: path.addresses.first().copied(),
                security: self.client.security(transport, &self.target.host),
                quic: QuicOptions {
                    paths: vec![LocalPath::by(path.interface.clone())],
                    ..QuicOptions::default()
                },
                interface: Some(path.interface),
                timeout: FETCH_TIMEOUT,
                ..FetchPlan::after(plan)
            };
            fetches.extend((self.paths_to)(server).into_iter().map(fetch));
        }
        fetches
    }

    fn send(&self, event: TestEvent) {
        // A command that failed has dropped the receiver.
        let _failed = self.sender.send((self.number, event));
    }
}

/// Whether a host answers without a server, so that no other network helps.
fn is_refusal(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::Connection(ClientError::Unreachable { because: UnreachableBecause::Refused, .. })
    )
}

struct Reporter<'a> {
    test: &'a Test<'a>,
    next_so_far: Mutex<Timestamp>,
    is_exchanged: AtomicBool,
}

impl<'a> Reporter<'a> {
    fn new(test: &'a Test<'a>) -> Self {
        Self { test, next_so_far: Mutex::default(), is_exchanged: AtomicBool::new(false) }
    }

    fn so_far(&self, news: &News<'_>) -> Option<EndRecord> {
        let mut next = self.next_so_far.lock().unwrap_or_else(PoisonError::into_inner);
        if news.at < *next {
            return None;
        }
        let clock = &self.test.client.clock;
        let begun = clock.now();
        let record = news.record_so_far();
        *next = news.at + SO_FAR.max(clock.now().since(begun) * SO_FAR_PART);
        record
    }
}

impl ClientObserver for Reporter<'_> {
    fn on_progress(&self, progress: &Progress) {
        self.test.send(TestEvent::Transferred(progress.clone()));
    }

    fn wants_news(&self) -> bool {
        true
    }

    fn on_news(&self, news: &News<'_>) {
        self.is_exchanged.store(news.is_exchanged, Ordering::Relaxed);
        self.test.send(TestEvent::Fresh(Box::new(Fresh {
            at: news.at,
            messages: news.messages.clone(),
            arrivals: news.arrivals.clone(),
            samples: news.samples.clone(),
            path_events: news.path_events.clone(),
            is_exchanged: news.is_exchanged,
            so_far: self.so_far(news),
        })));
    }

    fn wish(&self) -> Wish {
        self.test.control.wish(self.test.client.clock.now(), self.is_exchanged.load(Ordering::Relaxed))
    }
}
