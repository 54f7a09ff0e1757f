//! Is this host set up for several paths of MPTCP.

use pathbench_analysis::assembly::ClientPath;
use pathbench_analysis::verdict::LocalSetup;
use pathbench_host::mptcp::{Endpoint, PathManager};
use std::net::IpAddr;

/// How this host is set up for MPTCP; `None` where the kernel does not tell (before some call it takes privilege).
pub(crate) fn kernel_setup(ways: &[ClientPath]) -> Option<LocalSetup> {
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
        addresses: ways.iter().filter_map(|way| way.addresses.first().copied()).collect(),
        initial: None,
        peer_subflow_limit: None,
    })
}

/// What keeps MPTCP from using every one of `ways`, in words; `None` when nothing does.
pub(crate) fn shortage(setup: &LocalSetup, ways: &[ClientPath]) -> Option<String> {
    let further = ways.get(1..).unwrap_or_default();
    if further.is_empty() {
        return None;
    }
    if setup.subflow_limit == 0 {
        return Some(
            "mptcp can use one path only, for the limit of additional subflows is 0 on this host; as root: ip \
             mptcp limits set subflows 2"
                .to_owned(),
        );
    }
    let has_endpoint = |way: &&ClientPath| way.addresses.iter().any(|at| setup.endpoints.contains(at));
    let without: Vec<&ClientPath> = further.iter().filter(|way| !has_endpoint(way)).collect();
    let first = without.first()?;
    let names: Vec<&str> = without.iter().map(|way| way.name.as_str()).collect();
    let address = first.addresses.first().copied().unwrap_or(IpAddr::from([0, 0, 0, 0]));
    Some(format!(
        "mptcp has no endpoint on {} and will not use {}; as root: ip mptcp endpoint add {address} dev {} subflow",
        names.join(", "),
        if names.len() == 1 { "it" } else { "them" },
        first.interface
    ))
}

/// The kernel's MPTCP endpoints; none where it does not tell.
fn endpoints() -> Vec<Endpoint> {
    PathManager::open().and_then(|mut manager| manager.endpoints()).unwrap_or_default()
}

/// Addresses whose subflows carry data only while no other does well.
pub(crate) fn spares() -> Vec<IpAddr> {
    let spares = endpoints().into_iter().filter(|endpoint| endpoint.flags.backup);
    spares.map(|endpoint| endpoint.address).collect()
}

/// That mptcp will not spare `way`, which the user wants spared, with what would make it; `None` when it will. Pathbench
/// changes nothing in the host's own network.
pub(crate) fn not_spared(way: &ClientPath) -> Option<String> {
    not_spared_by(&endpoints(), way)
}

fn not_spared_by(endpoints: &[Endpoint], way: &ClientPath) -> Option<String> {
    let of_way = endpoints.iter().find(|endpoint| way.addresses.contains(&endpoint.address));
    let remedy = match of_way {
        Some(endpoint) if endpoint.flags.backup => return None,
        Some(Endpoint { id: Some(id), .. }) => format!("ip mptcp endpoint change id {id} backup"),
        _ => {
            let address = way.addresses.first().copied().unwrap_or(IpAddr::from([0, 0, 0, 0]));
            format!("ip mptcp endpoint add {address} dev {} subflow backup", way.interface)
        }
    };
    Some(format!(
        "mptcp will not spare {}, for its endpoint is no backup in this kernel; as root: {remedy}",
        way.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_host::mptcp::EndpointFlags;

    fn way(name: &str, host: u8) -> ClientPath {
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
        let ways = [way("eth0", 1), way("wlan0", 2)];
        let mut setup = LocalSetup { subflow_limit: 2, ..LocalSetup::default() };
        let words = shortage(&setup, &ways).unwrap();
        assert!(words.contains("ip mptcp endpoint add 192.0.2.2 dev wlan0 subflow"), "{words}");
        setup.endpoints = vec![[192, 0, 2, 2].into()];
        assert_eq!(shortage(&setup, &ways), None);
        setup.subflow_limit = 0;
        assert!(shortage(&setup, &ways).unwrap().contains("ip mptcp limits set subflows"));
        assert_eq!(shortage(&setup, &ways[..1]), None, "one path is all there is");
    }

    #[test]
    fn whether_a_path_is_spared_is_the_kernels_to_say() {
        let endpoint = |backup| Endpoint {
            address: [192, 0, 2, 2].into(),
            port: None,
            id: Some(3),
            interface: None,
            flags: EndpointFlags { subflow: true, backup, ..EndpointFlags::default() },
        };
        let lte = way("lte", 2);
        assert_eq!(not_spared_by(&[endpoint(true)], &lte), None);
        assert!(not_spared_by(&[endpoint(false)], &lte).unwrap().contains("endpoint change id 3 backup"));
        let none = not_spared_by(&[], &lte).unwrap();
        assert!(none.contains("endpoint add 192.0.2.2 dev lte subflow backup"), "{none}");
    }
}
