//! The thread of an endpoint: takes what arrives, sends what is due, sleeps.

use super::connection::QuicConnection;
use super::endpoint::Endpoint;
use super::link_watch::LinkWatch;
use super::socket::{Datagram, Inbox, PathSocket, was_full};
use crate::containment::contain_panic;
use noq_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming, Transmit};
use pathbench_mpquic::{Core, Turn, Wakeup};
use pathbench_record::time::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

/// Reads of one socket before others have their turn.
const READS_PER_TURN: usize = 4;
/// While there is more to do, threads that wait for streams are woken every so many turns only: each finds more then,
/// and the switch to it is not paid for every batch.
const TURNS_PER_WAKING: usize = 4;
/// The driver looks around at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Answers to incoming connection attempts are at most this many times as long as what they sent (RFC 9000 section 8.1).
const AMPLIFICATION: usize = 3;

pub(crate) struct Driver {
    endpoint: Arc<Endpoint>,
    inbox: Inbox,
    sockets: Vec<Arc<PathSocket>>,
    arrived: Vec<(ConnectionHandle, ConnectionEvent)>,
    incoming: Vec<Incoming>,
    response: Vec<u8>,
    wakeups: Vec<(Arc<QuicConnection>, Vec<Wakeup>)>,
    /// Turns since threads were woken last.
    turns: usize,
    links: Option<LinkWatch>,
    links_stirred: bool,
}

impl Driver {
    pub(crate) fn new(endpoint: Arc<Endpoint>, links: Option<LinkWatch>) -> Self {
        Self {
            endpoint,
            inbox: Inbox::new(),
            sockets: Vec::new(),
            arrived: Vec::new(),
            incoming: Vec::new(),
            response: Vec::new(),
            wakeups: Vec::new(),
            turns: 0,
            links,
            links_stirred: true,
        }
    }

    /// Drives until there is nothing left to drive.
    pub(crate) fn run(mut self) {
        loop {
            self.sockets.clone_from(&self.endpoint.sockets());
            let more = self.receive();
            self.notice_link_changes();
            self.admit();
            let busy = self.serve();
            if self.is_done() {
                return;
            }
            let idle = !more && !busy;
            if idle || self.turns >= TURNS_PER_WAKING {
                self.wake();
                // A driver that never sleeps has to look, too.
                self.links_stirred |= !idle;
            }
            if idle {
                self.sleep();
            }
        }
    }

    fn is_done(&self) -> bool {
        let over = self.endpoint.server().is_none() || self.endpoint.is_closing();
        over && self.endpoint.connections().is_empty()
    }

    /// Takes what has arrived at the sockets. `true` when there may be more.
    fn receive(&mut self) -> bool {
        let mut more = false;
        for socket in &self.sockets {
            let now = self.endpoint.instant();
            for read in 1..=READS_PER_TURN {
                let (endpoint, response) = (&self.endpoint, &mut self.response);
                let (arrived, attempts) = (&mut self.arrived, &mut self.incoming);
                let count = socket.receive(&mut self.inbox, |datagram| {
                    if is_served_otherwise(endpoint, socket, &datagram) {
                        return;
                    }
                    match route(endpoint, now, datagram, response) {
                        Some(DatagramEvent::ConnectionEvent(handle, event)) => arrived.push((handle, event)),
                        Some(DatagramEvent::NewConnection(incoming)) => attempts.push(incoming),
                        Some(DatagramEvent::Response(transmit)) => socket.send(&transmit, response),
                        None => {}
                    }
                });
                match count {
                    Ok(count) if was_full(count) => more |= read == READS_PER_TURN,
                    Ok(_) => break,
                    Err(error) => self.endpoint.on_network_error(&error),
                }
            }
        }
        more
    }

    fn notice_link_changes(&mut self) {
        let changes = self.links.as_mut().filter(|_| self.links_stirred).map(LinkWatch::changes);
        self.links_stirred = false;
        let changes = changes.unwrap_or_default();
        if changes.is_empty() {
            return;
        }
        for connection in self.endpoint.connections().values() {
            connection.on_interface_changes(&changes);
        }
    }

    fn admit(&mut self) {
        for incoming in self.incoming.drain(..) {
            self.response.clear();
            let Some(server) = self.endpoint.server() else {
                self.endpoint.routing().with(|endpoint| endpoint.ignore(incoming));
                continue;
            };
            let answer: Option<Transmit> = server.admit(&self.endpoint, incoming, &mut self.response);
            if let (Some(transmit), Some(socket)) = (answer, self.sockets.first()) {
                socket.send(&transmit, &self.response);
            }
        }
    }

