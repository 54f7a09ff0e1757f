//! The connections of a program, from snapshots of made-up sockets.

use pathbench_host::sockets::{Snapshot, Socket};
use pathbench_record::time::Timestamp;
use pathbench_supervisor::{
    ConnectionLedger, ConnectionRole, ObservedConnection, SocketActivity, TransportProtocol,
};

/// `TCP_ESTABLISHED` of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const OWN: u64 = 100;
const LISTENER: u64 = 101;
const MOST_CONNECTIONS: usize = 32_768;
const MOST_SUBFLOWS: usize = 32;

fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn socket(cookie: u64, inode: u32, local: &str, remote: &str) -> Socket {
    let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
    let info = Vec::new();
    Socket { local, remote, cookie, inode, state: ESTABLISHED, subflow: None, is_subflow: false, info }
}

/// An MPTCP socket with the parsed fields of `struct mptcp_info`.
fn mptcp(cookie: u64, inode: u32, local: &str, remote: &str, token: u32, fallback: bool) -> Socket {
    let mut info = vec![0; 96];
    info[8] = u8::from(fallback);
    info[12..16].copy_from_slice(&token.to_ne_bytes());
    Socket { info, ..socket(cookie, inode, local, remote) }
}

/// A subflow with sent bytes, as `struct tcp_info` has them.
fn subflow(cookie: u64, inode: u32, local: &str, remote: &str, sent: u64) -> Socket {
    let mut info = vec![0; 248];
    info[200..208].copy_from_slice(&sent.to_ne_bytes());
    Socket { info, is_subflow: true, ..socket(cookie, inode, local, remote) }
}

fn listener(cookie: u64, local: &str) -> Socket {
    Socket { state: 10, ..socket(cookie, 1, local, "0.0.0.0:0") }
}

fn activity_of_created(cookies: &[u64]) -> SocketActivity {
    let mut activity = SocketActivity::default();
    for cookie in cookies {
        activity.created(*cookie, 0);
    }
    activity
}

fn sent_bytes(connection: &ObservedConnection) -> Vec<(u64, bool)> {
    connection.subflows.iter().map(|one| (one.figures.bytes_sent, one.is_final)).collect()
}

#[test]
fn subflows_belong_to_the_socket_with_their_inode_and_keep_their_final_figures() {
    let (mut ledger, mut activity) = (ConnectionLedger::default(), activity_of_created(&[OWN, LISTENER]));
    let snapshot = Snapshot {
        mptcp: vec![
            listener(LISTENER, "0.0.0.0:9"),
            mptcp(OWN, 7, "10.0.0.1:9", "10.0.0.2:80", 5, false),
            mptcp(999, 8, "10.0.0.1:10", "10.0.0.2:80", 6, false),
        ],
        tcp: vec![
            subflow(1, 7, "10.0.0.1:9", "10.0.0.2:80", 10),
            subflow(2, 7, "10.1.0.1:9", "10.0.0.2:80", 20),
            subflow(3, 8, "10.0.0.1:10", "10.0.0.2:80", 30),
        ],
    };
    ledger.observe(&snapshot, &mut activity, timestamp(1));
    // The kernel's report of the initial subflow's end is zeroed, and has neither inode nor all addresses.
    ledger.destroyed(&subflow(1, 0, "0.0.0.0:0", "0.0.0.0:0", 0));
    ledger.destroyed(&subflow(2, 0, "10.1.0.1:9", "10.0.0.2:80", 25));
    ledger.destroyed(&subflow(3, 0, "10.0.0.1:10", "10.0.0.2:80", 31));
    ledger.observe(&Snapshot::default(), &mut activity, timestamp(2));
    assert!(ledger.take_ended().is_empty(), "a report may follow");
    ledger.observe(&Snapshot::default(), &mut activity, timestamp(3));
    let ended = ledger.take_ended();
    let [connection] = &ended[..] else { panic!("{ended:#?}") };
    assert_eq!(sent_bytes(connection), [(10, false), (25, true)]);
    assert_eq!((connection.role, connection.protocol), (ConnectionRole::Connected, TransportProtocol::Mptcp));
    assert_eq!((connection.last_seen, activity.unseen()), (timestamp(1), 0));
    assert!(!ledger.is_busy());
    // No subflow belongs to a connection any more.
    for cookie in [1, 2] {
        ledger.destroyed(&subflow(cookie, 0, "10.0.0.1:9", "10.0.0.2:80", 1));
    }
    assert_eq!(ledger.unseen_accepted.subflows, 2);
}

