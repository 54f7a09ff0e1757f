//! Two hosts and two paths between them, each through a router with its own path MTU.
//!
//! ```text
//!            9000 ┌ router 0 ┐ 9000
//!   client ──────┤          ├────── server (an address on neither path)
//!            9000 └ router 1 ┘ 9000
//! ```

use crate::quic::Service;
use crate::two_links::{LINKS, TwoLinks};
use pathbench_host::firewall::{Firewall, RouterRules, TooBigTreatment};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, RouteSocket, VethEnd, VethPair};
use pathbench_host::qdisc::Shaper;
use pathbench_host::sysctl;
use pathbench_record::network::IpNet;
use pathbench_transport::{ConnectionSnapshot, ListenOptions, QuicOptions, Session};
use std::net::{IpAddr, Ipv6Addr};

/// MTU of every interface.
const INTERFACE_MTU: u32 = 9000;
/// The routers' interfaces.
const SIDES: [&str; 2] = ["inner", "outer"];

/// The hosts and routers.
pub(crate) struct RoutedTopology {
    pub(crate) client: NetNamespace,
    server: NetNamespace,
    routers: [NetNamespace; 2],
    ipv6: bool,
}

/// The position of an address on a path.
#[derive(Clone, Copy)]
enum Node {
    Client = 1,
    RouterInner = 2,
    RouterOuter = 3,
    Server = 4,
}

impl RoutedTopology {
    /// Paths with these path MTUs in bytes; with `icmp`, the routers report packets that are too big.
    pub(crate) fn new(mtus: [u32; 2], icmp: bool, ipv6: bool) -> Self {
        let namespace = || NetNamespace::create().expect("a namespace");
        let topology =
            Self { client: namespace(), server: namespace(), routers: [namespace(), namespace()], ipv6 };
        for index in 0..2 {
            topology.connect_router(index);
        }
        let mut socket = open(&topology.server);
        let loopback = socket.link("lo").expect("loopback").index;
        socket.set_loopback_up().expect("up");
        socket.add_address(loopback, IpNet::from(topology.server_loopback())).expect("an address");
        for (index, mtu) in mtus.into_iter().enumerate() {
            topology.set_mtu(index, mtu);
            let too_big = if icmp { TooBigTreatment::Sent } else { TooBigTreatment::Dropped };
            let mut firewall = Firewall::open_in(&topology.routers[index]).expect("a firewall");
            firewall.apply(&RouterRules { too_big, ..RouterRules::default() }).expect("rules");
        }
        for namespace in [&topology.client, &topology.server, &topology.routers[0], &topology.routers[1]] {
            // A query for one interface makes the kernel update its operational state.
            let names: Vec<String> =
                open(namespace).links().expect("links").into_iter().map(|link| link.name).collect();
            for name in names {
                let _ = open(namespace).link(&name).expect("the interface");
            }
        }
        topology
    }

    fn address(&self, index: usize, node: Node) -> IpAddr {
        let side = u8::from(matches!(node, Node::RouterOuter | Node::Server));
        if self.ipv6 {
            Ipv6Addr::new(0xfd00, 0, 0, index as u16, side.into(), 0, 0, node as u16).into()
        } else {
            IpAddr::from([10, side, index as u8 + 1, node as u8])
        }
    }

    fn server_loopback(&self) -> IpAddr {
        if self.ipv6 {
            Ipv6Addr::new(0xfd00, 0, 0, 9, 0, 0, 0, 9).into()
        } else {
            IpAddr::from([10, 9, 9, 9])
        }
    }

