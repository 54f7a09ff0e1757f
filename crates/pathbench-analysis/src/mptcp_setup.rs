//! Whether MPTCP can use the paths of a host, from the path manager's configuration.

use pathbench_record::mptcp::command::{add_endpoint, change_endpoint};
use pathbench_record::mptcp::remedy::{NeededEndpoint, PathManagerState, is_suitable};
use pathbench_record::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_record::network::ClientPath;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The MPTCP set-up of the connecting host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalSetup {
    /// Limit of additional subflows (`ip mptcp limits`, `subflows`).
    pub subflow_limit: u32,
    /// Limit of accepted announced addresses (`add_addr_accepted`).
    pub add_addr_accepted_limit: u32,
    /// Addresses of endpoints from which subflows are opened (flags `subflow`, `fullmesh`).
    pub endpoints: Vec<IpAddr>,
    /// The path manager's configuration, as far as it is known, for remedies.
    pub path_manager: PathManagerState,
    /// The names of the interfaces that have the addresses, where known.
    pub devices: BTreeMap<IpAddr, String>,
    /// The command after which the kernel's path manager is in force, where another one is.
    pub other_path_manager: Option<String>,
    /// The host's addresses that should carry a path.
    pub addresses: Vec<IpAddr>,
    /// The local address of the initial subflow.
    pub initial: Option<IpAddr>,
    /// The accepting host's limit of additional subflows, where known.
    pub peer_subflow_limit: Option<u32>,
    /// Address of this host → the commands that make its packets leave by the interface that has it.
    pub source_routes: BTreeMap<IpAddr, Vec<String>>,
}

/// Subflows beside the initial one that two paths require.
const LEAST_SUBFLOWS: u32 = 2;
/// The limit of a peer whose limits are not known, except that it is 0.
pub(crate) const PEER_LIMIT: &str = "ip mptcp limits set subflows 2";

impl LocalSetup {
    const fn limits(&self) -> MptcpLimits {
        MptcpLimits { subflows: self.subflow_limit, add_addr_accepted: self.add_addr_accepted_limit }
    }

    /// The command that raises the limit of additional subflows.
    pub fn subflow_limit_remedy(&self) -> String {
        let addresses = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        let needed =
            MptcpLimits { subflows: addresses.saturating_sub(1).max(LEAST_SUBFLOWS), ..self.limits() };
        self.limits().remedy(needed).unwrap_or_else(|| "ip mptcp limits show".to_owned())
    }

    /// The command with which this host accepts announced addresses; `None` if it does.
    pub fn announced_address_remedy(&self) -> Option<String> {
        self.limits().remedy(MptcpLimits { subflows: 1, add_addr_accepted: 1 })
    }

    /// The addresses beside that of the initial subflow from which subflows can start: a connection over IPv4 has none over
    /// IPv6 (`mptcp_pm_addr_families_match`, net/mptcp/pm.c).
    pub fn further_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let is_ipv4 = self.initial.is_some_and(|initial| initial.to_canonical().is_ipv4());
        let further =
            self.addresses.iter().copied().filter(|at| Some(*at) != self.initial && is_suitable(*at));
        further.filter(move |at| !is_ipv4 || at.to_canonical().is_ipv4())
    }

    /// An IPv6 address of another interface than that of the initial subflow, which is over IPv4.
    pub fn address_of_other_family(&self) -> Option<IpAddr> {
        let initial = self.initial.filter(|initial| initial.to_canonical().is_ipv4())?;
        let is_elsewhere = |at: &IpAddr| self.devices.get(at) != self.devices.get(&initial);
        let mut further = self.addresses.iter().copied().filter(|at| is_suitable(*at));
        further.find(|at| at.to_canonical().is_ipv6() && is_elsewhere(at))
    }

    /// The commands after which subflows start from `address`, or the reason why there are none. Names a placeholder where
    /// the interface is not known.
    pub fn endpoint_remedy(&self, address: IpAddr, device: Option<&str>) -> String {
        let device = device.or_else(|| self.devices.get(&address).map(String::as_str)).unwrap_or("INTERFACE");
        let needed = NeededEndpoint { address, device, flags: EndpointFlags::SUBFLOW };
        match self.path_manager.endpoint_remedy(&needed) {
            Ok(commands) if commands.is_empty() => "see ip mptcp endpoint show".to_owned(),
            Ok(commands) => commands.join("; "),
            Err(reason) => reason.to_string(),
        }
    }
}

/// The reason why MPTCP cannot use all of `paths`, with the remedy; `None` where it can.
pub fn shortage(setup: &LocalSetup, paths: &[ClientPath]) -> Option<String> {
    let further = paths.get(1..).unwrap_or_default();
    if further.is_empty() {
        return None;
    }
    if setup.subflow_limit == 0 {
        return Some(format!(
            "mptcp can use one path only, because the limit of additional subflows is 0 on this host; as root: {}",
            setup.subflow_limit_remedy()
        ));
    }
    let has_endpoint = |path: &&ClientPath| path.addresses.iter().any(|at| setup.endpoints.contains(at));
    let without: Vec<&ClientPath> = further.iter().filter(|path| !has_endpoint(path)).collect();
    let first = without.first()?;
    let names: Vec<&str> = without.iter().map(|path| path.name.as_str()).collect();
    let address = first.addresses.iter().copied().find(|address| is_suitable(*address))?;
    Some(format!(
        "mptcp has no endpoint on {} and will not use {}; as root: {}",
        names.join(", "),
        if names.len() == 1 { "it" } else { "them" },
        setup.endpoint_remedy(address, Some(&first.interface))
    ))
}

/// The reason why MPTCP does not treat `path` as a backup path, with the remedy; `None` where it does, and where no subflow
/// can start from it. `endpoint`: the path's endpoint.
pub fn not_backup(path: &ClientPath, endpoint: Option<MptcpEndpoint>) -> Option<String> {
    let remedy = match endpoint {
        Some(endpoint) if endpoint.flags.backup => return None,
        Some(endpoint) => {
            change_endpoint(&endpoint, endpoint.flags, EndpointFlags { backup: true, ..endpoint.flags })
        }
        None => {
            let address = path.addresses.iter().copied().find(|address| is_suitable(*address))?;
            let flags = EndpointFlags { backup: true, ..EndpointFlags::SUBFLOW };
            let endpoint = MptcpEndpoint { address, port: None, id: None, interface: None, flags };
            add_endpoint(&endpoint, Some(&path.interface))
        }
    };
    Some(format!(
        "mptcp does not use {} as a backup path, because its endpoint has no backup flag; as root: {remedy}",
        path.name
    ))
}
