//! Two hosts, two links, virtual time: the library and the pure modules of this room under everything a network
//! does, in the same way in each run.

mod failover;
mod host;
mod link;
mod mtu;
mod payload;
mod scheduling;
mod shrink;
mod traps;

use super::configuration::{self, ConnectionSettings};
use super::heartbeat::{HeartbeatOptions, Heartbeats};
use super::options::{LocalPath, QuicOptions};
use super::path_manager::{PathInput, PathManager, PathManagerOptions};
use super::peer_paths::PeerPaths;
use super::scheduler::Board;
use super::stream_meter::StreamMeter;
use super::time::Epoch;
use crate::options::SocketOptions;
use crate::tls::{ALPN, ServerIdentity, Trust, client_config, server_config};
use host::{Decider, Host, Load};
use link::{Dice, LinkModel, Wire};
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{ClientConfig, Endpoint, FourTuple, ServerConfig, Transmit, TransportConfig};
use pathbench_record::connection::Scheduler;
use pathbench_record::time::{Clock, Timestamp};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 4433);
const CLIENT_PORT: u16 = 5000;
const BEGIN: Timestamp = Timestamp::from_nanos(1_000_000_000);

struct Standstill;

impl Clock for Standstill {
    fn now(&self) -> Timestamp {
        BEGIN
    }

    fn sleep_until(&self, _: Timestamp) {}
}

/// A datagram on its way.
struct Datagram {
    to_server: bool,
    link: usize,
    contents: Vec<u8>,
}

/// What a simulation begins with.
struct Setup {
    links: Vec<LinkModel>,
    paths: Vec<LocalPath>,
    scheduler: Scheduler,
    /// Path manager and heartbeats at both ends.
    managed: bool,
    /// The largest MTU that the hosts' interfaces are said to have.
    mtu_bytes: u32,
    /// Whoever sends is held up in the call until the link's queue is no longer than this. Without, it is the link
    /// that drops what is too much.
    sending_room: Option<Duration>,
    /// Changes the library's configuration.
    adjust: fn(&mut TransportConfig),
    seed: u64,
}

impl Setup {
    fn new(links: &[LinkModel], scheduler: Scheduler) -> Self {
        Self {
            links: links.to_vec(),
            paths: (0..links.len()).map(local_path).collect(),
            scheduler,
            managed: true,
            mtu_bytes: 1500,
            sending_room: None,
            adjust: |_| {},
            seed: 1,
        }
    }
}

fn local_path(link: usize) -> LocalPath {
    LocalPath { interface: interface(link), address: None, backup: false, weight: 1 }
}

fn interface(link: usize) -> String {
    format!("link{link}")
}

fn client_address(link: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 1 + link as u8, 1))
}

fn link_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(v4) => usize::from(v4.octets()[2]) - 1,
        IpAddr::V6(_) => 0,
    }
}

/// The whole simulation.
struct World {
    now: Timestamp,
    client: Host,
    server: Host,
    /// Stream data by the client's count.
    client_meter: StreamMeter,
    /// Stream data by the server's count.
    server_meter: StreamMeter,
    /// To the server and to the client, by link.
    wires: Vec<[Wire; 2]>,
    flying: BTreeMap<(Timestamp, u64), Datagram>,
    launched: u64,
    dice: Dice,
    sending_room: Option<Duration>,
}

