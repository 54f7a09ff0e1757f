//! Every pattern over every transport between a client and a server over loopback, on the real kernel.

use crate::common::{Everything, clock};
use pathbench_record::connection::{PathEvent, PathEventKind};
use pathbench_record::direction::{DataDirection, Direction};
use pathbench_record::end::{EndRecord, MessageRecord};
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, QUIC_STREAMS,
    ThroughputParameters,
};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientOutcome, ClientPlan, Unobserved, fetch_record, run_client};
use pathbench_traffic::server::ServerLimits;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn run(plan: &ClientPlan) -> (EndRecord, EndRecord) {
    let ClientOutcome { client, server, completed, error, hung } = run_client(plan, &clock(), &Unobserved);
    assert!(completed && error.is_none() && hung.is_none(), "{}: {error:?}", plan.transport);
    let server = server.unwrap();
    for end in [&client, &server] {
        assert!(end.completed && end.errors.is_empty(), "{:?}", end.errors);
        assert_eq!((end.test, end.transport), (plan.test, plan.transport));
        assert_eq!(end.parameters, plan.parameters.clone().for_transport(plan.transport));
        assert_eq!(end.streams.len(), end.parameters.streams() as usize);
    }
    assert!(client.handshake.unwrap() > Duration::ZERO);
    assert_eq!((server.handshake, server.fct), (None, None));
    // No byte is lost between the ends of a completed test.
    assert_eq!(client.offered.total_bytes(), server.deliveries.total_bytes());
    assert_eq!(server.offered.total_bytes(), client.deliveries.total_bytes());
    (client, server)
}

/// One run of a pattern over each transport, and a second one over TLS where it is optional.
fn over_all(parameters: &PatternParameters, check: impl Fn(Transport, EndRecord, EndRecord)) {
    let everything = Everything::start(ServerLimits::default());
    for plan in everything.plans(parameters) {
        let (client, server) = run(&plan);
        let encrypted = client.streams[0].in_force.encryption.is_some();
        let asked = plan.security.trust().is_some();
        assert_eq!(encrypted, asked, "{}: {:?}", plan.transport, client.streams[0].in_force);
        check(plan.transport, client, server);
    }
    everything.server.stop();
}

#[test]
fn a_ping_has_a_round_trip_time_per_request_and_no_warm_up() {
    let ping = PingParameters { count: 8, warm_up: 2, interval: 20 * MS, ..PingParameters::default() };
    over_all(&PatternParameters::Ping(ping), |transport, client, server| {
        assert_eq!(server.messages, []);
        assert_eq!(client.messages.len(), 8);
        for (message, sequence) in client.messages.iter().zip(0..) {
            assert_eq!((message.flow, message.sequence), (Direction::Upload, sequence));
            assert_eq!(message.acknowledged, None);
            let rtt = message.round_trip().unwrap();
            assert!(rtt > Duration::ZERO && rtt < PingParameters::default().timeout, "{transport}: {rtt:?}");
            assert!(message.sent.unwrap() >= message.due);
        }
        assert!(client.messages.windows(2).all(|pair| pair[1].due >= pair[0].due + 20 * MS));
        assert_eq!(client.offered.total_bytes(), 100);
        // Nagle's algorithm would add a delay.
        if matches!(transport, Transport::Tcp | Transport::Mptcp) {
            assert!(client.streams[0].in_force.no_delay && server.streams[0].in_force.no_delay);
        }
    });
}

#[test]
fn bulk_has_a_completion_time_from_before_the_connection_to_the_last_byte() {
    let bulk = PatternParameters::Bulk(BulkParameters { bytes: 10_000_001, ..BulkParameters::default() });
    over_all(&bulk, |transport, client, server| {
        assert_eq!(client.deliveries.total_bytes(), 10_000_001);
        assert_eq!(server.deliveries.total_bytes(), 0);
        let (fct, handshake) = (client.fct.unwrap(), client.handshake.unwrap());
        assert_eq!(fct, client.deliveries.last.unwrap().duration_since(client.started));
        assert!(fct > handshake, "{transport}");
        let quic = matches!(transport, Transport::Quic | Transport::Mpquic);
        assert_eq!(client.streams.len(), if quic { QUIC_STREAMS as usize } else { 1 });
    });
}

#[test]
fn bulk_goes_in_both_directions_and_is_complete_when_the_server_confirms() {
    // As in the kernel's selftest `simult_flows`, and with an upload alone.
    for (bytes, upload_bytes) in [(4_000_001, 81_920), (81_920, 4_000_001), (0, 300_007)] {
        let bulk = PatternParameters::Bulk(BulkParameters { bytes, upload_bytes, streams: 1 });
        over_all(&bulk, |transport, client, server| {
            assert_eq!(client.deliveries.total_bytes(), bytes, "{transport}");
            assert_eq!(server.deliveries.total_bytes(), upload_bytes, "{transport}");
            let completed_at = client.started + client.fct.unwrap();
            assert!(completed_at > server.deliveries.last.unwrap(), "{transport}");
            assert!(client.deliveries.last.is_none_or(|last| completed_at >= last), "{transport}");
            assert!(completed_at <= client.ended, "{transport}");
        });
    }
}

