//! How far each subflow of a program's connections came, and what their reports say, from snapshots of made-up sockets.

use pathbench_host::sockets::{Snapshot, Socket};
use pathbench_record::stage::SubflowStage::{self, Answered, Attempted, Carried, Opened};
use pathbench_record::time::Timestamp;
use pathbench_supervisor::{
    ConnectionLedger, ConnectionReport, ConnectionState, FallbackEvidence, ObservedConnection,
    SocketActivity, TransportProtocol,
};
use std::slice::from_ref;

const OWN: u64 = 100;
const INODE: u32 = 7;
const LOCAL: &str = "10.0.0.1:9";
const SECOND: &str = "10.1.0.1:9";
const SERVER: &str = "10.0.0.2:80";
// `TCP_*` of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const FIN_WAIT2: u8 = 5;
const CLOSED: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;

/// `struct tcp_info` of a socket.
#[derive(Debug, Clone, Copy, Default)]
struct Tcp {
    state: u8,
    packets: u32,
    data_packets: u32,
    sent: u64,
    acked: u64,
    received: u64,
}

impl Tcp {
    fn info(self) -> Vec<u8> {
        let mut info = vec![0; 248];
        info[0] = self.state;
        info[120..128].copy_from_slice(&self.acked.to_ne_bytes());
        info[128..136].copy_from_slice(&self.received.to_ne_bytes());
        info[136..140].copy_from_slice(&self.packets.max(1).to_ne_bytes());
        info[140..144].copy_from_slice(&self.packets.to_ne_bytes());
        info[152..156].copy_from_slice(&self.data_packets.to_ne_bytes());
        info[200..208].copy_from_slice(&self.sent.to_ne_bytes());
        info
    }
}

fn tcp(cookie: u64, local: &str, is_subflow: bool, figures: Tcp) -> Socket {
    Socket {
        local: local.parse().unwrap(),
        remote: SERVER.parse().unwrap(),
        cookie,
        inode: INODE,
        state: figures.state,
        subflow: None,
        is_subflow,
        info: figures.info(),
    }
}

/// An MPTCP socket, with the bytes of its `struct mptcp_info`.
fn mptcp(state: u8, fallback: bool, sent: u64, received: u64) -> Socket {
    let mut info = vec![0; 96];
    info[8] = u8::from(fallback);
    info[12] = 5;
    info[56..64].copy_from_slice(&sent.to_ne_bytes());
    info[64..72].copy_from_slice(&received.to_ne_bytes());
    Socket { info, state, is_subflow: false, ..tcp(OWN, LOCAL, false, Tcp::default()) }
}

fn end(cookie: u64, local: &str, figures: Tcp) -> Socket {
    Socket { inode: 0, ..tcp(cookie, local, false, Tcp { state: CLOSED, ..figures }) }
}

/// A program's connection after these snapshots and reports of destroyed sockets.
struct Course {
    ledger: ConnectionLedger,
    activity: SocketActivity,
    ms: u64,
}

impl Course {
    fn new() -> Self {
        let mut activity = SocketActivity::default();
        activity.created(OWN, INODE);
        Self { ledger: ConnectionLedger::default(), activity, ms: 0 }
    }

    fn snapshot(mut self, mptcp: &[Socket], tcp: &[Socket]) -> Self {
        self.ms += 4;
        let snapshot = Snapshot { mptcp: mptcp.to_vec(), tcp: tcp.to_vec() };
        self.ledger.observe(&snapshot, &mut self.activity, Timestamp::from_nanos(self.ms * 1_000_000));
        self
    }

    fn destroyed(mut self, sockets: &[Socket]) -> Self {
        for socket in sockets {
            self.ledger.destroyed(socket);
        }
        self
    }

    fn only(mut self) -> ObservedConnection {
        self.ledger.end_all();
        let ended = self.ledger.take_ended();
        assert_eq!(ended.len(), 1, "{ended:#?}");
        ended.into_iter().next().unwrap()
    }
}

fn report(connection: &ObservedConnection) -> ConnectionReport {
    let evidence = FallbackEvidence {
        interfaces: vec![
            ("10.0.0.1".parse().unwrap(), "eth0".to_owned()),
            ("10.1.0.1".parse().unwrap(), "wlan0".to_owned()),
        ],
        ..FallbackEvidence::default()
    };
    ConnectionReport::new(connection, &evidence, Timestamp::default())
}

