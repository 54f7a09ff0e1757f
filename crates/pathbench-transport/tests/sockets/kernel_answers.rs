//! The kernel's connection state: recorded, truncated and arbitrary bytes.
#![cfg(target_endian = "little")]

use crate::recorded::{ADDRESSES_V4, ADDRESSES_V6, MPTCP_INFO, TCP_INFO, bytes};
use pathbench_record::connection::MptcpFigures;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_transport::kernel_answers::{
    MPTCP_INFO_NEEDED, SOCKADDR_STORAGE, SUBFLOW_INFO_ADDRS, SUBFLOW_INFO_SIZE, TCP_INFO_NEEDED, full_info,
    mptcp_figures, path_figures, subflow_addresses, subflow_info,
};
use proptest::prelude::*;
use std::net::SocketAddr;

fn read(bytes: &[u8]) -> Option<PathFigures> {
    let address = SocketAddr::from(([127, 0, 0, 1], 4711));
    path_figures(bytes, 1, address, address)
}

#[test]
fn a_recorded_tcp_info_is_parsed() {
    let figures = read(&bytes(TCP_INFO)).expect("long enough");
    assert_eq!(figures.state, PathState::Open);
    assert_eq!((figures.bytes_sent, figures.retransmitted_bytes), (30_000, 0));
    assert_eq!(figures.bytes_acked, 30_000, "the kernel's 30 001 include the SYN");
    assert_eq!(figures.bytes_received, 0);
    assert_eq!((figures.mss_bytes, figures.pmtu_bytes), (32_741, 65_535));
    assert_eq!(figures.cwnd_bytes, 12 * 32_741);
    assert_eq!((figures.srtt_ms, figures.rttvar_ms, figures.min_rtt_ms), (0.024, 0.011, Some(0.007)));
    assert!((figures.rto_ms - 204.0).abs() < 1e-9);
    assert_eq!(figures.pacing_rate_bps, Some(35_988_043_242 * 8));
    assert_eq!(figures.delivery_rate_bps, Some(1_091_366_666 * 8));
    assert_eq!((figures.since_last_sent_ms, figures.since_last_received_ms), (204, 408));
    assert_eq!((figures.in_flight_bytes, figures.not_sent_bytes, figures.backoff), (0, 0, 0));
}

#[test]
fn shorter_answers_of_older_kernels_give_the_same_figures_or_none() {
    let recorded = bytes(TCP_INFO);
    let whole = read(&recorded);
    for length in 0..recorded.len() {
        // tcpi_rcv_ooopack and tcpi_snd_wnd end at bytes 228 and 232.
        let mut expected = whole.clone().filter(|_| length >= TCP_INFO_NEEDED);
        if let Some(figures) = &mut expected {
            figures.out_of_order_packets = figures.out_of_order_packets.filter(|_| length >= 228);
            figures.send_window_bytes = figures.send_window_bytes.filter(|_| length >= 232);
        }
        assert_eq!(read(&recorded[..length]), expected, "{length} bytes");
    }
    let longer = [recorded, vec![0xaa; 64]].concat();
    assert_eq!(read(&longer), whole);
}

#[test]
fn values_that_the_kernel_marks_as_unknown_are_absent() {
    let mut recorded = bytes(TCP_INFO);
    recorded[148..152].fill(0xff); // tcpi_min_rtt
    recorded[104..112].fill(0xff); // tcpi_pacing_rate
    recorded[160..168].fill(0); // tcpi_delivery_rate
    let figures = read(&recorded).expect("long enough");
    assert_eq!(figures.min_rtt_ms, None);
    assert_eq!(figures.pacing_rate_bps, None);
    assert_eq!(figures.delivery_rate_bps, None);
}

#[test]
fn segments_in_flight_are_counted_as_the_kernel_does() {
    let mut recorded = bytes(TCP_INFO);
    for (at, segments) in [(24, 10_u32), (28, 3), (32, 2), (36, 1)] {
        recorded[at..at + 4].copy_from_slice(&segments.to_le_bytes()); // unacked, sacked, lost, retrans
    }
    assert_eq!(read(&recorded).map(|figures| figures.in_flight_bytes), Some(6 * 32_741));
}

