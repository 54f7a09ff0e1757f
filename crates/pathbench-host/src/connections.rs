//! TCP connections of a network namespace, by `sock_diag(7)`: what `ss --kill` does.

use crate::namespace::NetNamespace;
use crate::netlink::NetlinkError;
use crate::netlink::channel::{Channel, Protocol};
use netlink_packet_core::NetlinkSerializable;
use rustix::io::Errno;

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `SOCK_DESTROY` of `linux/sock_diag.h`.
const SOCK_DESTROY: u16 = 21;
/// `TCP_TIME_WAIT` and `TCP_LISTEN` of `net/tcp_states.h`: the one holds nothing, the other is no connection.
const LEFT_ALONE: u32 = 1 << 6 | 1 << 10;
/// Length of `struct inet_diag_sockid` (`linux/inet_diag.h`).
pub(crate) const ID_BYTES: usize = 48;
/// Where it lies in a `struct inet_diag_msg`, behind family, state, timer and retransmissions.
const ID_OFFSET: usize = 4;

/// Resets every TCP connection of `namespace`, subflows of MPTCP included, and says how many there were.
///
/// A connection outlives its program while it has data that nobody acknowledges, and keeps its namespace for that
/// long: minutes, if the link is gone. Programs that still run get `ECONNABORTED`.
///
/// # Errors
/// When the kernel refuses, as it does when it was built without `CONFIG_INET_DIAG_DESTROY`.
pub fn abort_all(namespace: &NetNamespace) -> Result<usize, NetlinkError> {
    let mut channel = Channel::open_in(Protocol::SocketDiagnosis, namespace)?;
    let mut aborted = 0;
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let all = Request {
            kind: SOCK_DIAG_BY_FAMILY,
            family,
            extensions: 0,
            states: !LEFT_ALONE,
            id: [0; ID_BYTES],
        };
        for (_, connection) in channel.dump("list the TCP connections", &all)? {
            let id = connection.get(ID_OFFSET..ID_OFFSET + ID_BYTES).and_then(|id| id.try_into().ok());
            let Some(id) = id else { continue };
            let one = Request { kind: SOCK_DESTROY, id, ..all.clone() };
            match channel.execute("reset a TCP connection", 0, one) {
                Ok(()) => aborted += 1,
                // It went by itself.
                Err(NetlinkError::Refused { errno: Errno::NOENT, .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(aborted)
}

/// `struct inet_diag_req_v2` of `linux/inet_diag.h`, for TCP.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) kind: u16,
    pub(crate) family: u8,
    /// A bit for each kind of attribute that is wanted in the answer, less one.
    pub(crate) extensions: u8,
    /// A bit for each state of `net/tcp_states.h`.
    pub(crate) states: u32,
    /// Addresses, ports and cookie, as the kernel gave them.
    pub(crate) id: [u8; ID_BYTES],
}

impl NetlinkSerializable for Request {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        8 + ID_BYTES
    }

    fn serialize(&self, buffer: &mut [u8]) {
        // Family, protocol, extensions, padding; states; id.
        let head = [self.family, libc::IPPROTO_TCP as u8, self.extensions, 0];
        let bytes = head.into_iter().chain(self.states.to_ne_bytes()).chain(self.id);
        buffer.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    }
}