fn stages(connection: &ObservedConnection) -> Vec<SubflowStage> {
    connection.subflows.iter().map(|subflow| subflow.stage).collect()
}

fn open(bytes: u64) -> Tcp {
    let data = u32::from(bytes > 0);
    Tcp { state: ESTABLISHED, packets: 3, data_packets: data, sent: bytes, acked: bytes, received: bytes }
}

/// Regression: an unanswered join "was opened", and counted as a subflow.
#[test]
fn a_join_is_opened_only_by_its_handshake() {
    let initial = || tcp(1, LOCAL, true, open(1000));
    let attempt = Tcp { state: SYN_SENT, ..Tcp::default() };
    let established = || [mptcp(ESTABLISHED, false, 1000, 1000)];
    let attempted = Course::new().snapshot(&established(), &[initial(), tcp(2, SECOND, true, attempt)]);
    let found = attempted.only();
    assert_eq!((stages(&found), found.subflows_opened()), (vec![Carried, Attempted], 1));
    let shown = report(&found);
    assert_eq!((shown.multipath.subflows_total, shown.multipath.subflows_attempted), (Some(1), Some(2)));
    assert!(shown.multipath.reason.contains("attempted and not opened"), "{}", shown.multipath.reason);
    assert!(!shown.multipath.reason.contains("was opened"), "{}", shown.multipath.reason);
    // Answered by a reset, after a snapshot with its SYN.
    let rejected = Course::new()
        .snapshot(&established(), &[initial(), tcp(2, SECOND, true, attempt)])
        .destroyed(&[end(2, SECOND, Tcp { packets: 1, ..Tcp::default() })])
        .only();
    assert_eq!(stages(&rejected), [Carried, Answered]);
    assert!(report(&rejected).multipath.reason.contains("RST"));
    // Idle, with the packets of its handshake.
    let idle = Course::new().snapshot(&established(), &[initial(), tcp(2, SECOND, true, open(0))]).only();
    assert_eq!((stages(&idle), idle.subflows_opened()), (vec![Carried, Opened], 2));
    assert!(report(&idle).multipath.reason.contains("wlan0 was opened"));
}

/// Regression: data that was sent on a subflow and never acknowledged made a connection "multipath".
#[test]
fn data_that_no_peer_acknowledges_is_not_carried() {
    let lost = Tcp { sent: 500_000, acked: 0, received: 0, ..open(0) };
    let found = Course::new()
        .snapshot(
            &[mptcp(ESTABLISHED, false, 1000, 1000)],
            &[tcp(1, LOCAL, true, open(1000)), tcp(2, SECOND, true, lost)],
        )
        .destroyed(&[end(2, SECOND, lost)])
        .only();
    assert_eq!(stages(&found), [Carried, Opened]);
    let shown = report(&found);
    assert!(!shown.multipath.used, "{shown:#?}");
    assert_eq!(shown.state(), ConnectionState::OnePath);
}

/// Regression: "MPTCP was negotiated, but no byte was delivered" of a connection that no server answered.
#[test]
fn a_connection_without_an_answer_was_never_opened() {
    let attempt = Tcp { state: SYN_SENT, ..Tcp::default() };
    let unanswered = Course::new().snapshot(&[mptcp(SYN_SENT, false, 0, 0)], &[tcp(1, LOCAL, true, attempt)]);
    let refused = Course::new()
        .snapshot(&[mptcp(SYN_SENT, false, 0, 0)], &[tcp(1, LOCAL, true, attempt)])
        .destroyed(&[end(1, LOCAL, Tcp { packets: 1, ..Tcp::default() })]);
    for (course, words) in [(unanswered, "not seen to open: the SYN"), (refused, "never opened: the SYN")] {
        let shown = report(&course.only());
        let reason = &shown.multipath.reason;
        assert!(!shown.multipath.negotiated && shown.state() == ConnectionState::Unopened, "{shown:#?}");
        assert!(reason.contains(words), "{reason}");
        assert!(!reason.contains("negotiated"), "{reason}");
    }
}

/// Regression: an unanswered SYN, and the TCP connection after it, "fell back in mid-connection".
#[test]
fn a_fallback_after_unanswered_syns_is_one_of_the_handshake() {
    let attempt = Tcp { state: SYN_SENT, ..Tcp::default() };
    let found = Course::new()
        .snapshot(&[mptcp(SYN_SENT, false, 0, 0)], &[tcp(1, LOCAL, true, attempt)])
        .snapshot(&[mptcp(ESTABLISHED, true, 10, 10)], &[tcp(1, LOCAL, false, open(10))])
        .only();
    assert_eq!(found.protocol, TransportProtocol::FellBack { at_first: true });
    let shown = report(&found);
    assert_eq!(shown.state(), ConnectionState::Tcp);
    assert!(!shown.multipath.reason.contains("mid-connection"), "{}", shown.multipath.reason);
}

