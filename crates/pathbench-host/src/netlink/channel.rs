//! One request, its answers and its acknowledgement over a netlink socket.

use super::attribute::{Attributes, u32_at};
use super::error::NetlinkError;
use crate::namespace::NetNamespace;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::Socket;
use rustix::io::Errno;
use std::io::ErrorKind;

/// The kernel never puts more than 32 KiB into one datagram of a dump (`NLMSG_GOODSIZE`, `af_netlink.c`).
const RECEIVE_BYTES: usize = 64 * 1024;
/// How often a dump is repeated that was interrupted by a change of what it lists.
const DUMP_ATTEMPTS: u32 = 16;
/// `NLMSGERR_ATTR_MSG` of linux/netlink.h.
const ERROR_TEXT: u16 = 1;
/// Length of `struct nlmsghdr`.
pub(super) const MESSAGE_HEADER: usize = 16;

/// Which kernel subsystem a socket talks to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Protocol {
    /// Links, addresses, routes, rules, queueing disciplines.
    Route,
    /// Families that are looked up by name.
    Generic,
    /// Sockets.
    SocketDiagnosis,
    /// Packet filters.
    Netfilter,
}

impl Protocol {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Generic => "generic",
            Self::SocketDiagnosis => "sock_diag",
            Self::Netfilter => "netfilter",
        }
    }

    pub(crate) const fn number(self) -> isize {
        match self {
            Self::Route => netlink_sys::protocols::NETLINK_ROUTE,
            Self::Generic => netlink_sys::protocols::NETLINK_GENERIC,
            Self::SocketDiagnosis => netlink_sys::protocols::NETLINK_SOCK_DIAG,
            Self::Netfilter => netlink_sys::protocols::NETLINK_NETFILTER,
        }
    }
}

/// A message of the kernel's answer: its type and what follows the netlink header.
pub(crate) type Reply = (u16, Vec<u8>);

/// A netlink socket for requests, with strict checking and explained refusals.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(super) socket: Socket,
    pub(super) sequence: u32,
    buffer: Vec<u8>,
}

impl Channel {
    /// A socket in the calling thread's network namespace, where it stays wherever the thread goes.
    pub(crate) fn open(protocol: Protocol) -> Result<Self, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(protocol.number())?;
            socket.bind_auto()?;
            socket.set_ext_ack(true)?;
            // The refusal need not carry the request back.
            socket.set_cap_ack(true)?;
            socket.set_netlink_get_strict_chk(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|source| NetlinkError::Open { protocol: protocol.name(), source })?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(RECEIVE_BYTES) })
    }

    /// The same in `namespace`.
    pub(crate) fn open_in(protocol: Protocol, namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        namespace.run_in(|| Self::open(protocol))?
    }

    /// Sends a request and waits for its acknowledgement; `flags` come on top of `REQUEST` and `ACK`.
    /// `request` completes the sentence "cannot …".
    pub(crate) fn execute<M>(&mut self, request: &str, flags: u16, message: M) -> Result<(), NetlinkError>
    where
        M: NetlinkSerializable + std::fmt::Debug,
    {
        self.get(request, flags, message).map(drop)
    }

    /// Like [`Self::execute`], with the messages that came before the acknowledgement.
    pub(crate) fn get<M>(&mut self, request: &str, flags: u16, message: M) -> Result<Vec<Reply>, NetlinkError>
    where
        M: NetlinkSerializable + std::fmt::Debug,
    {
        let sequence = self.send(request, NLM_F_REQUEST | NLM_F_ACK | flags, message)?;
        self.receive(request, sequence).map(|(replies, _)| replies)
    }

    /// Lists a table; repeats when the table changed meanwhile.
    pub(crate) fn dump<M>(&mut self, request: &str, message: &M) -> Result<Vec<Reply>, NetlinkError>
    where
        M: NetlinkSerializable + std::fmt::Debug + Clone,
    {
        for _ in 0..DUMP_ATTEMPTS {
            let sequence = self.send(request, NLM_F_REQUEST | NLM_F_DUMP, message.clone())?;
            let (replies, interrupted) = self.receive(request, sequence)?;
            if !interrupted {
                return Ok(replies);
            }
        }
        Err(NetlinkError::Unstable { request: request.to_owned(), attempts: DUMP_ATTEMPTS })
    }

    fn send<M>(&mut self, request: &str, flags: u16, message: M) -> Result<u32, NetlinkError>
    where
        M: NetlinkSerializable + std::fmt::Debug,
    {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        match self.socket.send(&bytes, 0) {
            Ok(_) => Ok(self.sequence),
            Err(source) => Err(NetlinkError::Exchange { request: request.to_owned(), source }),
        }
    }

    /// Collects the answer to `sequence`; says also whether the kernel flagged it as inconsistent.
    fn receive(&mut self, request: &str, sequence: u32) -> Result<(Vec<Reply>, bool), NetlinkError> {
        let (mut replies, mut interrupted) = (Vec::new(), false);
        loop {
            for message in self.receive_datagram(request)? {
                let message = message.ok_or_else(|| cut_short(request))?;
                if message.sequence != sequence {
                    continue;
                }
                interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
                match message.kind {
                    NLMSG_ERROR | NLMSG_DONE => {
                        return message.verdict(request).map(|()| (replies, interrupted));
                    }
                    kind => replies.push((kind, message.payload.to_vec())),
                }
            }
        }
    }

    /// Waits for the next datagram.
    pub(super) fn receive_datagram(&mut self, request: &str) -> Result<Messages<'_>, NetlinkError> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(length) if length > self.buffer.len() => {
                    let detail = "it was cut off";
                    return Err(NetlinkError::Malformed { request: request.to_owned(), detail });
                }
                Ok(_) => return Ok(Messages::new(&self.buffer)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(NetlinkError::Exchange { request: request.to_owned(), source }),
            }
        }
    }
}

