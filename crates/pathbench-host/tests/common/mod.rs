//! Fixtures shared by several test programs.

use pathbench_host::path_mtu::{LiveConnection, LiveSubflow};
use std::net::{IpAddr, SocketAddr};

/// An established connection that waits for an acknowledgement of packets of 9000 bytes.
pub(crate) fn waiting(local: IpAddr, remote: IpAddr, subflow: Option<(u32, u8)>) -> LiveConnection {
    LiveConnection {
        local: SocketAddr::new(local, 40_000),
        remote: SocketAddr::new(remote, 4433),
        cookie: 77,
        interface: None,
        subflow: subflow.map(|(token, local_id)| LiveSubflow { token, local_id }),
        state: 1,
        pmtu_bytes: 9000,
        mss_bytes: 8948,
        backoff: 2,
        unacked_segments: 1,
        retransmitted_segments: 3,
        bytes_acked: 1000,
        bytes_sent: 100_000,
        since_last_ack_ms: 900,
        rto_us: 1_600_000,
    }
}
