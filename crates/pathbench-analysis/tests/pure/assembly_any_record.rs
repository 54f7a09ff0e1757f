//! A run is assembled from any record of an end: in time linear in its length, without a panic.

use pathbench_analysis::assembly::{
    ClientPath, ClockOffset, Evidence, ExecutedEvent, LinesSoFar, RunSetting, assemble,
};
use pathbench_analysis::attribution::CarriedBytes;
use pathbench_record::connection::{InForce, Negotiation, PathEvent, PathEventKind, Scheduler};
use pathbench_record::delivery::{DeliverySeries, Gap};
use pathbench_record::direction::{DataDirection, Direction};
use pathbench_record::end::{EndRecord, MessageRecord, PathSample, StreamRecord, TestId};
use pathbench_record::event::EventKind;
use pathbench_record::pattern::{Amount, InteractiveParameters, PatternParameters, ThroughputParameters};
use pathbench_record::sample::{PathFigures, PathState, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use proptest::prelude::*;
use serde_json::Map;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Numbers of every size, the largest and the smallest among them.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_u64, any::<u32>().prop_map(u64::from), any::<u64>(), Just(u64::MAX), Just(u64::MAX / 2)]
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![number(), 1_000_000_000..9_000_000_000_u64].prop_map(Timestamp::from_nanos)
}

fn series() -> impl Strategy<Value = DeliverySeries> {
    let gap = (time(), time()).prop_map(|(from, until)| Gap { from, until });
    (
        time(),
        prop::collection::vec(number(), 0..40),
        prop::option::of(time()),
        prop::option::of(time()),
        prop::collection::vec(gap, 0..6),
    )
        .prop_map(|(origin, bytes, first, last, gaps)| DeliverySeries {
            origin,
            bytes,
            first,
            last,
            gaps,
        })
}

fn figures() -> impl Strategy<Value = PathFigures> {
    let counters = prop::collection::vec(number(), 9);
    (counters, 0..4_u8, any::<f64>(), any::<u32>(), any::<Option<bool>>(), any::<bool>()).prop_map(
        |(counters, address, ms, mss_bytes, backup, quic)| {
            let local = SocketAddr::from(([10, 0, address, 1], 1));
            PathFigures {
                subflow: counters[0] as u32 % 3,
                path_id: quic.then_some(counters[1]),
                state: if backup == Some(true) { PathState::Closed } else { PathState::Open },
                backup,
                bytes_sent: counters[2],
                bytes_acked: counters[3],
                bytes_received: counters[4],
                retransmitted_bytes: counters[5],
                retransmitted_segments: counters[5],
                control_bytes_sent: quic.then_some(counters[6]),
                control_bytes_received: quic.then_some(counters[6]),
                lost_bytes: quic.then_some(counters[7]),
                black_holes: quic.then_some(counters[0]),
                cwnd_bytes: counters[8],
                in_flight_bytes: counters[8],
                not_sent_bytes: counters[8],
                since_last_sent_ms: counters[0],
                since_last_received_ms: counters[1],
                backoff: counters[7] as u32,
                mss_bytes,
                pmtu_bytes: mss_bytes.wrapping_add(52),
                srtt_ms: ms,
                rttvar_ms: ms,
                rto_ms: ms,
                min_rtt_ms: Some(ms),
                ..PathFigures::new(local, SocketAddr::from(([10, 0, 9, 1], 2)))
            }
        },
    )
}

fn stream() -> impl Strategy<Value = StreamRecord> {
    (0..3_u32, prop::collection::vec(figures(), 0..4), number(), number(), prop::option::of(number()))
        .prop_map(|(stream, paths, received_bytes, sent_bytes, hung_ns)| StreamRecord {
            stream,
            local: SocketAddr::from(([10, 0, 0, 1], 1)),
            peer: SocketAddr::from(([10, 0, 9, 1], 2)),
            in_force: InForce {
                protocol: "mptcp".to_owned(),
                congestion: "cubic".to_owned(),
                send_buffer_bytes: sent_bytes,
                receive_buffer_bytes: received_bytes,
                no_delay: true,
                encryption: None,
            },
            multipath: Negotiation::Negotiated,
            mptcp: None,
            paths,
            received_bytes,
            sent_bytes,
            completed: hung_ns.is_none(),
            error: None,
            hung_ns,
        })
}

fn message() -> impl Strategy<Value = MessageRecord> {
    let maybe = || prop::option::of(time());
    (any::<bool>(), any::<u32>(), time(), maybe(), maybe(), maybe()).prop_map(
        |(up, sequence, due, sent, acknowledged, answered)| MessageRecord {
            flow: if up { Direction::Upload } else { Direction::Download },
            sequence,
            due,
            sent,
            acknowledged,
            answered,
        },
    )
}

