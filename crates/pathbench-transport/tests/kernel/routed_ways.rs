//! Two hosts and two ways between them, each with a router in its middle that has a path MTU of its own.
//!
//! ```text
//!            9000 ┌ router 0 ┐ 9000
//!   client ──────┤          ├────── server (an address on neither way)
//!            9000 └ router 1 ┘ 9000
//! ```

use crate::quic::Service;
use crate::two_ways::{TwoWays, WIRES};
use pathbench_host::firewall::{Firewall, RouterRules, TooBig};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, RouteSocket, VethEnd, VethPair};
use pathbench_host::qdisc::{QueueLimit, Shaper};
use pathbench_host::sysctl;
use pathbench_record::network::IpNetwork;
use pathbench_transport::{ConnectionSnapshot, ListenOptions, QuicOptions, Session};
use std::net::{IpAddr, Ipv6Addr};

/// Of every interface.
const INTERFACE_MTU: u32 = 9000;
/// The routers' interfaces.
const SIDES: [&str; 2] = ["inner", "outer"];

/// The hosts and routers.
pub(crate) struct RoutedWays {
    pub(crate) client: NetNamespace,
    server: NetNamespace,
    routers: [NetNamespace; 2],
    ipv6: bool,
}

/// Which of the addresses on a way.
#[derive(Clone, Copy)]
enum Place {
    Client = 1,
    RouterInner = 2,
    RouterOuter = 3,
    Server = 4,
}

impl RoutedWays {
    /// Ways of these path MTUs in bytes, whose routers tell senders of packets that are too big, or do not.
    pub(crate) fn new(mtus: [u32; 2], icmp: bool, ipv6: bool) -> Self {
        let namespace = || NetNamespace::create().expect("a namespace");
        let ways =
            Self { client: namespace(), server: namespace(), routers: [namespace(), namespace()], ipv6 };
        for way in 0..2 {
            ways.lay(way);
        }
        let mut socket = open(&ways.server);
        let loopback = socket.link("lo").expect("loopback").index;
        socket.set_loopback_up().expect("up");
        socket.add_address(loopback, IpNetwork::host(ways.server_loopback())).expect("an address");
        for (way, mtu) in mtus.into_iter().enumerate() {
            ways.set_mtu(way, mtu);
            let too_big = if icmp { TooBig::Sent } else { TooBig::Dropped };
            let mut firewall = Firewall::open_in(&ways.routers[way]).expect("a firewall");
            firewall.apply(&RouterRules { too_big, ..RouterRules::default() }).expect("rules");
        }
        for namespace in [&ways.client, &ways.server, &ways.routers[0], &ways.routers[1]] {
            // Asking for an interface alone makes the kernel take note that it is ready.
            let names: Vec<String> =
                open(namespace).links().expect("links").into_iter().map(|link| link.name).collect();
            for name in names {
                let _ = open(namespace).link(&name).expect("the interface");
            }
        }
        ways
    }

    fn address(&self, way: usize, place: Place) -> IpAddr {
        let side = u8::from(matches!(place, Place::RouterOuter | Place::Server));
        if self.ipv6 {
            Ipv6Addr::new(0xfd00, 0, 0, way as u16, side.into(), 0, 0, place as u16).into()
        } else {
            IpAddr::from([10, side, way as u8 + 1, place as u8])
        }
    }

    fn server_loopback(&self) -> IpAddr {
        if self.ipv6 {
            Ipv6Addr::new(0xfd00, 0, 0, 9, 0, 0, 0, 9).into()
        } else {
            IpAddr::from([10, 9, 9, 9])
        }
    }

