//! Two hosts with two wires between them, and a server that has an address on neither.

use crate::quic::{Service, clock};
use crate::support::PATIENCE;
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, RouteSocket, VethEnd, VethPair};
use pathbench_host::qdisc::{QueueLimit, Shaper};
use pathbench_record::network::IpNetwork;
use pathbench_record::transport::Transport;
use pathbench_transport::{
    ConnectOptions, ConnectionSnapshot, ListenOptions, LocalPath, QuicOptions, Session,
};
use std::net::IpAddr;

/// The wires' names at both ends.
pub(crate) const WIRES: [&str; 2] = ["first", "second"];

/// The two hosts.
pub(crate) struct TwoWays {
    pub(crate) client: NetNamespace,
    server: NetNamespace,
    mtus: [u32; 2],
}

/// The client's address on a wire.
pub(crate) fn client_address(wire: usize) -> IpAddr {
    IpAddr::from([10, 0, wire as u8 + 1, 1])
}

fn server_address(wire: usize) -> IpAddr {
    IpAddr::from([10, 0, wire as u8 + 1, 2])
}

fn server_loopback() -> IpAddr {
    IpAddr::from([10, 9, 9, 9])
}

impl TwoWays {
    /// Wires of these MTUs in bytes.
    pub(crate) fn new(mtus: [u32; 2]) -> Self {
        let client = NetNamespace::create().expect("a namespace");
        let server = NetNamespace::create().expect("a namespace");
        let two = Self { client, server, mtus };
        let mut at = two.sockets();
        for (index, mtu) in mtus.into_iter().enumerate() {
            let first = VethEnd { name: WIRES[index], namespace: &two.client, mtu };
            let second = VethEnd { name: WIRES[index], namespace: &two.server, mtu };
            at[0].create_veth(&VethPair { first, second }).expect("a wire");
            for (socket, address) in at.iter_mut().zip([client_address(index), server_address(index)]) {
                let link = socket.link(WIRES[index]).expect("the wire's end").index;
                socket
                    .add_address(link, IpNetwork::new(address, 24).expect("a network"))
                    .expect("an address");
                socket.set_up(link).expect("up");
            }
        }
        let loopback = at[1].link("lo").expect("loopback").index;
        at[1].set_loopback_up().expect("up");
        at[1].add_address(loopback, IpNetwork::host(server_loopback())).expect("an address");
        for (index, wire) in WIRES.into_iter().enumerate() {
            two.route(index);
            // Asking for an interface alone makes the kernel take note that it is ready.
            for socket in &mut at {
                let _ = socket.link(wire).expect("the wire's end");
            }
        }
        two
    }

    fn sockets(&self) -> [RouteSocket; 2] {
        [&self.client, &self.server].map(|host| RouteSocket::open_in(host).expect("a netlink socket"))
    }

    /// The client's way to the server by a wire; the kernel forgets it when the interface goes down.
    fn route(&self, wire: usize) {
        let mut socket = RouteSocket::open_in(&self.client).expect("a netlink socket");
        let interface = socket.link(WIRES[wire]).expect("the wire's end").index;
        let route = Route {
            gateway: Some(server_address(wire)),
            interface: Some(interface),
            metric: Some(wire as u32 + 1),
            ..Route::to(IpNetwork::host(server_loopback()))
        };
        socket.replace_route(&route).expect("a route");
    }

    /// Takes the client's end of a wire down, or brings it and its route back up.
    pub(crate) fn set_up(&self, wire: usize, up: bool) {
        let mut socket = RouteSocket::open_in(&self.client).expect("a netlink socket");
        let interface = socket.link(WIRES[wire]).expect("the wire's end").index;
        if up {
            socket.set_up(interface).expect("up");
            self.route(wire);
            let _ = socket.link(WIRES[wire]).expect("the wire's end");
        } else {
            socket.set_down(interface).expect("down");
        }
    }

    /// Limits what both ends of a wire send.
    pub(crate) fn shape(&self, wire: usize, rate_bps: u64) {
        for mut socket in self.sockets() {
            let interface = socket.link(WIRES[wire]).expect("the wire's end").index;
            let shaper = Shaper::new(rate_bps, self.mtus[wire], QueueLimit::Bytes(rate_bps / 8 / 20));
            socket.install_shaper(interface, &shaper).expect("a shaper");
        }
    }

    /// Lets nothing through a wire any more, without a word: no packet fits the queue.
    pub(crate) fn blackhole(&self, wire: usize) {
        for mut socket in self.sockets() {
            let interface = socket.link(WIRES[wire]).expect("the wire's end").index;
            let _ = socket.remove_shaper(interface);
            let shaper = Shaper {
                rate_bps: pathbench_host::qdisc::MIN_RATE_BPS,
                burst_bytes: 1600,
                queue: QueueLimit::Bytes(1),
                netem: None,
            };
            socket.install_shaper(interface, &shaper).expect("a shaper");
        }
    }

    /// Lets everything through a wire again.
    pub(crate) fn restore(&self, wire: usize) {
        for mut socket in self.sockets() {
            let interface = socket.link(WIRES[wire]).expect("the wire's end").index;
            let _ = socket.remove_shaper(interface);
        }
    }

    /// A QUIC server on the server's host.
    pub(crate) fn serve(&self, quic: QuicOptions) -> Service {
        let options = ListenOptions { quic, ..ListenOptions::default() };
        self.server.run_in(|| Service::at(server_loopback(), options)).expect("the server's host")
    }

    /// A QUIC server on the server's host that agrees to one path only.
    pub(crate) fn serve_single_path(&self) -> Service {
        let serve = || Service::over(Transport::Quic, server_loopback(), ListenOptions::default());
        self.server.run_in(serve).expect("the server's host")
    }

    /// A session with a path by each wire, to be opened on the client's host.
    pub(crate) fn session(service: &Service, quic: QuicOptions) -> Session {
        let paths = WIRES.iter().map(|wire| LocalPath::by((*wire).to_owned()));
        let quic = QuicOptions { paths: paths.collect(), ..quic };
        let options = ConnectOptions { quic, timeout: PATIENCE, ..service.options() };
        Session::new(Transport::Mpquic, options, clock())
    }
}

/// Bytes that the paths of a client's address have sent and received.
pub(crate) fn carried(snapshot: &ConnectionSnapshot, wire: usize) -> (u64, u64) {
    let own = snapshot.subflows.iter().filter(|path| path.local.ip() == client_address(wire));
    own.fold((0, 0), |(sent, received), path| (sent + path.bytes_sent, received + path.bytes_received))
}