#[test]
fn every_tcp_state_has_its_path_state() {
    let states = [
        (1, PathState::Open),
        (2, PathState::Opening),
        (3, PathState::Opening),
        (4, PathState::Open),
        (5, PathState::Open),
        (6, PathState::Closed),
        (7, PathState::Closed),
        (8, PathState::Open),
        (9, PathState::Open),
        (10, PathState::Closed),
        (11, PathState::Open),
        (12, PathState::Opening),
    ];
    let mut recorded = bytes(TCP_INFO);
    for (tcp, expected) in states {
        recorded[0] = tcp;
        assert_eq!(read(&recorded).map(|figures| figures.state), Some(expected), "TCP state {tcp}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let figures = read(&bytes);
        prop_assert_eq!(figures.is_some(), bytes.len() >= TCP_INFO_NEEDED);
        if let Some(figures) = figures {
            prop_assert!(figures.bytes_acked <= figures.bytes_sent);
            prop_assert!(figures.srtt_ms.is_finite() && figures.srtt_ms >= 0.0);
        }
    }
}

fn element(id: u32, (local, remote): (&str, &str)) -> Vec<u8> {
    let mut element = vec![0; SUBFLOW_INFO_SIZE];
    element[..4].copy_from_slice(&id.to_ne_bytes());
    for (at, address) in [(SUBFLOW_INFO_ADDRS, local), (SUBFLOW_INFO_ADDRS + SOCKADDR_STORAGE, remote)] {
        let address = bytes(address);
        element[at..at + address.len()].copy_from_slice(&address);
    }
    element
}

#[test]
fn a_recorded_mptcp_info_is_parsed() {
    let figures = mptcp_figures(&bytes(MPTCP_INFO)).expect("long enough");
    let expected = MptcpFigures {
        extra_subflows: 1,
        extra_subflows_max: 2,
        remote_key_received: true,
        token: 0x90d3_1b44,
        write_seq: Some(17_495_375_859_528_755_569),
        snd_una: Some(17_495_375_859_528_755_569),
        rcv_nxt: Some(13_416_704_974_005_874_982),
        local_addr_used: Some(1),
        local_addr_max: Some(1),
        checksum: Some(false),
        retransmits: Some(0),
        bytes_retransmitted: Some(0),
        bytes_sent: Some(30_000),
        bytes_received: Some(0),
        bytes_acked: Some(30_000),
        subflows_total: Some(2),
        since_last_sent_ms: Some(204),
        since_last_received_ms: Some(408),
        since_last_ack_ms: Some(204),
        ..MptcpFigures::default()
    };
    assert_eq!(figures, expected);
}

#[test]
fn each_kernel_generation_reports_its_fields() {
    let recorded = bytes(MPTCP_INFO);
    let figures = |length: usize| mptcp_figures(&recorded[..length]);
    assert_eq!(figures(15), None);
    let v5_9 = figures(40).expect("5.9");
    assert!(v5_9.rcv_nxt.is_some() && v5_9.local_addr_used.is_none());
    let v5_14 = figures(48).map(|figures| (figures.checksum, figures.bytes_sent));
    assert_eq!(v5_14, Some((Some(false), None)));
    let v6_5 = figures(80).expect("6.5");
    assert!(v6_5.bytes_acked.is_some() && v6_5.subflows_total.is_none());
    let v6_8 = figures(88).expect("6.8");
    assert!(v6_8.subflows_total == Some(2) && v6_8.since_last_ack_ms.is_none());
}

#[test]
fn addresses_of_both_families_are_read() {
    let v4 = subflow_info(&element(2, ADDRESSES_V4));
    let expected = ("127.0.0.2:38397".parse(), "127.0.0.1:46953".parse());
    assert_eq!(v4, expected.0.ok().zip(expected.1.ok()).map(|(local, remote)| (2, local, remote)));
    let v6 = subflow_info(&element(1, ADDRESSES_V6));
    let expected = ("[::1]:39564".parse(), "[::1]:39233".parse());
    assert_eq!(v6, expected.0.ok().zip(expected.1.ok()).map(|(local, remote)| (1, local, remote)));
}

proptest! {
    #[test]
    fn arbitrary_mptcp_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(mptcp_figures(&bytes).is_some(), bytes.len() >= MPTCP_INFO_NEEDED);
        let _ = subflow_addresses(&bytes);
        let _ = subflow_info(&bytes);
        let _ = full_info(&bytes);
    }

    #[test]
    fn truncated_elements_are_rejected(length in 0..SUBFLOW_INFO_ADDRS + SOCKADDR_STORAGE + 8) {
        prop_assert_eq!(subflow_info(&element(1, ADDRESSES_V4)[..length]), None);
    }
}
