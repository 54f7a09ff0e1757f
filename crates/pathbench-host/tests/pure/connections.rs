//! TCP connections as `sock_diag(7)` reports them.

use crate::common::waiting;
use pathbench_host::connections::{LiveConnection, LiveSubflow, is_stuck};
use pathbench_host::netlink::message::Encoder;
use pathbench_host::path_mtu::Recovery;
use pathbench_record::time::Timestamp;

const MESSAGE_HEADER: usize = 72;
// linux/inet_diag.h, linux/mptcp.h
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_ULP_INFO_NAME: u16 = 1;
const INET_ULP_INFO_MPTCP: u16 = 3;
const SUBFLOW_TOKEN_LOCAL: u16 = 2;
const SUBFLOW_ID_LOCAL: u16 = 10;

fn one() -> LiveConnection {
    waiting("10.0.2.1".parse().unwrap(), "10.9.9.9".parse().unwrap(), Some((9, 3)))
}

#[test]
fn a_connection_is_stuck_whose_large_packets_are_not_acknowledged() {
    let earlier = LiveConnection { backoff: 1, ..one() };
    for (name, stuck, later) in [
        ("a black hole", true, one()),
        ("no doubling between the looks", true, LiveConnection { backoff: 1, ..one() }),
        ("acknowledged", false, LiveConnection { bytes_acked: 1001, ..one() }),
        ("nothing out", false, LiveConnection { unacked_segments: 0, ..one() }),
        ("timer has not fired", false, LiveConnection { backoff: 0, ..one() }),
        ("path MTU is right", false, LiveConnection { pmtu_bytes: 1500, mss_bytes: 1448, ..one() }),
        ("probing has found a size that passes", false, LiveConnection { mss_bytes: 1024, ..one() }),
        ("another socket", false, LiveConnection { cookie: 78, ..one() }),
    ] {
        assert_eq!(is_stuck(&earlier, &later, 1500), stuck, "{name}");
    }
    assert!(!is_stuck(&earlier, &one(), 9000), "the path takes it");
    let idle = LiveConnection { unacked_segments: 0, ..earlier };
    assert!(!is_stuck(&idle, &one(), 1500), "nothing was out before");
}

/// A subflow as reported by Linux 6.18, reduced to the parsed fields.
fn message(family: u8, ulp: Encoder) -> Vec<u8> {
    let mut header = [0; MESSAGE_HEADER];
    (header[0], header[1]) = (family, 1);
    header[4..8].copy_from_slice(&[0x9c, 0x40, 0x11, 0x51]);
    let (local, remote): (&[u8], &[u8]) = match family {
        2 => (&[10, 0, 2, 1], &[10, 9, 9, 9]),
        _ => (
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 2, 1],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 9, 9],
        ),
    };
    header[8..8 + local.len()].copy_from_slice(local);
    header[24..24 + remote.len()].copy_from_slice(remote);
    header[44..52].copy_from_slice(&77u64.to_ne_bytes());
    let mut info = [0; 248];
    info[4] = 2;
    for (at, value) in [
        (8, 1_600_000u32),
        (16, 8948),
        (24, 1),
        (56, 900),
        (60, 9000),
        (80, 1),
        (84, 8960),
        (100, 3),
        (120, 1000),
        (200, 100_000),
    ] {
        info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    Encoder::with_header(&header).bytes(INET_DIAG_INFO, &info).nested(INET_DIAG_ULP_INFO, ulp).into_bytes()
}

fn ulp(name: &str) -> Encoder {
    Encoder::default().text(INET_ULP_INFO_NAME, name)
}

fn mptcp(token: u32, id: u8) -> Encoder {
    let subflow = Encoder::default().u32(SUBFLOW_TOKEN_LOCAL, token).u8(SUBFLOW_ID_LOCAL, id);
    ulp("mptcp").nested(INET_ULP_INFO_MPTCP, subflow)
}

#[test]
fn a_subflow_is_read() {
    for family in [2, 10] {
        assert_eq!(LiveConnection::parse(&message(family, mptcp(9, 3))), Some(one()), "family {family}");
    }
    let plain = LiveConnection { subflow: None, ..one() };
    let fallen_back = mptcp(0, 0);
    for ulp in [Encoder::default(), ulp("tls"), fallen_back] {
        assert_eq!(LiveConnection::parse(&message(2, ulp)), Some(plain.clone()));
    }
}

const ESTABLISHED: u8 = 1;

fn subflow(cookie: u64, state: u8, bytes_acked: u64) -> LiveConnection {
    let subflow = Some(LiveSubflow { token: 7, local_id: 2 });
    LiveConnection { cookie, state, bytes_acked, subflow, ..one() }
}

/// The time at which a stuck connection has recovered, from observations every 50 ms.
fn goes_on(seen: &[LiveConnection]) -> Option<u64> {
    let stuck = subflow(1, ESTABLISHED, 1000);
    let mut recovery = Recovery::new(&stuck);
    seen.iter().zip(0_u64..).find_map(|(one, look)| {
        let at = Timestamp::from_nanos(look * 50_000_000);
        let since = recovery.check(std::slice::from_ref(one), at)?;
        Some(since.as_nanos() / 1_000_000)
    })
}

#[test]
fn a_connection_has_recovered_when_it_makes_progress_for_a_while() {
    const CLOSING: u8 = 11;
    let stuck = subflow(1, ESTABLISHED, 1000);
    let opening = subflow(2, ESTABLISHED, 1);
    let new = subflow(2, ESTABLISHED, 5000);
    assert_eq!(goes_on(&vec![stuck.clone(); 40]), None, "nothing is acknowledged");
    // The old subflow receives its last acknowledgements when it closes.
    assert_eq!(goes_on(&vec![subflow(1, CLOSING, 2000); 40]), None);
    assert_eq!(goes_on(&vec![subflow(1, ESTABLISHED, 2000); 40]), Some(0), "by a retransmission");
    let comes = [vec![stuck.clone(), opening.clone()], vec![new.clone(); 10]].concat();
    assert_eq!(goes_on(&comes), Some(100));
    // The peer resets the subflow.
    let comes_and_goes = [vec![stuck.clone()], vec![new.clone(); 3], vec![stuck; 30]].concat();
    assert_eq!(goes_on(&comes_and_goes), None);
    // A subflow of another connection does not count.
    let other = LiveConnection { subflow: Some(LiveSubflow { token: 8, local_id: 2 }), ..new };
    assert_eq!(goes_on(&vec![other; 40]), None);
}