/// Regression: "0 connections" while the kernel has suspended MPTCP: it lists no MPTCP socket then.
#[test]
fn a_connection_that_the_kernel_opens_without_mptcp_is_followed_as_tcp() {
    let attempt = Tcp { state: SYN_SENT, ..Tcp::default() };
    // The socket keeps the data of a subflow.
    let course = Course::new()
        .snapshot(&[], &[tcp(1, LOCAL, true, attempt)])
        .snapshot(&[], &[tcp(1, LOCAL, true, open(4000))])
        .destroyed(&[end(1, LOCAL, open(5000))]);
    let found = course.only();
    assert_eq!((found.protocol, found.number), (TransportProtocol::NotAsked, 1));
    let shown = report(&found);
    assert_eq!((shown.state(), shown.bytes_sent, shown.bytes_sent_exact), (ConnectionState::Tcp, 5000, true));
    assert!(shown.multipath.reason.contains("without MP_CAPABLE"), "{}", shown.multipath.reason);
    let counters = [("MPTcpExt.MPCapableSYNTXDisabled".to_owned(), 1)].into();
    let evidence = FallbackEvidence { counters, ..FallbackEvidence::default() };
    let shown = ConnectionReport::new(&found, &evidence, Timestamp::default());
    assert!(shown.multipath.reason.contains("suspended"), "{}", shown.multipath.reason);
    // The MPTCP sockets were listed before the TCP sockets: the next snapshot has both.
    let found = Course::new()
        .snapshot(&[], &[tcp(1, LOCAL, true, open(10))])
        .snapshot(&[mptcp(ESTABLISHED, false, 20, 20)], &[tcp(1, LOCAL, true, open(20))])
        .only();
    assert_eq!(found.protocol, TransportProtocol::Mptcp);
    // Another program's socket.
    let other = Socket { inode: 8, ..tcp(1, LOCAL, false, open(10)) };
    let mut course = Course::new().snapshot(&[], from_ref(&other)).snapshot(&[], &[other]);
    course.ledger.end_all();
    assert!(course.ledger.take_ended().is_empty());
}

/// Regression: the server's close counted as "1 B received".
#[test]
fn a_fin_is_no_payload() {
    let fin = |state, packets, received| Tcp { state, packets, received, ..Tcp::default() };
    // A closed socket shows by its packets that none had data.
    let alone = Course::new()
        .snapshot(&[mptcp(ESTABLISHED, false, 0, 0)], &[tcp(1, LOCAL, true, open(0))])
        .destroyed(&[end(1, LOCAL, fin(CLOSED, 4, 1))]);
    assert_eq!(report(&alone.only()).paths[0].bytes_received, 0);
    // After data, the state before the end shows it.
    let waiting = Tcp { state: CLOSE_WAIT, received: 1001, ..open(1000) };
    let after = Course::new()
        .snapshot(&[mptcp(CLOSE_WAIT, false, 1000, 1000)], &[tcp(1, LOCAL, true, waiting)])
        .destroyed(&[end(1, LOCAL, waiting)]);
    assert_eq!(report(&after.only()).paths[0].bytes_received, 1000);
}

