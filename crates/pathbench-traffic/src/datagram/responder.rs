//! The server's side: datagrams and time in, datagrams out; and its attachment to the server's UDP port.

use super::admission::{Cookies, Cost, DatagramBudget};
use super::flow_table::{FlowTable, Origin};
use super::message::{
    DatagramKind, DatagramMessage, HEADER_BYTES, MAGIC, MOST_PACKET_BYTES, cut, tiny_bytes,
};
use super::socket::{interface_limit, kernel_path_mtu};
use crate::token::Access;
use pathbench_record::network::AddressFamily;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::{DatagramPort, DatagramService, lock};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Five rules hold for every datagram. No answer is longer than its request, except a packet of a size requested by a
/// client that has returned its cookie. An address that has not returned its cookie receives only answers to hellos.
/// These answers have their own budget, so that forged sources can at most keep out new clients. Answers and bytes are
/// rate-limited per client. Memory is bounded.
#[derive(Debug)]
pub struct DatagramResponder {
    access: Access,
    cookies: Cookies,
    budget: DatagramBudget,
    draining: bool,
}

impl DatagramResponder {
    pub fn new(access: Access, most_clients: usize, now: Timestamp) -> Self {
        Self {
            access,
            cookies: Cookies::new(now),
            budget: DatagramBudget::new(most_clients, now),
            draining: false,
        }
    }

    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether the message has the cookie of its address and session.
    fn is_proved(&mut self, now: Timestamp, from: SocketAddr, message: &DatagramMessage) -> bool {
        self.cookies.is_valid(now, from, message.session, message.cookie)
    }

    /// The answer to a datagram. `kernel_mtu` reads the path MTU in this host's kernel.
    pub fn answer(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        datagram: &[u8],
        kernel_mtu: impl FnOnce() -> Option<u32>,
    ) -> Option<Vec<u8>> {
        let message = DatagramMessage::decode(datagram)?;
        let cost = match message.kind {
            DatagramKind::Hello => return self.answer_hello(now, from, &message, datagram.len()),
            DatagramKind::Probe => Cost::Probe,
            DatagramKind::SizeProbe | DatagramKind::SizeRequest | DatagramKind::KernelMtuRequest => {
                Cost::Size
            }
            _ => return None,
        };
        if !self.cookies.is_valid(now, from, message.session, message.cookie)
            || !self.budget.take(from.ip(), cost, now)
        {
            return None;
        }
        let family = AddressFamily::from_address(from.ip());
        let (kind, size_bytes) = (message.kind, message.size_bytes());
        let answer = DatagramMessage { text: String::new(), ..message };
        Some(match kind {
            DatagramKind::SizeProbe => DatagramMessage { kind: DatagramKind::SizeReceived, ..answer }
                .with_sizes(family.udp_packet_bytes(datagram.len()), message.value as u32)
                .encode(0),
            DatagramKind::KernelMtuRequest => DatagramMessage { kind: DatagramKind::KernelMtu, ..answer }
                .with_sizes(size_bytes, kernel_mtu().unwrap_or_default())
                .encode(0),
            DatagramKind::SizeRequest => {
                if !(tiny_bytes(family)..=MOST_PACKET_BYTES).contains(&size_bytes) {
                    return None;
                }
                // Without an answer the client would count the packet as lost.
                if self.budget.take(from.ip(), Cost::Bytes(size_bytes.into()), now) {
                    let length = family.udp_payload_bytes(size_bytes);
                    DatagramMessage { kind: DatagramKind::SizeResponse, ..answer }.encode(length)
                } else {
                    DatagramMessage { kind: DatagramKind::Busy, ..answer }.encode(0)
                }
            }
            _ => DatagramMessage { kind: DatagramKind::Answer, ..answer }.encode(0),
        })
    }

