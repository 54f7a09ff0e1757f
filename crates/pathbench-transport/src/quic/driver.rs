//! The thread of an endpoint: receives datagrams, runs the connections' turns, sleeps.

use super::connection::QuicConnection;
use super::endpoint::QuicEndpoint;
use super::link_watch::LinkWatch;
use super::server::QuicServer;
use super::socket::{QuicDatagram, QuicSocket, ReceiveBuffers, was_full};
use crate::containment::contain_panic;
use crate::options::DatagramPort;
use noq_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming, Transmit};
use pathbench_host::thread_time::ThreadClock;
use pathbench_mpquic::{Core, Turn, Wakeup};
use pathbench_record::time::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Most reads of one socket before the next socket is read.
const READS_PER_TURN: usize = 4;
/// A busy driver wakes the threads that wait for streams once in this many turns: each then finds more data, for fewer
/// context switches.
const TURNS_PER_WAKING: usize = 4;
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// An answer to a connection attempt is at most this many times as long as the datagram (RFC 9000, section 8.1).
const AMPLIFICATION: usize = 3;

pub(crate) struct QuicDriver {
    endpoint: Arc<QuicEndpoint>,
    server: Option<Arc<QuicServer>>,
    connections: HashMap<ConnectionHandle, Arc<QuicConnection>>,
    buffers: ReceiveBuffers,
    sockets: Vec<Arc<QuicSocket>>,
    arrived: Vec<(ConnectionHandle, ConnectionEvent, Option<Timestamp>)>,
    incoming: Vec<Incoming>,
    response: Vec<u8>,
    wakeups: Vec<(Arc<QuicConnection>, Vec<Wakeup>)>,
    /// Turns since the threads were last woken.
    turns: usize,
    links: Option<LinkWatch>,
    links_readable: bool,
}

impl QuicDriver {
    /// Starts the thread of a server's endpoint, or of a client's with its connection; with `links`, it reports changes
    /// of this host's interfaces to the connections. A server's thread ends when the endpoint is closing and its last
    /// connection has ended, a client's with its connection. A panic of the thread ends all connections.
    /// Errors: the system cannot start a thread.
    pub(crate) fn start(
        endpoint: &Arc<QuicEndpoint>,
        server: Option<Arc<QuicServer>>,
        connection: Option<Arc<QuicConnection>>,
        links: Option<LinkWatch>,
    ) -> io::Result<()> {
        let mut driver = Self {
            endpoint: Arc::clone(endpoint),
            server,
            connections: connection.into_iter().map(|connection| (connection.handle, connection)).collect(),
            buffers: ReceiveBuffers::new(),
            sockets: Vec::new(),
            arrived: Vec::new(),
            incoming: Vec::new(),
            response: Vec::new(),
            wakeups: Vec::new(),
            turns: 0,
            links,
            links_readable: true,
        };
        let drive = move || {
            // Each endpoint has one driver.
            if let Some(own) = ThreadClock::of_this_thread() {
                let _ = driver.endpoint.driver.set(Arc::new(own));
            }
            if let Err(message) = contain_panic(|| driver.run()) {
                driver.fail(&message);
            }
        };
        thread::Builder::new().name("quic".to_owned()).spawn(drive).map(drop)
    }

    /// Ends every connection and the listener.
    fn fail(&mut self, message: &str) {
        self.endpoint.close();
        self.endpoint.awake();
        for (_, connection) in self.connections.drain() {
            connection.break_down(&format!("the QUIC driver of this end panicked: {message}"));
        }
        if let Some(server) = &self.server {
            server.fail(message);
        }
    }

    fn run(&mut self) {
        loop {
            self.sockets.clone_from(&self.endpoint.sockets());
            if self.endpoint.stamps_arrivals() {
                self.sockets.iter().for_each(|socket| socket.stamp_arrivals());
            }
            let more = self.receive();
            self.report_link_changes();
            self.admit();
            let busy = self.run_turns();
            if self.is_done() {
                return;
            }
            let idle = !more && !busy;
            if idle || self.turns >= TURNS_PER_WAKING {
                self.wake();
                // A driver that never sleeps does not poll the netlink socket.
                self.links_readable |= !idle;
            }
            if idle {
                self.sleep();
            }
        }
    }