#[test]
fn throughput_is_exact_in_both_directions_over_every_transport() {
    let throughput = ThroughputParameters {
        direction: DataDirection::Both,
        amount: Amount::Bytes(5_000_003),
        ..ThroughputParameters::default()
    };
    over_all(&throughput.into(), |transport, client, server| {
        assert_eq!(client.deliveries.total_bytes(), 5_000_003);
        assert_eq!(server.deliveries.total_bytes(), 5_000_003);
        // The figures of a connection are counted once for all its streams.
        let paths: usize = client.streams.iter().map(|stream| stream.paths.len()).sum();
        assert_eq!(paths, 1, "{transport}");
        let acknowledged = client.streams[0].paths[0].bytes_acked;
        assert!((5_000_003..10_000_000).contains(&acknowledged), "{transport}: {acknowledged}");
        assert!(client.samples.iter().all(|sample| sample.stream == 0));
        let established = |event: &&PathEvent| event.kind == PathEventKind::PathEstablished;
        let is_quic = matches!(transport, Transport::Quic | Transport::Mpquic);
        assert_eq!(
            client.path_events.iter().filter(established).count(),
            usize::from(is_quic),
            "{transport}"
        );
    });
}

/// Due times are exact multiples of the interval, and no effect precedes its cause.
fn assert_flow(messages: &[MessageRecord], flow: Direction, interval: Duration, number: u32) {
    assert_eq!(messages.len(), number as usize);
    let start = messages[0].due;
    for (message, sequence) in messages.iter().zip(0..) {
        assert_eq!((message.flow, message.sequence), (flow, sequence));
        assert_eq!(message.due, start + interval * sequence);
        let (sent, acknowledged) = (message.sent.unwrap(), message.acknowledged.unwrap());
        assert!(sent >= message.due && acknowledged >= message.due);
        assert!(message.answered.unwrap() >= acknowledged);
    }
}

#[test]
fn interactive_delays_are_known_for_both_directions() {
    let interactive =
        InteractiveParameters { duration: 600 * MS, interval: 20 * MS, ..InteractiveParameters::default() };
    over_all(&PatternParameters::Interactive(interactive), |_, client, server| {
        assert_flow(&client.messages, Direction::Upload, 20 * MS, 30);
        assert_flow(&server.messages, Direction::Download, 20 * MS, 30);
        // 30 messages, and 30 acknowledgements and answers to the other side's requests.
        assert_eq!(client.offered.total_bytes(), 30 * (2_000 + 4 + 750));
        let span = client.offered.last.unwrap().duration_since(client.offered.first.unwrap());
        assert!(span >= 570 * MS, "{span:?}");
    });
}

/// The patterns of concurrent clients.
fn parameters_of_client(index: usize) -> PatternParameters {
    match index % 5 {
        0 => PatternParameters::Ping(PingParameters { count: 20, ..PingParameters::default() }),
        1 => PatternParameters::Bulk(BulkParameters {
            bytes: 2_000_000 + index as u64,
            ..BulkParameters::default()
        }),
        2 => PatternParameters::Interactive(InteractiveParameters {
            duration: 1000 * MS,
            ..InteractiveParameters::default()
        }),
        3 => ThroughputParameters {
            direction: DataDirection::Both,
            amount: Amount::Bytes(1_000_000 + index as u64),
            ..ThroughputParameters::default()
        }
        .into(),
        _ => ThroughputParameters {
            amount: Amount::Duration(700 * MS),
            rate_bps: Some(4_000_000),
            ..ThroughputParameters::default()
        }
        .into(),
    }
}

#[test]
fn twenty_concurrent_clients_get_their_own_results() {
    let wide = ServerLimits {
        max_tests: 20,
        max_connections: 256,
        handshake_timeout: 20_000 * MS,
        ..ServerLimits::default()
    };
    let everything = Everything::start(wide);
    // All combinations of transports and patterns occur: 5 shares no factor with 4 or 3.
    let plans: Vec<ClientPlan> = (0..20)
        .map(|index| ClientPlan {
            patience: 20_000 * MS,
            connect_timeout: 20_000 * MS,
            ..everything.plan(index, parameters_of_client(index))
        })
        .collect();
    let outcomes: Vec<(EndRecord, EndRecord)> = std::thread::scope(|scope| {
        let running: Vec<_> = plans.iter().map(|plan| scope.spawn(move || run(plan))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (index, (plan, (client, server))) in plans.iter().zip(&outcomes).enumerate() {
        let asked = plan.parameters.transfer().map(|transfer| transfer.amount);
        match asked {
            Some(Amount::Bytes(bytes)) => assert_eq!(client.deliveries.total_bytes(), {
                let has_download =
                    !matches!(plan.parameters, PatternParameters::Throughput(_)) || index % 5 == 3;
                if has_download { bytes } else { 0 }
            }),
            Some(Amount::Duration(_)) => assert!(server.deliveries.total_bytes() > 0),
            None => assert!(client.messages.iter().all(|message| message.answered.is_some())),
        }
        // The server keeps the same record under the test's ID.
        let kept = fetch_record(plan, true, client, &clock()).unwrap();
        assert_eq!(kept.test, plan.test);
        assert_eq!(kept.messages, server.messages);
    }
    everything.server.stop();
}

#[test]
fn the_first_sample_and_the_last_span_a_test_of_several_streams() {
    let everything = Everything::start(ServerLimits::default());
    let throughput =
        ThroughputParameters { amount: Amount::Duration(400 * MS), ..ThroughputParameters::default() };
    let plan = everything.plan(1, throughput);
    assert_eq!(plan.transport, Transport::Quic);
    let (client, _) = run(&plan);
    let times: Vec<Timestamp> = client.samples.iter().map(|sample| sample.at).collect();
    let last_byte = client.offered.last.unwrap();
    assert!(*times.last().unwrap() >= last_byte, "sampling ended before the data did");
    everything.server.stop();
}
