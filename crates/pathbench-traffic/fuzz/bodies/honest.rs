//! The records of honest ends.

#![allow(dead_code, reason = "each user takes its part")]

use pathbench_record::connection::{InForce, Negotiation, PathEvent, PathEventKind};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::DataDirection;
use pathbench_record::end::{EndRecord, PathSample, StreamRecord, TestId};
use pathbench_record::pattern::{PatternParameters, ThroughputParameters};
use pathbench_record::sample::{PathFigures, Side};
use pathbench_record::time::{Clock as _, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use std::net::SocketAddr;
use std::time::Duration;

/// The state of a hand-written client with one stream: how to request the server's record of its test.
pub(crate) fn record_by_hand(test: TestId, parameters: PatternParameters, sent_bytes: u64) -> EndRecord {
    let now = MonotonicClock.now();
    let nothing = || DeliverySeries::starting_at(now);
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let in_force = InForce {
        protocol: "tcp".to_owned(),
        congestion: "cubic".to_owned(),
        send_buffer_bytes: 0,
        receive_buffer_bytes: 0,
        no_delay: false,
        encryption: None,
    };
    let stream = StreamRecord {
        stream: 0,
        local: anywhere,
        peer: anywhere,
        in_force,
        multipath: Negotiation::NotAsked,
        mptcp: None,
        paths: Vec::new(),
        received_bytes: 0,
        sent_bytes,
        completed: false,
        error: None,
        hung_ns: None,
    };
    EndRecord {
        side: Side::Client,
        test,
        transport: Transport::Tcp,
        parameters,
        started: now,
        ended: now,
        deliveries: nothing(),
        offered: nothing(),
        messages: Vec::new(),
        response: None,
        datagrams: None,
        path_events: Vec::new(),
        handshake: None,
        fct: None,
        rate_limit_bps: None,
        mptcp_counters: None,
        streams: vec![stream],
        samples: Vec::new(),
        samples_thinned_by: 1,
        completed: false,
        errors: Vec::new(),
        cpu: None,
        tcp_buffers: None,
    }
}

/// Times and numbers of sent bytes: milliseconds and bytes.
pub(crate) type Course = Vec<(u64, u64)>;

/// The agreed parameters of a test of 10 s in both directions on four streams.
pub(crate) fn in_both_directions() -> PatternParameters {
    let both = ThroughputParameters {
        direction: DataDirection::Both,
        streams: 4,
        ..ThroughputParameters::default()
    };
    both.into()
}

pub(crate) fn series(origin: Timestamp, course: &Course) -> DeliverySeries {
    let mut series = DeliverySeries::starting_at(origin);
    let mut course = course.clone();
    course.sort_unstable();
    for (ms, bytes) in course {
        series.record(origin + Duration::from_millis(ms), bytes);
    }
    series
}

/// One end's record of one stream of [`in_both_directions`].
pub(crate) fn end(
    side: Side,
    started: Timestamp,
    stream: u32,
    sent: &Course,
    received: &Course,
    completed: bool,
) -> EndRecord {
    let second = Duration::from_secs(1);
    let by_hand = record_by_hand(TestId([7; 16]), in_both_directions(), 0);
    let (offered, deliveries) = (series(started, sent), series(started, received));
    let address = SocketAddr::from(([192, 0, 2, 1], 1));
    let figures = PathFigures { subflow: 1, srtt_ms: 3.5, ..PathFigures::new(address, address) };
    let stream = StreamRecord {
        stream,
        received_bytes: deliveries.total_bytes(),
        sent_bytes: offered.total_bytes(),
        completed,
        paths: vec![figures.clone()],
        ..by_hand.streams[0].clone()
    };
    let samples = (0..10).map(|index| PathSample {
        at: started + second * index,
        stream: stream.stream,
        figures: figures.clone(),
    });
    EndRecord {
        side,
        started,
        ended: started + 10 * second,
        samples: samples.collect(),
        path_events: vec![PathEvent {
            at: started,
            path: Some(0),
            local: None,
            remote: None,
            kind: PathEventKind::PathAbandoned { reason: "it was silent".to_owned() },
        }],
        errors: if completed { Vec::new() } else { vec!["it hung".to_owned()] },
        completed,
        streams: vec![stream],
        deliveries,
        offered,
        ..by_hand
    }
}
