//! One clock for both ends of a test.

use pathbench_analysis::assembly::ClockOffset;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::ThroughputParameters;
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::time::Duration;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn series(first: u64, last: u64) -> DeliverySeries {
    let mut series = DeliverySeries::starting_at(at(first));
    series.record(at(first), 10);
    series.record(at(last), 10);
    series
}

pub(crate) fn record(side: Side, started: u64, ended: u64) -> EndRecord {
    EndRecord {
        side,
        test: TestId([0; 16]),
        transport: Transport::Tcp,
        parameters: ThroughputParameters::default().into(),
        started: at(started),
        ended: at(ended),
        deliveries: DeliverySeries::starting_at(at(started)),
        offered: DeliverySeries::starting_at(at(started)),
        messages: Vec::new(),
        response: None,
        handshake: Some(Duration::from_millis(20)),
        fct: None,
        rate_limit_bps: None,
        mptcp_counters: None,
        streams: Vec::new(),
        datagrams: None,
        path_events: Vec::new(),
        samples: Vec::new(),
        samples_thinned_by: 1,
        completed: true,
        errors: Vec::new(),
        cpu: None,
        tcp_buffers: None,
    }
}

/// A download with 10 ms one-way delay; the server's clock is ahead by `offset`.
fn download(offset: u64) -> (EndRecord, EndRecord) {
    let client = EndRecord { deliveries: series(1_050, 2_010), ..record(Side::Client, 1_000, 2_020) };
    let server = EndRecord {
        offered: series(offset + 1_040, offset + 2_000),
        ..record(Side::Server, offset + 1_040, offset + 2_030)
    };
    (client, server)
}

#[test]
fn the_offset_is_found_within_half_a_round_trip() {
    let (client, server) = download(5_000_000);
    let offset = ClockOffset::of_records(&client, &server).unwrap();
    assert!(offset.uncertainty() <= Duration::from_millis(15), "{:?}", offset.uncertainty());
    let moved = offset.apply(server);
    let error_ms = moved.offered.first.unwrap().ms_from(at(1_040));
    assert!(error_ms.abs() <= 15.0, "{error_ms}");
    let apart = moved.offered.last.unwrap().duration_since(moved.offered.first.unwrap());
    assert_eq!(apart, Duration::from_millis(960), "moving changes no distance");
}

#[test]
fn ends_on_one_machine_keep_their_times() {
    let (client, server) = download(0);
    let offset = ClockOffset::of_records(&client, &server).unwrap();
    assert!(offset.may_be_none());
    assert_eq!(offset.apply(server.clone()), server);
}

#[test]
fn later_bounds_narrow_the_offset_and_a_restart_replaces_it() {
    let offset = |lowest, highest, when| ClockOffset { lowest_ns: lowest, highest_ns: highest, at: at(when) };
    let both = offset(1_000, 9_000, 1).and(offset(4_000, 20_000, 1));
    assert_eq!((both.lowest_ns, both.highest_ns), (4_000, 9_000));
    // A minute later the first bounds are 6 ms wider.
    let late = offset(1_000, 9_000, 0).and(offset(-90_000_000, 90_000_000, 60_000));
    assert_eq!((late.lowest_ns, late.highest_ns), (1_000 - 6_000_000, 9_000 + 6_000_000));
    let restarted = offset(1_000, 9_000, 1).and(offset(-500, -400, 2));
    assert_eq!((restarted.lowest_ns, restarted.highest_ns), (-500, -400));
}

#[test]
fn an_offset_that_puts_the_test_elsewhere_does_not_suit() {
    let (client, server) = download(5_000_000);
    let offset = ClockOffset::of_records(&client, &server).unwrap();
    assert!(offset.suits(&client, &server));
    // The server's host was restarted, or its record is wrong: it does not show the time of the test.
    for started in [at(0), at(1_040), Timestamp::from_nanos(u64::MAX)] {
        assert!(!offset.suits(&client, &EndRecord { started, ..server.clone() }), "{started:?}");
    }
}

#[test]
fn contradictory_records_give_no_offset() {
    let (client, mut server) = download(0);
    server.offered = series(9_000, 9_500);
    assert_eq!(ClockOffset::of_records(&client, &server), None);
}