    /// Hands on what has arrived and does what is due. `true` when there is more to send at once.
    fn serve(&mut self) -> bool {
        for socket in self.sockets.iter().filter(|socket| socket.is_holding()) {
            socket.flush();
        }
        self.turns += 1;
        let mut connections: Vec<Arc<QuicConnection>> =
            self.endpoint.connections().values().map(Arc::clone).collect();
        let now = self.endpoint.now();
        let mut arrived = std::mem::take(&mut self.arrived);
        let mut busy = false;
        connections.retain(|connection| {
            let addressed = arrived.iter().any(|(handle, _)| *handle == connection.handle);
            addressed || connection.is_due(now) || self.endpoint.is_closing()
        });
        let mut rest = Vec::with_capacity(arrived.len());
        for connection in connections {
            // A panic ends this connection: its lock is poisoned.
            let turned = contain_panic(|| {
                let mut core = connection.lock();
                for (handle, event) in arrived.drain(..) {
                    if handle != connection.handle {
                        rest.push((handle, event));
                    } else if !core.is_broken() {
                        core.connection().handle_event(event);
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
        let opened = core.take_opened();
        if let Some(server) = self.endpoint.server() {
            for id in opened {
                server.offer(connection, &mut core, id);
            }
        }
        let (wakeups, drained) = (core.take_wakeups(), core.is_drained());
        let must_be_forgotten = core.forget();
        drop(core);
        if must_be_forgotten {
            let drained = EndpointEvent::drained();
            self.endpoint.routing().with(|endpoint| endpoint.handle_event(connection.handle, drained));
        }
        if !wakeups.is_empty() {
            self.wakeups.push((Arc::clone(connection), wakeups));
        }
        if drained {
            self.endpoint.connections().remove(&connection.handle);
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
        let dues = self.endpoint.connections().values().map(|connection| connection.due()).min();
        let planned: Timestamp = dues.map_or(longest, |due| due.min(longest));
        if !self.endpoint.fall_asleep(planned) {
            return;
        }
        let mut watched = vec![PollFd::from_borrowed_fd(self.endpoint.bell(), PollFlags::IN)];
        watched.extend(self.sockets.iter().map(|socket| {
            let room = if socket.is_holding() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN | room)
        }));
        let limit = planned.since(now);
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let links = self.links.as_ref().map(|links| PollFd::from_borrowed_fd(links.as_fd(), PollFlags::IN));
        watched.extend(links);
        // Nothing but a signal can end it in error, and then it is as good as over.
        let _ = poll(&mut watched, Some(&limit));
        let stirred = self.links.is_some() && watched.last().is_some_and(|last| !last.revents().is_empty());
        drop(watched);
        self.links_stirred = stirred;
        self.endpoint.awake();
    }
}

/// Whether a datagram was not QUIC's, but for the other service at the port, which has then answered it.
fn is_served_otherwise(endpoint: &Endpoint, socket: &PathSocket, datagram: &Datagram) -> bool {
    let service = endpoint.server().and_then(|server| server.service_for(&datagram.payload));
    let Some(service) = service else { return false };
    let (destination, src_ip) = (datagram.way.remote(), datagram.way.local_ip());
    if let Some(answer) = service.answer(destination, src_ip, &datagram.payload) {
        let transmit = |size| Transmit { destination, ecn: None, size, segment_size: None, src_ip };
        if let Err(error) = socket.send_whole(&transmit(answer.len()), &answer)
            && let Some(other) = service.unsent(destination, src_ip, &answer, &error)
        {
            socket.send(&transmit(other.len()), &other);
        }
    }
    true
}

/// Finds the connection of a datagram. An answer to a connection attempt that would be much longer than it is dropped:
/// its source address may be forged.
fn route(
    endpoint: &Endpoint,
    now: Instant,
    datagram: Datagram,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    response.clear();
    let length = datagram.payload.len();
    let event = endpoint
        .routing()
        .with(|endpoint| endpoint.handle(now, datagram.way, datagram.ecn, datagram.payload, response));
    event.filter(
        |event| !matches!(event, DatagramEvent::Response(transmit) if transmit.size > AMPLIFICATION * length),
    )
}