/// Regression: figures of the last snapshot, or zeroed ones of the end, without "at least".
#[test]
fn totals_are_exact_only_where_nothing_can_follow() {
    let exact = |course: Course| {
        let found = course.only();
        let (sent, received) = (found.total_sent(), found.total_received());
        ((sent.bytes, sent.is_exact), (received.bytes, received.is_exact))
    };
    let running =
        || Course::new().snapshot(&[mptcp(ESTABLISHED, false, 10, 20)], &[tcp(1, LOCAL, true, open(10))]);
    assert_eq!(exact(running()), ((10, false), (20, false)));
    let zeroed = Socket { info: vec![0; 248], ..end(1, LOCAL, Tcp::default()) };
    assert_eq!(exact(running().destroyed(from_ref(&zeroed))), ((10, false), (20, false)));
    // Zeroed after a snapshot without a byte.
    let fresh =
        || Course::new().snapshot(&[mptcp(ESTABLISHED, false, 0, 0)], &[tcp(1, LOCAL, true, open(0))]);
    assert_eq!(exact(fresh().destroyed(&[zeroed])), ((0, false), (0, false)));
    let larger = open(5000);
    // The last byte may be the peer's FIN, unless a snapshot showed it or has all bytes.
    assert_eq!(exact(running().destroyed(&[end(1, LOCAL, larger)])), ((5000, true), (4999, false)));
    let waiting = Tcp { state: CLOSE_WAIT, received: 11, ..open(10) };
    let passive = running().snapshot(&[mptcp(ESTABLISHED, false, 10, 10)], &[tcp(1, LOCAL, true, waiting)]);
    assert_eq!(exact(passive.destroyed(&[end(1, LOCAL, Tcp { received: 5001, ..larger })])).1, (5000, true));
    let whole =
        || Course::new().snapshot(&[mptcp(ESTABLISHED, false, 10, 10)], &[tcp(1, LOCAL, true, open(10))]);
    assert_eq!(exact(whole().destroyed(&[end(1, LOCAL, open(10))])), ((10, true), (10, true)));
    assert_eq!(exact(whole().destroyed(&[end(1, LOCAL, open(11))])).1, (10, false));
    // The peer's DATA_FIN has arrived: no more data follows; the program may still write.
    let at_end =
        Course::new().snapshot(&[mptcp(CLOSE_WAIT, false, 10, 20)], &[tcp(1, LOCAL, true, open(10))]);
    assert_eq!(exact(at_end), ((10, false), (20, true)));
    let closed = Course::new().snapshot(&[mptcp(FIN_WAIT2, false, 10, 20)], &[tcp(1, LOCAL, true, open(10))]);
    assert_eq!(exact(closed), ((10, true), (20, false)));
    // The sum of two subflows may count a byte twice.
    let both = || [tcp(1, LOCAL, true, open(600)), tcp(2, SECOND, true, open(600))];
    let two = Course::new()
        .snapshot(&[mptcp(ESTABLISHED, false, 1000, 1000)], &both())
        .destroyed(&[end(1, LOCAL, open(700)), end(2, SECOND, open(700))]);
    assert_eq!(exact(two), ((1000, false), (1000, false)));
    let two = Course::new().snapshot(&[mptcp(FIN_WAIT2, false, 1000, 1000)], &both());
    let shown = report(&two.snapshot(&[mptcp(CLOSED, false, 1000, 1000)], &both()).only());
    assert_eq!((shown.bytes_sent_exact, shown.bytes_received_exact), (true, true));
    assert_eq!(shown.repeated_bytes(), Some(400), "reinjected bytes are in the figures of both subflows");
}

/// Regression: the server's side had "no cause" for a program that closes its listening socket after one connection.
#[test]
fn an_accepted_connection_without_its_listener_is_named() {
    let mut activity = SocketActivity::default();
    activity.created(OWN, 0);
    let mut ledger = ConnectionLedger::default();
    let listener = |cookie, local: &str| {
        let none = tcp(cookie, local, false, Tcp { state: LISTEN, ..Tcp::default() });
        Socket { remote: "0.0.0.0:0".parse().unwrap(), info: Vec::new(), ..none }
    };
    let accepted = Socket { cookie: 55, ..mptcp(ESTABLISHED, false, 1000, 0) };
    let subflow = || tcp(1, LOCAL, true, open(1000));
    let mut at = 0;
    let mut observe = |ledger: &mut ConnectionLedger, listeners: &[Socket]| {
        at += 20;
        let mptcp = listeners.iter().cloned().chain([accepted.clone()]).collect();
        let snapshot = Snapshot { mptcp, tcp: vec![subflow()] };
        ledger.observe(&snapshot, &mut activity, Timestamp::from_nanos(at * 1_000_000));
    };
    observe(&mut ledger, &[listener(OWN, "0.0.0.0:9")]);
    observe(&mut ledger, &[listener(OWN, "0.0.0.0:9")]);
    let reason = |ledger: &ConnectionLedger| report(ledger.live()[0]).multipath.reason;
    assert!(!reason(&ledger).contains("listening socket"), "{}", reason(&ledger));
    observe(&mut ledger, &[]);
    assert!(reason(&ledger).contains("closed its listening socket at port 9"), "{}", reason(&ledger));
    // Another process listens there.
    observe(&mut ledger, &[listener(77, "[::]:9")]);
    assert!(!reason(&ledger).contains("listening socket"), "{}", reason(&ledger));
}
