//! Path figures from each kernel interface.

use crate::support::{
    Loopback, in_namespace, listen, loopback, pair, pair_at, remove_endpoints, transfer, wait_for,
};
use crate::two_links::TwoLinks;
use pathbench_record::connection::Negotiation;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::transport::Transport;
use pathbench_testkit::tests;
use pathbench_transport::{Connection, ConnectionSnapshot, Listener, Telemetry, TelemetrySource};
use std::collections::BTreeSet;

const SOURCES: [Option<TelemetrySource>; 3] =
    [None, Some(TelemetrySource::FullInfo), Some(TelemetrySource::SeparateOptions)];

tests! {
    in_namespace =>
    tcp_counts_payload_exactly,
    all_sources_agree_on_two_subflows,
    a_closed_subflow_keeps_its_last_figures_and_a_new_one_gets_a_new_number,
    buffers_grow_with_the_number_of_subflows,
    figures_survive_the_connection,
}

fn telemetry(connection: &Connection, source: Option<TelemetrySource>) -> Telemetry {
    let mut telemetry = connection.telemetry().expect("a handle");
    telemetry.restrict_to(source);
    telemetry
}

fn snapshot_of(connection: &Connection, source: Option<TelemetrySource>) -> ConnectionSnapshot {
    telemetry(connection, source).snapshot().expect("a snapshot")
}

/// Figures that are constant on an idle connection.
fn steady(figures: &PathFigures) -> PathFigures {
    PathFigures { subflow: 0, since_last_sent_ms: 0, since_last_received_ms: 0, ..figures.clone() }
}

/// MPTCP-level retransmissions, which are new payload to the subflow that carries them.
fn retransmitted(connection: &Connection) -> u64 {
    snapshot_of(connection, None).mptcp.and_then(|mptcp| mptcp.bytes_retransmitted).unwrap_or(0)
}

/// A connection with established subflows from 127.0.0.1 and 127.0.0.2.
fn two_subflows(listener: &Listener) -> (Connection, Connection) {
    Loopback::new().add_endpoint(loopback(2));
    let (client, server) = pair_at(listener, Transport::Mptcp);
    transfer(&client, &server, 10_000);
    for end in [&client, &server] {
        wait_for("a second subflow", || (snapshot_of(end, None).subflows.len() == 2).then_some(()));
    }
    (client, server)
}

fn tcp_counts_payload_exactly() {
    for transport in [Transport::Tcp, Transport::Mptcp] {
        let (client, server) = pair(transport, transport, loopback(1));
        transfer(&client, &server, 1_234_567);
        transfer(&server, &client, 7_654);
        for (end, peer, sent, received) in
            [(&client, &server, 1_234_567, 7_654), (&server, &client, 7_654, 1_234_567)]
        {
            let path = wait_for("the last acknowledgement", || {
                let snapshot = snapshot_of(end, None);
                assert_eq!(snapshot.subflows.len(), 1);
                let path = snapshot.subflows[0].clone();
                (path.bytes_acked >= sent && path.in_flight_bytes == 0).then_some(path)
            });
            assert_eq!(path.bytes_acked, sent + retransmitted(end), "{transport}");
            assert_eq!(path.bytes_sent - path.retransmitted_bytes, path.bytes_acked, "{transport}");
            assert_eq!(path.bytes_received, received + retransmitted(peer), "{transport}");
            let delivered = snapshot_of(end, None).mptcp.and_then(|mptcp| mptcp.bytes_received);
            assert!(delivered.is_none_or(|delivered| delivered == received), "{delivered:?}");
            assert_eq!(path.subflow, 1);
            assert_eq!(path.state, PathState::Open);
            assert_eq!((path.local, path.remote), (end.local_addr(), end.peer_addr()));
            assert!(path.srtt_ms > 0.0 && path.srtt_ms < 1000.0, "{}", path.srtt_ms);
            assert!(path.min_rtt_ms.is_some_and(|min| min <= path.srtt_ms), "{path:?}");
            assert!(path.rto_ms >= 100.0, "{}", path.rto_ms);
            assert_eq!(path.pmtu_bytes, 65535);
            assert!(path.mss_bytes > 500 && path.mss_bytes < path.pmtu_bytes, "{path:?}");
            assert!(path.cwnd_bytes >= 2 * u64::from(path.mss_bytes), "{path:?}");
            assert_eq!((path.in_flight_bytes, path.not_sent_bytes, path.backoff), (0, 0, 0));
        }
        client.finish_sending();
        assert_eq!(server.receive(&mut [0], None).expect("the end"), 0);
        let path = &snapshot_of(&server, None).subflows[0];
        let expected = 1_234_567 + retransmitted(&client);
        assert_eq!(path.bytes_received, expected, "{transport}: the end of data is not data");
    }
}

