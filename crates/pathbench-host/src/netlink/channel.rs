//! Netlink sockets: requests with answers and acknowledgements ([`NetlinkChannel`]), or notifications ([`MulticastListener`]).

use super::message::{
    Answers, Attributes, MESSAGE_HEADER, NetlinkChange, NetlinkMessage, NetlinkReply, batch, put, u32_at,
};
use crate::namespace::NetNamespace;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
};
use netlink_sys::{Socket, protocols};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel limits a datagram of a dump to 32 KiB (`NLMSG_GOODSIZE`, `af_netlink.c`).
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receive buffer of a listener: notifications arrive in bursts and must not be lost.
const LISTENER_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// Attempts per dump: a change of the listed objects interrupts a dump (`NLM_F_DUMP_INTR`).
const DUMP_ATTEMPTS: u32 = 16;
/// `NLMSGERR_ATTR_MSG` of linux/netlink.h.
const ERROR_TEXT: u16 = 1;

#[derive(Debug, Clone, Copy)]
pub(crate) struct NetlinkProtocol(&'static str, isize);

impl NetlinkProtocol {
    pub(crate) const ROUTE: Self = Self("route", protocols::NETLINK_ROUTE);
    pub(crate) const GENERIC: Self = Self("generic", protocols::NETLINK_GENERIC);
    pub(crate) const SOCK_DIAG: Self = Self("sock_diag", protocols::NETLINK_SOCK_DIAG);
    pub(crate) const NETFILTER: Self = Self("netfilter", protocols::NETLINK_NETFILTER);

    fn open(self, set_up: impl FnOnce(&mut Socket) -> std::io::Result<()>) -> Result<Socket, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(self.1)?;
            socket.bind_auto()?;
            set_up(&mut socket)?;
            Ok(socket)
        };
        open().map_err(|source| NetlinkError::Open { protocol: self.0, source })
    }
}

