//! Two hosts with two links between them, and a server address on neither link.

use crate::quic::{Service, clock};
use crate::support::{PATIENCE, add_endpoint, listen};
use pathbench_host::mptcp::{MptcpLimits, PathManager};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, RouteSocket, VethEnd, VethPair};
use pathbench_host::qdisc::Shaper;
use pathbench_record::network::IpNet;
use pathbench_record::transport::Transport;
use pathbench_transport::{
    ConnectOptions, ConnectionSnapshot, ListenOptions, Listener, LocalPath, QuicOptions, Session,
};
use std::net::IpAddr;

/// Interface names of the links, at both ends.
pub(crate) const LINKS: [&str; 2] = ["first", "second"];

/// The two hosts.
pub(crate) struct TwoLinks {
    pub(crate) client: NetNamespace,
    server: NetNamespace,
    mtus: [u32; 2],
}

/// The client's address on a link.
pub(crate) fn client_address(link: usize) -> IpAddr {
    IpAddr::from([10, 0, link as u8 + 1, 1])
}

fn server_address(link: usize) -> IpAddr {
    IpAddr::from([10, 0, link as u8 + 1, 2])
}

fn server_loopback() -> IpAddr {
    IpAddr::from([10, 9, 9, 9])
}

impl TwoLinks {
    /// Links with these MTUs in bytes.
    pub(crate) fn new(mtus: [u32; 2]) -> Self {
        let client = NetNamespace::create().expect("a namespace");
        let server = NetNamespace::create().expect("a namespace");
        let two = Self { client, server, mtus };
        let mut at = two.sockets();
        for (index, mtu) in mtus.into_iter().enumerate() {
            let first = VethEnd { name: LINKS[index], namespace: &two.client, mtu };
            let second = VethEnd { name: LINKS[index], namespace: &two.server, mtu };
            at[0].create_veth(&VethPair { first, second }).expect("a link");
            for (socket, address) in at.iter_mut().zip([client_address(index), server_address(index)]) {
                let link = socket.link(LINKS[index]).expect("the link's end").index;
                socket.add_address(link, IpNet::new(address, 24).expect("a network")).expect("an address");
                socket.set_up(link).expect("up");
            }
        }
        let loopback = at[1].link("lo").expect("loopback").index;
        at[1].set_loopback_up().expect("up");
        at[1].add_address(loopback, IpNet::from(server_loopback())).expect("an address");
        for (index, link) in LINKS.into_iter().enumerate() {
            two.route(index);
            // A query for one interface makes the kernel update its operational state.
            for socket in &mut at {
                let _ = socket.link(link).expect("the link's end");
            }
        }
        two
    }

    fn sockets(&self) -> [RouteSocket; 2] {
        [&self.client, &self.server].map(|host| RouteSocket::open_in(host).expect("a netlink socket"))
    }

    /// The client's route to the server over a link; the kernel removes it when the interface goes down.
    fn route(&self, link: usize) {
        let mut socket = RouteSocket::open_in(&self.client).expect("a netlink socket");
        let interface = socket.link(LINKS[link]).expect("the link's end").index;
        let route = Route {
            gateway: Some(server_address(link)),
            interface: Some(interface),
            metric: Some(link as u32 + 1),
            ..Route::new(IpNet::from(server_loopback()))
        };
        socket.replace_route(&route).expect("a route");
    }

    /// Sets the client's end of a link down, or up with its route.
    pub(crate) fn set_up(&self, link: usize, up: bool) {
        let mut socket = RouteSocket::open_in(&self.client).expect("a netlink socket");
        let interface = socket.link(LINKS[link]).expect("the link's end").index;
        if up {
            socket.set_up(interface).expect("up");
            self.route(link);
            let _ = socket.link(LINKS[link]).expect("the link's end");
        } else {
            socket.set_down(interface).expect("down");
        }
    }

    /// Shapes both directions of a link.
    pub(crate) fn shape(&self, link: usize, rate_bps: u64) {
        for mut socket in self.sockets() {
            let interface = socket.link(LINKS[link]).expect("the link's end").index;
            let shaper = Shaper::new(rate_bps, self.mtus[link], rate_bps / 8 / 20);
            socket.install_shaper(interface, &shaper).expect("a shaper");
        }
    }

    /// Drops all packets on a link silently: no packet fits into the queue.
    pub(crate) fn blackhole(&self, link: usize) {
        for mut socket in self.sockets() {
            let interface = socket.link(LINKS[link]).expect("the link's end").index;
            let _ = socket.remove_shaper(interface);
            let shaper = Shaper {
                rate_bps: pathbench_host::qdisc::MIN_RATE_BPS,
                burst_bytes: 1600,
                queue_bytes: 1,
                netem: None,
            };
            socket.install_shaper(interface, &shaper).expect("a shaper");
        }
    }

    /// Forwards all packets on a link again.
    pub(crate) fn restore(&self, link: usize) {
        for mut socket in self.sockets() {
            let interface = socket.link(LINKS[link]).expect("the link's end").index;
            let _ = socket.remove_shaper(interface);
        }
    }

    /// A listener of MPTCP on the server host.
    pub(crate) fn listen_mptcp(&self) -> Listener {
        self.server.run_in(|| listen(Transport::Mptcp, server_loopback())).expect("the server's host")
    }

    /// The highest limits of MPTCP for both hosts, and so many more addresses of the client on the first link, each of
    /// them an endpoint.
    pub(crate) fn add_endpoints(&self, count: u8) {
        let limits = MptcpLimits { subflows: 8, add_addr_accepted: 8 };
        let [mut manager, _] = [&self.client, &self.server].map(|host| {
            let mut manager = PathManager::open_in(host).expect("the path manager");
            manager.set_limits(&limits).expect("the limits");
            manager
        });
        let [mut socket, _] = self.sockets();
        let link = socket.link(LINKS[0]).expect("the link's end").index;
        for last in 0..count {
            let address = IpAddr::from([10, 0, 1, 11 + last]);
            socket.add_address(link, IpNet::new(address, 24).expect("a network")).expect("an address");
            add_endpoint(&mut manager, address, link);
        }
    }

    /// A QUIC server on the server host.
    pub(crate) fn serve(&self, quic: QuicOptions) -> Service {
        let options = ListenOptions { quic, ..ListenOptions::default() };
        self.server.run_in(|| Service::listen_quic(server_loopback(), options)).expect("the server's host")
    }

    /// A QUIC server on the server host that negotiates a single path.
    pub(crate) fn serve_single_path(&self) -> Service {
        let serve = || Service::listen(Transport::Quic, server_loopback(), ListenOptions::default());
        self.server.run_in(serve).expect("the server's host")
    }

    /// A session with a path over each link, to be opened on the client host.
    pub(crate) fn session(service: &Service, quic: QuicOptions) -> Session {
        let paths = LINKS.iter().map(|link| LocalPath::new((*link).to_owned()));
        let quic = QuicOptions { paths: paths.collect(), ..quic };
        let options = ConnectOptions { quic, timeout: PATIENCE, ..service.options() };
        Session::new(Transport::Mpquic, options, clock())
    }
}

/// Bytes sent and received by the paths of a client address.
pub(crate) fn carried(snapshot: &ConnectionSnapshot, link: usize) -> (u64, u64) {
    let own = snapshot.subflows.iter().filter(|path| path.local.ip() == client_address(link));
    own.fold((0, 0), |(sent, received), path| (sent + path.bytes_sent, received + path.bytes_received))
}
