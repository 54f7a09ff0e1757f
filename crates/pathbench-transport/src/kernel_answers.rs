//! The kernel's connection state parsed into figures and addresses: `struct tcp_info` (linux/tcp.h) and the structures
//! of `SOL_MPTCP` (linux/mptcp.h).
//!
//! These structures grow at the end with newer kernels; a field is read only where the returned length covers it.

use pathbench_host::netlink::message::{address, u16_at, u32_at, u64_at};
use pathbench_record::connection::MptcpFigures;
use pathbench_record::network::canonical;
use pathbench_record::sample::{PathFigures, PathState};
use std::net::{SocketAddr, SocketAddrV6};

/// Buffer size for `tcp_info`, with space for later kernels; Linux 6.18 fills at most 280 bytes.
pub(crate) const TCP_INFO_CAPACITY: usize = 512;

/// End of `tcpi_bytes_retrans` (Linux 4.19), the last field that the figures of a path require.
pub const TCP_INFO_NEEDED: usize = 216;

/// Parses the figures of one path from a `tcp_info`; `None` when it is too short.
///
/// `tcpi_bytes_acked` counts SYN and FIN as one byte each, and `tcpi_bytes_received` the peer's FIN; the figures count
/// payload only.
pub fn path_figures(
    bytes: &[u8],
    subflow: u32,
    local: SocketAddr,
    remote: SocketAddr,
) -> Option<PathFigures> {
    if bytes.len() < TCP_INFO_NEEDED {
        return None;
    }
    let (u8, u32, u64) = (|at| bytes.get(at).copied(), |at| u32_at(bytes, at), |at| u64_at(bytes, at));
    let tcp_state: u8 = u8(0)?; // tcpi_state
    let mss = u64::from(u32(16)?); // tcpi_snd_mss
    let unacked = u64::from(u32(24)?); // tcpi_unacked
    let sacked = u64::from(u32(28)?); // tcpi_sacked
    let lost = u64::from(u32(32)?); // tcpi_lost
    let retransmitted = u64::from(u32(36)?); // tcpi_retrans
    let bytes_sent = u64(200)?; // tcpi_bytes_sent
    let bytes_retransmitted = u64(208)?; // tcpi_bytes_retrans
    let fin_received = matches!(tcp_state, 8 | 9 | 11); // CLOSE_WAIT, LAST_ACK, CLOSING
    // A closed socket has no such state; no packet with data has arrived (tcpi_data_segs_in).
    let is_fin_alone = u64(128) == Some(1) && u32(152) == Some(0);
    Some(PathFigures {
        subflow,
        path_id: None,
        local,
        remote,
        interface: None,
        state: path_state(tcp_state),
        backup: None,
        bytes_sent,
        packets_sent: u32(136).map(u64::from),     // tcpi_segs_out
        packets_received: u32(140).map(u64::from), // tcpi_segs_in
        control_bytes_sent: None,
        control_bytes_received: None,
        bytes_acked: u64(120)?.min(bytes_sent.saturating_sub(bytes_retransmitted)), // tcpi_bytes_acked
        bytes_received: u64(128)?.saturating_sub(u64::from(fin_received || is_fin_alone)), // tcpi_bytes_received
        retransmitted_bytes: bytes_retransmitted,
        retransmitted_segments: u64::from(u32(100)?), // tcpi_total_retrans
        lost_bytes: None,
        mtu_probes: None,
        black_holes: None,
        srtt_ms: f64::from(u32(68)?) / 1e3,   // tcpi_rtt, µs
        rttvar_ms: f64::from(u32(72)?) / 1e3, // tcpi_rttvar, µs
        // tcpi_min_rtt, µs; all ones before the first measurement
        min_rtt_ms: u32(148).filter(|&rtt| rtt != u32::MAX).map(|rtt| f64::from(rtt) / 1e3),
        rto_ms: f64::from(u32(8)?) / 1e3,                    // tcpi_rto, µs
        backoff: u32::from(u8(4)?),                          // tcpi_backoff
        cwnd_bytes: u64::from(u32(80)?).saturating_mul(mss), // tcpi_snd_cwnd, segments
        in_flight_bytes: (unacked + retransmitted).saturating_sub(sacked + lost).saturating_mul(mss),
        not_sent_bytes: u64::from(u32(144)?),        // tcpi_notsent_bytes
        pacing_rate_bps: bits_per_second(u64(104)?), // tcpi_pacing_rate
        delivery_rate_bps: bits_per_second(u64(160)?), // tcpi_delivery_rate
        mss_bytes: u32(16)?,                         // tcpi_snd_mss
        pmtu_bytes: u32(60)?,                        // tcpi_pmtu
        since_last_sent_ms: u64::from(u32(44)?),     // tcpi_last_data_sent
        since_last_received_ms: u64::from(u32(52)?), // tcpi_last_data_recv
        closed_paths: None,
        busy_us: u64(168),                                      // tcpi_busy_time, µs
        receive_window_limited_us: u64(176),                    // tcpi_rwnd_limited, µs
        send_buffer_limited_us: u64(184),                       // tcpi_sndbuf_limited, µs
        application_limited: u8(7).map(|flags| flags & 1 != 0), // tcpi_delivery_rate_app_limited
        send_window_bytes: u32(228),                            // tcpi_snd_wnd
        receive_space_bytes: u32(96),                           // tcpi_rcv_space
        out_of_order_packets: u32(224),                         // tcpi_rcv_ooopack
        connection_unacked_bytes: None,
        connection_received_bytes: None,
    })
}

