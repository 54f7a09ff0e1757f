use super::super::samples::waiting;
use super::*;
use crate::netlink::attribute::{emitted, nested_attribute, u32_attribute};
use netlink_packet_core::DefaultNla;
use proptest::prelude::*;

fn one() -> LiveConnection {
    waiting("10.0.2.1".parse().unwrap(), "10.9.9.9".parse().unwrap(), Some((9, 3)))
}

#[test]
fn stuck_is_what_sends_too_much_and_hears_nothing() {
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

/// What Linux 6.18 says of a subflow, shortened to what is read.
fn message(family: u8, ulp: &[DefaultNla]) -> Vec<u8> {
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
    let attributes =
        [DefaultNla::new(INET_DIAG_INFO, info.to_vec()), nested_attribute(INET_DIAG_ULP_INFO, ulp)];
    [header.as_slice(), &emitted(&attributes)].concat()
}

fn name(name: &str) -> DefaultNla {
    DefaultNla::new(INET_ULP_INFO_NAME, format!("{name}\0").into_bytes())
}

#[test]
fn a_subflow_is_read() {
    let mptcp = [u32_attribute(SUBFLOW_TOKEN_LOCAL, 9), DefaultNla::new(SUBFLOW_ID_LOCAL, vec![3])];
    let ulp = [name("mptcp"), nested_attribute(INET_ULP_INFO_MPTCP, &mptcp)];
    for family in [2, 10] {
        assert_eq!(parse(&message(family, &ulp)), Some(one()), "family {family}");
    }
    let plain = LiveConnection { subflow: None, ..one() };
    let fallen_back = [u32_attribute(SUBFLOW_TOKEN_LOCAL, 0), DefaultNla::new(SUBFLOW_ID_LOCAL, vec![0])];
    for ulp in
        [vec![], vec![name("tls")], vec![name("mptcp"), nested_attribute(INET_ULP_INFO_MPTCP, &fallen_back)]]
    {
        assert_eq!(parse(&message(2, &ulp)), Some(plain.clone()));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_connection_or_not(payload: Vec<u8>) {
        let _ = parse(&payload);
    }
}
