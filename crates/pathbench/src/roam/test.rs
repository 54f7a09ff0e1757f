//! One transport of a walk: its test on a thread of its own, and the server's record of it by whatever way is left.

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
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// At most this often, and this part of the time, is spent on the whole of what is known so far.
const SO_FAR: Duration = Duration::from_secs(5);
const SO_FAR_PART: u32 = 20;
/// How long one way may take for the server's record.
const FETCH_TIMEOUT: Duration = Duration::from_secs(4);
/// Between two rounds over all ways.
const FETCH_PAUSE: Duration = Duration::from_secs(1);
/// A server that refuses on every way this often is not there any more.
const REFUSALS: u32 = 2;
/// A test that is to end has this long for it, the wait for the last answers included; then it is ended by force.
const FORCE_AFTER: Duration = Duration::from_secs(8);
/// And this long for the records, once all data went both ways.
const HAND_OVER: Duration = Duration::from_secs(60);
/// The server's figures are for the parts of the paths; its record has to fit through what network is left.
const SERVER_SAMPLES: Duration = Duration::from_secs(1);
/// How often a sleeping thread looks whether it is needed.
const TICK: Duration = Duration::from_millis(100);

/// What a test is told to do.
#[derive(Debug, Default)]
pub(super) struct Control {
    abort: AtomicBool,
    /// Since when tests are to end, and until when the server's record is sought.
    stopped: Mutex<Option<(Timestamp, Timestamp)>>,
}

impl Control {
    /// The walk is over at `now`: tests come to their end, and records are sought until `deadline`.
    pub(super) fn stop(&self, now: Timestamp, deadline: Timestamp) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, deadline));
    }

    /// Tests that have not ended by now are ended by force.
    pub(super) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }

    /// What a test is to do at `now`; `is_exchanged`: only its records are still to come.
    fn wish(&self, now: Timestamp, is_exchanged: bool) -> Wish {
        let Some((since, _)) = self.stopped() else { return Wish::GoOn };
        let most = if is_exchanged { HAND_OVER } else { FORCE_AFTER };
        let late = now.since(since) >= most;
        if late || self.abort.load(Ordering::Acquire) { Wish::Abort } else { Wish::Stop }
    }

    fn stopped(&self) -> Option<(Timestamp, Timestamp)> {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a test tells.
#[derive(Debug)]
pub(super) enum Told {
    /// How far it is.
    Progress(Progress),
    /// What it has seen.
    Fresh(Box<Fresh>),
    /// It is over; what comes is at most the server's record.
    Over,
    /// Nothing more comes.
    Done(Box<Finished>),
}

/// What a test has seen since it last told.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) at: Timestamp,
    pub(super) messages: Vec<MessageRecord>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) samples: Vec<PathSample>,
    pub(super) path_events: Vec<PathEvent>,
    /// Only the records are still to come.
    pub(super) is_exchanged: bool,
    /// The record so far, without samples; not every time.
    pub(super) so_far: Option<EndRecord>,
}

/// How a test went.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) outcome: ClientOutcome,
    /// The duration that the server granted.
    pub(super) duration: Duration,
    /// What became of the server's record where the test itself did not bring it.
    pub(super) note: Option<String>,
}

impl Finished {
    /// Whether the server runs too many tests already.
    pub(super) fn is_crowded_out(&self) -> bool {
        matches!(&self.outcome.error, Some(ClientError::Refused { code: RefusalCode::Busy, .. }))
    }
}

/// One transport's test.
pub(super) struct Test<'a> {
    pub(super) client: &'a Client,
    pub(super) transport: Transport,
    pub(super) target: Target,
    pub(super) durations: &'a [Duration],
    pub(super) patience: Duration,
    pub(super) control: &'a Control,
    /// Where a record can be fetched, in this order.
    pub(super) sources: Vec<(Transport, SocketAddr)>,
    /// The ways to an address, now.
    pub(super) ways: &'a (dyn Fn(SocketAddr) -> Vec<ClientPath> + Sync),
    /// Tells which test it is, too.
    pub(super) sender: Sender<(usize, Told)>,
    pub(super) number: usize,
}

impl Test<'_> {
    /// Runs it, in this thread, to its end and the server's record.
    pub(super) fn conduct(&self) {
        let (plan, duration, mut outcome) = self.run();
        self.tell(Told::Over);
        let mut note = None;
        // Where no stream was ever opened, the server has nothing either.
        if outcome.server.is_none() && !outcome.client.streams.is_empty() {
            match self.seek_record(&plan, &outcome.client) {
                Ok((record, way)) => {
                    outcome.server = Some(record);
                    note = Some(format!("the server's record was fetched afterwards, over {way}"));
                }
                Err(why) => note = Some(format!("the server's record could not be had: {why}")),
            }
        }
        self.tell(Told::Done(Box::new(Finished { outcome, duration, note })));
    }

    /// For the longest of the durations that the server grants.
    fn run(&self) -> (ClientPlan, Duration, ClientOutcome) {
        let mut durations = self.durations.iter().copied().peekable();
        loop {
            let duration = durations.next().unwrap_or_default();
            let plan = ClientPlan {
                patience: self.patience,
                server_sample_interval: Some(SERVER_SAMPLES),
                ..self.client.plan(self.transport, &self.target, interactive(duration))
            };
            let outcome = run_client(&plan, &self.client.clock, &Reporter::of(self));
            let too_long =
                matches!(&outcome.error, Some(ClientError::Refused { code: RefusalCode::Limit, .. }));
            if !too_long || durations.peek().is_none() {
                return (plan, duration, outcome);
            }
        }
    }

    /// Asks on every way in turn, for as long as the walk goes on and some time after; also says which way it came.
    fn seek_record(&self, plan: &ClientPlan, client: &EndRecord) -> Result<(EndRecord, String), String> {
        let clock = &self.client.clock;
        let mut refusals = 0;
        loop {
            let mut last = "there is no way to the server".to_owned();
            let mut all_refused = true;
            for fetch in self.fetches(plan) {
                let way = fetch.interface.clone().unwrap_or_default();
                match fetch_record(&fetch, client, clock) {
                    Ok(record) => return Ok((record, way)),
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
            let of_way = |way: ClientPath| FetchPlan {
                transport,
                server,
                local: way.addresses.first().copied(),
                security: self.client.security(transport, &self.target.host),
                quic: QuicOptions {
                    paths: vec![LocalPath::by(way.interface.clone())],
                    ..QuicOptions::default()
                },
                interface: Some(way.interface),
                timeout: FETCH_TIMEOUT,
                ..FetchPlan::after(plan)
            };
            fetches.extend((self.ways)(server).into_iter().map(of_way));
        }
        fetches
    }

    fn tell(&self, told: Told) {
        // Whoever does not listen any more has given this walk up.
        let _given_up = self.sender.send((self.number, told));
    }
}

/// Whether somebody is there who has no server, so that waiting for a network changes nothing.
fn is_refusal(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::Connection(ClientError::Unreachable { because: UnreachableBecause::Refused, .. })
    )
}

/// Hands on what a test sees.
struct Reporter<'a> {
    test: &'a Test<'a>,
    next_so_far: Mutex<Timestamp>,
    is_exchanged: AtomicBool,
}

impl<'a> Reporter<'a> {
    fn of(test: &'a Test<'a>) -> Self {
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
        self.test.tell(Told::Progress(progress.clone()));
    }

    fn wants_news(&self) -> bool {
        true
    }

    fn on_news(&self, news: &News<'_>) {
        self.is_exchanged.store(news.is_exchanged, Ordering::Relaxed);
        self.test.tell(Told::Fresh(Box::new(Fresh {
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
