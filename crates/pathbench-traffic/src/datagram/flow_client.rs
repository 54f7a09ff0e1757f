//! The client's end of flows over UDP: a socket for each path, which joins the test with a cookie.

use super::admission::{COOKIE_RENEWAL, random_session};
use super::client::{BUFFER_BYTES, wait};
use super::message::{DatagramKind, DatagramMessage, HELLO_BYTES};
use super::socket::{DatagramError, DatagramSocket, UdpPath, check_token};
use pathbench_record::end::TestId;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::lock;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;
use thiserror::Error;

/// Interval of requests until the path has joined.
const RETRY: Duration = Duration::from_millis(200);
/// Interval of requests of a path that has joined: they prove its address again.
const PROOF: Duration = Duration::from_secs(1);
/// Longest wait for the paths of a test.
const JOIN_TIME: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(20);

#[derive(Debug, Error)]
pub enum FlowError {
    #[error(transparent)]
    Socket(#[from] DatagramError),
    #[error("the server refuses datagrams: {reason}")]
    Refused { reason: String },
    #[error(
        "no datagram was answered at {server} within {} s: does it serve QUIC at this UDP port, and does the network pass UDP?",
        JOIN_TIME.as_secs()
    )]
    Silent { server: SocketAddr },
}

/// The requests of one path, sans-IO: a cookie, then its place in the test.
#[derive(Debug)]
pub struct PathJoin {
    test: TestId,
    index: u32,
    token: Option<String>,
    pub session: u64,
    cookie: Option<(u64, Timestamp)>,
    is_joined: bool,
    refused: Option<String>,
    sequence: u32,
    next_hello: Timestamp,
    next_join: Timestamp,
}

impl PathJoin {
    pub fn new(test: TestId, index: u32, session: u64, token: Option<String>) -> Self {
        let next = Timestamp::default();
        Self {
            test,
            index,
            token,
            session,
            cookie: None,
            is_joined: false,
            refused: None,
            sequence: 0,
            next_hello: next,
            next_join: next,
        }
    }

    pub const fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// The cookie of the path's datagrams.
    pub fn cookie(&self) -> u64 {
        self.cookie.map_or(0, |(cookie, _)| cookie)
    }

    /// A request that is due now, if any.
    pub fn poll(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let is_old = |(_, since): &(u64, Timestamp)| now.duration_since(*since) >= COOKIE_RENEWAL;
        let interval = if self.is_joined { PROOF } else { RETRY };
        if self.cookie.as_ref().is_none_or(is_old) && now >= self.next_hello {
            self.next_hello = now + interval;
            let text = self.token.clone().unwrap_or_default();
            let hello = self.request(DatagramKind::Hello, text, now.as_nanos());
            return Some(hello.encode(HELLO_BYTES));
        }
        if self.cookie.is_some() && now >= self.next_join {
            self.next_join = now + interval;
            let join = self.request(DatagramKind::FlowJoin, self.test.to_string(), self.index.into());
            return Some(join.encode(0));
        }
        None
    }

    fn request(&mut self, kind: DatagramKind, text: String, value: u64) -> DatagramMessage {
        self.sequence = self.sequence.wrapping_add(1);
        let cookie = self.cookie();
        DatagramMessage { cookie, value, text, ..DatagramMessage::new(kind, self.session, self.sequence) }
    }

    /// Takes an answer of this path's session.
    pub fn receive(&mut self, now: Timestamp, message: &DatagramMessage) {
        match message.kind {
            DatagramKind::Welcome => {
                self.cookie = Some((message.cookie, now));
                self.next_join = now;
            }
            DatagramKind::Refused if self.cookie.is_none() => self.refused = Some(message.text.clone()),
            DatagramKind::FlowJoined if message.value == u64::from(self.index) => self.is_joined = true,
            _ => {}
        }
    }
}

/// The sockets of a test's paths.
#[derive(Debug)]
pub(crate) struct UdpFlows {
    server: SocketAddr,
    sockets: Vec<DatagramSocket>,
    joins: Mutex<Vec<PathJoin>>,
    buffer: Mutex<Vec<u8>>,
}