/// Converts bytes per second to bits per second; 0 and `u64::MAX` mean "unknown".
fn bits_per_second(bytes_per_second: u64) -> Option<u64> {
    (bytes_per_second != 0 && bytes_per_second != u64::MAX).then(|| bytes_per_second.saturating_mul(8))
}

fn path_state(tcp_state: u8) -> PathState {
    match tcp_state {
        // SYN_SENT, SYN_RECV, NEW_SYN_RECV of net/tcp_states.h
        2 | 3 | 12 => PathState::Opening,
        // ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING: half closed still carries data, in one
        // direction or as retransmissions.
        1 | 4 | 5 | 8 | 9 | 11 => PathState::Open,
        _ => PathState::Closed,
    }
}

/// Buffer size for `struct mptcp_info`, with space for later kernels; Linux 6.18 fills 96 bytes.
pub(crate) const MPTCP_INFO_CAPACITY: usize = 256;
/// End of `mptcpi_token`, the last field that the figures require.
pub const MPTCP_INFO_NEEDED: usize = 16;
/// `sizeof(struct mptcp_subflow_data)`, the header of `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS`.
pub(crate) const SUBFLOW_DATA_SIZE: usize = 16;
/// `sizeof(struct __kernel_sockaddr_storage)`.
pub const SOCKADDR_STORAGE: usize = 128;
/// `sizeof(struct mptcp_subflow_addrs)`: local, then remote.
pub(crate) const SUBFLOW_ADDRS_SIZE: usize = 2 * SOCKADDR_STORAGE;
/// Offset of `addrs` in `struct mptcp_subflow_info`: after `id`, padded to a pointer's alignment.
pub const SUBFLOW_INFO_ADDRS: usize = size_of::<usize>();
/// `sizeof(struct mptcp_subflow_info)`.
pub const SUBFLOW_INFO_SIZE: usize = SUBFLOW_INFO_ADDRS + SUBFLOW_ADDRS_SIZE;

/// Parses a `struct mptcp_info` of any length; `None` when it ends before the token.
pub fn mptcp_figures(bytes: &[u8]) -> Option<MptcpFigures> {
    if bytes.len() < MPTCP_INFO_NEEDED {
        return None;
    }
    let (u8, u32, u64) = (|at| bytes.get(at).copied(), |at| u32_at(bytes, at), |at| u64_at(bytes, at));
    let flags = u32(8)?;
    Some(MptcpFigures {
        extra_subflows: u8(0)?,
        add_addr_signal: u8(1)?,
        add_addr_accepted: u8(2)?,
        extra_subflows_max: u8(3)?,
        add_addr_signal_max: u8(4)?,
        add_addr_accepted_max: u8(5)?,
        fallback: flags & 1 != 0,
        remote_key_received: flags & 2 != 0,
        token: u32(12)?,
        write_seq: u64(16),
        snd_una: u64(24),
        rcv_nxt: u64(32),
        local_addr_used: u8(40),
        local_addr_max: u8(41),
        checksum: u8(42).map(|enabled| enabled != 0),
        retransmits: u32(44),
        bytes_retransmitted: u64(48),
        bytes_sent: u64(56),
        bytes_received: u64(64),
        bytes_acked: u64(72),
        subflows_total: u8(80),
        since_last_sent_ms: u32(84),
        since_last_received_ms: u32(88),
        since_last_ack_ms: u32(92),
    })
}

/// One element of `MPTCP_SUBFLOW_ADDRS`: local and remote address.
pub fn subflow_addresses(bytes: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    Some((socket_address(bytes)?, socket_address(bytes.get(SOCKADDR_STORAGE..)?)?))
}

/// One element of `MPTCP_FULL_INFO`'s subflow array: the kernel's subflow id and the addresses.
pub fn subflow_info(bytes: &[u8]) -> Option<(u32, SocketAddr, SocketAddr)> {
    let (local, remote) = subflow_addresses(bytes.get(SUBFLOW_INFO_ADDRS..)?)?;
    Some((u32_at(bytes, 0)?, local, remote))
}

/// Parses a `sockaddr_in` or `sockaddr_in6` (linux/in.h, linux/in6.h); IPv4-mapped addresses become IPv4.
fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be(u16_at(bytes, 2)?);
    match i32::from(u16_at(bytes, 0)?) {
        libc::AF_INET => Some(SocketAddr::new(address(bytes.get(4..8)?)?, port)),
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(canonical(SocketAddrV6::new(octets.into(), port, 0, u32_at(bytes, 24)?).into()))
        }
        _ => None,
    }
}

/// Offsets in `struct mptcp_full_info`: of `subflow_info` and `tcp_info`, the addresses of the arrays, and of
/// `mptcp_info`.
pub(crate) const FULL_SUBFLOW_POINTER: usize = 24;
pub(crate) const FULL_TCP_POINTER: usize = 32;
pub(crate) const FULL_MPTCP_INFO: usize = 40;

/// Sizes in the answer to `MPTCP_FULL_INFO`: of an element `tcp_info`, of an element `mptcp_subflow_info`, and the
/// number of subflows.
pub fn full_info(header: &[u8]) -> Option<(usize, usize, usize)> {
    let size = |at| u32_at(header, at).map(|size| size as usize);
    Some((size(4)?, size(12)?, size(16)?))
}