/// A socket for requests, with strict checking and extended error messages. In all functions, `request` completes the
/// sentence "cannot …".
#[derive(Debug)]
pub(crate) struct NetlinkChannel {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl NetlinkChannel {
    pub(crate) fn open(protocol: NetlinkProtocol) -> Result<Self, NetlinkError> {
        let socket = protocol.open(|socket| {
            socket.set_ext_ack(true)?;
            // Error messages omit the payload of the request.
            socket.set_cap_ack(true)?;
            socket.set_netlink_get_strict_chk(true)
        })?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(RECEIVE_BYTES) })
    }

    pub(crate) fn open_in(protocol: NetlinkProtocol, namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        namespace.run_in(|| Self::open(protocol))?
    }

    pub(crate) fn execute(
        &mut self,
        request: &str,
        flags: u16,
        message: &NetlinkMessage,
    ) -> Result<(), NetlinkError> {
        self.get(request, flags, message, |_| None::<()>).map(drop)
    }

    pub(crate) fn get<T>(
        &mut self,
        request: &str,
        flags: u16,
        message: &NetlinkMessage,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        let sequence = self.send(request, NLM_F_REQUEST | NLM_F_ACK | flags, message)?;
        let (found, _) = self.receive(request, sequence, parse)?;
        Ok(found.into_iter().next())
    }

    /// Like [`Self::get`], for a request that must have an answer.
    pub(crate) fn expect<T>(
        &mut self,
        request: &str,
        flags: u16,
        message: &NetlinkMessage,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        self.get(request, flags, message, parse)?
            .ok_or_else(|| malformed(request, "what was asked is missing"))
    }

    pub(crate) fn dump<T>(
        &mut self,
        request: &str,
        message: &NetlinkMessage,
        mut parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        for _ in 0..DUMP_ATTEMPTS {
            let sequence = self.send(request, NLM_F_REQUEST | NLM_F_DUMP, message)?;
            let (found, interrupted) = self.receive(request, sequence, &mut parse)?;
            if !interrupted {
                return Ok(found);
            }
        }
        Err(NetlinkError::Unstable { request: request.to_owned(), attempts: DUMP_ATTEMPTS })
    }

    fn send(&mut self, request: &str, flags: u16, message: &NetlinkMessage) -> Result<u32, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(MESSAGE_HEADER + message.payload.len());
        put(&mut bytes, message.kind, flags, self.sequence, &message.payload);
        self.send_bytes(request, &bytes)?;
        Ok(self.sequence)
    }

    fn send_bytes(&self, request: &str, bytes: &[u8]) -> Result<(), NetlinkError> {
        self.socket.send(bytes, 0).map(drop).map_err(|source| exchange(request, source))
    }

    /// Collects the answer to `sequence`; returns whether the kernel flagged it as inconsistent.
    fn receive<T>(
        &mut self,
        request: &str,
        sequence: u32,
        mut parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<(Vec<T>, bool), NetlinkError> {
        let (mut found, mut interrupted) = (Vec::new(), false);
        loop {
            for answer in self.receive_datagram(request)? {
                let answer = answer.ok_or_else(|| malformed(request, "a message is cut short"))?;
                if answer.sequence != sequence {
                    continue;
                }
                interrupted |= answer.flags & NLM_F_DUMP_INTR != 0;
                if matches!(answer.kind, NLMSG_ERROR | NLMSG_DONE) {
                    return answer.verdict(request).map(|()| (found, interrupted));
                }
                found.extend(parse(answer.payload));
            }
        }
    }

    fn receive_datagram(&mut self, request: &str) -> Result<Answers<'_>, NetlinkError> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(length) if length > self.buffer.len() => return Err(malformed(request, "it was cut off")),
                Ok(_) => return Ok(Answers(&self.buffer)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(exchange(request, source)),
            }
        }
    }

    /// Applies all `changes` of one netfilter subsystem as one transaction (`nfnetlink_rcv_batch`,
    /// net/netfilter/nfnetlink.c): atomically, all or none. `request` describes the transaction.
    pub(crate) fn transact(
        &mut self,
        request: &str,
        subsystem: u8,
        changes: &[NetlinkChange],
    ) -> Result<(), TransactionRefusal> {
        let as_a_whole = |error| TransactionRefusal { index: None, error };
        let begin = self.sequence.wrapping_add(1);
        let length = u32::try_from(changes.len()).unwrap_or(u32::MAX);
        self.sequence = begin.wrapping_add(length).wrapping_add(1);
        self.send_bytes(request, &batch(begin, subsystem, changes)).map_err(as_a_whole)?;
        // Errors arrive in the order of the changes, the error of the whole transaction first. The next request ignores
        // the remaining ones, because their sequence numbers differ.
        loop {
            for answer in self.receive_datagram(request).map_err(as_a_whole)? {
                let answer =
                    answer.ok_or_else(|| as_a_whole(malformed(request, "a message is cut short")))?;
                let number = answer.sequence.wrapping_sub(begin);
                if answer.kind != NLMSG_ERROR || number > length {
                    continue;
                }
                let index = (number as usize).checked_sub(1);
                let change = index.and_then(|index| changes.get(index));
                let request = change.map_or(request, |change| change.request);
                answer.verdict(request).map_err(|error| TransactionRefusal { index, error })?;
                if number == length {
                    return Ok(());
                }
            }
        }
    }
}

fn malformed(request: &str, detail: &'static str) -> NetlinkError {
    NetlinkError::Malformed { request: request.to_owned(), detail }
}

fn exchange(request: &str, source: std::io::Error) -> NetlinkError {
    NetlinkError::Exchange { request: request.to_owned(), source }
}

#[derive(Debug)]
pub(crate) struct TransactionRefusal {
    /// The rejected change; `None` if the error concerns no particular change.
    pub(crate) index: Option<usize>,
    pub(crate) error: NetlinkError,
}

impl NetlinkReply<'_> {
    /// The result of the request in a message that ends an answer.
    fn verdict(self, request: &str) -> Result<(), NetlinkError> {
        let Some(code) = u32_at(self.payload, 0) else { return Err(malformed(request, "it has no verdict")) };
        let code = code as i32;
        if code == 0 {
            return Ok(());
        }
        // struct nlmsgerr: the code, then the request's header, then attributes; at the end of a dump the attributes
        // follow the code directly.
        let before_attributes = if self.kind == NLMSG_ERROR { 4 + MESSAGE_HEADER } else { 4 };
        let kernel_message = Attributes::parse_after_header(self.payload, before_attributes)
            .filter(|_| self.flags & NLM_F_ACK_TLVS != 0)
            .and_then(|(_, attributes)| attributes.text(ERROR_TEXT));
        // Through `io::Error`, because rustix panics on an invalid error number.
        let error = std::io::Error::from_raw_os_error(code.saturating_neg());
        match Errno::from_io_error(&error) {
            Some(errno) => Err(NetlinkError::Refused { request: request.to_owned(), errno, kernel_message }),
            None => Err(malformed(request, "its verdict is no error number")),
        }
    }
}

