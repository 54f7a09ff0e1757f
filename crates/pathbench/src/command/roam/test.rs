//! The test of one transport, on a separate thread, and the fetch of the server's record over any remaining path.

use super::plan::{Roam, interactive};
use crate::client::ServerTarget;
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::document::UnreachableBecause;
use pathbench_record::end::EndRecord;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{
    self, ClientError, ClientObserver, ClientOutcome, ClientPlan, FetchError, Progress, Update, fetch_record,
    run_client,
};
use pathbench_traffic::protocol::RefusalCode;
use pathbench_transport::{LocalPath, QuicOptions, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Interval between complete intermediate records, which take at most 1/[`SO_FAR_PART`] of the time.
const SO_FAR: Duration = Duration::from_secs(5);
const SO_FAR_PART: u32 = 20;
/// Time to fetch the server's record over one path.
const FETCH_TIMEOUT: Duration = Duration::from_secs(4);
/// Pause between attempts on all paths.
const FETCH_PAUSE: Duration = Duration::from_secs(1);
/// After this many refusals on every path, no server is running any more.
const REFUSALS: u32 = 2;
/// Time for a test to end, including the wait for the last answers; then it is aborted.
const FORCE_AFTER: Duration = Duration::from_secs(8);
/// Time for the records after the data of both directions has arrived.
const HAND_OVER: Duration = Duration::from_secs(60);
/// Interval of the server's samples for the paths' shares; the record must fit through the remaining path.
const SERVER_SAMPLES: Duration = Duration::from_secs(1);

/// Ends the tests.
#[derive(Debug, Default)]
pub(super) struct Control {
    abort: AtomicBool,
    /// When the tests stop, and the deadline for fetching the server's record.
    stopped: Mutex<Option<(Timestamp, Timestamp)>>,
}

impl Control {
    /// The tests stop at `now`, and try to fetch records until `deadline`.
    pub(super) fn stop(&self, now: Timestamp, deadline: Timestamp) {
        *lock(&self.stopped) = Some((now, deadline));
    }

    pub(super) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }

    /// The command for a test at `now`. `is_exchanged`: only the records are outstanding.
    fn command(&self, now: Timestamp, is_exchanged: bool) -> client::ClientControl {
        let Some((since, _)) = self.stop_times() else { return client::ClientControl::Continue };
        let most = if is_exchanged { HAND_OVER } else { FORCE_AFTER };
        let overdue = now.duration_since(since) >= most;
        if overdue || self.abort.load(Ordering::Acquire) {
            client::ClientControl::Abort
        } else {
            client::ClientControl::Stop
        }
    }

    fn stop_times(&self) -> Option<(Timestamp, Timestamp)> {
        *lock(&self.stopped)
    }
}

#[derive(Debug)]
pub(super) enum TestEvent {
    Transferred(Progress),
    Update(Box<Update>),
    /// The record so far, without samples.
    SoFar(Box<EndRecord>),
    /// The test has ended; only the server's record may follow.
    Over,
    Done(Box<Finished>),
}

#[derive(Debug)]
pub(super) struct Finished {
    pub(super) outcome: ClientOutcome,
    /// The duration that the server granted.
    pub(super) duration: Duration,
    /// How the server's record was fetched, or why not; `None` if the test's own connection carried it.
    pub(super) note: Option<String>,
}

impl Finished {
    pub(super) fn is_server_busy(&self) -> bool {
        matches!(&self.outcome.error, Some(ClientError::Refused { code: RefusalCode::Busy, .. }))
    }
}

pub(super) struct Test<'a> {
    pub(super) roam: &'a Roam<'a>,
    pub(super) control: &'a Control,
    pub(super) transport: Transport,
    pub(super) target: ServerTarget,
    pub(super) sender: Sender<(usize, TestEvent)>,
    pub(super) number: usize,
}

