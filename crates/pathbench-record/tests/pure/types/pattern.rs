//! Parameters of the patterns.

use pathbench_record::direction::Direction;
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
