//! Parameters of the patterns.

use pathbench_record::connection::Scheduler;
use pathbench_record::datagram::DatagramsParameters;
use pathbench_record::direction::{DataDirection, Direction, LinkDirection};
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, ParameterError, PatternParameters, PingParameters,
    ThroughputParameters,
};
use pathbench_record::transport::Transport;
use std::time::Duration;

fn mistakes(parameters: &PatternParameters) -> Vec<ParameterError> {
    parameters.validate().err().unwrap_or_default()
}

#[test]
fn the_defaults_of_every_pattern_are_valid_and_survive_json() {
    for parameters in [
        PatternParameters::Ping(PingParameters::default()),
        PatternParameters::Bulk(BulkParameters::default()),
        PatternParameters::Throughput(ThroughputParameters::default()),
        PatternParameters::Interactive(InteractiveParameters::default()),
    ] {
        assert_eq!(parameters.validate(), Ok(()));
        let json = serde_json::to_string(&parameters).unwrap();
        assert!(json.starts_with(&format!(r#"{{"pattern":"{}""#, parameters.name())), "{json}");
        assert_eq!(serde_json::from_str::<PatternParameters>(&json).unwrap(), parameters);
    }
}

#[test]
fn every_mistake_of_messages_and_bulk_is_reported() {
    let ping = PingParameters {
        count: 0,
        warm_up: 40_000,
        request_bytes: 3,
        response_bytes: 70_000,
        timeout: Duration::ZERO,
        ..PingParameters::default()
    };
    assert_eq!(mistakes(&PatternParameters::Ping(ping)).len(), 5);
    let bulk = BulkParameters { bytes: 0, streams: 0, ..BulkParameters::default() };
    assert_eq!(mistakes(&PatternParameters::Bulk(bulk)).len(), 2);
    let interactive = InteractiveParameters {
        duration: Duration::ZERO,
        interval: Duration::from_micros(999),
        request_bytes: 0,
        ..InteractiveParameters::default()
    };
    assert_eq!(mistakes(&PatternParameters::Interactive(interactive)).len(), 3);
    let endless =
        InteractiveParameters { duration: Duration::from_secs(86_400), ..InteractiveParameters::default() };
    let words = mistakes(&PatternParameters::Interactive(endless))[0].to_string();
    assert_eq!(words, "864000 messages in one test: at most 36000 are possible");
}

#[test]
fn an_upload_has_an_amount_of_its_own() {
    let both = BulkParameters { bytes: 10, upload_bytes: 20, streams: 4 };
    let transfer = |bulk: BulkParameters, direction| {
        PatternParameters::Bulk(bulk).transfer_of(direction).map(|transfer| transfer.amount)
    };
    let bytes = |bytes| Some(Amount::Bytes(bytes));
    for (bytes_down, bytes_up) in [(10, 20), (10, 0), (0, 20)] {
        let bulk = BulkParameters { bytes: bytes_down, upload_bytes: bytes_up, ..both.clone() };
        assert_eq!(mistakes(&PatternParameters::Bulk(bulk.clone())), []);
        let amount = |amount| if amount > 0 { bytes(amount) } else { None };
        assert_eq!(transfer(bulk.clone(), Direction::Download), amount(bytes_down));
        assert_eq!(transfer(bulk.clone(), Direction::Upload), amount(bytes_up));
    }
    // Each stream carries at least one byte in each direction in use.
    let small = PatternParameters::Bulk(BulkParameters { upload_bytes: 3, ..both.clone() });
    assert_eq!(mistakes(&small), [ParameterError::Nothing]);
    let few = PatternParameters::Bulk(BulkParameters { upload_bytes: 2, streams: 1, ..both });
    assert_eq!(few.for_transport(Transport::Quic).streams(), 2);
    let throughput = PatternParameters::Throughput(ThroughputParameters::default());
    assert_eq!(throughput.transfer_of(Direction::Upload), throughput.transfer());
    assert_eq!(throughput.transfer_of(Direction::Download), None);
}

#[test]
fn bulk_data_over_quic_is_spread_where_there_is_enough_of_it() {
    let bulk = |bytes, streams| {
        PatternParameters::Bulk(BulkParameters { bytes, streams, ..BulkParameters::default() })
    };
    let throughput = |streams, amount, rate_bps| {
        PatternParameters::Throughput(ThroughputParameters {
            streams,
            amount,
            rate_bps,
            ..ThroughputParameters::default()
        })
    };
    let time = Amount::Duration(Duration::from_secs(1));
    let cases = [
        (bulk(10_000_000, 1), 4),
        (bulk(10_000_000, 9), 9),
        (bulk(3, 1), 3),
        (throughput(1, time, None), 4),
        (throughput(1, Amount::Bytes(2), None), 2),
        (throughput(1, time, Some(17_000)), 2),
        (throughput(1, time, Some(8_000)), 1),
        (PatternParameters::Ping(PingParameters::default()), 1),
        (PatternParameters::Interactive(InteractiveParameters::default()), 2),
    ];
    for (parameters, streams) in cases {
        for transport in [Transport::Quic, Transport::Mpquic] {
            let spread = parameters.clone().for_transport(transport);
            assert_eq!(spread.streams(), streams, "{parameters:?}");
            assert_eq!(spread.validate(), Ok(()));
        }
        assert_eq!(parameters.clone().for_transport(Transport::Mptcp), parameters);
    }
    // Invalid parameters are not adapted; they are rejected.
    assert!(bulk(10, 0).for_transport(Transport::Quic).validate().is_err());
}

#[test]
fn the_grid_has_a_message_at_its_start_and_none_at_its_end() {
    let messages = |duration, interval| {
        let (duration, interval) = (Duration::from_millis(duration), Duration::from_millis(interval));
        InteractiveParameters { duration, interval, ..InteractiveParameters::default() }.messages()
    };
    assert_eq!(messages(10_000, 100), 100);
    assert_eq!(messages(10_001, 100), 101);
    assert_eq!(messages(50, 100), 1);
}

#[test]
fn the_amount_of_throughput_survives_json() {
    let parameters = ThroughputParameters { rate_bps: Some(10_000_000), ..ThroughputParameters::default() };
    let json = serde_json::to_string(&parameters).unwrap();
    assert!(json.contains(r#""amount":{"duration_ms":10000.0}"#), "{json}");
    assert_eq!(serde_json::from_str::<ThroughputParameters>(&json).unwrap(), parameters);
}

#[test]
fn every_mistake_of_throughput_is_reported() {
    let parameters = ThroughputParameters {
        streams: 0,
        amount: Amount::Bytes(0),
        rate_bps: Some(1),
        block_bytes: 1,
        ..ThroughputParameters::default()
    };
    assert_eq!(mistakes(&parameters.into()).len(), 4);
}

#[test]
fn parts_of_the_streams_add_up() {
    let parameters = ThroughputParameters {
        streams: 7,
        amount: Amount::Bytes(1_000_003),
        ..ThroughputParameters::default()
    };
    let total: u64 = (0..7)
        .map(|stream| match parameters.stream_amount(stream) {
            Amount::Bytes(bytes) => bytes,
            Amount::Duration(_) => 0,
        })
        .sum();
    assert_eq!(total, 1_000_003);
}

#[test]
fn a_pattern_may_reach_its_bounds_and_not_exceed_them() {
    let of_throughput = |change: fn(&mut ThroughputParameters)| {
        let mut parameters = ThroughputParameters::default();
        change(&mut parameters);
        mistakes(&parameters.into()).len()
    };
    let of_ping = |change: fn(&mut PingParameters)| {
        let mut parameters = PingParameters::default();
        change(&mut parameters);
        mistakes(&PatternParameters::Ping(parameters)).len()
    };
    let of_interactive = |change: fn(&mut InteractiveParameters)| {
        let mut parameters = InteractiveParameters::default();
        change(&mut parameters);
        mistakes(&PatternParameters::Interactive(parameters)).len()
    };
    for (within, beyond) in [
        (of_throughput(|one| one.streams = 128), of_throughput(|one| one.streams = 129)),
        (of_throughput(|one| one.block_bytes = 64), of_throughput(|one| one.block_bytes = 63)),
        (
            of_throughput(|one| one.block_bytes = 4 << 20),
            of_throughput(|one| one.block_bytes = (4 << 20) + 1),
        ),
        (of_throughput(|one| one.rate_bps = Some(8_000)), of_throughput(|one| one.rate_bps = Some(7_999))),
        (
            of_throughput(|one| one.amount = Amount::Duration(Duration::from_millis(1))),
            of_throughput(|one| one.amount = Amount::Duration(Duration::from_micros(999))),
        ),
        (
            of_throughput(|one| (one.streams, one.amount) = (2, Amount::Bytes(2))),
            of_throughput(|one| (one.streams, one.amount) = (2, Amount::Bytes(1))),
        ),
        (of_ping(|one| one.count = 36_000 - one.warm_up), of_ping(|one| one.count = 36_001 - one.warm_up)),
        (of_ping(|one| one.request_bytes = 4), of_ping(|one| one.request_bytes = 3)),
        (of_ping(|one| one.response_bytes = 64 << 10), of_ping(|one| one.response_bytes = (64 << 10) + 1)),
        (
            of_ping(|one| one.timeout = Duration::from_millis(1)),
            of_ping(|one| one.timeout = Duration::from_micros(999)),
        ),
        (
            of_interactive(|one| one.interval = Duration::from_millis(1)),
            of_interactive(|one| one.interval = Duration::from_micros(999)),
        ),
        (
            of_interactive(|one| one.duration = Duration::from_secs(3_600)),
            of_interactive(|one| one.duration = Duration::from_millis(3_600_001)),
        ),
    ] {
        assert_eq!((within, beyond), (0, 1));
    }
}

#[test]
fn the_direction_of_bulk_follows_from_its_amounts() {
    for (bytes, upload_bytes, direction) in
        [(10, 0, DataDirection::Download), (0, 10, DataDirection::Upload), (10, 10, DataDirection::Both)]
    {
        let bulk = BulkParameters { bytes, upload_bytes, streams: 1 };
        assert_eq!(bulk.direction(), direction);
        let transfer = PatternParameters::Bulk(bulk).transfer().unwrap();
        assert_eq!((transfer.direction, transfer.amount), (direction, Amount::Bytes(10)));
    }
    assert_eq!(PatternParameters::Ping(PingParameters::default()).transfer(), None);
    assert_eq!(DataDirection::ALL.map(DataDirection::name), ["upload", "download", "both"]);
    assert_eq!(Direction::BOTH.map(Direction::name), ["upload", "download"]);
}

#[test]
fn a_link_has_a_forward_and_a_reverse_direction() {
    assert_eq!(LinkDirection::BOTH.map(LinkDirection::name), ["forward", "reverse"]);
    assert_eq!(LinkDirection::BOTH.map(LinkDirection::index), [0, 1]);
    for (only, selected) in [
        (None, [true, true]),
        (Some(LinkDirection::Forward), [true, false]),
        (Some(LinkDirection::Reverse), [false, true]),
    ] {
        assert_eq!(LinkDirection::selected(only), selected);
    }
}

#[test]
fn each_stream_gets_an_equal_share_of_the_rate() {
    let share = |streams, rate_bps| {
        ThroughputParameters { streams, rate_bps, ..ThroughputParameters::default() }.stream_rate_bps()
    };
    assert_eq!(share(4, Some(10_000_000)), Some(2_500_000));
    assert_eq!(share(4, None), None);
}

#[test]
fn a_test_by_bytes_may_take_their_time_at_1_mbit_per_second() {
    let bulk =
        |bytes, upload_bytes| PatternParameters::Bulk(BulkParameters { bytes, upload_bytes, streams: 1 });
    assert_eq!(bulk(1_000_000_000, 7).longest_duration(), Duration::from_secs(8_000));
    assert_eq!(bulk(7, 1_000_000_000).nominal_bytes(), Some(1_000_000_000));
    assert_eq!(bulk(1_000, 0).longest_duration(), Duration::from_secs(3_600));
    let throughput = PatternParameters::Throughput(ThroughputParameters {
        omit: Duration::from_secs(2),
        ..ThroughputParameters::default()
    });
    assert_eq!(throughput.longest_duration(), Duration::from_secs(12));
    let interactive = PatternParameters::Interactive(InteractiveParameters::default());
    assert_eq!(interactive.longest_duration(), Duration::from_secs(15));
    // 100 messages of 2000 bytes, as many answers of 750 bytes, and acknowledgements of 4 bytes.
    assert_eq!(interactive.nominal_bytes(), Some(275_400));
    let ping = PatternParameters::Ping(PingParameters::default());
    assert_eq!(ping.nominal_duration(), Some(Duration::from_millis(600)));
    assert_eq!(ping.longest_duration(), Duration::from_secs(18), "each of 6 requests may time out after 3 s");
    assert_eq!(ping.nominal_bytes(), Some(60));
}

/// `MultipathTester`'s paper: 600 ms of smoothed RTT, 1500 ms of retransmission timeout.
#[test]
fn the_backup_scheduler_has_the_thresholds_of_multipathtester() {
    let json = serde_json::to_value(Scheduler::backup()).unwrap();
    let expected = serde_json::json!({ "name": "backup", "srtt_above_ms": 600.0, "rto_above_ms": 1500.0 });
    assert_eq!(json, expected);
    assert_eq!(Scheduler::backup().name(), "backup");
}

#[test]
fn datagrams_are_bounded_and_fit_only_transports_without_retransmission() {
    let voice = DatagramsParameters::voice();
    let video = DatagramsParameters::video();
    assert_eq!((voice.packets_per_frame(), voice.datagrams(), voice.datagrams_in_all()), (1, 500, 1_000));
    assert_eq!((video.packets_per_frame(), video.datagrams()), (18, 18 * 600));
    assert_eq!((0..18).map(|sequence| video.size_bytes(sequence)).sum::<u32>(), 20_000);
    assert_eq!(video.due(18 * 60), Duration::from_secs(1));
    assert_eq!((video.frame_of(17), video.frame_of(18)), (0, 1));
    for parameters in [voice.clone(), video.clone()] {
        assert_eq!(PatternParameters::Datagrams(parameters).validate(), Ok(()));
    }
    for wrong in [
        DatagramsParameters { frames_per_second: 0, ..voice.clone() },
        DatagramsParameters { frame_bytes: 39, ..voice.clone() },
        DatagramsParameters { packet_bytes: 10, ..voice.clone() },
        DatagramsParameters { frame_bytes: 41, packet_bytes: 40, ..voice.clone() },
        DatagramsParameters { paths: 9, ..voice.clone() },
        DatagramsParameters { duration: Duration::ZERO, ..voice.clone() },
        DatagramsParameters { duration: Duration::from_secs(3600), ..video.clone() },
        DatagramsParameters { duration: Duration::MAX, frame_bytes: u32::MAX, ..video },
    ] {
        assert!(PatternParameters::Datagrams(wrong.clone()).validate().is_err(), "{wrong:?}");
    }
    let (datagrams, ping) =
        (PatternParameters::Datagrams(voice), PatternParameters::Ping(PingParameters::default()));
    for transport in Transport::ALL.into_iter().chain([Transport::Udp]) {
        assert_eq!(datagrams.misfit(transport).is_none(), transport.carries_datagrams(), "{transport}");
        assert_eq!(ping.misfit(transport).is_none(), transport != Transport::Udp, "{transport}");
        assert_eq!(transport.name().parse(), Ok(transport));
    }
}
