//! Two hosts and links in virtual time: reproducible tests of the shipped core under many network conditions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed test panics; tests print"
)]

mod churn;
mod closed_paths;
mod datagrams;
mod failover;
mod heartbeats;
mod host;
mod link;
mod mtu;
mod paths;
mod payload;
mod rtt;
mod scheduling;
mod shrink;
mod tampered;
mod traps;
mod withheld;

use host::{Host, HostSetup, Load};
use link::{Dice, Wire, delay_change, link, loss_change, mtu_change};
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{FourTuple, ServerConfig, Transmit, TransportConfig};
use pathbench_link::{LinkChange, LinkModel};
use pathbench_mpquic::{
    CONNECTION_WINDOW_BYTES, CongestionControl, ConnectionSettings, Epoch, LocalInterface, LocalPath,
    LocalSocket, QuicOptions, SocketId,
};
use pathbench_record::connection::{PathEventKind, Scheduler};
use pathbench_record::time::Timestamp;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 4433);
const CLIENT_PORT: u16 = 5000;
const BEGIN: Timestamp = Timestamp::from_nanos(1_000_000_000);

/// The configuration of a simulation.
struct Setup {
    links: Vec<LinkModel>,
    paths: Vec<LocalPath>,
    scheduler: Scheduler,
    multipath: bool,
    /// The library alone, at the client and at the server.
    library_only: [bool; 2],
    /// The largest MTU of the hosts' interfaces.
    mtu_bytes: u32,
    /// A send call blocks until the link's queue is no longer than this. `None`: the link drops packets that exceed its
    /// queue.
    sending_room: Option<Duration>,
    /// Changes the library's configuration, at the client and at the server.
    adjust: [fn(&mut TransportConfig); 2],
    /// Changes the client's cryptography.
    client_crypto: fn(QuicClientConfig) -> Arc<dyn noq_proto::crypto::ClientConfig>,
    seed: u64,
}

impl Setup {
    fn new(links: &[LinkModel], scheduler: Scheduler) -> Self {
        Self {
            links: links.to_vec(),
            paths: (0..links.len()).map(local_path).collect(),
            scheduler,
            multipath: true,
            library_only: [false; 2],
            mtu_bytes: 1500,
            sending_room: None,
            adjust: [|_| {}; 2],
            client_crypto: |crypto| Arc::new(crypto),
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

fn client_socket(link: usize) -> LocalSocket {
    LocalSocket { id: SocketId(link as u32), address: SocketAddr::new(client_address(link), CLIENT_PORT) }
}

/// The client's interface as the kernel reports it.
fn reported(link: usize, up: bool) -> LocalInterface {
    LocalInterface { name: interface(link), up, addresses: vec![client_address(link)] }
}

fn tls() -> (QuicClientConfig, QuicServerConfig) {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = identity.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der()).into();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let versions = [&rustls::version::TLS13];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (client.try_into().unwrap(), server.try_into().unwrap())
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
    /// For each link, the directions to the server and to the client.
    wires: Vec<[Wire; 2]>,
    dice: Dice,
    sending_room: Option<Duration>,
}

impl World {
    /// Two hosts before the handshake.
    fn new(setup: &Setup) -> Self {
        let (client_crypto, server_crypto) = tls();
        let host = |at_server: usize, socket, remote| {
            let library_only = setup.library_only[at_server];
            let wanted = if at_server == 0 { setup.paths.clone() } else { Vec::new() };
            HostSetup {
                epoch: Epoch::starting(BEGIN),
                settings: ConnectionSettings {
                    quic: QuicOptions {
                        scheduler: setup.scheduler.clone(),
                        paths: wanted,
                        ..QuicOptions::default()
                    },
                    control: CongestionControl::default(),
                    multipath: setup.multipath,
                    mtu_bytes: setup.mtu_bytes,
                    send_buffer_bytes: None,
                    receive_window_bytes: CONNECTION_WINDOW_BYTES,
                },
                adjust: setup.adjust[at_server],
                seed: setup.seed,
                library_only,
                socket,
                remote,
            }
        };
        let socket = LocalSocket { id: SocketId(0), address: SERVER };
        let server = host(1, socket, client_socket(0).address);
        let server = Host::new(server, Some(ServerConfig::with_crypto(Arc::new(server_crypto))));
        let mut client = Host::new(host(0, client_socket(0), SERVER), None);
        let interfaces = (0..setup.links.len()).map(|link| reported(link, true)).collect();
        client.connect(BEGIN, (setup.client_crypto)(client_crypto), interfaces);
        let wires = |model: &LinkModel, link: usize| {
            [0, 1].map(|direction| Wire::new(model, setup.seed * 1000 + 2 * link as u64 + direction, BEGIN))
        };
        Self {
            now: BEGIN,
            client,
            server,
            wires: setup.links.iter().enumerate().map(|(link, model)| wires(model, link)).collect(),
            dice: Dice::new(setup.seed),
            sending_room: setup.sending_room,
        }
    }

    /// A connection with all its paths, after half a second without data.
    fn established(setup: &Setup) -> Self {
        let mut world = Self::new(setup);
        world.run_for(Duration::from_millis(500));
        assert!(world.client.connected && world.server.connected, "no handshake in half a second");
        if !setup.library_only[0] {
            assert_eq!(world.open_paths(), setup.links.len(), "paths open after half a second");
        }
        world
    }

    /// Paths that are not abandoned, according to the client.
    fn open_paths(&mut self) -> usize {
        let abandoned: BTreeSet<u64> = self
            .client
            .events()
            .iter()
            .filter_map(|event| {
                matches!(event.kind, PathEventKind::PathAbandoned { .. }).then_some(event.path?)
            })
            .collect();
        let number = |path: &noq_proto::PathId| path.to_string().parse::<u64>().unwrap();
        self.client.connection().paths().iter().filter(|path| !abandoned.contains(&number(path))).count()
    }

    /// The interface comes up and gets its address.
    fn bring_up(&mut self, link: usize) {
        self.set_cut(link, false);
        self.client.report(reported(link, true));
    }

    /// The interface goes down, and the kernel reports it.
    fn bring_down(&mut self, link: usize) {
        self.set_cut(link, true);
        self.client.report(reported(link, false));
    }

    /// With `cut`, the link drops all packets silently in both directions.
    fn set_cut(&mut self, link: usize, cut: bool) {
        for wire in &mut self.wires[link] {
            wire.set_cut(self.now, cut);
        }
    }

    /// As [`Self::set_cut`] in the direction to the server (0) or to the client (1).
    fn cut_direction(&mut self, link: usize, direction: usize, cut: bool) {
        self.wires[link][direction].set_cut(self.now, cut);
    }

    /// Changes a link in both directions.
    fn change(&mut self, link: usize, change: &LinkChange) {
        for wire in &mut self.wires[link] {
            wire.pipe.change(self.now, change);
        }
    }

    /// The server sends as much as possible, on several streams.
    fn start_download(&mut self) {
        self.client.wanted_streams = 4;
        self.server.load = Load::Bulk;
    }

    /// The client sends as much as possible, on several streams.
    fn start_upload(&mut self) {
        self.client.wanted_streams = 4;
        self.client.load = Load::Bulk;
    }

    fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.run_hosts();
            let arrival = self.wires.iter().flatten().filter_map(|wire| wire.pipe.next_deadline()).min();
            let client = self.client.next_timeout(self.now);
            let server = self.server.next_timeout(self.now);
            let next = [arrival, client, server].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            // The time must advance even if a timer remains due.
            self.now = next.max(self.now + Duration::from_nanos(1));
            self.deliver();
        }
        self.now = end;
    }

