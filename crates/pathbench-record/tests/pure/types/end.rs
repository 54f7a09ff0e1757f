//! One end's record of a test and its messages.

use crate::types::sample::closed;
use pathbench_record::connection::{InForce, Negotiation};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::end::{
    EndRecord, MAX_RECORD_BYTES, MessageLine, MessageRecord, PathSample, StreamRecord, TestId,
};
use pathbench_record::pattern::{BulkParameters, PatternParameters};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::time::Duration;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn message(sequence: u32, due_ms: u64, acknowledged_ms: Option<u64>) -> MessageRecord {
    MessageRecord {
        flow: Direction::Upload,
        sequence,
        due: at(due_ms),
        sent: Some(at(due_ms + 1)),
        acknowledged: acknowledged_ms.map(at),
        answered: acknowledged_ms.map(|ms| at(ms + 5)),
    }
}

#[test]
fn the_delay_of_a_message_runs_from_its_due_time_to_its_acknowledgement() {
    let acknowledged = message(0, 1_000, Some(1_020));
    assert_eq!(acknowledged.delay(), Some(Duration::from_millis(20)));
    assert_eq!(acknowledged.delay_by(at(9_000)), Duration::from_millis(20));
    assert_eq!(acknowledged.round_trip(), Some(Duration::from_millis(25)));
    let unacknowledged = message(1, 1_900, None);
    assert_eq!((unacknowledged.delay(), unacknowledged.round_trip()), (None, None));
    assert_eq!(unacknowledged.delay_by(at(6_900)), Duration::from_secs(5), "a lower bound");
}

#[test]
fn the_lines_of_messages_are_on_the_clock_of_the_run() {
    let messages = [message(0, 1_000, Some(1_020)), message(1, 1_100, None)];
    let lines = MessageLine::of_messages("r", &messages, at(900), at(3_100));
    let line = |sequence, due_ms, acknowledged_ms: Option<f64>, delay_ms| MessageLine {
        run: "r".to_owned(),
        direction: Direction::Upload,
        probe: None,
        path: None,
        phase: None,
        sequence,
        due_ms,
        sent_ms: Some(due_ms + 1.0),
        acknowledged_ms,
        answered_ms: acknowledged_ms.map(|ms| ms + 5.0),
        delay_ms,
        unacknowledged: acknowledged_ms.is_none(),
    };
    assert_eq!(lines, [line(0, 100.0, Some(120.0), 20.0), line(1, 200.0, None, 2_000.0)]);
}

/// The record of stream `stream` of a download over two streams.
fn record(stream: u32) -> EndRecord {
    let address = ([10, 0, 0, 1], 5201).into();
    EndRecord {
        side: Side::Client,
        test: TestId([7; 16]),
        transport: Transport::Tcp,
        parameters: PatternParameters::Bulk(BulkParameters { streams: 2, ..BulkParameters::default() }),
        started: at(0),
        ended: at(1_000),
        deliveries: DeliverySeries::starting_at(at(0)),
        offered: DeliverySeries::starting_at(at(0)),
        messages: Vec::new(),
        response: None,
        datagrams: None,
        path_events: Vec::new(),
        handshake: None,
        fct: Some(Duration::from_millis(900)),
        rate_limit_bps: None,
        mptcp_counters: None,
        streams: vec![StreamRecord {
            stream,
            local: address,
            peer: address,
            in_force: InForce {
                protocol: "tcp".to_owned(),
                congestion: "cubic".to_owned(),
                send_buffer_bytes: 1,
                receive_buffer_bytes: 1,
                no_delay: true,
                encryption: None,
            },
            multipath: Negotiation::NotAsked,
            mptcp: None,
            paths: Vec::new(),
            received_bytes: 0,
            sent_bytes: 0,
            completed: true,
            error: None,
            hung_ns: None,
        }],
        samples: Vec::new(),
        samples_thinned_by: 1,
        completed: true,
        errors: Vec::new(),
        cpu: None,
        tcp_buffers: None,
    }
}