fn all_sources_agree_on_two_subflows() {
    let listener = listen(Transport::Mptcp, loopback(1));
    let (client, server) = two_subflows(&listener);
    transfer(&client, &server, 5_000_000);
    for end in [&client, &server] {
        let settled = wait_for("everything to be acknowledged", || {
            let snapshots = SOURCES.map(|source| snapshot_of(end, source));
            let paths: Vec<Vec<PathFigures>> =
                snapshots.iter().map(|snapshot| snapshot.subflows.iter().map(steady).collect()).collect();
            let settled = paths[0].iter().all(|path| path.in_flight_bytes == 0 && path.not_sent_bytes == 0);
            (settled && paths[0] == paths[1] && paths[0] == paths[2]).then_some(snapshots)
        });
        let mptcp = settled[0].mptcp.clone().expect("figures of the connection");
        for snapshot in &settled {
            assert_eq!(snapshot.multipath, Negotiation::Negotiated);
            let other = snapshot.mptcp.as_ref().expect("figures of the connection");
            assert_eq!(other.token, mptcp.token);
            assert_eq!(other.write_seq, mptcp.write_seq);
            assert_eq!(other.rcv_nxt, mptcp.rcv_nxt);
            let numbers: Vec<u32> = snapshot.subflows.iter().map(|path| path.subflow).collect();
            // The kernel's ids may have gaps: a subflow that failed to open has used one.
            assert!(numbers[0] == 1 && numbers[1] > 1, "{numbers:?}");
        }
        assert_eq!(mptcp.extra_subflows, 1);
        assert!(mptcp.subflows_total.is_none_or(|total| total == 2));
        let first = snapshot_of(end, Some(TelemetrySource::TcpInfo));
        assert_eq!(first.subflows.len(), 1);
        // The figures of a subflow alone have none of the connection.
        let subflow = PathFigures {
            connection_unacked_bytes: None,
            connection_received_bytes: None,
            ..steady(&settled[0].subflows[0])
        };
        assert_eq!(steady(&first.subflows[0]), subflow);
        assert_eq!(first.multipath, Negotiation::Negotiated);
    }
    let sent = snapshot_of(&client, None);
    let received = snapshot_of(&server, None);
    let bytes = |snapshot: &ConnectionSnapshot, read: fn(&PathFigures) -> u64| -> u64 {
        snapshot.subflows.iter().map(read).sum()
    };
    assert!(bytes(&sent, |path| path.bytes_acked) >= 5_010_000);
    assert_eq!(bytes(&sent, |path| path.bytes_acked), bytes(&received, |path| path.bytes_received));
    assert_eq!(received.mptcp.and_then(|mptcp| mptcp.bytes_received).unwrap_or(5_010_000), 5_010_000);
    assert_eq!(sent.subflows[1].local.ip(), loopback(2));
    assert_eq!(received.subflows[1].remote, sent.subflows[1].local);
}

fn a_closed_subflow_keeps_its_last_figures_and_a_new_one_gets_a_new_number() {
    let listener = listen(Transport::Mptcp, loopback(1));
    for source in SOURCES {
        remove_endpoints();
        let (client, server) = two_subflows(&listener);
        transfer(&client, &server, 3_000_000);
        let mut telemetry = telemetry(&client, source);
        let before = telemetry.snapshot().expect("a snapshot");
        remove_endpoints();
        let after = wait_for("the second subflow to close", || {
            let snapshot = telemetry.snapshot().expect("a snapshot");
            (snapshot.subflows[1].state == PathState::Closed).then_some(snapshot)
        });
        assert_eq!(after.subflows.len(), 2);
        assert_eq!(after.subflows[0].state, PathState::Open);
        assert_eq!(after.subflows[1].local, before.subflows[1].local);
        assert!(after.subflows[1].bytes_sent >= before.subflows[1].bytes_sent);
        transfer(&client, &server, 1_000_000);
        Loopback::new().add_endpoint(loopback(3));
        let third = wait_for("a third subflow", || {
            let snapshot = telemetry.snapshot().expect("a snapshot");
            snapshot.subflows.get(2).cloned()
        });
        assert_eq!(third.local.ip(), loopback(3));
        let numbers: Vec<u32> =
            telemetry.snapshot().expect("a snapshot").subflows.iter().map(|path| path.subflow).collect();
        assert!(numbers[0] == 1 && numbers[1] > 1 && numbers[2] > numbers[1], "{numbers:?}");
    }
}

/// Two hosts: a server with the client's endpoints opens subflows from them, too, which fail, and until the kernel has
/// dropped one it takes the place of a join under the limit of eight.
fn buffers_grow_with_the_number_of_subflows() {
    let hosts = TwoLinks::new([1500; 2]);
    hosts.add_endpoints(8);
    let listener = hosts.listen_mptcp();
    let (client, server) =
        hosts.client.run_in(|| pair_at(&listener, Transport::Mptcp)).expect("the client's host");
    transfer(&client, &server, 100_000);
    for source in SOURCES {
        let mut telemetry = telemetry(&client, source);
        let snapshot = wait_for("nine subflows", || {
            let snapshot = telemetry.snapshot().expect("a snapshot");
            (snapshot.subflows.len() == 9).then_some(snapshot)
        });
        let numbers: BTreeSet<u32> = snapshot.subflows.iter().map(|path| path.subflow).collect();
        assert_eq!(numbers.len(), 9, "{numbers:?}");
    }
}

fn figures_survive_the_connection() {
    for transport in [Transport::Tcp, Transport::Mptcp] {
        let (client, server) = pair(transport, transport, loopback(1));
        transfer(&client, &server, 300_000);
        let mut telemetry = telemetry(&client, None);
        client.abort();
        drop(client);
        drop(server);
        let last = wait_for("the connection to close", || {
            let snapshot = telemetry.snapshot().expect("a snapshot");
            (snapshot.subflows[0].state == PathState::Closed).then_some(snapshot)
        });
        assert_eq!(last.subflows.len(), 1);
        let path = &last.subflows[0];
        assert!(path.bytes_sent - path.retransmitted_bytes >= 300_000, "{transport}: {path:?}");
        let expected =
            if transport == Transport::Tcp { Negotiation::NotAsked } else { Negotiation::Negotiated };
        assert_eq!(last.multipath, expected);
    }
}
