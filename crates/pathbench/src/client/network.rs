//! The host's network: its MPTCP configuration, the kernel's events during a measurement, and the changes that affect
//! tests.

use pathbench_analysis::assembly::{ClientPath, Notification, SeenEvent};
use pathbench_analysis::attribution::CarriedBytes;
use pathbench_analysis::limits::PathShaper;
use pathbench_analysis::mptcp_setup::{self, LocalSetup};
use pathbench_host::change::setting::{PATH_MANAGER, PM_TYPE};
use pathbench_host::egress::{InterfaceBytes, bytes_since, interface_bytes};
use pathbench_host::link_events::LinkEventStream;
use pathbench_host::mptcp::{EventStream, MptcpEndpoint, PathManager};
use pathbench_host::netlink::RouteSocket;
use pathbench_host::paths::{ChangeFilter, HostNetwork};
use pathbench_host::sysctl;
use pathbench_lab::kernel_watch::{KernelEvents, KernelWatch};
use pathbench_program::exit::Failure;
use pathbench_record::mptcp::remedy::{PathManagerState, is_suitable};
use pathbench_record::time::Clock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// This host in results.
pub(crate) const CLIENT: &str = "client";

/// Monitors links, addresses and (with `CAP_NET_ADMIN`) MPTCP subflows over netlink.
pub(crate) struct NetworkMonitor {
    watch: KernelWatch,
    filter: ChangeFilter,
    pub(crate) network: HostNetwork,
    /// Interface → all its addresses so far, in order of appearance.
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// All events since the last [`Self::take`], in order.
    pub(crate) events: Vec<SeenEvent>,
    /// The changes among the events that affect tests.
    pub(crate) changes: Vec<String>,
}

impl NetworkMonitor {
    pub(crate) fn start(clock: &Arc<dyn Clock>) -> Result<Self, Failure> {
        let links = LinkEventStream::subscribe().map_err(Failure::failed)?;
        let subflows = EventStream::subscribe().ok();
        let network = HostNetwork::read().map_err(Failure::failed)?;
        let kernel = KernelEvents { node: CLIENT.to_owned(), mptcp: subflows, links };
        let mut monitor = Self {
            watch: KernelWatch::start(vec![kernel], clock),
            filter: ChangeFilter::new(&network),
            network,
            addresses: BTreeMap::new(),
            events: Vec::new(),
            changes: Vec::new(),
        };
        monitor.add_addresses();
        Ok(monitor)
    }

    /// From now on, changes of these interfaces affect tests.
    pub(crate) fn follow(&mut self, paths: &[ClientPath]) {
        self.filter.interfaces.extend(paths.iter().map(|path| path.interface.clone()));
    }

    /// Adds the latest events, and returns the changes among them.
    pub(crate) fn poll(&mut self) -> Vec<String> {
        let received = self.watch.take();
        if received.is_empty() {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for event in received {
            if let Notification::Link(link) = &event.what {
                changes.extend(self.filter.change(link));
            }
            self.events.push(event);
        }
        if let Ok(network) = HostNetwork::read() {
            self.network = network;
            self.add_addresses();
        }
        self.changes.extend(changes.iter().cloned());
        changes
    }

    /// The events and changes since the last call.
    pub(crate) fn take(&mut self) -> (Vec<SeenEvent>, Vec<String>) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.changes))
    }

    /// These paths with all addresses that their interfaces have had, to name subflows.
    pub(crate) fn with_all_addresses(&self, paths: &[ClientPath]) -> Vec<ClientPath> {
        let mut paths = paths.to_vec();
        for path in &mut paths {
            for address in self.addresses.get(&path.interface).into_iter().flatten() {
                if !path.addresses.contains(address) {
                    path.addresses.push(*address);
                }
            }
        }
        paths
    }

    fn add_addresses(&mut self) {
        let routable = self.network.routable_addresses();
        for link in &self.network.links {
            let known = self.addresses.entry(link.name.clone()).or_default();
            for address in routable.get(&link.index).into_iter().flatten() {
                if !known.contains(address) {
                    known.push(*address);
                }
            }
        }
    }
}

/// The counters of the interfaces before a run: the second witness of which paths its bytes took. The traffic of other
/// programs counts, too.
pub(crate) struct InterfaceWitness(BTreeMap<String, InterfaceBytes>);