    fn is_done(&self) -> bool {
        let over = self.server.is_none() || self.endpoint.is_closing();
        over && self.connections.is_empty()
    }

    /// Receives from all sockets; `true` if more datagrams may be waiting.
    fn receive(&mut self) -> bool {
        let mut more = false;
        for socket in &self.sockets {
            let now = self.endpoint.epoch.instant(self.endpoint.now());
            for read in 1..=READS_PER_TURN {
                let (endpoint, server, response) = (&self.endpoint, &self.server, &mut self.response);
                let (arrived, attempts) = (&mut self.arrived, &mut self.incoming);
                let count = socket.receive(&mut self.buffers, |datagram| {
                    let at = endpoint.arrived_at(datagram.stamp);
                    if serve_otherwise(server.as_deref(), socket, &datagram, at) {
                        return;
                    }
                    match route(endpoint, now, datagram, response) {
                        Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                            arrived.push((handle, event, at));
                        }
                        Some(DatagramEvent::NewConnection(incoming)) => attempts.push(incoming),
                        Some(DatagramEvent::Response(transmit)) => socket.send(&transmit, response),
                        None => {}
                    }
                });
                match count {
                    Ok(count) if was_full(count) => more |= read == READS_PER_TURN,
                    Ok(_) => break,
                    Err(error) if self.endpoint.note_refusal(&error) => {
                        for connection in self.connections.values() {
                            connection.wake(vec![Wakeup::Connection]);
                        }
                    }
                    Err(_) => {}
                }
            }
        }
        more
    }

    fn report_link_changes(&mut self) {
        let changes = self.links.as_mut().filter(|_| self.links_readable).map(LinkWatch::changes);
        self.links_readable = false;
        let changes = changes.unwrap_or_default();
        if changes.is_empty() {
            return;
        }
        for connection in self.connections.values() {
            connection.on_interface_changes(&changes);
        }
    }

    fn admit(&mut self) {
        for incoming in self.incoming.drain(..) {
            self.response.clear();
            let Some(server) = &self.server else {
                self.endpoint.with_library(|endpoint| endpoint.ignore(incoming));
                continue;
            };
            let (connections, response) = (&mut self.connections, &mut self.response);
            let answer = server.admit(&self.endpoint, connections, incoming, response);
            if let (Some(transmit), Some(socket)) = (answer, self.sockets.first()) {
                socket.send(&transmit, &self.response);
            }
        }
    }

    /// Passes received datagrams to their connections and runs the turns that are due; `true` if more can be sent at once.
    fn run_turns(&mut self) -> bool {
        for socket in self.sockets.iter().filter(|socket| socket.has_queued()) {
            socket.flush();
        }
        self.turns += 1;
        let mut connections: Vec<Arc<QuicConnection>> = self.connections.values().map(Arc::clone).collect();
        let now = self.endpoint.now();
        let mut arrived = std::mem::take(&mut self.arrived);
        let mut busy = false;
        connections.retain(|connection| {
            let addressed = arrived.iter().any(|(handle, ..)| *handle == connection.handle);
            addressed || connection.is_due(now) || self.endpoint.is_closing()
        });
        let mut rest = Vec::with_capacity(arrived.len());
        for connection in connections {
            // A panic ends this connection: its lock is poisoned.
            let turned = contain_panic(|| {
                let mut core = connection.lock();
                for (handle, event, at) in arrived.drain(..) {
                    if handle != connection.handle {
                        rest.push((handle, event, at));
                    } else if !core.is_broken() {
                        core.handle_packet(event, at);
                    }
                }
                let more = connection.turn(&mut core, Turn::Whole);
                (core, more)
            });
            std::mem::swap(&mut arrived, &mut rest);
            let (core, more) = turned.unwrap_or_else(|_| (connection.lock(), false));
            busy |= more;
            self.finish(&connection, core);
        }
        arrived.clear();
        self.arrived = arrived;
        busy
    }

    fn finish(&mut self, connection: &Arc<QuicConnection>, mut core: MutexGuard<'_, Core>) {
        connection.leave_handshake(&mut core);
        let opened = core.take_opened();
        if let Some(server) = &self.server {
            for id in opened {
                server.offer(connection, &mut core, id);
            }
        }
        let (wakeups, drained) = (core.take_wakeups(), core.is_drained());
        let must_be_forgotten = core.forget();
        drop(core);
        if must_be_forgotten {
            let drained = EndpointEvent::drained();
            self.endpoint.with_library(|endpoint| endpoint.handle_event(connection.handle, drained));
        }
        if !wakeups.is_empty() {
            self.wakeups.push((Arc::clone(connection), wakeups));
        }
        if drained {
            self.connections.remove(&connection.handle);
        }
    }

    fn wake(&mut self) {
        self.turns = 0;
        for (connection, wakeups) in self.wakeups.drain(..) {
            connection.wake(wakeups);
        }
    }

    fn sleep(&mut self) {
        let now = self.endpoint.now();
        let longest = now + LONGEST_SLEEP;
        let dues = self.connections.values().map(|connection| connection.due()).min();
        let planned: Timestamp = dues.map_or(longest, |due| due.min(longest));
        if !self.endpoint.fall_asleep(planned) {
            return;
        }
        let mut watched = vec![PollFd::new(&self.endpoint.wakeup, PollFlags::IN)];
        watched.extend(self.sockets.iter().map(|socket| {
            let writable = if socket.has_queued() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN | writable)
        }));
        let limit = planned.duration_since(now);
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let links = self.links.as_ref().map(|links| PollFd::from_borrowed_fd(links.as_fd(), PollFlags::IN));
        watched.extend(links);
        // The only possible error is EINTR, which ends the sleep.
        let _ = poll(&mut watched, Some(&limit));
        let readable = self.links.is_some() && watched.last().is_some_and(|last| !last.revents().is_empty());
        drop(watched);
        self.links_readable = readable;
        self.endpoint.awake();
    }
}

