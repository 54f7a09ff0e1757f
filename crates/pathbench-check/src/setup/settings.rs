//! Kernel settings that MPTCP and source routing require.

use super::paths::{SetupPath, has_router, shared_subnet};
use super::plan::Draft;
use pathbench_host::change::Operation;
use pathbench_host::change::setting::{
    MPTCP_ENABLED as ENABLED, PATH_MANAGER, PM_TYPE, interface_key as key, linkdown_key,
};
use pathbench_record::network::AddressFamily;

/// The kernel's path manager by its name (`net.mptcp.path_manager`, Linux 6.15).
const KERNEL: &str = "kernel";

impl Draft<'_> {
    pub(super) fn enable(&mut self) {
        if self.host.settings.contains_key(ENABLED) && self.host.number(ENABLED) == 0 {
            self.set("the kernel refuses MPTCP sockets while it is 0".to_owned(), ENABLED.to_owned(), "1");
        }
        self.select_path_manager();
    }

    /// A path manager that mptcpd has left behind opens no subflow. While mptcpd runs, the choice is its own.
    fn select_path_manager(&mut self) {
        let by_name = self.host.settings.get(PATH_MANAGER).map(|name| name.trim().to_owned());
        let is_kernels = match &by_name {
            Some(name) => name == KERNEL,
            None => self.host.number(PM_TYPE) == 0,
        };
        if is_kernels || self.host.has_mptcpd {
            return;
        }
        let reason =
            "endpoints have no effect with another path manager, and no mptcpd runs that opens subflows";
        match by_name {
            Some(_) => self.set(reason.to_owned(), PATH_MANAGER.to_owned(), KERNEL),
            None => self.set(reason.to_owned(), PM_TYPE.to_owned(), "0"),
        }
    }

    /// The kernel uses a route over an interface without a carrier, unless the interface's setting forbids it.
    pub(super) fn ignore_dead_routes(&mut self) {
        let network = self.host.network();
        let model = self.host.paths(&network);
        for family in AddressFamily::ALL {
            let dead = model.without_carrier(family).into_iter();
            for link in dead.filter(|link| model.may_ignore_routes(link)) {
                let own = linkdown_key(&link.name, family);
                if self.host.settings.contains_key(&own) && self.host.number(&own) == 0 {
                    let reason = format!(
                        "new {} connections leave by {}, which has no carrier: the kernel uses the next route until it has one",
                        family.name(),
                        link.name
                    );
                    self.set(reason, own, "1");
                }
            }
        }
    }

    /// Strict reverse-path filtering drops packets to an address whose table has no route back to their source. With a
    /// default route in the address's table it passes them.
    pub(super) fn filter(&mut self, paths: &[SetupPath]) {
        if paths.len() < 2 {
            return;
        }
        for path in paths.iter().filter(|path| path.addresses.iter().any(|at| at.address.is_ipv4())) {
            let own = key(&path.interface, "rp_filter");
            let effective = self.host.number(&own).max(self.host.number(&key("all", "rp_filter")));
            if effective == 1 && !has_router(self.host, path.index, true) {
                let reason = format!(
                    "strict reverse-path filtering drops packets on {} from beyond its subnets",
                    path.interface
                );
                self.set(reason, own, "2");
            }
        }
    }

    /// Two interfaces in one subnet both answer ARP requests for either address, so that packets to one address arrive
    /// at the other interface.
    pub(super) fn resolve_addresses(&mut self, paths: &[SetupPath]) {
        for path in paths {
            let Some(shared) = shared_subnet(path, paths) else { continue };
            for (name, least) in [("arp_ignore", 1), ("arp_announce", 2)] {
                let own = key(&path.interface, name);
                if self.host.number(&own).max(self.host.number(&key("all", name))) < least {
                    let reason = format!(
                        "several interfaces are in {shared}: {} answers ARP requests for its own address only",
                        path.interface
                    );
                    self.set(reason, own, &least.to_string());
                }
            }
        }
    }

    fn set(&mut self, reason: String, key: String, after: &str) {
        // A kernel or container without the setting.
        let Some(before) = self.host.settings.get(&key).cloned() else { return };
        self.step(reason, Operation::SetSysctl { key, before, after: after.to_owned() });
    }
}