impl World {
    /// Two hosts that know nothing of each other yet.
    fn new(setup: &Setup) -> Self {
        let epoch = Epoch::starting(Arc::new(Standstill));
        let quic = QuicOptions { scheduler: setup.scheduler.clone(), ..QuicOptions::default() };
        let settings =
            ConnectionSettings::new(&SocketOptions::default(), &quic, true, setup.mtu_bytes).unwrap();
        let endpoint = |server| {
            let mut config = configuration::endpoint();
            config.rng_seed(Some([setup.seed as u8; 32]));
            Endpoint::new(Arc::new(config), server, true)
        };
        let transport = |board: &Board| {
            let mut transport = settings.transport(board, &epoch, SERVER.ip());
            (setup.adjust)(&mut transport);
            Arc::new(transport)
        };
        let identity = ServerIdentity::self_made(&["localhost".to_owned()]).unwrap();

        let board = Board::new(setup.scheduler.clone());
        let crypto = server_config(&identity, ALPN).unwrap();
        let server_meter = StreamMeter::default();
        let crypto = Arc::new(QuicServerConfig::try_from(crypto).unwrap());
        let mut config = ServerConfig::with_crypto(server_meter.at_server(crypto));
        config.transport_config(transport(&board));
        let config = Arc::new(config);
        let decider = if setup.managed { Decider::Server(PeerPaths::default()) } else { Decider::Nobody };
        let mut server =
            Host::new(epoch.clone(), endpoint(Some(Arc::clone(&config))), board, decider, SERVER);
        server.accept_as = Some(config);

        let board = Board::new(setup.scheduler.clone());
        let crypto = client_config(&Trust::Fingerprint(identity.fingerprint()), ALPN).unwrap();
        let client_meter = StreamMeter::default();
        let crypto = Arc::new(QuicClientConfig::try_from(crypto).unwrap());
        let mut config = ClientConfig::new(client_meter.at_client(crypto));
        config.transport_config(transport(&board));
        let manager = PathManager::new(&setup.paths, &setup.scheduler, false, PathManagerOptions::default());
        let decider = if setup.managed { Decider::Client(Box::new(manager)) } else { Decider::Nobody };
        let mut client = Host::new(epoch, endpoint(None), board, decider, SERVER);
        if setup.managed {
            client.heartbeats = Some(Heartbeats::new(HeartbeatOptions::default()));
            server.heartbeats = Some(Heartbeats::new(HeartbeatOptions::default()));
        }
        client.connect(BEGIN, config, "localhost");
        let wires = setup.links.iter().map(|model| [Wire::new(*model), Wire::new(*model)]).collect();
        let dice = Dice::new(setup.seed);
        let (flying, sending_room) = (BTreeMap::new(), setup.sending_room);
        let mut world = Self {
            now: BEGIN,
            client,
            server,
            client_meter,
            server_meter,
            wires,
            flying,
            launched: 0,
            dice,
            sending_room,
        };
        for link in 0..setup.links.len() {
            world.bring_up(link);
        }
        world
    }

    /// A connection with all its paths, after half a second without data.
    fn established(setup: &Setup) -> Self {
        let mut world = Self::new(setup);
        world.run_for(Duration::from_millis(500));
        assert!(world.client.connected && world.server.connected, "no handshake in half a second");
        if setup.managed {
            assert_eq!(world.open_paths(), setup.links.len(), "paths open after half a second");
        }
        world
    }

    /// Paths that are not abandoned, by the client's count.
    fn open_paths(&mut self) -> usize {
        let connection = self.client.connection();
        let paths = connection.paths();
        let abandoned = |path| {
            self.client
                .path_events
                .iter()
                .any(|(_, event)| matches!(event, noq_proto::PathEvent::Abandoned { id, .. } if *id == path))
        };
        paths.into_iter().filter(|path| !abandoned(*path)).count()
    }

    /// The interface comes up and gets its address.
    fn bring_up(&mut self, link: usize) {
        self.set_cut(link, false);
        let now = self.now;
        self.client.tell(now, &PathInput::LinkUp { interface: interface(link) });
        let address = client_address(link);
        self.client.tell(now, &PathInput::AddressAdded { interface: interface(link), address });
    }

    /// The interface goes down, and the kernel says so.
    fn bring_down(&mut self, link: usize) {
        self.set_cut(link, true);
        let now = self.now;
        self.client.tell(now, &PathInput::LinkDown { interface: interface(link) });
    }

    /// Packets vanish in both directions, and nobody says so; or no longer.
    fn set_cut(&mut self, link: usize, cut: bool) {
        for wire in &mut self.wires[link] {
            wire.cut = cut;
        }
    }

