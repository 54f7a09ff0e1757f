//! `SOL_MPTCP` answers (linux/mptcp.h) as bytes → figures and addresses.
//!
//! All of these grow at their ends with the kernel; fields are read by offset as far as the answer reaches.

use crate::tcp_info::Fields;
use pathbench_record::address::canonical;
use pathbench_record::connection::MptcpFigures;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for a `struct mptcp_info` of kernels to come; 6.18 fills 96 bytes.
pub(crate) const MPTCP_INFO_ROOM: usize = 256;
/// End of `mptcpi_token`, the last field without which the answer says nothing.
const MPTCP_INFO_NEEDED: usize = 16;
/// `sizeof(struct mptcp_subflow_data)`, the header of `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS`.
pub(crate) const SUBFLOW_DATA_SIZE: usize = 16;
/// `sizeof(struct __kernel_sockaddr_storage)`.
const SOCKADDR_STORAGE: usize = 128;
/// `sizeof(struct mptcp_subflow_addrs)`: local, then remote.
pub(crate) const SUBFLOW_ADDRS_SIZE: usize = 2 * SOCKADDR_STORAGE;
/// Offset of `addrs` in `struct mptcp_subflow_info`: after `id`, padded to a pointer's alignment.
const SUBFLOW_INFO_ADDRS: usize = size_of::<usize>();
/// `sizeof(struct mptcp_subflow_info)`.
pub(crate) const SUBFLOW_INFO_SIZE: usize = SUBFLOW_INFO_ADDRS + SUBFLOW_ADDRS_SIZE;

/// Reads a `struct mptcp_info` of whatever length the kernel returned; `None` when it is too short for a token.
pub(crate) fn mptcp_figures(bytes: &[u8]) -> Option<MptcpFigures> {
    if bytes.len() < MPTCP_INFO_NEEDED {
        return None;
    }
    let fields = Fields(bytes);
    let flags = fields.u32(8)?;
    Some(MptcpFigures {
        extra_subflows: fields.u8(0)?,
        add_addr_signal: fields.u8(1)?,
        add_addr_accepted: fields.u8(2)?,
        extra_subflows_max: fields.u8(3)?,
        add_addr_signal_max: fields.u8(4)?,
        add_addr_accepted_max: fields.u8(5)?,
        fallback: flags & 1 != 0,
        remote_key_received: flags & 2 != 0,
        token: fields.u32(12)?,
        write_seq: fields.u64(16),
        snd_una: fields.u64(24),
        rcv_nxt: fields.u64(32),
        local_addr_used: fields.u8(40),
        local_addr_max: fields.u8(41),
        checksum: fields.u8(42).map(|enabled| enabled != 0),
        retransmits: fields.u32(44),
        bytes_retransmitted: fields.u64(48),
        bytes_sent: fields.u64(56),
        bytes_received: fields.u64(64),
        bytes_acked: fields.u64(72),
        subflows_total: fields.u8(80),
        since_last_sent_ms: fields.u32(84),
        since_last_received_ms: fields.u32(88),
        since_last_ack_ms: fields.u32(92),
    })
}

/// One element of `MPTCP_SUBFLOW_ADDRS`: local and remote address.
pub(crate) fn subflow_addresses(bytes: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    Some((socket_address(bytes)?, socket_address(bytes.get(SOCKADDR_STORAGE..)?)?))
}

/// One element of `MPTCP_FULL_INFO`'s subflow array: the kernel's subflow id and the addresses.
pub(crate) fn subflow_info(bytes: &[u8]) -> Option<(u32, SocketAddr, SocketAddr)> {
    let (local, remote) = subflow_addresses(bytes.get(SUBFLOW_INFO_ADDRS..)?)?;
    Some((Fields(bytes).u32(0)?, local, remote))
}

/// A `sockaddr_in` or `sockaddr_in6` (linux/in.h, linux/in6.h); v4-mapped addresses come out as IPv4.
fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match i32::from(Fields(bytes).u16(0)?) {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddrV4::new(Ipv4Addr::from(octets), port).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let scope = Fields(bytes).u32(24)?;
            Some(canonical(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into()))
        }
        _ => None,
    }
}

pub(crate) mod full {
    /// Offset of `subflow_info`, the address of the subflow array.
    pub(crate) const SUBFLOW_POINTER: usize = 24;
    /// Offset of `tcp_info`, the address of the `tcp_info` array.
    pub(crate) const TCP_POINTER: usize = 32;
    pub(crate) const MPTCP_INFO: usize = 40;

    use super::Fields;

    /// Writes the input fields: element sizes and the number of elements there is room for.
    pub(crate) fn ask(header: &mut [u8], tcp_size: u32, subflow_size: u32, room: u32) {
        header.fill(0);
        for (at, value) in [(4, tcp_size), (12, subflow_size), (20, room)] {
            if let Some(field) = header.get_mut(at..at + 4) {
                field.copy_from_slice(&value.to_ne_bytes());
            }
        }
    }

    pub(crate) fn answer(header: &[u8]) -> Option<(usize, usize, usize)> {
        let fields = Fields(header);
        Some((fields.u32(4)? as usize, fields.u32(12)? as usize, fields.u32(16)? as usize))
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;
    use crate::recorded::{ADDRESSES_V4, ADDRESSES_V6, MPTCP_INFO, bytes};
    use proptest::prelude::*;

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
    fn a_recorded_answer_is_understood() {
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
    fn each_kernel_generation_tells_its_part() {
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
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(mptcp_figures(&bytes).is_some(), bytes.len() >= MPTCP_INFO_NEEDED);
            let _ = subflow_addresses(&bytes);
            let _ = subflow_info(&bytes);
            let _ = full::answer(&bytes);
        }

        #[test]
        fn truncated_elements_are_refused(length in 0..SUBFLOW_INFO_ADDRS + SOCKADDR_STORAGE + 8) {
            prop_assert_eq!(subflow_info(&element(1, ADDRESSES_V4)[..length]), None);
        }
    }
}