    fn answer_hello(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        hello: &DatagramMessage,
        length: usize,
    ) -> Option<Vec<u8>> {
        if !self.budget.take_hello(from.ip(), now) {
            return None;
        }
        // A client that has a cookie is no new one.
        let is_renewal = self.cookies.is_valid(now, from, hello.session, hello.cookie);
        let answer = match self.objection(now, from, hello, is_renewal) {
            None => {
                let cookie = self.cookies.cookie(now, from, hello.session);
                DatagramMessage { kind: DatagramKind::Welcome, cookie, text: String::new(), ..hello.clone() }
            }
            Some(reason) => {
                let text = cut(&reason, length - HEADER_BYTES).to_owned();
                DatagramMessage { kind: DatagramKind::Refused, cookie: 0, text, ..hello.clone() }
            }
        };
        Some(answer.encode(0))
    }

    /// The reason why a hello gets no cookie, for the user at the client.
    fn objection(
        &self,
        now: Timestamp,
        from: SocketAddr,
        hello: &DatagramMessage,
        is_renewal: bool,
    ) -> Option<String> {
        let token = (!hello.text.is_empty()).then_some(hello.text.as_str());
        if let Err(refusal) = self.access.check(token) {
            return Some(refusal.to_string());
        }
        if is_renewal {
            return None;
        }
        if self.draining {
            return Some("the server is shutting down".to_owned());
        }
        let is_full = self.budget.is_full(from.ip(), now);
        let reason = "the server already probes for as many clients as its limit allows; try again later";
        is_full.then(|| reason.to_owned())
    }

    /// The message sent instead of an `answer` that exceeds the MTU of this host's interface (`limit`, if known).
    pub fn too_long(answer: &[u8], limit: Option<u32>) -> Option<Vec<u8>> {
        let message =
            DatagramMessage::decode(answer).filter(|message| message.kind == DatagramKind::SizeResponse)?;
        let size_bytes = message.size_bytes();
        let message = DatagramMessage { kind: DatagramKind::ExceedsInterface, ..message };
        Some(message.with_sizes(size_bytes, limit.unwrap_or_default()).encode(0))
    }
}

pub(crate) struct ResponderService {
    pub(crate) flows: Arc<FlowTable>,
    responder: Mutex<DatagramResponder>,
    clock: Arc<dyn Clock>,
}

impl ResponderService {
    pub(crate) fn new(access: Access, most_clients: usize, clock: &Arc<dyn Clock>) -> Self {
        let responder = Mutex::new(DatagramResponder::new(access, most_clients, clock.now()));
        Self { flows: Arc::default(), responder, clock: Arc::clone(clock) }
    }

    pub(crate) fn drain(&self) {
        lock(&self.responder).drain();
    }
}

impl fmt::Debug for ResponderService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponderService").finish_non_exhaustive()
    }
}

impl DatagramService for ResponderService {
    fn takes(&self, datagram: &[u8]) -> bool {
        datagram.starts_with(&MAGIC)
    }

    fn answer(
        &self,
        from: SocketAddr,
        local: Option<IpAddr>,
        datagram: &[u8],
        (port, at): (&Arc<dyn DatagramPort>, Option<Timestamp>),
    ) -> Option<Vec<u8>> {
        let now = self.clock.now();
        let message = DatagramMessage::decode(datagram)?;
        match message.kind {
            DatagramKind::Flow => {
                if lock(&self.responder).is_proved(now, from, &message) {
                    self.flows.receive(now, at.unwrap_or(now), &message, datagram.len());
                }
                None
            }
            DatagramKind::FlowJoin => {
                let mut responder = lock(&self.responder);
                if !responder.is_proved(now, from, &message)
                    || !responder.budget.take(from.ip(), Cost::Size, now)
                {
                    return None;
                }
                drop(responder);
                let answer = self.flows.join(now, Origin { from, local, port }, &message)?;
                Some(answer.encode(0))
            }
            _ => lock(&self.responder).answer(now, from, datagram, || kernel_path_mtu(from, local)),
        }
    }

    fn unsent(
        &self,
        from: SocketAddr,
        local: Option<IpAddr>,
        answer: &[u8],
        error: &io::Error,
    ) -> Option<Vec<u8>> {
        if error.raw_os_error() != Some(libc::EMSGSIZE) {
            return None;
        }
        DatagramResponder::too_long(answer, interface_limit(from, local, answer.len()))
    }
}
