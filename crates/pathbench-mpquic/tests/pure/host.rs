//! One end of a simulated connection: the shipped [`Core`], or the library alone, and an application on top.

use bytes::{Bytes, BytesMut};
use noq_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, Dir,
    Endpoint, EndpointEvent, Event, FourTuple, PathEvent as LibraryEvent, ServerConfig, StreamEvent,
    StreamId, Transmit, TransportConfig,
};
use pathbench_mpquic::{
    ConnectionSettings, Core, Driver, Epoch, Instruments, InterfaceChange, LocalInterface, LocalSocket, Read,
    SocketId, Start, Turn,
};
use pathbench_record::connection::{PathEvent, PathEventKind};
use pathbench_record::sample::PathFigures;
use pathbench_record::time::Timestamp;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

static NOTHING: [u8; 16 << 10] = [0; 16 << 10];
const PACE: Duration = Duration::from_millis(20);
/// Datagrams in a GSO packet of the library alone.
const BATCH: NonZeroUsize = NonZeroUsize::new(10).unwrap();

/// The traffic that a host sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Only read.
    Silent,
    /// Send as much as possible on each stream.
    Bulk,
    /// Send this many bytes on the first stream every 20 ms.
    Paced(usize),
}

/// The owner of the library's connection.
enum End {
    Core(Box<Core>),
    /// The library alone, with the path events that it reported.
    Library(Box<Connection>, Vec<(Timestamp, LibraryEvent)>),
}

/// How a host's connections are configured.
pub(super) struct HostSetup {
    pub(super) epoch: Epoch,
    pub(super) settings: ConnectionSettings,
    pub(super) adjust: fn(&mut TransportConfig),
    pub(super) seed: u64,
    /// Without path manager, heartbeats and scheduler.
    pub(super) library_only: bool,
    pub(super) socket: LocalSocket,
    pub(super) remote: SocketAddr,
}

pub(super) struct Host {
    setup: HostSetup,
    endpoint: Endpoint,
    server: Option<ServerConfig>,
    handle: Option<ConnectionHandle>,
    end: Option<End>,
    pub(super) load: Load,
    /// Streams to open.
    pub(super) wanted_streams: usize,
    pub(super) streams: BTreeSet<StreamId>,
    pub(super) received_bytes: u64,
    /// Only for the library alone: reads data that arrived behind a gap.
    pub(super) reads_unordered: bool,
    last_data: Timestamp,
    /// No socket can be opened.
    pub(super) refuses_sockets: bool,
    /// The longest time without new data since the last reset of this value.
    longest_stall: Duration,
    pub(super) connected: bool,
    ended: Option<ConnectionError>,
    next_paced: Timestamp,
    owed: usize,
    /// The host's thread is in a send call until then.
    busy_until: Timestamp,
}

/// The driver of a core, over the simulated links.
struct LinkDriver<'a> {
    endpoint: &'a mut Endpoint,
    handle: ConnectionHandle,
    refuses_sockets: bool,
    /// The end of this turn's send calls, which run one after another.
    busy_until: &'a mut Timestamp,
    send: &'a mut SendCall<'a>,
}

/// Sends datagrams at a given time, and returns the end of the call.
type SendCall<'a> = dyn FnMut(Timestamp, SocketId, &Transmit, &[u8]) -> Timestamp + 'a;

impl Driver for LinkDriver<'_> {
    fn send(&mut self, socket: SocketId, transmit: &Transmit, contents: &[u8]) {
        *self.busy_until = (self.send)(*self.busy_until, socket, transmit, contents);
    }

    /// The socket's id is the number of its link.
    fn open_socket(&mut self, interface: &str, local: IpAddr, _: SocketAddr) -> Result<LocalSocket, String> {
        if self.refuses_sockets {
            return Err("refused by the test".to_owned());
        }
        let link = super::link_of(local);
        assert_eq!(interface, super::interface(link));
        Ok(super::client_socket(link))
    }

    fn close_socket(&mut self, _: SocketId) {}

    fn on_endpoint_event(&mut self, event: EndpointEvent) -> Option<ConnectionEvent> {
        self.endpoint.handle_event(self.handle, event)
    }
}

