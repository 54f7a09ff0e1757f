//! A client, two routers and a server in a row; the link between the routers may be narrow.
//!
//! ```text
//!  client ── 9000 ── near router ── narrow ── far router ── 9000 ── server
//! ```

use libtest_mimic::Failed;
use pathbench_host::firewall::{Firewall, RouterRules, TooBigTreatment};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, RouteSocket, VethEnd, VethPair};
use pathbench_host::sysctl;
use pathbench_record::network::IpNet;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::{MonotonicClock, ensure};
use pathbench_traffic::server::{Access, Server, ServerOptions};
use pathbench_transport::ServerIdentity;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// MTU of the outer links.
pub(crate) const WIDE: u32 = 9000;
/// The client's interface.
pub(crate) const INTERFACE: &str = "wide";

pub(crate) struct Host {
    pub(crate) namespace: NetNamespace,
    pub(crate) socket: RouteSocket,
}

pub(crate) struct Chain {
    pub(crate) client: Host,
    routers: [Host; 2],
    firewalls: [Firewall; 2],
    pub(crate) server: Host,
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

/// Of the `link`-th link from the client, its nearer (1) or farther (2) end.
pub(crate) fn v4(link: u8, end: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, link, end).into()
}

/// The same.
pub(crate) fn v6(link: u8, end: u8) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, u16::from(link), 0, 0, 0, u16::from(end)).into()
}

impl Host {
    fn new() -> Result<Self, Failed> {
        let namespace = NetNamespace::create()?;
        let mut socket = RouteSocket::open_in(&namespace)?;
        socket.set_loopback_up()?;
        Ok(Self { namespace, socket })
    }

    fn router() -> Result<Self, Failed> {
        let host = Self::new()?;
        host.namespace.run_in(|| {
            sysctl::write("net.ipv4.ip_forward", "1")?;
            sysctl::write("net.ipv6.conf.all.forwarding", "1")?;
            // A router solicits no neighbours while its link-local addresses are tentative; on a busy host this may
            // outlast the 3 s after which it reports an address as unreachable.
            sysctl::write("net.ipv6.conf.default.accept_dad", "0")
        })??;
        Ok(host)
    }

    fn index(&mut self, name: &str) -> Result<u32, Failed> {
        Ok(self.socket.link(name)?.index)
    }

    fn end(&mut self, name: &str, link: u8, end: u8) -> Result<(), Failed> {
        let index = self.index(name)?;
        self.socket.set_up(index)?;
        self.socket.add_address(index, IpNet::new(v4(link, end), 24)?)?;
        self.socket.add_address(index, IpNet::new(v6(link, end), 64)?)?;
        Ok(())
    }

    /// Waits until an end carries packets and packets to its address are delivered: until then the kernel drops packets,
    /// and it repeats a lost neighbour solicitation only after a second.
    fn wait_for(&mut self, name: &str, link: u8, end: u8) -> Result<(), Failed> {
        let clock = clock();
        let deadline = clock.now() + Duration::from_secs(10);
        while !(self.socket.link(name)?.running && self.socket.delivers(v6(link, end))?) {
            ensure!(clock.now() < deadline, "{name} does not get ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn route(&mut self, to: u8, link: u8, end: u8) -> Result<(), Failed> {
        for (to, prefix, via) in [(v4(to, 0), 24, v4(link, end)), (v6(to, 0), 64, v6(link, end))] {
            let route = Route { gateway: Some(via), ..Route::new(IpNet::new(to, prefix)?) };
            self.socket.add_route(&route)?;
        }
        Ok(())
    }
}

impl Chain {
    /// A chain whose middle link takes `narrow` bytes; the routers send ICMP or not.
    pub(crate) fn new(narrow: u32, too_big: TooBigTreatment) -> Result<Self, Failed> {
        let (mut client, mut server) = (Host::new()?, Host::new()?);
        let (mut near, mut far) = (Host::router()?, Host::router()?);
        join(&mut client, INTERFACE, &mut near, "client", WIDE)?;
        join(&mut near, "far", &mut far, "near", narrow)?;
        join(&mut far, "server", &mut server, "wide", WIDE)?;
        client.end(INTERFACE, 0, 1)?;
        near.end("client", 0, 2)?;
        near.end("far", 1, 1)?;
        far.end("near", 1, 2)?;
        far.end("server", 2, 1)?;
        server.end("wide", 2, 2)?;
        client.wait_for(INTERFACE, 0, 1)?;
        near.wait_for("client", 0, 2)?;
        near.wait_for("far", 1, 1)?;
        far.wait_for("near", 1, 2)?;
        far.wait_for("server", 2, 1)?;
        server.wait_for("wide", 2, 2)?;
        // Once both ends are up.
        client.route(1, 0, 2)?;
        client.route(2, 0, 2)?;
        near.route(2, 1, 2)?;
        far.route(0, 1, 1)?;
        server.route(0, 2, 1)?;
        server.route(1, 2, 1)?;
        let mut firewalls = [Firewall::open_in(&near.namespace)?, Firewall::open_in(&far.namespace)?];
        for firewall in &mut firewalls {
            firewall.apply(&RouterRules { too_big, ..RouterRules::default() })?;
        }
        Ok(Self { client, routers: [near, far], firewalls, server })
    }

    /// Changes the middle link.
    pub(crate) fn narrow(&mut self, mtu: u32, too_big: TooBigTreatment) -> Result<(), Failed> {
        let [near, far] = &mut self.routers;
        let (near_index, far_index) = (near.index("far")?, far.index("near")?);
        near.socket.set_mtu(near_index, mtu)?;
        far.socket.set_mtu(far_index, mtu)?;
        for firewall in &mut self.firewalls {
            firewall.apply(&RouterRules { too_big, ..RouterRules::default() })?;
        }
        Ok(())
    }

    /// A server without access control, and its UDP port.
    pub(crate) fn serve(&self) -> Result<(Server, u16), Failed> {
        let server = self.server.namespace.run_in(|| -> Result<Server, Failed> {
            let identity = ServerIdentity::self_signed(&["server".to_owned()])?;
            let anywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
            let options = ServerOptions {
                access: Access::Open,
                identity: Some(Arc::new(identity)),
                ..ServerOptions::new(vec![(Transport::Quic, anywhere)])
            };
            Ok(Server::start(options, clock())?)
        })??;
        let port = server.addresses()[0].1.port();
        Ok((server, port))
    }
}

fn join(one: &mut Host, here: &str, other: &mut Host, there: &str, mtu: u32) -> Result<(), Failed> {
    let wire = |name, namespace| VethEnd { name, namespace, mtu };
    one.socket.create_veth(&VethPair {
        first: wire(here, &one.namespace),
        second: wire(there, &other.namespace),
    })?;
    Ok(())
}

/// Repeats `look` until it holds; `false` after `patience`.
pub(crate) fn wait_until(patience: Duration, mut look: impl FnMut() -> bool) -> bool {
    let begun = MonotonicClock.now();
    loop {
        if look() {
            return true;
        }
        if MonotonicClock.now().duration_since(begun) > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
