//! Two hosts and an emulated link between them.

use libtest_mimic::Failed;
use pathbench_emulator::plane::{DataPlane, LinkReport, PlaneLink};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::RouteSocket;
use pathbench_host::sysctl;
use pathbench_host::tun::Tun;
use pathbench_link::{BaseDelay, LinkModel};
use pathbench_record::network::IpNet;
use pathbench_record::time::Clock;
use pathbench_testkit::{MonotonicClock, ensure};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const MTU: u32 = 1_500;
/// The interface's name in both hosts.
pub(crate) const INTERFACE: &str = "pbt-0";

/// A host: its namespace, and a socket to control it with.
pub(crate) struct Host {
    pub(crate) namespace: NetNamespace,
    pub(crate) socket: RouteSocket,
    pub(crate) index: u32,
}

/// `client` (the first end) and `server` (the second).
pub(crate) struct Lab {
    pub(crate) client: Host,
    pub(crate) server: Host,
    pub(crate) plane: DataPlane,
    pub(crate) link: usize,
}

/// The client's (1) or the server's (2) address.
pub(crate) fn v4(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 9, 0, host).into()
}

/// The client's (1) or the server's (2) address.
pub(crate) fn v6(host: u8) -> IpAddr {
    Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, u16::from(host)).into()
}

/// A model that only delays.
pub(crate) fn delayed(delay: Duration) -> LinkModel {
    let delay = BaseDelay::Constant(delay);
    LinkModel { delay, ..LinkModel::default() }
}

impl Lab {
    /// A lab whose link has the same model in both directions.
    pub(crate) fn symmetric(model: &LinkModel) -> Result<Self, Failed> {
        Self::new([model.clone(), model.clone()], [1, 2], None)
    }

    /// The same, but the hosts cut their packets themselves.
    pub(crate) fn without_offload(model: &LinkModel) -> Result<Self, Failed> {
        Self::make(Arc::new(MonotonicClock), [model.clone(), model.clone()], [1, 2], None, false)
    }

    pub(crate) fn new(
        models: [LinkModel; 2],
        seeds: [u64; 2],
        capture: Option<PathBuf>,
    ) -> Result<Self, Failed> {
        Self::make(Arc::new(MonotonicClock), models, seeds, capture, true)
    }

    pub(crate) fn make(
        clock: Arc<dyn Clock>,
        models: [LinkModel; 2],
        seeds: [u64; 2],
        capture: Option<PathBuf>,
        offload: bool,
    ) -> Result<Self, Failed> {
        let namespaces = [NetNamespace::create()?, NetNamespace::create()?];
        let mut ends =
            [Tun::create(&namespaces[0], INTERFACE, MTU)?, Tun::create(&namespaces[1], INTERFACE, MTU)?];
        if !offload {
            ends.iter_mut().try_for_each(|end| end.set_offload(false))?;
        }
        let indices = ends.each_ref().map(Tun::index);
        let plane = DataPlane::start(clock)?;
        let link = plane.add(PlaneLink { name: "pbt".to_owned(), ends, models, seeds, capture })?;
        let [first, second] = namespaces;
        let host = |namespace: NetNamespace, number: u8| {
            let mut socket = RouteSocket::open_in(&namespace)?;
            socket.set_loopback_up()?;
            let index = indices[usize::from(number) - 1];
            socket.set_up(index)?;
            socket.add_address(index, IpNet::new(v4(number), 24)?)?;
            socket.add_address(index, IpNet::new(v6(number), 64)?)?;
            ensure!(socket.link_by_index(index)?.running, "{INTERFACE} is not ready");
            let deadline = Instant::now() + Duration::from_secs(10);
            while !socket.delivers(v6(number))? {
                ensure!(Instant::now() < deadline, "{} is not delivered", v6(number));
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<_, Failed>(Host { namespace, socket, index })
        };
        Ok(Self { client: host(first, 1)?, server: host(second, 2)?, plane, link })
    }

    pub(crate) fn report(&self) -> Result<LinkReport, Failed> {
        Ok(self.plane.report(self.link)?)
    }

    /// Sets a kernel setting in both hosts.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), Failed> {
        for host in [&self.client, &self.server] {
            host.namespace.run_in(|| sysctl::write(key, value))??;
        }
        Ok(())
    }

    /// A socket of the client, connected to one of the server.
    pub(crate) fn udp(&self, address: fn(u8) -> IpAddr) -> Result<(UdpSocket, UdpSocket), Failed> {
        let server = self.server.namespace.run_in(|| UdpSocket::bind((address(2), 0)))??;
        let client = self.client.namespace.run_in(|| UdpSocket::bind((address(1), 0)))??;
        client.connect(server.local_addr()?)?;
        server.connect(client.local_addr()?)?;
        Ok((client, server))
    }
}
