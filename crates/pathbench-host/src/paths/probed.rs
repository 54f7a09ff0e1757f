//! The paths that a command probes one by one: an interface and one of its addresses.

use super::network::{HostNetwork, PathAddress};
use pathbench_record::network::{AddressFamily, ClientPath};
use std::net::{IpAddr, SocketAddr};

/// Limited because each path needs a thread.
const MOST_PROBED_PATHS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedPath {
    /// Its interface, with the family or the address if the interface has several.
    pub name: String,
    pub interface: String,
    pub local: IpAddr,
    pub server: SocketAddr,
}

impl HostNetwork {
    /// The paths to probe, one per subnet of `interfaces` (if empty: of all interfaces with a route to a server), and
    /// notes about omitted paths. An error states the reason for each server.
    pub fn probed_paths(
        &self,
        interfaces: &[String],
        servers: &[SocketAddr],
    ) -> Result<(Vec<ProbedPath>, Vec<String>), String> {
        let (mut paths, mut notes) = (Vec::new(), Vec::new());
        for &server in servers {
            match self.paths_over(interfaces, server) {
                Ok(found) if found.is_empty() => {
                    let server = server.ip();
                    notes.push(format!("no interface that is up has an address and a route to {server}"));
                }
                Ok(found) => paths.extend(found.iter().flat_map(|path| self.probed_over(path, server))),
                Err(why) => notes.push(why),
            }
        }
        if paths.is_empty() {
            return Err(notes.join("\n"));
        }
        if paths.len() > MOST_PROBED_PATHS {
            notes.push(format!(
                "{} paths lead to the server, and the first {MOST_PROBED_PATHS} are examined; name others with --path",
                paths.len()
            ));
            paths.truncate(MOST_PROBED_PATHS);
        }
        name(&mut paths);
        Ok((paths, notes))
    }

    /// A path for each of the addresses that make the interface a path; in its subnet, the kernel's choice.
    fn probed_over(&self, of: &ClientPath, server: SocketAddr) -> Vec<ProbedPath> {
        let link = self.links.iter().find(|link| link.name == of.interface);
        let family = AddressFamily::from_address(server.ip());
        let subnets = link.map(|link| self.path_addresses(link.index, family)).unwrap_or_default();
        // The first address of the path is the kernel's choice, which can be a privacy address.
        let chosen = of.addresses.first().copied();
        let local =
            |at: PathAddress| chosen.filter(|chosen| at.subnet.contains(chosen)).unwrap_or(at.address);
        let mut locals: Vec<IpAddr> = subnets.into_iter().map(local).collect();
        locals.sort_by_key(|local| Some(*local) != chosen);
        if locals.is_empty() {
            locals.extend(chosen);
        }
        let path =
            |local| ProbedPath { name: of.name.clone(), interface: of.interface.clone(), local, server };
        locals.into_iter().map(path).collect()
    }
}

/// Makes the names of paths over the same interface unique.
fn name(paths: &mut [ProbedPath]) {
    let all: Vec<(String, IpAddr)> = paths.iter().map(|path| (path.interface.clone(), path.local)).collect();
    for path in paths {
        let mut others =
            all.iter().filter(|(interface, local)| *interface == path.interface && *local != path.local);
        let (mut any, mut same_family) = (false, false);
        others.by_ref().for_each(|(_, local)| {
            any = true;
            same_family |= local.is_ipv4() == path.local.is_ipv4();
        });
        if same_family {
            path.name = format!("{} {}", path.interface, path.local);
        } else if any {
            path.name = format!("{} {}", path.interface, AddressFamily::from_address(path.local).name());
        }
    }
}
