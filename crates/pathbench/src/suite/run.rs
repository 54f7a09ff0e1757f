//! One run of the suite: the test on a thread of its own, watched.

use super::display::Display;
use crate::client::Client;
use crate::client::network::{Change, Judge, NetworkWatch};
use pathbench_lab::assembly::{ClientPath, Notification, SeenEvent};
use pathbench_traffic::client::{
    ClientError, ClientObserver, ClientOutcome, ClientPlan, FetchPlan, Progress, fetch_record, run_client,
};
use pathbench_traffic::protocol::RefusalCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

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