/// Passes a datagram that is not QUIC's to the other service on the port; `false` if that does not accept it.
fn serve_otherwise(
    server: Option<&QuicServer>,
    socket: &Arc<QuicSocket>,
    datagram: &QuicDatagram,
    at: Option<Timestamp>,
) -> bool {
    let service = server.and_then(|server| server.service_for(&datagram.payload));
    let Some(service) = service else { return false };
    let (destination, src_ip) = (datagram.route.remote(), datagram.route.local_ip());
    let port: Arc<dyn DatagramPort> = Arc::<QuicSocket>::clone(socket);
    if let Some(answer) = service.answer(destination, src_ip, &datagram.payload, (&port, at)) {
        let transmit = |size| Transmit { destination, ecn: None, size, segment_size: None, src_ip };
        if let Err(error) = socket.send_whole(&transmit(answer.len()), &answer)
            && let Some(other) = service.unsent(destination, src_ip, &answer, &error)
        {
            socket.send(&transmit(other.len()), &other);
        }
    }
    true
}

/// Passes a datagram to the library, which finds its connection. An answer above [`AMPLIFICATION`] is dropped: the
/// source address may be forged.
fn route(
    endpoint: &QuicEndpoint,
    now: Instant,
    datagram: QuicDatagram,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    response.clear();
    let length = datagram.payload.len();
    let event = endpoint.with_library(|endpoint| {
        endpoint.handle(now, datagram.route, datagram.ecn, datagram.payload, response)
    });
    event.filter(
        |event| !matches!(event, DatagramEvent::Response(transmit) if transmit.size > AMPLIFICATION * length),
    )
}
