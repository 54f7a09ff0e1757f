//! Netlink sockets: one request, its answers and its acknowledgement ([`Channel`]), or notifications ([`Listener`]).

use super::NetlinkError;
use super::message::{Attributes, Message, u32_at};
use crate::namespace::NetNamespace;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer,
};
use netlink_sys::{Socket, protocols};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel never puts more than 32 KiB into one datagram of a dump (`NLMSG_GOODSIZE`, `af_netlink.c`).
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receive buffer of a listener: notifications come in bursts and must not be lost.
const LISTENER_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// How often a dump is repeated that was interrupted by a change of what it lists.
const DUMP_ATTEMPTS: u32 = 16;
/// `NLMSGERR_ATTR_MSG` of linux/netlink.h.
const ERROR_TEXT: u16 = 1;
const MESSAGE_HEADER: usize = 16;
/// `struct nfgenmsg` of linux/netfilter/nfnetlink.h.
pub(crate) const NETFILTER_HEADER: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocol(&'static str, isize);

impl Protocol {
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

/// A socket for requests, with strict checking and explained refusals. `request`, in all its functions, completes the
/// sentence "cannot …".
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Channel {
    pub(crate) fn open(protocol: Protocol) -> Result<Self, NetlinkError> {
        let socket = protocol.open(|socket| {
            socket.set_ext_ack(true)?;
            // The refusal need not carry the request back.
            socket.set_cap_ack(true)?;
            socket.set_netlink_get_strict_chk(true)
        })?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(RECEIVE_BYTES) })
    }

    pub(crate) fn open_in(protocol: Protocol, namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        namespace.run_in(|| Self::open(protocol))?
    }

    pub(crate) fn execute(
        &mut self,
        request: &str,
        flags: u16,
        message: &Message,
    ) -> Result<(), NetlinkError> {
        self.get(request, flags, message, |_| None::<()>).map(drop)
    }

    pub(crate) fn get<T>(
        &mut self,
        request: &str,
        flags: u16,
        message: &Message,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        let sequence = self.send(request, NLM_F_REQUEST | NLM_F_ACK | flags, message)?;
        let (found, _) = self.receive(request, sequence, parse)?;
        Ok(found.into_iter().next())
    }

    /// Like [`Self::get`], of a request that must be answered.
    pub(crate) fn expect<T>(
        &mut self,
        request: &str,
        flags: u16,
        message: &Message,
        parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        self.get(request, flags, message, parse)?
            .ok_or_else(|| malformed(request, "what was asked is missing"))
    }

    pub(crate) fn dump<T>(
        &mut self,
        request: &str,
        message: &Message,
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

    fn send(&mut self, request: &str, flags: u16, message: &Message) -> Result<u32, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(MESSAGE_HEADER + message.payload.len());
        put(&mut bytes, message.kind, flags, self.sequence, &message.payload);
        self.send_bytes(request, &bytes)?;
        Ok(self.sequence)
    }

    fn send_bytes(&self, request: &str, bytes: &[u8]) -> Result<(), NetlinkError> {
        self.socket.send(bytes, 0).map(drop).map_err(|source| exchange(request, source))
    }

    /// Collects the answer to `sequence`; and whether the kernel flagged it as inconsistent.
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
                Ok(_) => return Ok(Answers { rest: &self.buffer }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(exchange(request, source)),
            }
        }
    }

    /// Makes all `changes` of one netfilter subsystem as one transaction (`nfnetlink_rcv_batch`,
    /// net/netfilter/nfnetlink.c): all at one moment, or none. `request` is about all of them.
    pub(crate) fn transact(
        &mut self,
        request: &str,
        subsystem: u8,
        changes: &[Change],
    ) -> Result<(), Refusal> {
        let as_a_whole = |error| Refusal { place: None, error };
        let begin = self.sequence.wrapping_add(1);
        let length = u32::try_from(changes.len()).unwrap_or(u32::MAX);
        self.sequence = begin.wrapping_add(length).wrapping_add(1);
        self.send_bytes(request, &batch(begin, subsystem, changes)).map_err(as_a_whole)?;
        // Refusals come in the order of the changes, that of the whole before them. What is left of them after the
        // first is passed over by the next request, whose numbers are others.
        loop {
            for answer in self.receive_datagram(request).map_err(as_a_whole)? {
                let answer =
                    answer.ok_or_else(|| as_a_whole(malformed(request, "a message is cut short")))?;
                let number = answer.sequence.wrapping_sub(begin);
                if answer.kind != NLMSG_ERROR || number > length {
                    continue;
                }
                let place = (number as usize).checked_sub(1);
                let change = place.and_then(|place| changes.get(place));
                let request = change.map_or(request, |change| change.request);
                answer.verdict(request).map_err(|error| Refusal { place, error })?;
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

#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) request: &'static str,
    pub(crate) flags: u16,
    pub(crate) message: Message,
}

#[derive(Debug)]
pub(crate) struct Refusal {
    /// The change that was refused; `None` when it was none of them in particular.
    pub(crate) place: Option<usize>,
    pub(crate) error: NetlinkError,
}

/// `struct nfgenmsg`: address family, version 0, a resource id in network byte order.
pub(crate) const fn netfilter_header(family: u8, resource: u16) -> [u8; NETFILTER_HEADER] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// The changes between begin and end, numbered from `sequence` on. The last one asks for an acknowledgement, which comes
/// after the transaction was made: not every kernel acknowledges its end.
fn batch(sequence: u32, subsystem: u8, changes: &[Change]) -> Vec<u8> {
    let frame = netfilter_header(libc::AF_UNSPEC as u8, u16::from(subsystem));
    let mut bytes = Vec::new();
    put(&mut bytes, libc::NFNL_MSG_BATCH_BEGIN as u16, NLM_F_REQUEST, sequence, &frame);
    let mut number = sequence;
    for (place, change) in changes.iter().enumerate() {
        number = number.wrapping_add(1);
        let acknowledged = if place + 1 == changes.len() { NLM_F_ACK } else { 0 };
        let flags = NLM_F_REQUEST | change.flags | acknowledged;
        put(&mut bytes, change.message.kind, flags, number, &change.message.payload);
    }
    put(&mut bytes, libc::NFNL_MSG_BATCH_END as u16, NLM_F_REQUEST, number.wrapping_add(1), &frame);
    bytes
}

fn put(bytes: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, payload: &[u8]) {
    let length = u32::try_from(MESSAGE_HEADER + payload.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[derive(Debug, Clone, Copy)]
struct Answer<'a> {
    kind: u16,
    payload: &'a [u8],
    flags: u16,
    sequence: u32,
}

impl Answer<'_> {
    fn verdict(self, request: &str) -> Result<(), NetlinkError> {
        let Some(code) = u32_at(self.payload, 0) else { return Err(malformed(request, "it has no verdict")) };
        let code = code as i32;
        if code == 0 {
            return Ok(());
        }
        // struct nlmsgerr: the code, then the request's header, then attributes; at the end of a dump the
        // attributes follow the code at once.
        let before_attributes = if self.kind == NLMSG_ERROR { 4 + MESSAGE_HEADER } else { 4 };
        let kernel_message = Attributes::after(self.payload, before_attributes)
            .filter(|_| self.flags & NLM_F_ACK_TLVS != 0)
            .and_then(|(_, attributes)| attributes.text(ERROR_TEXT));
        // Through `io::Error`, because rustix panics on what is no error number.
        let error = std::io::Error::from_raw_os_error(code.saturating_neg());
        match Errno::from_io_error(&error) {
            Some(errno) => Err(NetlinkError::Refused { request: request.to_owned(), errno, kernel_message }),
            None => Err(malformed(request, "its verdict is no error number")),
        }
    }
}

/// The messages of a datagram; `None` for one that is cut short, which is then the last.
#[derive(Debug)]
struct Answers<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Answers<'a> {
    type Item = Option<Answer<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let datagram = std::mem::take(&mut self.rest);
        let Ok(buffer) = NetlinkBuffer::new_checked(datagram) else { return Some(None) };
        let length = buffer.length() as usize;
        let Some(payload) = datagram.get(MESSAGE_HEADER..length) else { return Some(None) };
        self.rest = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        let (kind, flags, sequence) = (buffer.message_type(), buffer.flags(), buffer.sequence_number());
        Some(Some(Answer { kind, payload, flags, sequence }))
    }
}

