//! Delays and pings: the examples of docs/metrics.md with the same numbers, and properties for any messages.

use pathbench_analysis::metrics::{delay, delay_of_flows, ping};
use pathbench_record::direction::Direction;
use pathbench_record::end::{MessageLine, MessageRecord};
use pathbench_record::statistics::nearest_rank;
use pathbench_record::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

const ORIGIN: Timestamp = Timestamp::from_nanos(77_000_123_456_789);

fn at(ms: u64) -> Timestamp {
    ORIGIN + Duration::from_millis(ms)
}

/// One message each 100 ms; each acknowledged after the milliseconds in `delays`, or never.
fn messages(delays: &[Option<u64>]) -> Vec<MessageRecord> {
    (0_u32..)
        .zip(delays)
        .map(|(sequence, delay)| {
            let due = u64::from(sequence) * 100;
            let acknowledged = delay.map(|delay| at(due + delay));
            let sent = Some(at(due));
            MessageRecord {
                flow: Direction::Upload,
                sequence,
                due: at(due),
                sent,
                acknowledged,
                answered: acknowledged,
            }
        })
        .collect()
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "found {found}, expected {expected}");
}

#[test]
fn a_message_never_acknowledged_counts_up_to_the_end() {
    // 20 messages of 20 ms; the last two are never acknowledged; the requester waits until 6900 ms.
    let mut delays = vec![Some(20); 18];
    delays.extend([None, None]);
    let record = delay(&messages(&delays), at(6900)).unwrap();
    assert_eq!((record.messages, record.unacknowledged), (20, 2));
    close(record.p50, 20.0);
    close(record.p95, 5000.0);
    close(record.p99, 5100.0);
    close(record.max, 5100.0);
    // Leaving them out would give this.
    let censored = delay(&messages(&delays[..18]), at(6900)).unwrap();
    close(censored.p95, 20.0);
}

#[test]
fn waiting_in_a_blocked_transport_is_delay() {
    // The transport stalls for one second from 300 ms on: messages stay due, and all arrive at 1300 ms.
    let delays: Vec<Option<u64>> = (0..20_u64)
        .map(|number| number * 100)
        .map(|due| Some(if (300..1300).contains(&due) { 1300 - due } else { 10 }))
        .collect();
    let record = delay(&messages(&delays), at(9000)).unwrap();
    assert_eq!(record.unacknowledged, 0);
    close(record.max, 1000.0);
    close(record.p95, 900.0);
    close(record.p50, 10.0);
}

#[test]
fn flows_together_are_each_counted_to_their_own_end() {
    // The second flow is of another machine, whose clock began an hour later.
    let upload = messages(&[Some(10), None]);
    let age = Duration::from_secs(3_600);
    let download: Vec<MessageRecord> = messages(&[Some(30), None, Some(20)])
        .into_iter()
        .map(|message| MessageRecord {
            flow: Direction::Download,
            due: message.due - age,
            acknowledged: message.acknowledged.map(|at| at - age),
            ..message
        })
        .collect();
    let record = delay_of_flows(&[(&upload, at(1100)), (&download, at(2100) - age)]).unwrap();
    assert_eq!((record.messages, record.unacknowledged), (5, 2));
    close(record.p50, 30.0);
    close(record.max, 2000.0);
    assert_eq!(delay_of_flows(&[]), None);
}

#[test]
fn without_messages_there_is_no_delay() {
    assert_eq!(delay(&[], at(0)), None);
    assert_eq!(ping(&[]), None);
}

#[test]
fn lost_pings_are_counted_and_not_averaged() {
    let ms = |ms: u64| Some(Duration::from_millis(ms));
    let record = ping(&[ms(21), None, ms(19), ms(80), ms(20)]).unwrap();
    assert_eq!((record.sent, record.lost, record.rtts_ms.len()), (5, 1, 4));
    close(record.median_ms.unwrap(), 20.5);
    close(record.min_ms.unwrap(), 19.0);
    close(record.max_ms.unwrap(), 80.0);
    assert_eq!(record.rtts_ms, [21.0, 19.0, 80.0, 20.0], "in the order sent");

    let dead = ping(&[None, None]).unwrap();
    assert_eq!((dead.sent, dead.lost, dead.median_ms), (2, 2, None));
}

#[test]
fn lines_are_on_the_clock_of_the_run_and_mark_what_was_late() {
    let lines = MessageLine::of_messages("r", &messages(&[Some(20), None]), at(50), at(600));
    let found: Vec<_> = lines.iter().map(|line| (line.due_ms, line.acknowledged_ms, line.delay_ms)).collect();
    assert_eq!(found, [(-50.0, Some(-30.0), 20.0), (50.0, None, 500.0)]);
    assert_eq!(lines.iter().map(|line| line.unacknowledged).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn ranks_are_those_of_paper() {
    let values: Vec<f64> = (1..=20).map(f64::from).collect();
    for (p, expected) in [(0.0, 1.0), (0.05, 1.0), (0.5, 10.0), (0.95, 19.0), (0.951, 20.0), (1.0, 20.0)] {
        assert_eq!(nearest_rank(&values, p), Some(expected), "p {p}");
    }
    assert_eq!(nearest_rank(&[7.0], 0.5), Some(7.0));
    assert_eq!(nearest_rank(&[], 0.5), None);
    assert_eq!(nearest_rank(&[f64::NAN], 0.5), None);
    assert_eq!(nearest_rank(&[1.0], 1.5), None);
}

fn any_delays() -> impl Strategy<Value = Vec<Option<u64>>> {
    prop::collection::vec(prop::option::weighted(0.9, 0_u64..8_000), 1..200)
}

proptest! {
    #[test]
    fn percentiles_are_in_order_and_of_all_messages(delays in any_delays(), linger in 0_u64..9_000) {
        let end = at(delays.len() as u64 * 100 + linger);
        let messages = messages(&delays);
        let record = delay(&messages, end).unwrap();
        prop_assert_eq!(record.messages as usize, delays.len());
        prop_assert_eq!(record.unacknowledged as usize, delays.iter().filter(|delay| delay.is_none()).count());
        prop_assert!(record.p50 <= record.p95 && record.p95 <= record.p99 && record.p99 <= record.max);
        // At least 95 % of all messages have no more than the 95th percentile, and fewer have less.
        let of_all: Vec<f64> =
            messages.iter().map(|message| message.delay_by(end).as_secs_f64() * 1e3).collect();
        let part = |below: &dyn Fn(f64) -> bool| {
            of_all.iter().filter(|&&delay| below(delay)).count() as f64 / of_all.len() as f64
        };
        prop_assert!(part(&|delay| delay <= record.p95 + 1e-6) >= 0.95 - 1e-9);
        prop_assert!(part(&|delay| delay < record.p95 - 1e-6) < 0.95);
    }

    #[test]
    fn losing_a_message_never_makes_a_transport_look_better(
        delays in any_delays(),
        index in any::<prop::sample::Index>(),
    ) {
        // The requester waits longer than any acknowledgement takes.
        let end = at(delays.len() as u64 * 100 + 8_000);
        let before = delay(&messages(&delays), end).unwrap();
        let mut lossy = delays.clone();
        let index = index.index(lossy.len());
        lossy[index] = None;
        let after = delay(&messages(&lossy), end).unwrap();
        for (before, after) in [(before.p50, after.p50), (before.p95, after.p95), (before.max, after.max)] {
            prop_assert!(after >= before);
        }
    }
}
