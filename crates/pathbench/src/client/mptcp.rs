//! Is this host set up for several paths of MPTCP.

use pathbench_host::mptcp::PathManager;
use pathbench_lab::assembly::ClientPath;
use pathbench_transport::LocalSetup;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn way(name: &str, host: u8) -> ClientPath {
        ClientPath {
            name: name.to_owned(),
            interface: name.to_owned(),
            addresses: vec![[192, 0, 2, host].into()],
            backup: None,
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
}
