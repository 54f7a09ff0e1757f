//! The MPTCP sockets of this host, for its faults as a server.

use pathbench_check::server::announced::ServingSockets;
use pathbench_host::sockets::{Socket, SocketLister};

/// Nothing where the kernel does not list sockets.
pub(in crate::command::check) fn serving_sockets() -> ServingSockets {
    let listed = SocketLister::open().and_then(|mut lister| lister.snapshot(true)).unwrap_or_default();
    let listening = |socket: &&Socket| socket.is_listening();
    let listeners: Vec<_> = listed.mptcp.iter().filter(listening).map(|socket| socket.local).collect();
    let is_accepted = |socket: &&Socket| {
        !socket.is_listening() && listeners.iter().any(|listener| listener.port() == socket.local.port())
    };
    let accepted = listed.mptcp.iter().filter(is_accepted).map(|socket| [socket.local, socket.remote]);
    ServingSockets { accepted: accepted.collect(), listeners }
}
