//! Tests that are ended before their time, and what is heard of them while they run.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod common;

use common::{Everything, clock, limits};
use pathbench_record::direction::Direction;
use pathbench_record::end::MessageRecord;
use pathbench_record::pattern::{InteractiveParameters, PatternParameters};
use pathbench_record::sample::PathFigures;
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::{
    ClientObserver, ClientPlan, FetchPlan, News, Wish, fetch_record, run_client,
};
use pathbench_traffic::messages::Arrival;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

pathbench_kerneltest::unprivileged_too!();

/// Far longer than any of these tests.
const LONG: Duration = Duration::from_secs(600);

/// Writes down what it hears, and has a wish from some moment after the first byte on.
struct Scribe {
    wish: Wish,
    after: Duration,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    first: Option<Timestamp>,
    messages: BTreeMap<u32, MessageRecord>,
    arrivals: Vec<Arrival>,
    samples: Vec<(Timestamp, u32, PathFigures)>,
    /// Messages in the record so far, at each news.
    so_far: Vec<usize>,
    last: Option<Timestamp>,
}

impl Scribe {
    fn wishing(wish: Wish, after: Duration) -> Self {
        Self { wish, after, notes: Mutex::default() }
    }
}

impl ClientObserver for Scribe {
    fn on_first_byte(&self, at: Timestamp) {
        self.notes.lock().unwrap().first = Some(at);
    }

    fn wants_news(&self) -> bool {
        true
    }

    fn on_news(&self, news: &News<'_>) {
        let mut notes = self.notes.lock().unwrap();
        for message in &news.messages {
            let before = notes.messages.insert(message.sequence, *message);
            assert!(before.is_none_or(|before| before.answered.is_none()), "told twice: {before:?}");
        }
        notes.arrivals.extend(&news.arrivals);
        let samples = news.samples.iter();
        notes.samples.extend(samples.map(|sample| (sample.at, sample.stream, sample.figures.clone())));
        notes.so_far.push(news.record_so_far().unwrap().messages.len());
        notes.last = Some(news.at);
    }

    fn wish(&self) -> Wish {
        let notes = self.notes.lock().unwrap();
        match (notes.first, notes.last) {
            (Some(first), Some(last)) if last.since(first) >= self.after => self.wish,
            _ => Wish::GoOn,
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
    let everything = Everything::start(limits());
    for plan in everything.plans(&long()) {
        let scribe = Scribe::wishing(Wish::Stop, Duration::from_millis(600));
        let outcome = run_client(&plan, &clock(), &scribe);
        let transport = plan.transport;
        assert!(outcome.completed, "{transport}: {:?}", outcome.error);
        let server = outcome.server.unwrap();
        for (end, flow) in [(&outcome.client, Direction::Upload), (&server, Direction::Download)] {
            let messages = &end.messages;
            assert!((10..200).contains(&messages.len()), "{transport}: {} messages", messages.len());
            assert!(messages.iter().all(|one| one.flow == flow && one.answered.is_some()), "{messages:?}");
        }
        let notes = scribe.notes.into_inner().unwrap();
        // What was told is what the record says, as far as it was told.
        let told: Vec<_> = notes.messages.values().filter(|one| one.answered.is_some()).copied().collect();
        assert!(told.len() >= 8, "{transport}: {} messages were told", told.len());
        assert_eq!(told, outcome.client.messages[..told.len()], "{transport}");
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
fn a_test_that_is_ended_by_force_leaves_what_both_ends_saw() {
    let everything = Everything::start(limits());
    for plan in everything.plans(&long()) {
        let scribe = Scribe::wishing(Wish::Abort, Duration::from_millis(400));
        let outcome = run_client(&plan, &clock(), &scribe);
        let transport = plan.transport;
        assert!(!outcome.completed && outcome.error.is_some(), "{transport}");
        assert!(outcome.client.messages.len() >= 8, "{transport}: {:?}", outcome.client.messages);
        let kept = fetch_record(&FetchPlan::after(&plan), &outcome.client, &clock()).unwrap();
        assert!(kept.messages.len() >= 4, "{transport}: {:?}", kept.messages);
    }
}

#[test]
fn a_client_can_ask_for_a_smaller_record() {
    let everything = Everything::start(limits());
    let moments = |server_sample_interval| {
        let plan = ClientPlan { server_sample_interval, ..everything.plan(0, long()) };
        let outcome = run_client(&plan, &clock(), &Scribe::wishing(Wish::Stop, Duration::from_millis(800)));
        let samples = outcome.server.unwrap().samples.into_iter().filter(|sample| sample.stream == 0);
        samples.map(|sample| sample.at).collect::<std::collections::BTreeSet<_>>().len()
    };
    // Each 20 ms by itself, on a machine that may be busy; never more often than that.
    let (usual, fewer, more) =
        (moments(None), moments(Some(Duration::from_millis(400))), moments(Some(Duration::from_micros(1))));
    assert!((2..=5).contains(&fewer) && usual > 12 && more < 100, "{usual}, {fewer}, {more}");
}

#[test]
fn a_pattern_with_an_end_of_its_own_runs_on_to_it() {
    let everything = Everything::start(limits());
    let iperf = PatternParameters::Throughput(pathbench_record::pattern::ThroughputParameters {
        amount: pathbench_record::pattern::Amount::Duration(Duration::from_millis(500)),
        ..pathbench_record::pattern::ThroughputParameters::default()
    });
    let plan: ClientPlan = everything.plan(0, iperf);
    let outcome = run_client(&plan, &clock(), &Scribe::wishing(Wish::Stop, Duration::ZERO));
    assert!(outcome.completed, "{:?}", outcome.error);
    let duration = outcome.client.offered.last.unwrap().since(outcome.client.offered.first.unwrap());
    assert!(duration > Duration::from_millis(400), "{duration:?}");
}