    fn lay(&self, way: usize) {
        let router = &self.routers[way];
        let halves = [
            (&self.client, Place::Client, Place::RouterInner),
            (&self.server, Place::Server, Place::RouterOuter),
        ];
        for ((host, at_host, at_router), side) in halves.into_iter().zip(SIDES) {
            let first = VethEnd { name: WIRES[way], namespace: host, mtu: INTERFACE_MTU };
            let second = VethEnd { name: side, namespace: router, mtu: INTERFACE_MTU };
            open(host).create_veth(&VethPair { first, second }).expect("a wire");
            for (namespace, name, place) in [(host, WIRES[way], at_host), (router, side, at_router)] {
                let mut socket = open(namespace);
                let link = socket.link(name).expect("the wire's end").index;
                let prefix = if self.ipv6 { 80 } else { 24 };
                let network = IpNetwork::new(self.address(way, place), prefix).expect("a network");
                socket.add_address(link, network).expect("an address");
                socket.set_up(link).expect("up");
            }
        }
        let forward = || {
            sysctl::write("net.ipv4.ip_forward", "1").expect("forwarding");
            sysctl::write("net.ipv6.conf.all.forwarding", "1").expect("forwarding");
        };
        router.run_in(forward).expect("the router");
        let route = |host: &NetNamespace, to: IpAddr, via: IpAddr, metric: u32| {
            let mut socket = open(host);
            let interface = Some(socket.link(WIRES[way]).expect("the wire's end").index);
            let route = Route {
                gateway: Some(via),
                interface,
                metric: Some(metric),
                ..Route::to(IpNetwork::host(to))
            };
            socket.replace_route(&route).expect("a route");
        };
        route(&self.client, self.server_loopback(), self.address(way, Place::RouterInner), way as u32 + 1);
        route(&self.server, self.address(way, Place::Client), self.address(way, Place::RouterOuter), 1);
    }

    /// From now on a way's router lets nothing longer through, in either direction.
    pub(crate) fn set_mtu(&self, way: usize, mtu: u32) {
        let mut socket = open(&self.routers[way]);
        let far_ends = [
            (SIDES[0], self.address(way, Place::Client), None),
            (SIDES[1], self.server_loopback(), Some(self.address(way, Place::Server))),
        ];
        for (side, to, gateway) in far_ends {
            let interface = Some(socket.link(side).expect("the router's end").index);
            let route = Route {
                gateway,
                interface,
                mtu: Some(mtu),
                mtu_locked: true,
                metric: Some(1),
                ..Route::to(IpNetwork::host(to))
            };
            socket.replace_route(&route).expect("a route");
        }
    }

    /// Limits what the routers forward, each way and direction, with a queue of 50 ms.
    pub(crate) fn shape(&self, rate_bps: u64) {
        for router in &self.routers {
            let mut socket = open(router);
            for side in SIDES {
                let interface = socket.link(side).expect("the router's end").index;
                let shaper = Shaper::new(rate_bps, INTERFACE_MTU, QueueLimit::Bytes(rate_bps / 8 / 20));
                socket.install_shaper(interface, &shaper).expect("a shaper");
            }
        }
    }

    /// A QUIC server on the server's host.
    pub(crate) fn serve(&self) -> Service {
        let address = self.server_loopback();
        self.server.run_in(|| Service::at(address, ListenOptions::default())).expect("the server's host")
    }

    /// A session with a path by each way, to be opened on the client's host.
    pub(crate) fn session(service: &Service) -> Session {
        TwoWays::session(service, QuicOptions::default())
    }

    /// Which way a path of the snapshot takes, by the client's address.
    pub(crate) fn way_of(&self, client: IpAddr) -> Option<usize> {
        (0..2).find(|way| self.address(*way, Place::Client) == client)
    }

    /// Path MTU of the open path on each way, as the client's or the server's figures have it.
    pub(crate) fn path_mtus(&self, seen: &ConnectionSnapshot) -> [u32; 2] {
        let mut found = [0; 2];
        for path in
            seen.subflows.iter().filter(|path| path.state == pathbench_record::sample::PathState::Open)
        {
            let way = self.way_of(path.local.ip()).or_else(|| self.way_of(path.remote.ip()));
            found[way.expect("one of the ways")] = path.pmtu_bytes;
        }
        found
    }
}

fn open(namespace: &NetNamespace) -> RouteSocket {
    RouteSocket::open_in(namespace).expect("a netlink socket")
}