impl Host {
    pub(super) fn new(setup: HostSetup, server: Option<ServerConfig>) -> Self {
        let mut config = pathbench_mpquic::endpoint_config();
        config.rng_seed(Some([setup.seed as u8; 32]));
        let endpoint = Endpoint::new(Arc::new(config), server.clone().map(Arc::new), true);
        Self {
            setup,
            endpoint,
            server,
            handle: None,
            end: None,
            load: Load::Silent,
            wanted_streams: 0,
            streams: BTreeSet::new(),
            received_bytes: 0,
            reads_unordered: false,
            refuses_sockets: false,
            last_data: Timestamp::default(),
            longest_stall: Duration::ZERO,
            connected: false,
            ended: None,
            next_paced: Timestamp::default(),
            owed: 0,
            busy_until: Timestamp::default(),
        }
    }

    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.setup.epoch.instant(at)
    }

    fn transport(&self, instruments: &Instruments) -> Arc<TransportConfig> {
        let (epoch, peer) = (self.setup.epoch, self.setup.remote.ip());
        let mut transport = self.setup.settings.transport(instruments, epoch, peer);
        if self.setup.library_only {
            transport.congestion_controller_factory(Arc::new(noq_proto::congestion::CubicConfig::default()));
        }
        (self.setup.adjust)(&mut transport);
        Arc::new(transport)
    }

    /// Begins the handshake, with the present state of the interfaces.
    pub(super) fn connect(
        &mut self,
        now: Timestamp,
        crypto: Arc<dyn noq_proto::crypto::ClientConfig>,
        interfaces: Vec<LocalInterface>,
    ) {
        let instruments = Instruments::new(&self.setup.settings.quic.scheduler);
        let crypto = if self.setup.library_only { crypto } else { instruments.at_client(crypto) };
        let mut config = ClientConfig::new(crypto);
        config.transport_config(self.transport(&instruments));
        let at = self.instant(now);
        let (handle, connection) = self.endpoint.connect(at, config, self.setup.remote, "localhost").unwrap();
        self.begin(now, handle, connection, instruments, interfaces);
    }

    fn begin(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        connection: Connection,
        instruments: Instruments,
        interfaces: Vec<LocalInterface>,
    ) {
        self.handle = Some(handle);
        if self.setup.library_only {
            self.end = Some(End::Library(Box::new(connection), Vec::new()));
            return;
        }
        let start = Start {
            now,
            epoch: self.setup.epoch,
            remote: self.setup.remote,
            socket: self.setup.socket,
            first_path: 0,
            interfaces,
            is_address_validated: true,
        };
        let mut core = Core::new(connection, instruments, &self.setup.settings, &start);
        core.join();
        core.begin_test();
        self.end = Some(End::Core(Box::new(core)));
    }

    /// The library's connection, which exists once the handshake has begun.
    pub(super) fn connection(&mut self) -> &mut Connection {
        match self.end.as_mut().unwrap() {
            End::Core(core) => core.connection(),
            End::Library(connection, _) => connection,
        }
    }

    pub(super) fn core(&mut self) -> &mut Core {
        match self.end.as_mut().unwrap() {
            End::Core(core) => core,
            End::Library(..) => panic!("the library alone"),
        }
    }

    /// Whether the core has drained the connection.
    pub(super) fn is_drained(&self) -> bool {
        matches!(&self.end, Some(End::Core(core)) if core.is_drained())
    }

    pub(super) fn ended(&self) -> Option<&ConnectionError> {
        match &self.end {
            Some(End::Core(core)) => core.ended(),
            _ => self.ended.as_ref(),
        }
    }

    /// Processes a received datagram. Answers of the endpoint, which belong to no connection, are dropped.
    pub(super) fn receive(&mut self, now: Timestamp, route: FourTuple, contents: &[u8]) {
        let mut answer = Vec::new();
        let at = self.instant(now);
        match self.endpoint.handle(at, route, None, BytesMut::from(contents), &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let instruments = Instruments::new(&self.setup.settings.quic.scheduler);
                let mut config = self.server.clone().unwrap();
                config.crypto = instruments.at_server(config.crypto);
                config.transport = self.transport(&instruments);
                self.setup.remote = route.remote();
                let accepted = self.endpoint.accept(incoming, at, &mut answer, Some(Arc::new(config)));
                if let Ok((handle, connection)) = accepted {
                    self.begin(now, handle, connection, instruments, Vec::new());
                }
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.connection().handle_event(event),
            _ => {}
        }
    }

    /// Does all due work. Passes datagrams to `send` with the start time of the call; `send` returns its end.
    pub(super) fn run(
        &mut self,
        now: Timestamp,
        mut send: impl FnMut(Timestamp, SocketId, &Transmit, &[u8]) -> Timestamp,
    ) {
        while self.end.is_some() && now >= self.busy_until {
            self.busy_until = now;
            let more = self.turn(now, &mut send);
            if now < self.busy_until {
                return;
            }
            let progress = self.apply(now);
            if !more && !progress {
                return;
            }
        }
    }

    /// Runs one turn; `true` when there is more to do at once.
    fn turn(&mut self, now: Timestamp, send: &mut SendCall<'_>) -> bool {
        let (Some(handle), Some(end)) = (self.handle, self.end.as_mut()) else { return false };
        let at = self.setup.epoch.instant(now);
        match end {
            End::Core(core) => {
                let (endpoint, busy_until) = (&mut self.endpoint, &mut self.busy_until);
                let refuses_sockets = self.refuses_sockets;
                let mut driver = LinkDriver { endpoint, handle, refuses_sockets, busy_until, send };
                let more = core.turn(&mut driver, now, Turn::Whole);
                for id in core.take_opened() {
                    core.adopt(id);
                    self.streams.insert(id);
                }
                core.take_wakeups();
                if core.is_established() && !std::mem::replace(&mut self.connected, true) {
                    self.last_data = now;
                }
                more
            }
            End::Library(connection, events) => {
                let mut progress = false;
                if connection.poll_timeout().is_some_and(|due| due <= at) {
                    connection.handle_timeout(at);
                }
                let mut buffer = Vec::new();
                while let Some(transmit) = connection.poll_transmit(at, BATCH, &mut buffer) {
                    let source = transmit.src_ip.filter(|_| connection.side().is_client());
                    let socket = SocketId(source.map_or(0, super::link_of) as u32);
                    send(now, socket, &transmit, &buffer[..transmit.size]);
                    buffer.clear();
                    progress = true;
                }
                while let Some(event) = connection.poll_endpoint_events() {
                    if let Some(answer) = self.endpoint.handle_event(handle, event) {
                        connection.handle_event(answer);
                    }
                    progress = true;
                }
                while let Some(event) = connection.poll() {
                    match event {
                        Event::Connected => (self.connected, self.last_data) = (true, now),
                        Event::ConnectionLost { reason } => self.ended = Some(reason),
                        Event::Path(event) => events.push((now, event)),
                        Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                            self.streams.extend(std::iter::from_fn(|| connection.streams().accept(Dir::Bi)));
                        }
                        _ => {}
                    }
                    progress = true;
                }
                progress
            }
        }
    }

    /// When [`Host::run`] is due.
    pub(super) fn next_timeout(&mut self, now: Timestamp) -> Option<Timestamp> {
        let end = match self.end.as_mut()? {
            End::Core(core) => core.next_deadline(now),
            End::Library(connection, _) => connection.poll_timeout().map(|at| self.setup.epoch.timestamp(at)),
        };
        let paced =
            (matches!(self.load, Load::Paced(_)) && !self.streams.is_empty()).then_some(self.next_paced);
        let next = [end, paced].into_iter().flatten().min();
        if now < self.busy_until { Some(self.busy_until) } else { next }
    }

    /// The kernel reports a change of an interface.
    pub(super) fn report(&mut self, interface: LocalInterface) {
        if let Some(End::Core(core)) = &mut self.end {
            core.on_interface_changes([InterfaceChange { interface, description: "simulated".to_owned() }]);
        }
    }

    /// Stops the host's thread until then.
    pub(super) fn stand_still(&mut self, until: Timestamp) {
        self.busy_until = until;
    }

    /// The application: reads all data, and writes according to the load.
    fn apply(&mut self, now: Timestamp) -> bool {
        if !self.connected || self.ended().is_some() {
            return false;
        }
        let mut progress = false;
        while self.streams.len() < self.wanted_streams {
            let Some(id) = self.open() else { break };
            self.streams.insert(id);
            progress |= self.write(id, 1) > 0;
        }
        for id in self.streams.clone() {
            progress |= self.read(now, id);
            progress |= self.load == Load::Bulk && self.write(id, usize::MAX) > 0;
        }
        if let (Load::Paced(bytes), Some(id)) = (self.load, self.streams.first().copied()) {
            if now >= self.next_paced {
                self.next_paced = now + PACE;
                self.owed += bytes;
            }
            let written = self.write(id, self.owed);
            self.owed -= written;
            progress |= written > 0;
        }
        progress
    }

    fn open(&mut self) -> Option<StreamId> {
        match self.end.as_mut()? {
            End::Core(core) => {
                let id = core.open_stream()?;
                core.adopt(id);
                Some(id)
            }
            End::Library(connection, _) => connection.streams().open(Dir::Bi),
        }
    }

    fn read(&mut self, now: Timestamp, id: StreamId) -> bool {
        let mut bytes = 0;
        match self.end.as_mut().unwrap() {
            End::Core(core) => {
                let mut buffer = vec![0; 64 << 10];
                while let (Read::Bytes(count), _) = core.read(id, &mut buffer) {
                    bytes += count;
                }
            }
            End::Library(connection, _) => {
                let mut stream = connection.recv_stream(id);
                let Ok(mut chunks) = stream.read(!self.reads_unordered) else { return false };
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    bytes += chunk.bytes.len();
                }
                let _ = chunks.finalize();
            }
        }
        if bytes == 0 {
            return false;
        }
        self.received_bytes += bytes as u64;
        self.longest_stall = self.longest_stall.max(now.duration_since(self.last_data));
        self.last_data = now;
        true
    }

    fn write(&mut self, id: StreamId, limit: usize) -> usize {
        let mut written = 0;
        while written < limit {
            let part = &NOTHING[..NOTHING.len().min(limit - written)];
            let count = match self.end.as_mut().unwrap() {
                End::Core(core) => core.write(id, part, &mut Bytes::new()).unwrap_or(0),
                End::Library(connection, _) => connection.send_stream(id).write(part).unwrap_or(0),
            };
            if count == 0 {
                if let End::Core(core) = self.end.as_mut().unwrap() {
                    core.await_writable(id);
                }
                break;
            }
            written += count;
        }
        written
    }

    /// Resets the measured stall.
    pub(super) fn forget_stalls(&mut self, now: Timestamp) {
        self.longest_stall = Duration::ZERO;
        self.last_data = self.last_data.max(now);
    }

    /// The longest stall, including one in progress.
    pub(super) fn stall(&self, now: Timestamp) -> Duration {
        self.longest_stall.max(now.duration_since(self.last_data))
    }

    /// The core's path events.
    pub(super) fn events(&mut self) -> Vec<PathEvent> {
        self.core().events().to_vec()
    }

    /// The library's path events, of a host without a core.
    pub(super) fn library_events(&self) -> &[(Timestamp, LibraryEvent)] {
        match &self.end {
            Some(End::Library(_, events)) => events,
            _ => panic!("not the library alone"),
        }
    }

    /// The scheduler's events.
    pub(super) fn scheduled(&mut self) -> Vec<PathEvent> {
        let mut events = self.events();
        events.retain(|event| matches!(event.kind, PathEventKind::Scheduler { .. }));
        events
    }

    /// The closes of paths on which nothing was received.
    pub(super) fn closed_as_silent(&mut self) -> Vec<PathEvent> {
        let mut events = self.events();
        events.retain(|event| {
            matches!(&event.kind, PathEventKind::PathGivenUp { reason } if reason.starts_with("nothing was heard"))
        });
        events
    }

    pub(super) fn figures(&mut self, now: Timestamp) -> Vec<PathFigures> {
        self.core().path_figures(now)
    }
}