fn record(side: Side) -> impl Strategy<Value = EndRecord> {
    let lists = (
        prop::collection::vec(message(), 0..8),
        prop::collection::vec(stream(), 0..3),
        prop::collection::vec((time(), 0..3_u32, figures()), 0..12),
        prop::collection::vec((time(), number()), 0..4),
    );
    (time(), time(), series(), series(), lists, number(), any::<bool>()).prop_map(
        move |(
            started,
            ended,
            deliveries,
            offered,
            (messages, streams, samples, events),
            span,
            completed,
        )| EndRecord {
            side,
            test: TestId([7; 16]),
            transport: Transport::Mpquic,
            parameters: ThroughputParameters::default().into(),
            started,
            ended,
            deliveries,
            offered,
            response: None,
            messages,
            datagrams: None,
            path_events: events
                .into_iter()
                .map(|(at, path)| PathEvent {
                    at,
                    path: Some(path),
                    local: Some([10, 0, 1, 1].into()),
                    remote: None,
                    kind: PathEventKind::PathSuspended,
                })
                .collect(),
            handshake: Some(Duration::from_nanos(span)),
            fct: Some(Duration::from_nanos(span)),
            rate_limit_bps: Some(span),
            mptcp_counters: None,
            streams,
            samples: samples
                .into_iter()
                .map(|(at, stream, figures)| PathSample { at, stream, figures })
                .collect(),
            samples_thinned_by: span as u32,
            completed,
            errors: Vec::new(),
            cpu: None,
            tcp_buffers: None,
        },
    )
}

fn parameters() -> impl Strategy<Value = PatternParameters> {
    let throughput = |direction, amount, omit| {
        let rate_bps = Some(8_000);
        ThroughputParameters { direction, amount, omit, rate_bps, ..ThroughputParameters::default() }.into()
    };
    let second = Duration::from_secs(1);
    prop_oneof![
        Just(throughput(DataDirection::Both, Amount::Duration(5 * second), second)),
        Just(throughput(DataDirection::Upload, Amount::Bytes(u64::MAX), Duration::ZERO)),
        Just(throughput(DataDirection::Download, Amount::Duration(Duration::MAX), Duration::MAX)),
        Just(PatternParameters::Interactive(InteractiveParameters::default())),
    ]
}

pub(crate) fn setting(parameters: PatternParameters) -> RunSetting {
    let path = |number: u8| ClientPath {
        name: format!("path{number}"),
        interface: format!("path{number}"),
        addresses: vec![[10, 0, number, 1].into()],
        backup: Some(number == 1),
        mtu_bytes: Some(1500),
    };
    RunSetting {
        variant: BTreeMap::default(),
        client: "client".to_owned(),
        server: "server".to_owned(),
        server_address: None,
        pattern: parameters.name().to_owned(),
        parameters,
        asked: Map::new(),
        paths: vec![path(0), path(1)],
        other_interfaces: Vec::new(),
        far_interfaces: Vec::new(),
        mptcp: None,
        scheduler: Scheduler::default(),
        shapers: Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_run_is_put_together_from_any_records(
        client in record(Side::Client),
        server in record(Side::Server),
        parameters in parameters(),
        transport in prop::sample::select(vec![Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic]),
        event_at in time(),
        gave_up in prop::option::of(time()),
    ) {
        let offsets = [ClockOffset::of_records(&client, &server), Some(ClockOffset::of_starts(&client, &server))];
        for offset in offsets.into_iter().flatten() {
            let _ = (offset.suits(&client, &server), offset.and(offset).uncertainty());
            let server = offset.apply(server.clone());
            let setting = setting(parameters.clone());
            let evidence = Evidence {
                id: "r".to_owned(),
                setting: &setting,
                label: &TransportLabel { transport, path: None },
                repetition: 1,
                client: Some(client.clone()),
                server: Some(server),
                completed: true,
                error: None,
                unreachable: None,
                gave_up,
                links: Vec::new(),
                carried: [("path0", 7), ("path1", u64::MAX)]
                    .map(|(interface, bytes)| {
                        let carried =
                            CarriedBytes { from_client: bytes, to_client: bytes, only_of_run: true };
                        (interface.to_owned(), carried)
                    })
                    .into(),
                invalid_because: Vec::new(),
                executed: [(EventKind::Down, 0), (EventKind::Up, 300)]
                    .map(|(kind, later_ms)| ExecutedEvent {
                        due: event_at,
                        at: event_at + Duration::from_millis(later_ms),
                        node: "client".to_owned(),
                        link: "path0".to_owned(),
                        effect: kind.path_effect(),
                        kind,
                        detail: Map::new(),
                    })
                    .into(),
                notifications: Vec::new(),
                counters: BTreeMap::new(),
            };
            let assembled = assemble(&evidence);
            prop_assert!(serde_json::to_string(&assembled.record).is_ok());
            let _ = LinesSoFar::from_evidence(&evidence, event_at);
        }
    }
}
