//! The cores of the pattern `datagrams`.

use pathbench_record::datagram::DatagramsParameters;
use pathbench_record::time::Timestamp;
use pathbench_traffic::flow::{FlowReceiver, FlowSender, FlowStep, LONGEST_LAG, ReceiverPlan};
use pathbench_traffic::meter::Meter;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn meter() -> Meter {
    Meter::new(Timestamp::default(), Duration::from_secs(30))
}

/// Three frames of three packets, 10 ms apart.
fn parameters() -> DatagramsParameters {
    DatagramsParameters {
        frames_per_second: 100,
        frame_bytes: 250,
        packet_bytes: 100,
        duration: 30 * MS,
        ..DatagramsParameters::voice()
    }
}

fn sender(flows: u32, ceiling_bytes: Option<u64>) -> (FlowSender, Timestamp) {
    let begun = Timestamp::from_nanos(1_000_000_000);
    let mut sender = FlowSender::new(parameters(), flows, ceiling_bytes, meter());
    sender.begin(begun);
    (sender, begun)
}

#[test]
fn frames_leave_at_their_times_in_packets_of_nearly_equal_size() {
    let (mut sender, begun) = sender(1, None);
    let mut left = Vec::new();
    let mut now = begun;
    loop {
        match sender.next(now) {
            FlowStep::Send { sequence, bytes } => left.push((sequence, bytes, now.duration_since(begun))),
            FlowStep::WaitUntil(due) => now = due,
            FlowStep::Finished => break,
        }
    }
    let size = |sequence: u32| if sequence.is_multiple_of(3) { 84 } else { 83 };
    let expected: Vec<_> =
        (0..9).map(|sequence| (sequence, size(sequence), 10 * MS * (sequence / 3))).collect();
    assert_eq!(left, expected);
}

#[test]
fn a_sender_that_is_too_late_skips_and_counts() {
    let (mut sender, begun) = sender(2, None);
    let now = begun + LONGEST_LAG + 15 * MS;
    // The frames of 0 and 10 ms are too late, that of 20 ms is not.
    assert_eq!(sender.next(now), FlowStep::Send { sequence: 6, bytes: 84 });
    assert_eq!(sender.unsent(), 12, "six on each of two paths");
}

#[test]
fn a_sender_ends_at_its_ceiling() {
    let (mut sender, begun) = sender(1, Some(200));
    for sequence in 0..2 {
        assert!(matches!(sender.next(begun), FlowStep::Send { .. }));
        sender.sent(begun, sequence, begun, 0);
    }
    assert_eq!(sender.next(begun), FlowStep::Finished);
    assert!(sender.end().cut_short);
}

#[test]
fn departures_that_are_never_reported_count_as_unsent() {
    let (mut sender, begun) = sender(1, None);
    (0..5).for_each(|_| sender.handed_over());
    // Two copies of one datagram, one of another; numbers beyond the flow are not logged.
    for (sequence, path) in [(0, 0), (0, 1), (1, 0), (77, 0)] {
        sender.sent(begun, sequence, begun, path);
    }
    assert_eq!((sender.log.len(), sender.unsent()), (3, 3));
}

fn receiver(paths: u32, is_flow_per_path: bool) -> FlowReceiver {
    let parameters = DatagramsParameters { paths, ..parameters() };
    FlowReceiver::new(ReceiverPlan { parameters, is_flow_per_path }, meter())
}

#[test]
fn copies_are_delivered_once_and_flows_of_several_paths_each() {
    for (is_flow_per_path, delivered) in [(false, 84), (true, 168)] {
        let mut receiver = receiver(2, is_flow_per_path);
        for path in [0, 1, 1] {
            receiver.receive(Timestamp::default(), path, 0, 84);
        }
        assert_eq!((receiver.log.len(), receiver.meter.received_bytes), (3, delivered));
    }
}

#[test]
fn foreign_datagrams_are_counted_and_not_logged() {
    let mut receiver = receiver(1, true);
    for (path, sequence, length) in [(0, 9, 84), (0, u32::MAX, 84), (1, 0, 84), (0, 0, 85), (u32::MAX, 0, 84)]
    {
        receiver.receive(Timestamp::default(), path, sequence, length);
    }
    assert_eq!((receiver.log.len(), receiver.foreign, receiver.meter.received_bytes), (0, 5, 0));
}

proptest! {
    /// Any arrivals: the log is bounded, and no byte counts twice.
    #[test]
    fn the_log_of_any_arrivals_is_bounded(
        arrivals in prop::collection::vec((0_u32..4, 0_u32..12, 80_usize..90), 0..400),
        is_flow_per_path: bool,
    ) {
        let mut receiver = receiver(2, is_flow_per_path);
        for (path, sequence, length) in &arrivals {
            receiver.receive(Timestamp::default(), *path, *sequence, *length);
        }
        prop_assert!(receiver.log.len() <= 18 + 2 + 64);
        let flows = if is_flow_per_path { 2 } else { 1 };
        prop_assert!(receiver.meter.received_bytes <= flows * 750);
        let counted = receiver.log.len() as u64 + receiver.omitted + receiver.foreign;
        prop_assert_eq!(counted, arrivals.len() as u64);
    }
}