    /// Hands the datagrams that have arrived to the hosts.
    fn deliver(&mut self) {
        for (link, [to_server, to_client]) in self.wires.iter_mut().enumerate() {
            let client = SocketAddr::new(client_address(link), CLIENT_PORT);
            while let Some(datagram) = to_server.receive(self.now) {
                self.server.receive(self.now, FourTuple::new(client, Some(SERVER.ip())), &datagram);
            }
            while let Some(datagram) = to_client.receive(self.now) {
                self.client.receive(self.now, FourTuple::new(SERVER, Some(client.ip())), &datagram);
            }
        }
    }

    fn run_hosts(&mut self) {
        let now = self.now;
        let Self { client, server, wires, sending_room, .. } = self;
        let mut send = |at: Timestamp, to_server: bool, link: usize, transmit: &Transmit, bytes: &[u8]| {
            let wire = &mut wires[link][usize::from(!to_server)];
            for contents in datagrams(transmit, bytes) {
                wire.send(at, contents);
            }
            sending_room.map_or(at, |room| wire.room_time(at, room))
        };
        client.run(now, |at, socket, transmit, bytes| send(at, true, socket.0 as usize, transmit, bytes));
        server.run(now, |at, _, transmit, bytes| {
            send(at, false, link_of(transmit.destination.ip()), transmit, bytes)
        });
    }

    /// The path events of both ends, for the message of a failed test.
    fn story(&mut self) -> String {
        let mut story: Vec<_> = self.client.events().into_iter().map(|event| (event, "client")).collect();
        story.extend(self.server.events().into_iter().map(|event| (event, "server")));
        story.sort_by_key(|(event, _)| event.at);
        let line = |(event, host): (pathbench_record::connection::PathEvent, &str)| {
            format!("{:9.1} {host} {:?} {:?}\n", event.at.ms_from(BEGIN), event.path, event.kind)
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

    /// Runs for `duration`, and returns the bytes that each link delivered to the client in that time.
    fn download_for(&mut self, duration: Duration) -> Vec<u64> {
        let before = self.downloaded();
        self.run_for(duration);
        self.downloaded().iter().zip(before).map(|(after, before)| after - before).collect()
    }

    /// Runs for `duration`, and returns the bytes that each link delivered to the server in that time.
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

/// The rate of `bytes` in `duration`, as a fraction of `capacity_bps`.
fn utilisation(bytes: u64, duration: Duration, capacity_bps: u64) -> f64 {
    bytes as f64 * 8.0 / duration.as_secs_f64() / capacity_bps as f64
}