impl InterfaceWitness {
    pub(crate) fn start() -> Self {
        Self(interface_bytes().unwrap_or_default())
    }

    /// The bytes that each interface has carried since; empty where the counters cannot be read.
    pub(crate) fn carried(&self) -> BTreeMap<String, CarriedBytes> {
        let rises = bytes_since(&self.0, &interface_bytes().unwrap_or_default()).into_iter();
        rises
            .map(|(name, bytes)| {
                let [from_client, to_client] = [bytes.sent, bytes.received];
                (name, CarriedBytes { from_client, to_client, only_of_run: false })
            })
            .collect()
    }
}

/// The path manager's configuration; `None` if the kernel does not show it without privilege.
pub(crate) fn path_manager_setup(paths: &[ClientPath], network: &HostNetwork) -> Option<LocalSetup> {
    let mut manager = PathManager::open().ok()?;
    let limits = manager.limits().ok()?;
    let endpoints = manager.endpoints().ok()?;
    let is_down = |path: &ClientPath| {
        let mut links = network.links.iter();
        links.any(|link| link.name == path.interface && !(link.up && link.carrier))
    };
    let is_tentative =
        |address: IpAddr| network.addresses.iter().any(|own| own.tentative && own.network.addr() == address);
    let is_usable = |address: &IpAddr| is_suitable(*address) && !is_tentative(*address);
    let usable =
        |path: &ClientPath| path.addresses.iter().copied().find(is_usable).filter(|_| !is_down(path));
    let other_path_manager = match (sysctl::read(PATH_MANAGER), sysctl::read(PM_TYPE)) {
        (Ok(name), _) if name != "kernel" => Some("sysctl -w net.mptcp.path_manager=kernel".to_owned()),
        (Err(_), Ok(kind)) if kind != "0" => Some("sysctl -w net.mptcp.pm_type=0".to_owned()),
        _ => None,
    };
    Some(LocalSetup {
        other_path_manager,
        subflow_limit: limits.subflows,
        add_addr_accepted_limit: limits.add_addr_accepted,
        endpoints: endpoints
            .iter()
            .filter(|endpoint| endpoint.flags.opens_subflows())
            .map(|endpoint| endpoint.address)
            .collect(),
        addresses: paths.iter().filter_map(usable).collect(),
        devices: paths.iter().filter_map(|path| Some((usable(path)?, path.interface.clone()))).collect(),
        path_manager: PathManagerState { limits: Some(limits), endpoints, ..PathManagerState::default() },
        initial: None,
        peer_subflow_limit: None,
        source_routes: network.source_routes(),
    })
}

/// The reason why MPTCP cannot use all of `paths`, with the remedy; `None` if it can.
pub(crate) fn mptcp_shortage(paths: &[ClientPath]) -> Option<String> {
    mptcp_setup::shortage(&path_manager_setup(paths, &HostNetwork::default())?, paths)
}

fn endpoints() -> Vec<MptcpEndpoint> {
    PathManager::open().and_then(|mut manager| manager.endpoints()).unwrap_or_default()
}

/// Addresses of the endpoints with the backup flag.
pub(crate) fn backup_endpoints() -> Vec<IpAddr> {
    let backups = endpoints().into_iter().filter(|endpoint| endpoint.flags.backup);
    backups.map(|endpoint| endpoint.address).collect()
}

/// The reason why mptcp does not treat `path` as a backup path, with the remedy; `None` if it does. Pathbench does
/// not change the host's own network.
pub(crate) fn not_backup(path: &ClientPath) -> Option<String> {
    let of_path = endpoints().into_iter().find(|endpoint| path.addresses.contains(&endpoint.address));
    mptcp_setup::not_backup(path, of_path)
}

/// The interfaces whose rate a queueing discipline of this host limits; none where that cannot be read.
pub(crate) fn shapers(network: &HostNetwork) -> Vec<PathShaper> {
    let found = RouteSocket::open().and_then(|mut socket| socket.shaping()).unwrap_or_default();
    let shapers = found.into_iter().filter_map(|one| {
        let interface = network.link(one.interface)?.name.clone();
        Some(PathShaper { interface, kind: one.kind, rate_bps: one.rate_bps.filter(|bps| *bps > 0)? })
    });
    shapers.collect()
}
