//! The subflows of a probe: the sockets that the kernel destroyed between its begin and its end.

use pathbench_check::server::counters::JoinAttempt;
use pathbench_host::netlink::message::u32_at;
use pathbench_host::sockets::{DestroyedSockets, Socket, SocketLister};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// `tcpi_segs_in` of `struct tcp_info`.
const SEGMENTS_RECEIVED: usize = 140;

/// The time of one probe. A subflow whose SYN is rejected lives for a round trip, too short for samples.
pub(super) struct Window {
    /// Absent where the kernel reports no end of sockets.
    destroyed: Option<DestroyedSockets>,
    /// Cookies of the sockets that existed before.
    known: BTreeSet<u64>,
}

impl Window {
    pub(super) fn open() -> Self {
        let destroyed = DestroyedSockets::subscribe().ok();
        let listed = SocketLister::open().and_then(|mut lister| lister.snapshot(true)).unwrap_or_default();
        Self { destroyed, known: listed.tcp.iter().map(|socket| socket.cookie).collect() }
    }

    /// The sockets to the server's port that were opened and destroyed since the begin.
    pub(super) fn close(self, server: SocketAddr) -> Vec<JoinAttempt> {
        let reported = self.destroyed.and_then(|mut sockets| sockets.receive().ok()).unwrap_or_default();
        let is_new = |socket: &&Socket| !self.known.contains(&socket.cookie);
        let attempts = reported.iter().filter(is_new).filter_map(|socket| attempt(socket, server));
        attempts.collect()
    }
}

/// A join to the server or to an address that it announces. The kernel reports the initial subflow without its addresses.
fn attempt(socket: &Socket, server: SocketAddr) -> Option<JoinAttempt> {
    let (local, remote) = (socket.local.ip(), socket.remote);
    let is_unset = |at: IpAddr| at.is_unspecified();
    let is_to_server = remote.port() == server.port() || is_unset(remote.ip());
    let packets_received = u32_at(&socket.info, SEGMENTS_RECEIVED).unwrap_or_default().into();
    (!is_unset(local) && is_to_server).then_some(JoinAttempt { local, remote, packets_received })
}