/// A datagram of the test that arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowArrival {
    pub(crate) at: Timestamp,
    pub(crate) path: u32,
    pub(crate) sequence: u32,
    pub(crate) length: usize,
}

impl UdpFlows {
    pub(crate) fn open(
        paths: &[UdpPath],
        server: SocketAddr,
        test: TestId,
        token: Option<&str>,
    ) -> Result<Self, FlowError> {
        check_token(token)?;
        let sockets =
            paths.iter().map(|path| DatagramSocket::open(path, server)).collect::<Result<Vec<_>, _>>()?;
        // Without stamps, the times of arrival are those at which this process was awake.
        for socket in &sockets {
            let _unsupported = socket.stamp_arrivals();
        }
        let join = |index| PathJoin::new(test, index, random_session(), token.map(str::to_owned));
        let joins = (0..sockets.len() as u32).map(join).collect();
        Ok(Self { server, sockets, joins: Mutex::new(joins), buffer: Mutex::new(vec![0; BUFFER_BYTES]) })
    }

    /// Waits until all paths have joined the test, or some have and the time is over.
    pub(crate) fn join(&self, clock: &dyn Clock) -> Result<(), FlowError> {
        let deadline = clock.now() + JOIN_TIME;
        loop {
            self.receive(clock, TICK, |_| {});
            let joins = lock(&self.joins);
            let joined = joins.iter().filter(|join| join.is_joined).count();
            if joined == joins.len() {
                return Ok(());
            }
            if let (0, Some(reason)) = (joined, joins.iter().find_map(|join| join.refused.clone())) {
                return Err(FlowError::Refused { reason });
            }
            if clock.now() >= deadline {
                let server = self.server;
                return if joined > 0 { Ok(()) } else { Err(FlowError::Silent { server }) };
            }
        }
    }

    /// The local address of each path.
    pub(crate) fn local_addresses(&self) -> Vec<IpAddr> {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let local = |socket: &DatagramSocket| socket.local().ok().flatten().map_or(any, |local| local.ip());
        self.sockets.iter().map(local).collect()
    }

    pub(crate) fn count(&self) -> u32 {
        self.sockets.len() as u32
    }

    /// Sends a datagram on a path; whether it left.
    pub(crate) fn send(&self, now: Timestamp, path: u32, sequence: u32, datagram: &mut [u8]) -> bool {
        let Some(socket) = self.sockets.get(path as usize) else { return false };
        {
            let joins = lock(&self.joins);
            let Some(join) = joins.get(path as usize) else { return false };
            DatagramMessage::set_session(datagram, join.session);
            DatagramMessage::set_cookie(datagram, join.cookie());
        }
        DatagramMessage::stamp(datagram, sequence, now.as_nanos());
        socket.send(datagram, None, &mut Vec::new()).is_ok()
    }

    /// Sends the requests that are due, waits up to `limit` for datagrams, and passes those of the test to `take`.
    pub(crate) fn receive(&self, clock: &dyn Clock, limit: Duration, mut take: impl FnMut(FlowArrival)) {
        for (join, socket) in lock(&self.joins).iter_mut().zip(&self.sockets) {
            while let Some(request) = join.poll(clock.now()) {
                // A request that is not sent is repeated.
                let _ = socket.send(&request, None, &mut Vec::new());
            }
        }
        wait(&self.sockets, limit, clock);
        let mut buffer = lock(&self.buffer);
        for (path, socket) in (0_u32..).zip(&self.sockets) {
            while socket.take_report().is_some() {}
            while let Some(arrival) = socket.receive(&mut buffer) {
                let now = clock.now();
                let stamp = arrival.at_ns.map(Duration::from_nanos);
                let at = stamp.and_then(|stamp| clock.convert_system_time(stamp)).unwrap_or(now);
                let datagram = buffer.get(..arrival.length).unwrap_or_default();
                let Some(message) = DatagramMessage::decode(datagram) else { continue };
                let mut joins = lock(&self.joins);
                let Some(join) = joins.get_mut(path as usize) else { continue };
                if message.session != join.session {
                    continue;
                }
                if message.kind == DatagramKind::Flow {
                    take(FlowArrival { at, path, sequence: message.sequence, length: arrival.length });
                } else {
                    join.receive(now, &message);
                }
            }
        }
    }
}