impl Test<'_> {
    /// Runs the test to its end and fetches the server's record, in this thread.
    pub(super) fn run(&self) {
        let (plan, duration, mut outcome) = self.run_test();
        self.send(TestEvent::Over);
        let mut note = None;
        // If no stream was ever opened, the server has no record either.
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

    /// Runs the test with the longest duration that the server grants.
    fn run_test(&self) -> (ClientPlan, Duration, ClientOutcome) {
        let Roam { client, plan: asked, .. } = self.roam;
        let mut durations = asked.durations.iter().copied().peekable();
        loop {
            let duration = durations.next().unwrap_or_default();
            let plan = ClientPlan {
                patience: asked.patience,
                server_sample_interval: Some(SERVER_SAMPLES),
                ..client.plan(self.transport, &self.target, interactive(duration))
            };
            let outcome = run_client(&plan, &client.clock, &Reporter::new(self));
            let too_long =
                matches!(&outcome.error, Some(ClientError::Refused { code: RefusalCode::Limit, .. }));
            if !too_long || durations.peek().is_none() {
                return (plan, duration, outcome);
            }
        }
    }

    /// Fetches the record over each path in turn until the deadline; also returns the path that worked.
    fn fetch_record(&self, plan: &ClientPlan, client: &EndRecord) -> Result<(EndRecord, String), String> {
        let clock = &self.roam.client.clock;
        let mut refusals = 0;
        loop {
            let mut last = "there is no path to the server".to_owned();
            let mut all_refused = true;
            for fetch in self.fetches(plan) {
                let path = fetch.interface.clone().unwrap_or_default();
                match fetch_record(&fetch, true, client, clock) {
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
            let ended = self.control.stop_times();
            if ended.is_some_and(|(_, deadline)| clock.now() >= deadline || refusals >= REFUSALS) {
                return Err(last);
            }
            clock.sleep_until(clock.now() + FETCH_PAUSE);
        }
    }

    /// Plans for every path: an mptcp listener also accepts tcp, and an mpquic listener quic.
    fn fetches(&self, plan: &ClientPlan) -> Vec<ClientPlan> {
        let Roam { client, reached, .. } = self.roam;
        let mut fetches = Vec::new();
        for [single, multipath] in [[Transport::Tcp, Transport::Mptcp], [Transport::Quic, Transport::Mpquic]]
        {
            let endpoint = reached.endpoints.get(&single).or_else(|| reached.endpoints.get(&multipath));
            let Some(&server) = endpoint else { continue };
            let fetch = |path: ClientPath| ClientPlan {
                transport: single,
                server,
                local: path.addresses.first().copied(),
                security: client.security(single, &self.target.host),
                quic: QuicOptions {
                    paths: vec![LocalPath::new(path.interface.clone())],
                    ..QuicOptions::default()
                },
                interface: Some(path.interface),
                connect_timeout: FETCH_TIMEOUT,
                ..plan.clone()
            };
            fetches.extend(client.paths_to(server).unwrap_or_default().into_iter().map(fetch));
        }
        fetches
    }

    fn send(&self, event: TestEvent) {
        // A failed command has dropped the receiver.
        let _failed = self.sender.send((self.number, event));
    }
}

/// Whether the host refuses the connection; another path does not help then.
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
}

impl ClientObserver for Reporter<'_> {
    fn on_progress(&self, progress: &Progress) {
        self.test.send(TestEvent::Transferred(progress.clone()));
    }

    fn wants_updates(&self) -> bool {
        true
    }

    fn on_update(&self, update: Update, record_so_far: &dyn Fn() -> Option<EndRecord>) {
        self.is_exchanged.store(update.is_exchanged, Ordering::Relaxed);
        let at = update.at;
        self.test.send(TestEvent::Update(Box::new(update)));
        let mut next = lock(&self.next_so_far);
        if at >= *next {
            let clock = &self.test.roam.client.clock;
            let begun = clock.now();
            if let Some(record) = record_so_far() {
                self.test.send(TestEvent::SoFar(Box::new(record)));
            }
            *next = at + SO_FAR.max(clock.now().duration_since(begun) * SO_FAR_PART);
        }
    }

    fn control(&self) -> client::ClientControl {
        self.test
            .control
            .command(self.test.roam.client.clock.now(), self.is_exchanged.load(Ordering::Relaxed))
    }
}
