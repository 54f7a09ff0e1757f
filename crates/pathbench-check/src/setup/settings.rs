//! Kernel settings that MPTCP and source routing require.

use super::host::PM_TYPE;
use super::paths::{SetupPath, has_router, shared_subnet};
use super::plan::Draft;
use pathbench_host::change::Operation;
use pathbench_host::change::setting::{MPTCP_ENABLED as ENABLED, interface_key as key};

impl Draft<'_> {
    pub(super) fn enable(&mut self) {
        if self.host.settings.contains_key(ENABLED) && self.host.number(ENABLED) == 0 {
            self.set("the kernel refuses MPTCP sockets while it is 0".to_owned(), ENABLED.to_owned(), "1");
        }
        if self.host.number(PM_TYPE) == 1 {
            self.note(
                "net.mptcp.pm_type is 1: a daemon manages new connections, and endpoints have no effect. For the kernel's \
                 path manager: sysctl -w net.mptcp.pm_type=0"
                    .to_owned(),
            );
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
