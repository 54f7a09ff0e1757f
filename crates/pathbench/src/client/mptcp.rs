//! The host's MPTCP configuration: limits, endpoints, backup flags.

use pathbench_analysis::assembly::ClientPath;
use pathbench_analysis::verdict::LocalSetup;
use pathbench_host::mptcp::{Endpoint, PathManager};
use std::net::IpAddr;

/// The path manager's configuration; `None` where the kernel does not show it without privilege.
pub(crate) fn kernel_setup(paths: &[ClientPath]) -> Option<LocalSetup> {
    let mut manager = PathManager::open().ok()?;
    let limits = manager.limits().ok()?;
    let endpoints = manager.endpoints().ok()?.into_iter();
    Some(LocalSetup {
        subflow_limit: limits.subflows,
        add_addr_accepted_limit: limits.add_addr_accepted,
        endpoints: endpoints
            .filter(|endpoint| endpoint.flags.subflow || endpoint.flags.fullmesh)
            .map(|endpoint| endpoint.address)
            .collect(),
        addresses: paths.iter().filter_map(|path| path.addresses.first().copied()).collect(),
        initial: None,
        peer_subflow_limit: None,
    })
}

/// The reason why MPTCP cannot use all of `paths`, with the remedy; `None` where it can.
pub(crate) fn shortage(setup: &LocalSetup, paths: &[ClientPath]) -> Option<String> {
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

fn endpoints() -> Vec<Endpoint> {
    PathManager::open().and_then(|mut manager| manager.endpoints()).unwrap_or_default()
}

/// Addresses of the endpoints with the backup flag.
pub(crate) fn backup_addresses() -> Vec<IpAddr> {
    let backups = endpoints().into_iter().filter(|endpoint| endpoint.flags.backup);
    backups.map(|endpoint| endpoint.address).collect()
}

/// The reason why mptcp does not treat `path` as a backup path, with the remedy; `None` where it does. Pathbench changes
/// nothing in the host's own network.
pub(crate) fn not_backup(path: &ClientPath) -> Option<String> {
    not_backup_by(&endpoints(), path)
}

fn not_backup_by(endpoints: &[Endpoint], path: &ClientPath) -> Option<String> {
    let of_path = endpoints.iter().find(|endpoint| path.addresses.contains(&endpoint.address));
    let remedy = match of_path {
        Some(endpoint) if endpoint.flags.backup => return None,
        Some(Endpoint { id: Some(id), .. }) => format!("ip mptcp endpoint change id {id} backup"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_host::mptcp::EndpointFlags;

    fn path(name: &str, host: u8) -> ClientPath {
        ClientPath {
            name: name.to_owned(),
            interface: name.to_owned(),
            addresses: vec![[192, 0, 2, host].into()],
            backup: None,
            mtu_bytes: None,
        }
    }

    #[test]
    fn a_shortage_names_the_path_and_the_remedy() {
        let paths = [path("eth0", 1), path("wlan0", 2)];
        let mut setup = LocalSetup { subflow_limit: 2, ..LocalSetup::default() };
        let words = shortage(&setup, &paths).unwrap();
        assert!(words.contains("ip mptcp endpoint add 192.0.2.2 dev wlan0 subflow"), "{words}");
        setup.endpoints = vec![[192, 0, 2, 2].into()];
        assert_eq!(shortage(&setup, &paths), None);
        setup.subflow_limit = 0;
        assert!(shortage(&setup, &paths).unwrap().contains("ip mptcp limits set subflows"));
        assert_eq!(shortage(&setup, &paths[..1]), None, "one path is all there is");
    }

    #[test]
    fn a_backup_path_needs_a_backup_endpoint() {
        let endpoint = |backup| Endpoint {
            address: [192, 0, 2, 2].into(),
            port: None,
            id: Some(3),
            interface: None,
            flags: EndpointFlags { subflow: true, backup, ..EndpointFlags::default() },
        };
        let lte = path("lte", 2);
        assert_eq!(not_backup_by(&[endpoint(true)], &lte), None);
        assert!(not_backup_by(&[endpoint(false)], &lte).unwrap().contains("endpoint change id 3 backup"));
        let none = not_backup_by(&[], &lte).unwrap();
        assert!(none.contains("endpoint add 192.0.2.2 dev lte subflow backup"), "{none}");
    }
}
