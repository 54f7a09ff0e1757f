//! Tests that end early, and the updates while they run.

use crate::common::{Everything, clock};
use pathbench_record::direction::Direction;
use pathbench_record::end::{EndRecord, MessageRecord};
use pathbench_record::pattern::{InteractiveParameters, PatternParameters};
use pathbench_record::sample::PathFigures;
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::{
    ClientControl, ClientObserver, ClientPlan, Update, fetch_record, run_client,
};
use pathbench_traffic::messages::RequestArrival;
use pathbench_traffic::server::ServerLimits;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A time longer than any of these tests.
const LONG: Duration = Duration::from_secs(600);

/// Stores all updates, and controls the test from some time after the first byte.
struct Recorder {
    control: ClientControl,
    after: Duration,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    first: Option<Timestamp>,
    messages: BTreeMap<u32, MessageRecord>,
    arrivals: Vec<RequestArrival>,
    samples: Vec<(Timestamp, u32, PathFigures)>,
    /// Number of messages in the record at each update.
    so_far: Vec<usize>,
    last: Option<Timestamp>,
}

impl Recorder {
    fn that_sends(control: ClientControl, after: Duration) -> Self {
        Self { control, after, notes: Mutex::default() }
    }
}

impl ClientObserver for Recorder {
    fn on_first_byte(&self, at: Timestamp) {
        self.notes.lock().unwrap().first = Some(at);
    }

    fn wants_updates(&self) -> bool {
        true
    }

    fn on_update(&self, update: Update, record_so_far: &dyn Fn() -> Option<EndRecord>) {
        let mut notes = self.notes.lock().unwrap();
        for message in &update.messages {
            let before = notes.messages.insert(message.sequence, *message);
            assert!(before.is_none_or(|before| before.answered.is_none()), "reported twice: {before:?}");
        }
        notes.arrivals.extend(&update.arrivals);
        let samples = update.samples.iter();
        notes.samples.extend(samples.map(|sample| (sample.at, sample.stream, sample.figures.clone())));
        notes.so_far.push(record_so_far().unwrap().messages.len());
        notes.last = Some(update.at);
    }

    fn control(&self) -> ClientControl {
        let notes = self.notes.lock().unwrap();
        match (notes.first, notes.last) {
            (Some(first), Some(last)) if last.duration_since(first) >= self.after => self.control,
            _ => ClientControl::Continue,
        }
    }
}

fn long() -> PatternParameters {
    PatternParameters::Interactive(InteractiveParameters {
        duration: LONG,
        interval: Duration::from_millis(50),
        ..InteractiveParameters::default()
    })
}

#[test]
fn a_test_that_is_stopped_is_complete_and_no_message_of_it_is_lost() {
    let everything = Everything::start(ServerLimits::default());
    for plan in everything.plans(&long()) {
        let recorder = Recorder::that_sends(ClientControl::Stop, Duration::from_millis(600));
        let outcome = run_client(&plan, &clock(), &recorder);
        let transport = plan.transport;
        assert!(outcome.completed, "{transport}: {:?}", outcome.error);
        let server = outcome.server.unwrap();
        for (end, flow) in [(&outcome.client, Direction::Upload), (&server, Direction::Download)] {
            let messages = &end.messages;
            assert!((10..200).contains(&messages.len()), "{transport}: {} messages", messages.len());
            assert!(messages.iter().all(|one| one.flow == flow && one.answered.is_some()), "{messages:?}");
        }
        let notes = recorder.notes.into_inner().unwrap();
        // The updates agree with the record.
        let reported: Vec<_> =
            notes.messages.values().filter(|one| one.answered.is_some()).copied().collect();
        assert!(reported.len() >= 8, "{transport}: {} messages were reported", reported.len());
        assert_eq!(reported, outcome.client.messages[..reported.len()], "{transport}");
        assert!(
            notes.so_far.is_sorted() && notes.so_far.iter().any(|count| *count > 5),
            "{:?}",
            notes.so_far
        );
        let numbers: Vec<u32> = notes.arrivals.iter().map(|arrival| arrival.sequence).collect();
        assert!(numbers.len() > 5 && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        let in_record = |(at, stream, figures): &(Timestamp, u32, PathFigures)| {
            let mut samples = outcome.client.samples.iter();
            samples.any(|one| one.at == *at && one.stream == *stream && one.figures == *figures)
        };
        assert!(notes.samples.len() > 10 && notes.samples.iter().all(in_record), "{transport}");
    }
}

#[test]
fn an_aborted_test_leaves_both_records() {
    let everything = Everything::start(ServerLimits::default());
    for plan in everything.plans(&long()) {
        let recorder = Recorder::that_sends(ClientControl::Abort, Duration::from_millis(400));
        let outcome = run_client(&plan, &clock(), &recorder);
        let transport = plan.transport;
        assert!(!outcome.completed && outcome.error.is_some(), "{transport}");
        assert!(outcome.client.messages.len() >= 8, "{transport}: {:?}", outcome.client.messages);
        let kept = fetch_record(&plan, true, &outcome.client, &clock()).unwrap();
        assert!(kept.messages.len() >= 4, "{transport}: {:?}", kept.messages);
    }
}

#[test]
fn a_client_can_ask_for_a_smaller_record() {
    let everything = Everything::start(ServerLimits::default());
    let moments = |server_sample_interval| {
        let plan = ClientPlan { server_sample_interval, ..everything.plan(0, long()) };
        let outcome = run_client(
            &plan,
            &clock(),
            &Recorder::that_sends(ClientControl::Stop, Duration::from_millis(800)),
        );
        let samples = outcome.server.unwrap().samples.into_iter().filter(|sample| sample.stream == 0);
        samples.map(|sample| sample.at).collect::<std::collections::BTreeSet<_>>().len()
    };
    // By default every 20 ms, and never more often, on a host that may be busy.
    let (usual, fewer, more) =
        (moments(None), moments(Some(Duration::from_millis(400))), moments(Some(Duration::from_micros(1))));
    assert!((2..=5).contains(&fewer) && usual > 12 && more < 100, "{usual}, {fewer}, {more}");
}

#[test]
fn a_stop_does_not_shorten_other_patterns() {
    let everything = Everything::start(ServerLimits::default());
    let throughput = PatternParameters::Throughput(pathbench_record::pattern::ThroughputParameters {
        amount: pathbench_record::pattern::Amount::Duration(Duration::from_millis(500)),
        ..pathbench_record::pattern::ThroughputParameters::default()
    });
    let plan: ClientPlan = everything.plan(0, throughput);
    let outcome = run_client(&plan, &clock(), &Recorder::that_sends(ClientControl::Stop, Duration::ZERO));
    assert!(outcome.completed, "{:?}", outcome.error);
    let duration = outcome.client.offered.last.unwrap().duration_since(outcome.client.offered.first.unwrap());
    assert!(duration > Duration::from_millis(400), "{duration:?}");
}