/// The error for a datagram that ends within a message.
pub(super) fn cut_short(request: &str) -> NetlinkError {
    NetlinkError::Malformed { request: request.to_owned(), detail: "a message is cut short" }
}

/// One netlink message of a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
    flags: u16,
    pub(super) sequence: u32,
}

impl Message<'_> {
    /// What an acknowledgement or the end of a dump says.
    pub(super) fn verdict(self, request: &str) -> Result<(), NetlinkError> {
        let Some(code) = u32_at(self.payload, 0) else {
            // The kernel ends every dump with a code; an acknowledgement without one says nothing.
            return Err(NetlinkError::Malformed { request: request.to_owned(), detail: "it has no verdict" });
        };
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
        let Some(errno) = Errno::from_io_error(&error) else {
            let detail = "its verdict is no error number";
            return Err(NetlinkError::Malformed { request: request.to_owned(), detail });
        };
        Err(NetlinkError::Refused { request: request.to_owned(), errno, kernel_message })
    }
}

/// The messages of a datagram; `None` for one that is cut short, which is then the last.
#[derive(Debug)]
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub(crate) const fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Option<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let datagram = std::mem::take(&mut self.rest);
        let Ok(buffer) = NetlinkBuffer::new_checked(datagram) else { return Some(None) };
        let length = buffer.length() as usize;
        let Some(payload) = datagram.get(MESSAGE_HEADER..length) else { return Some(None) };
        self.rest = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Some(Message {
            kind: buffer.message_type(),
            payload,
            flags: buffer.flags(),
            sequence: buffer.sequence_number(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + payload.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn splits_a_datagram() {
        let datagram = [message(16, b"abc"), message(17, b"")].concat();
        let messages: Vec<_> = Messages::new(&datagram).map(Option::unwrap).collect();
        assert_eq!((messages[0].kind, messages[0].payload), (16, b"abc".as_slice()));
        assert_eq!((messages[1].kind, messages[1].payload), (17, b"".as_slice()));
        assert!(Messages::new(&datagram[..18]).next().unwrap().is_none());
    }

    proptest! {
        #[test]
        fn never_panics_and_always_ends(datagram: Vec<u8>) {
            prop_assert!(Messages::new(&datagram).count() <= datagram.len());
        }
    }
}
