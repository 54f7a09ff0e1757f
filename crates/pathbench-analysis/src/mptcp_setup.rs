//! Whether MPTCP can use the paths of a host, from the path manager's configuration.

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
    /// The host's addresses that should carry a path.
    pub addresses: Vec<IpAddr>,
    /// The local address of the initial subflow.
    pub initial: Option<IpAddr>,
    /// The accepting host's limit of additional subflows, where known.
    pub peer_subflow_limit: Option<u32>,
    /// Address of this host → the commands that make its packets leave by the interface that has it.
    pub source_routes: BTreeMap<IpAddr, Vec<String>>,
}

/// The reason why MPTCP cannot use all of `paths`, with the remedy; `None` where it can.
pub fn shortage(setup: &LocalSetup, paths: &[ClientPath]) -> Option<String> {
    let further = paths.get(1..).unwrap_or_default();
    if further.is_empty() {
        return None;
    }
    if setup.subflow_limit == 0 {
        return Some(
            "mptcp can use one path only, because the limit of additional subflows is 0 on this host; as root: ip \
             mptcp limits set subflows 2"
                .to_owned(),
        );
    }
    let has_endpoint = |path: &&ClientPath| path.addresses.iter().any(|at| setup.endpoints.contains(at));
    let without: Vec<&ClientPath> = further.iter().filter(|path| !has_endpoint(path)).collect();
    let first = without.first()?;
    let names: Vec<&str> = without.iter().map(|path| path.name.as_str()).collect();
    let address = first.addresses.first().copied().unwrap_or(IpAddr::from([0, 0, 0, 0]));
    Some(format!(
        "mptcp has no endpoint on {} and will not use {}; as root: ip mptcp endpoint add {address} dev {} subflow",
        names.join(", "),
        if names.len() == 1 { "it" } else { "them" },
        first.interface
    ))
}

/// The reason why MPTCP does not treat `path` as a backup path, with the remedy; `None` where it does. `endpoint`: id
/// and backup flag of the path's endpoint.
pub fn not_backup(path: &ClientPath, endpoint: Option<(Option<u8>, bool)>) -> Option<String> {
    let remedy = match endpoint {
        Some((_, true)) => return None,
        Some((Some(id), false)) => format!("ip mptcp endpoint change id {id} backup"),
        _ => {
            let address = path.addresses.first().copied().unwrap_or(IpAddr::from([0, 0, 0, 0]));
            format!("ip mptcp endpoint add {address} dev {} subflow backup", path.interface)
        }
    };
    Some(format!(
        "mptcp does not use {} as a backup path, because its endpoint has no backup flag; as root: {remedy}",
        path.name
    ))
}
