//! `struct tcp_info` (linux/tcp.h) as bytes → figures of a path.
//!
//! The structure grows at its end with the kernel, so fields are read by offset as far as the answer reaches.

use pathbench_record::sample::{PathFigures, PathState};
use std::net::SocketAddr;

/// Room for a `tcp_info` of kernels to come; 6.18 fills 280 bytes or less.
pub(crate) const TCP_INFO_ROOM: usize = 512;

/// End of `tcpi_bytes_retrans` (Linux 4.19), the last field without which a path's figures would be wrong.
pub(crate) const TCP_INFO_NEEDED: usize = 216;

mod state {
    pub(super) const ESTABLISHED: u8 = 1;
    pub(super) const SYN_SENT: u8 = 2;
    pub(super) const SYN_RECV: u8 = 3;
    pub(super) const FIN_WAIT1: u8 = 4;
    pub(super) const FIN_WAIT2: u8 = 5;
    pub(super) const CLOSE_WAIT: u8 = 8;
    pub(super) const LAST_ACK: u8 = 9;
    pub(super) const CLOSING: u8 = 11;
    pub(super) const NEW_SYN_RECV: u8 = 12;
}

#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    pub(crate) fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_ne_bytes)
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }
}

/// Figures of one path from the bytes of its `tcp_info`; `None` when they are too few to be right.
///
/// `tcpi_bytes_acked` counts SYN and FIN, `tcpi_bytes_received` the peer's FIN, as one byte each; here both
/// count payload only.
pub(crate) fn path_figures(
    bytes: &[u8],
    subflow: u32,
    local: SocketAddr,
    remote: SocketAddr,
) -> Option<PathFigures> {
    if bytes.len() < TCP_INFO_NEEDED {
        return None;
    }
    let fields = Fields(bytes);
    let tcp_state = fields.u8(0)?; // tcpi_state
    let mss = u64::from(fields.u32(16)?); // tcpi_snd_mss
    let unacked = u64::from(fields.u32(24)?); // tcpi_unacked
    let sacked = u64::from(fields.u32(28)?); // tcpi_sacked
    let lost = u64::from(fields.u32(32)?); // tcpi_lost
    let retransmitted = u64::from(fields.u32(36)?); // tcpi_retrans
    let bytes_sent = fields.u64(200)?; // tcpi_bytes_sent
    let bytes_retransmitted = fields.u64(208)?; // tcpi_bytes_retrans
    let fin_received = matches!(tcp_state, state::CLOSE_WAIT | state::LAST_ACK | state::CLOSING);
    Some(PathFigures {
        subflow,
        path_id: None,
        local,
        remote,
        state: path_state(tcp_state),
        backup: None,
        bytes_sent,
        packets_sent: fields.u32(136).map(u64::from), // tcpi_segs_out
        packets_received: fields.u32(140).map(u64::from), // tcpi_segs_in
        control_bytes_sent: None,
        control_bytes_received: None,
        bytes_acked: fields.u64(120)?.min(bytes_sent.saturating_sub(bytes_retransmitted)), // tcpi_bytes_acked
        bytes_received: fields.u64(128)?.saturating_sub(u64::from(fin_received)), // tcpi_bytes_received
        retransmitted_bytes: bytes_retransmitted,
        retransmitted_segments: u64::from(fields.u32(100)?), // tcpi_total_retrans
        lost_bytes: None,
        mtu_probes: None,
        black_holes: None,
        srtt_ms: f64::from(fields.u32(68)?) / 1e3,   // tcpi_rtt, µs
        rttvar_ms: f64::from(fields.u32(72)?) / 1e3, // tcpi_rttvar, µs
        // tcpi_min_rtt, µs; all ones before the first measurement
        min_rtt_ms: fields.u32(148).filter(|&rtt| rtt != u32::MAX).map(|rtt| f64::from(rtt) / 1e3),
        rto_ms: f64::from(fields.u32(8)?) / 1e3, // tcpi_rto, µs
        backoff: u32::from(fields.u8(4)?),       // tcpi_backoff
        cwnd_bytes: u64::from(fields.u32(80)?).saturating_mul(mss), // tcpi_snd_cwnd, segments
        in_flight_bytes: (unacked + retransmitted).saturating_sub(sacked + lost).saturating_mul(mss),
        not_sent_bytes: u64::from(fields.u32(144)?), // tcpi_notsent_bytes
        pacing_rate_bps: bits_per_second(fields.u64(104)?), // tcpi_pacing_rate
        delivery_rate_bps: bits_per_second(fields.u64(160)?), // tcpi_delivery_rate
        mss_bytes: fields.u32(16)?,                  // tcpi_snd_mss
        pmtu_bytes: fields.u32(60)?,                 // tcpi_pmtu
        since_last_sent_ms: u64::from(fields.u32(44)?), // tcpi_last_data_sent
        since_last_received_ms: u64::from(fields.u32(52)?), // tcpi_last_data_recv
        closed_paths: None,
    })
}

/// Bytes per second as bits per second; 0 and all ones are the kernel's ways to say "none".
fn bits_per_second(bytes_per_second: u64) -> Option<u64> {
    (bytes_per_second != 0 && bytes_per_second != u64::MAX).then(|| bytes_per_second.saturating_mul(8))
}

fn path_state(tcp_state: u8) -> PathState {
    match tcp_state {
        state::SYN_SENT | state::SYN_RECV | state::NEW_SYN_RECV => PathState::Opening,
        // Half closed still carries data, one way or as retransmissions.
        state::ESTABLISHED
        | state::FIN_WAIT1
        | state::FIN_WAIT2
        | state::CLOSE_WAIT
        | state::LAST_ACK
        | state::CLOSING => PathState::Open,
        _ => PathState::Closed,
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;
    use crate::recorded::{TCP_INFO, bytes};
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Option<PathFigures> {
        let address = SocketAddr::from(([127, 0, 0, 1], 4711));
        path_figures(bytes, 1, address, address)
    }

    #[test]
    fn a_recorded_answer_is_understood() {
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
            let expected = if length < TCP_INFO_NEEDED { None } else { whole.clone() };
            assert_eq!(read(&recorded[..length]), expected, "{length} bytes");
        }
        let longer = [recorded, vec![0xaa; 64]].concat();
        assert_eq!(read(&longer), whole);
    }

    #[test]
    fn what_the_kernel_marks_as_unknown_is_absent() {
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
        for (tcp, expected) in states {
            assert_eq!(path_state(tcp), expected, "TCP state {tcp}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let figures = read(&bytes);
            prop_assert_eq!(figures.is_some(), bytes.len() >= TCP_INFO_NEEDED);
            if let Some(figures) = figures {
                prop_assert!(figures.bytes_acked <= figures.bytes_sent);
                prop_assert!(figures.srtt_ms.is_finite() && figures.srtt_ms >= 0.0);
            }
        }
    }
}