#[derive(Debug)]
pub(crate) enum MulticastMessage<'a> {
    Message(u16, &'a [u8]),
    /// The kernel dropped notifications because the receive buffer was full.
    Overrun,
}

#[derive(Debug)]
pub(crate) struct MulticastListener {
    socket: Socket,
    buffer: Vec<u8>,
}

impl MulticastListener {
    pub(crate) fn subscribe(
        protocol: NetlinkProtocol,
        groups: &[u32],
        request: &str,
    ) -> Result<Self, NetlinkError> {
        use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
        let socket = protocol.open(|socket| {
            // SO_RCVBUFFORCE may exceed net.core.rmem_max (requires CAP_NET_ADMIN); SO_RCVBUF may not.
            if set_socket_recv_buffer_size_force(&*socket, LISTENER_BUFFER_BYTES).is_err() {
                set_socket_recv_buffer_size(&*socket, LISTENER_BUFFER_BYTES)?;
            }
            socket.set_non_blocking(true)
        })?;
        for group in groups {
            socket.add_membership(*group).map_err(|error| NetlinkError::Refused {
                request: request.to_owned(),
                errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
                kernel_message: None,
            })?;
        }
        Ok(Self { socket, buffer: Vec::with_capacity(RECEIVE_BYTES) })
    }

    pub(crate) fn drain(
        &mut self,
        request: &str,
        mut take: impl FnMut(MulticastMessage<'_>),
    ) -> Result<(), NetlinkError> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(length) => {
                    for message in Answers(&self.buffer).flatten() {
                        take(MulticastMessage::Message(message.kind, message.payload));
                    }
                    if length > self.buffer.len() {
                        take(MulticastMessage::Overrun);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => take(MulticastMessage::Overrun),
                Err(source) => return Err(exchange(request, source)),
            }
        }
    }
}

impl AsFd for MulticastListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    #[error("cannot open a {protocol} netlink socket: {source}")]
    Open { protocol: &'static str, source: std::io::Error },
    #[error("cannot {request}: talking to the kernel failed: {source}")]
    Exchange { request: String, source: std::io::Error },
    #[error("cannot {request}: {errno}{}{}", explanation(kernel_message.as_ref()), remedy(*errno))]
    Refused { request: String, errno: Errno, kernel_message: Option<String> },
    #[error("cannot {request}: the kernel's answer is invalid: {detail}")]
    Malformed { request: String, detail: &'static str },
    #[error("cannot {request}: it changed while it was read, {attempts} times in a row")]
    Unstable { request: String, attempts: u32 },
    #[error("there is no interface {interface} in this network namespace")]
    NoSuchInterface { interface: String },
    #[error("{name:?} cannot name an interface: a name has 1 to 15 bytes and no slash, colon or white space")]
    InvalidName { name: String },
    #[error(transparent)]
    Namespace(#[from] crate::namespace::NamespaceError),
}

impl NetlinkError {
    /// The kernel's error number if it refused the request.
    pub const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether the request needs a privilege that this process lacks.
    pub const fn lacks_privilege(&self) -> bool {
        matches!(self.errno(), Some(Errno::PERM | Errno::ACCESS))
    }

    /// Whether this host lacks the privilege or a kernel feature.
    pub const fn is_host_unable(&self) -> bool {
        self.lacks_privilege() || matches!(self.errno(), Some(Errno::OPNOTSUPP))
    }

    pub fn is_already_there(&self) -> bool {
        self.errno() == Some(Errno::EXIST)
    }

    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NoSuchInterface { .. })
            || matches!(self.errno(), Some(Errno::NOENT | Errno::SRCH | Errno::ADDRNOTAVAIL | Errno::NODEV))
    }

    pub(super) fn is_no_such_family(&self) -> bool {
        matches!(self.errno(), Some(Errno::AFNOSUPPORT | Errno::PFNOSUPPORT | Errno::OPNOTSUPP))
    }
}

fn explanation(message: Option<&String>) -> String {
    message.map(|message| format!(", the kernel reports {message:?}")).unwrap_or_default()
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM | Errno::ACCESS => "; this needs CAP_NET_ADMIN in the network namespace: run as root",
        Errno::OPNOTSUPP => "; this kernel was built without it",
        _ => "",
    }
}