    fn connect_router(&self, index: usize) {
        let router = &self.routers[index];
        let forward = || {
            sysctl::write("net.ipv4.ip_forward", "1").expect("forwarding");
            sysctl::write("net.ipv6.conf.all.forwarding", "1").expect("forwarding");
            // A router solicits no neighbours while its link-local addresses are tentative.
            sysctl::write("net.ipv6.conf.default.accept_dad", "0").expect("settled addresses");
        };
        router.run_in(forward).expect("the router");
        let halves = [
            (&self.client, Node::Client, Node::RouterInner),
            (&self.server, Node::Server, Node::RouterOuter),
        ];
        for ((host, at_host, at_router), side) in halves.into_iter().zip(SIDES) {
            let first = VethEnd { name: LINKS[index], namespace: host, mtu: INTERFACE_MTU };
            let second = VethEnd { name: side, namespace: router, mtu: INTERFACE_MTU };
            open(host).create_veth(&VethPair { first, second }).expect("a link");
            for (namespace, name, node) in [(host, LINKS[index], at_host), (router, side, at_router)] {
                let mut socket = open(namespace);
                let link = socket.link(name).expect("the link's end").index;
                let prefix = if self.ipv6 { 80 } else { 24 };
                let network = IpNet::new(self.address(index, node), prefix).expect("a network");
                socket.add_address(link, network).expect("an address");
                socket.set_up(link).expect("up");
            }
        }
        let route = |host: &NetNamespace, to: IpAddr, via: IpAddr, metric: u32| {
            let mut socket = open(host);
            let interface = Some(socket.link(LINKS[index]).expect("the link's end").index);
            let route =
                Route { gateway: Some(via), interface, metric: Some(metric), ..Route::new(IpNet::from(to)) };
            socket.replace_route(&route).expect("a route");
        };
        route(&self.client, self.server_loopback(), self.address(index, Node::RouterInner), index as u32 + 1);
        route(&self.server, self.address(index, Node::Client), self.address(index, Node::RouterOuter), 1);
    }

    /// Limits the packet size that a path's router forwards, in both directions.
    pub(crate) fn set_mtu(&self, index: usize, mtu: u32) {
        let mut socket = open(&self.routers[index]);
        let far_ends = [
            (SIDES[0], self.address(index, Node::Client), None),
            (SIDES[1], self.server_loopback(), Some(self.address(index, Node::Server))),
        ];
        for (side, to, gateway) in far_ends {
            let interface = Some(socket.link(side).expect("the router's end").index);
            let route = Route {
                gateway,
                interface,
                mtu: Some(mtu),
                mtu_locked: true,
                metric: Some(1),
                ..Route::new(IpNet::from(to))
            };
            socket.replace_route(&route).expect("a route");
        }
    }

    /// Limits the rate of every path and direction at the routers, with a queue of 50 ms.
    pub(crate) fn shape(&self, rate_bps: u64) {
        for router in &self.routers {
            let mut socket = open(router);
            for side in SIDES {
                let interface = socket.link(side).expect("the router's end").index;
                let shaper = Shaper::new(rate_bps, INTERFACE_MTU, rate_bps / 8 / 20);
                socket.install_shaper(interface, &shaper).expect("a shaper");
            }
        }
    }

    /// A QUIC server on the server host.
    pub(crate) fn serve(&self) -> Service {
        let address = self.server_loopback();
        self.server
            .run_in(|| Service::listen_quic(address, ListenOptions::default()))
            .expect("the server's host")
    }

    /// A session with both paths, to be opened on the client host.
    pub(crate) fn session(service: &Service) -> Session {
        TwoLinks::session(service, QuicOptions::default())
    }

    /// The path with this client address.
    pub(crate) fn path_index(&self, client: IpAddr) -> Option<usize> {
        (0..2).find(|index| self.address(*index, Node::Client) == client)
    }

    /// The path MTU of each open path, from a snapshot of the client or the server.
    pub(crate) fn path_mtus(&self, seen: &ConnectionSnapshot) -> [u32; 2] {
        let mut found = [0; 2];
        for path in
            seen.subflows.iter().filter(|path| path.state == pathbench_record::sample::PathState::Open)
        {
            let index = self.path_index(path.local.ip()).or_else(|| self.path_index(path.remote.ip()));
            found[index.expect("one of the topology")] = path.pmtu_bytes;
        }
        found
    }
}

fn open(namespace: &NetNamespace) -> RouteSocket {
    RouteSocket::open_in(namespace).expect("a netlink socket")
}
