use super::*;
use crate::netlink::message::Encoder;
use proptest::prelude::*;

/// Waits for an acknowledgement of packets of 9000 bytes.
fn one() -> LiveConnection {
    LiveConnection {
        local: "10.0.2.1:40000".parse().unwrap(),
        remote: "10.9.9.9:4433".parse().unwrap(),
        cookie: 77,
        interface: None,
        subflow: Some(Subflow { token: 9, local_id: 3 }),
        state: 1,
        pmtu_bytes: 9000,
        mss_bytes: 8948,
        advertised_mss_bytes: 8960,
        backoff: 2,
        unacked_segments: 1,
        retransmitted_segments: 3,
        bytes_acked: 1000,
        bytes_sent: 100_000,
        since_last_ack_ms: 900,
        cwnd_segments: 1,
        rto_us: 1_600_000,
    }
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

/// A subflow as Linux 6.18 reports it, shortened to what is read.
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
    Encoder::after(&header).bytes(INET_DIAG_INFO, &info).nested(INET_DIAG_ULP_INFO, ulp).into_bytes()
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
        assert_eq!(parse(&message(family, mptcp(9, 3))), Some(one()), "family {family}");
    }
    let plain = LiveConnection { subflow: None, ..one() };
    let fallen_back = mptcp(0, 0);
    for ulp in [Encoder::default(), ulp("tls"), fallen_back] {
        assert_eq!(parse(&message(2, ulp)), Some(plain.clone()));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_connection_or_not(payload: Vec<u8>) {
        let _ = parse(&payload);
    }
}
