//! The summary of a program's connections.

use pathbench_record::document::MultipathRecord;
use pathbench_record::stage::SubflowStage;
use pathbench_supervisor::{ConnectionReport, ConnectionRole, ConnectionState, PathReport, ProgramSummary};

/// Groups of a summary; further peers are one more.
const MOST_GROUPS: usize = 256;

fn report(port: u16, role: ConnectionRole, used: bool, negotiated: bool) -> ConnectionReport {
    let path = |local: [u8; 4], interface: &str| PathReport {
        name: interface.to_owned(),
        interface: Some(interface.to_owned()),
        local: local.into(),
        remote: [10, 0, 0, 2].into(),
        bytes_sent: 10,
        bytes_received: 5,
        delivered_bytes: 15,
        stage: SubflowStage::Carried,
        retransmitted_segments: 1,
        retransmitted_bytes: 3,
        rtt_ms: 1.0,
        is_final: true,
    };
    ConnectionReport {
        number: u64::from(port),
        role,
        local: ([10, 0, 0, 1], 9).into(),
        remote: ([10, 0, 0, 2], port).into(),
        first_seen_s: 0.0,
        last_seen_s: 1.0,
        multipath: MultipathRecord { used, negotiated, ..MultipathRecord::default() },
        bytes_sent: 20,
        bytes_received: 10,
        is_opened: true,
        bytes_sent_exact: true,
        bytes_received_exact: true,
        paths: vec![path([10, 0, 0, 1], "eth"), path([10, 1, 0, 1], "wlan")],
    }
}

#[test]
fn connections_with_the_same_peer_and_state_are_one_group() {
    let mut summary = ProgramSummary::default();
    for _ in 0..3 {
        summary.add(&report(80, ConnectionRole::Connected, true, true));
    }
    summary.add(&report(80, ConnectionRole::Connected, false, true));
    let groups = summary.groups();
    assert_eq!((summary.connections, summary.multipath, groups.len()), (4, 3, 2));
    assert_eq!((groups[0].connections, groups[0].bytes_sent, groups[0].retransmitted_segments), (3, 60, 6));
    assert_eq!(
        (groups[0].state, groups[0].bytes_by_path["wlan"], groups[0].at_least),
        (ConnectionState::Multipath, 45, false)
    );
    assert_eq!(groups[1].state, ConnectionState::OnePath);
}

#[test]
fn many_peers_take_bounded_memory() {
    let mut summary = ProgramSummary::default();
    (1..=2000)
        .map(|port| report(port, ConnectionRole::Connected, false, false))
        .for_each(|report| summary.add(&report));
    let groups = summary.groups();
    assert_eq!(groups.len(), MOST_GROUPS + 1);
    assert_eq!(groups.iter().map(|group| group.connections).sum::<u64>(), 2000);
    // Accepted connections have a port of their own at the peer, and are one group.
    let mut summary = ProgramSummary::default();
    (1..=2000)
        .map(|port| report(port, ConnectionRole::Accepted, true, true))
        .for_each(|report| summary.add(&report));
    assert_eq!(summary.groups().len(), 1);
}