#[test]
fn a_test_completes_with_the_last_of_all_its_streams() {
    let (first, mut second) = (record(0), record(1));
    (second.ended, second.fct) = (at(2_000), Some(Duration::from_millis(1_900)));
    let all = EndRecord::of_streams(vec![second.clone(), first.clone()]).unwrap();
    assert_eq!((all.ended, all.fct, all.completed), (at(2_000), Some(Duration::from_millis(1_900)), true));
    let streams: Vec<u32> = all.streams.iter().map(|stream| stream.stream).collect();
    assert_eq!(streams, [0, 1]);
    assert!(!EndRecord::of_streams(vec![first.clone()]).unwrap().completed, "one of two streams");
    second.completed = false;
    assert!(!EndRecord::of_streams(vec![first, second]).unwrap().completed);
    assert_eq!(EndRecord::of_streams(Vec::new()), None);
}

#[test]
fn the_bytes_of_a_test_are_the_sum_over_its_streams() {
    let with = |stream, delivered: u64, offered: u64| {
        let mut record = record(stream);
        record.deliveries.record(at(10), delivered);
        record.offered.record(at(10), offered);
        record
    };
    let all = EndRecord::of_streams(vec![with(0, 100, 7), with(1, 50, 5)]).unwrap();
    assert_eq!((all.deliveries.total_bytes(), all.offered.total_bytes()), (150, 12));
}

#[test]
fn counters_of_a_test_are_those_of_the_stream_that_ended_last() {
    let with = |stream, rise: u64| {
        let counters = [("MPJoinSynRx".to_owned(), rise)].into();
        EndRecord { mptcp_counters: Some(counters), ..record(stream) }
    };
    let all = EndRecord::of_streams(vec![with(0, 5), with(1, 3)]).unwrap();
    assert_eq!(all.mptcp_counters, Some([("MPJoinSynRx".to_owned(), 5)].into()));
    assert_eq!(EndRecord::of_streams(vec![with(0, 5), record(1)]).unwrap().mptcp_counters, None);
}

#[test]
fn a_test_hung_as_long_as_its_stream_with_the_longest_silence() {
    let with = |stream, hung_ns| {
        let mut record = record(stream);
        record.streams[0].hung_ns = hung_ns;
        record
    };
    let all = EndRecord::of_streams(vec![with(0, Some(5_000_000)), with(1, Some(9_000_000))]).unwrap();
    assert_eq!(all.hung(), Some(Duration::from_millis(9)));
    assert_eq!(with(0, None).hung(), None);
}

#[test]
fn a_record_that_is_too_long_loses_every_second_sample_time_of_each_stream() {
    let mut record = record(0);
    for stream in [0, 1] {
        for ms in [0, 100, 200, 300] {
            // Two paths at each time.
            let sample = PathSample { at: at(ms), stream, figures: closed(1) };
            record.samples.extend([sample.clone(), sample]);
        }
    }
    let whole = record.fit(MAX_RECORD_BYTES).unwrap();
    assert_eq!((record.samples.len(), record.samples_thinned_by), (16, 1));
    let half = record.fit(whole.len() - 1).unwrap();
    let left: Vec<_> = record.samples.iter().map(|sample| (sample.stream, sample.at)).collect();
    let pairs = [(0, at(0)), (0, at(200)), (1, at(0)), (1, at(200))];
    assert_eq!(left, pairs.map(|pair| [pair, pair]).concat());
    assert_eq!(record.samples_thinned_by, 2);
    assert!(half.len() < whole.len());
    assert_eq!(serde_json::from_slice::<EndRecord>(&half).unwrap(), record);
}

#[test]
fn a_record_without_samples_has_at_most_8_mib() {
    let length = |mut record: EndRecord| record.fit(10).map(|json| json.len());
    let empty = EndRecord { errors: vec![String::new()], ..record(0) };
    let own = length(empty.clone()).unwrap();
    let with = |bytes: usize| EndRecord { errors: vec!["x".repeat(bytes)], ..empty.clone() };
    let most = 8 * 1_024 * 1_024;
    assert_eq!(length(with(most - own)), Ok(most));
    assert!(length(with(most - own + 1)).is_err_and(|error| error.bytes == most + 1));
}