/// Regression: accepted sockets have the cookie of their listener, so that all of them were one connection.
#[test]
fn accepted_connections_are_told_apart_by_their_addresses() {
    let (mut ledger, mut activity) = (ConnectionLedger::default(), activity_of_created(&[OWN]));
    let accepted = |remote: &str, token| mptcp(OWN, token, "10.0.0.2:80", remote, token, false);
    let snapshot = Snapshot {
        mptcp: vec![accepted("10.0.0.1:1", 11), accepted("10.0.0.1:2", 12), listener(OWN, "0.0.0.0:80")],
        tcp: vec![
            subflow(1, 11, "10.0.0.2:80", "10.0.0.1:1", 10),
            // A client without MPTCP; a subflow that closes; another program's.
            socket(3, 30, "10.0.0.2:80", "10.0.0.1:3"),
            Socket { state: 4, ..socket(4, 40, "10.0.0.2:80", "10.0.0.1:4") },
            socket(5, 50, "10.0.0.2:81", "10.0.0.1:5"),
        ],
    };
    ledger.observe(&snapshot, &mut activity, timestamp(1));
    let found: Vec<_> = ledger.live().iter().map(|one| (one.remote.port(), one.role, one.protocol)).collect();
    let mptcp = |port| (port, ConnectionRole::Accepted, TransportProtocol::Mptcp);
    assert_eq!(found, [mptcp(1), mptcp(2), (3, ConnectionRole::Accepted, TransportProtocol::PlainTcp)]);
    // The same ports once more are another connection.
    let again =
        Snapshot { mptcp: vec![accepted("10.0.0.1:1", 13), listener(OWN, "0.0.0.0:80")], tcp: Vec::new() };
    ledger.observe(&again, &mut activity, timestamp(2));
    assert_eq!(ledger.take_ended().len(), 1);
    ledger.destroyed(&subflow(9, 0, "10.0.0.2:80", "10.0.0.1:77", 500));
    assert_eq!((ledger.unseen_accepted.subflows, ledger.unseen_accepted.bytes_sent), (1, 500));
}

#[test]
fn a_fallback_at_first_differs_from_a_later_one() {
    for (first, expected) in [(true, true), (false, false)] {
        let (mut ledger, mut activity) = (ConnectionLedger::default(), activity_of_created(&[OWN]));
        for (fallback, time) in [(first, 1), (true, 2)] {
            let one = mptcp(OWN, 7, "10.0.0.1:9", "10.0.0.2:80", 5, fallback);
            ledger.observe(&Snapshot { mptcp: vec![one], tcp: Vec::new() }, &mut activity, timestamp(time));
        }
        assert_eq!(ledger.live()[0].protocol, TransportProtocol::FellBack { at_first: expected });
    }
}

#[test]
fn a_flood_of_connections_and_subflows_takes_bounded_memory() {
    let many = MOST_CONNECTIONS as u64 + 100;
    let (mut ledger, mut activity) =
        (ConnectionLedger::default(), activity_of_created(&(0..=many).collect::<Vec<_>>()));
    let one =
        |cookie| mptcp(cookie, cookie as u32 + 1, "10.0.0.1:9", "10.0.0.2:80", cookie as u32 + 1, false);
    let sockets = (0..many).map(one).chain([listener(many, "0.0.0.0:9")]);
    let snapshot = Snapshot { mptcp: sockets.collect(), tcp: Vec::new() };
    ledger.observe(&snapshot, &mut activity, timestamp(1));
    assert_eq!((ledger.live().len(), ledger.not_followed), (MOST_CONNECTIONS, 100));
    for round in 0..100 {
        let new = subflow(1_000_000 + round, 1, "10.0.0.1:9", "10.0.0.2:80", 10);
        ledger.observe(&Snapshot { mptcp: vec![one(0)], tcp: vec![new] }, &mut activity, timestamp(round));
    }
    let connection = ledger.live()[0];
    assert_eq!((connection.subflows.len(), connection.subflows_seen), (MOST_SUBFLOWS, 100));
    assert_eq!(connection.subflows.iter().map(|one| one.figures.bytes_sent).sum::<u64>(), 1000);
    // The ledger knows the owner of the kept ones only.
    for round in 0..100 {
        ledger.destroyed(&subflow(1_000_000 + round, 0, "10.0.0.1:9", "10.0.0.2:80", 10));
    }
    assert_eq!(ledger.unseen_accepted.subflows, 100 - MOST_SUBFLOWS as u64);
}