    /// The server sends as much as goes, on several streams.
    fn start_download(&mut self) {
        self.client.wanted_streams = 4;
        self.server.load = Load::Bulk;
    }

    /// The client sends as much as goes, on several streams.
    fn start_upload(&mut self) {
        self.client.wanted_streams = 4;
        self.client.load = Load::Bulk;
    }

    fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.run_hosts();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let client = self.client.next_timeout(self.now);
            let server = self.server.next_timeout(self.now);
            let next = [arrival, client, server].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            // A timer that is due and stays due must not stop time.
            self.now = next.max(self.now + Duration::from_nanos(1));
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let datagram = entry.remove();
                let client = SocketAddr::new(client_address(datagram.link), CLIENT_PORT);
                if datagram.to_server {
                    self.server.receive(
                        self.now,
                        FourTuple::new(client, Some(SERVER.ip())),
                        &datagram.contents,
                    );
                } else {
                    self.client.receive(
                        self.now,
                        FourTuple::new(SERVER, Some(client.ip())),
                        &datagram.contents,
                    );
                }
            }
        }
        self.now = end;
    }

    fn run_hosts(&mut self) {
        let now = self.now;
        let Self { client, server, wires, flying, launched, dice, sending_room, .. } = self;
        let mut send = |to_server: bool, link: usize, transmit: &Transmit, bytes: &[u8]| {
            let wire = &mut wires[link][usize::from(!to_server)];
            for contents in datagrams(transmit, bytes) {
                if let Some(arrival) = wire.send(now, contents.len(), dice.roll()) {
                    *launched += 1;
                    flying.insert((arrival, *launched), Datagram { to_server, link, contents });
                }
            }
            sending_room.map_or(now, |room| wire.has_room_at(room))
        };
        client.run(now, |transmit, bytes| send(true, transmit.src_ip.map_or(0, link_of), transmit, bytes));
        server.run(now, |transmit, bytes| send(false, link_of(transmit.destination.ip()), transmit, bytes));
    }

    /// What happened to paths at both ends, for a test that fails.
    fn story(&self) -> String {
        let of = |host: &Host, name| host.story().into_iter().map(move |(at, what)| (at, name, what));
        let mut story: Vec<_> = of(&self.client, "client").chain(of(&self.server, "server")).collect();
        story.sort_by_key(|(at, ..)| *at);
        let line = |(at, name, what): (Timestamp, &str, String)| {
            format!("{:9.1} {name} {what}\n", at.ms_from(BEGIN))
        };
        story.into_iter().map(line).collect()
    }

    /// Bytes that the links have delivered to the server since the beginning.
    fn uploaded(&self) -> Vec<u64> {
        self.wires.iter().map(|wires| wires[0].delivered_bytes).collect()
    }

    /// Bytes that the links have delivered to the client since the beginning.
    fn downloaded(&self) -> Vec<u64> {
        self.wires.iter().map(|wires| wires[1].delivered_bytes).collect()
    }

    /// Runs, and gives the bytes that each link delivered to the client meanwhile.
    fn download_for(&mut self, duration: Duration) -> Vec<u64> {
        let before = self.downloaded();
        self.run_for(duration);
        self.downloaded().iter().zip(before).map(|(after, before)| after - before).collect()
    }

    /// Runs, and gives the bytes that each link delivered to the server meanwhile.
    fn upload_for(&mut self, duration: Duration) -> Vec<u64> {
        let before = self.uploaded();
        self.run_for(duration);
        self.uploaded().iter().zip(before).map(|(after, before)| after - before).collect()
    }
}

fn datagrams<'a>(transmit: &Transmit, bytes: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + use<'a> {
    let size = transmit.segment_size.unwrap_or(bytes.len()).max(1);
    bytes.chunks(size).map(<[u8]>::to_vec)
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Part of `capacity_bps` that `bytes` in `duration` are.
fn utilisation(bytes: u64, duration: Duration, capacity_bps: u64) -> f64 {
    bytes as f64 * 8.0 / duration.as_secs_f64() / capacity_bps as f64
}