#[derive(Debug)]
pub(crate) enum Notice<'a> {
    Message(u16, &'a [u8]),
    /// The kernel dropped notifications because the receive buffer was full.
    Overrun,
}

#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Listener {
    pub(crate) fn subscribe(protocol: Protocol, groups: &[u32], request: &str) -> Result<Self, NetlinkError> {
        use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
        let socket = protocol.open(|socket| {
            // Beyond the administrator's limit where allowed (CAP_NET_ADMIN), up to it otherwise.
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
        mut take: impl FnMut(Notice<'_>),
    ) -> Result<(), NetlinkError> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(length) => {
                    for message in (Answers { rest: &self.buffer }).flatten() {
                        take(Notice::Message(message.kind, message.payload));
                    }
                    if length > self.buffer.len() {
                        take(Notice::Overrun);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => take(Notice::Overrun),
                Err(source) => return Err(exchange(request, source)),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, kind, 0, 0, payload);
        bytes
    }

    #[test]
    fn splits_a_datagram() {
        let datagram = [message(16, b"abc"), message(17, b"")].concat();
        let answers: Vec<_> = Answers { rest: &datagram }.map(Option::unwrap).collect();
        assert_eq!((answers[0].kind, answers[0].payload), (16, b"abc".as_slice()));
        assert_eq!((answers[1].kind, answers[1].payload), (17, b"".as_slice()));
        assert!(Answers { rest: &datagram[..18] }.next().unwrap().is_none());
    }

    #[test]
    fn changes_stand_between_begin_and_end_in_their_order() {
        let payload = vec![1, 0, 0, 0];
        let change =
            |kind| Change { request: "try", flags: 0, message: Message { kind, payload: payload.clone() } };
        let bytes = batch(7, 10, &[change(0xA00), change(0xA03)]);
        let answers: Vec<_> = Answers { rest: &bytes }.map(Option::unwrap).collect();
        let seen: Vec<_> = answers.iter().map(|answer| (answer.kind, answer.sequence)).collect();
        assert_eq!(seen, [(0x10, 7), (0xA00, 8), (0xA03, 9), (0x11, 10)]);
        assert_eq!(answers[0].payload, [0, 0, 0, 10], "the subsystem is in network byte order");
    }

    proptest! {
        #[test]
        fn never_panics_and_always_ends(datagram: Vec<u8>) {
            let answers = Answers { rest: &datagram };
            prop_assert!(answers.count() <= datagram.len());
        }
    }
}
