//! The programs that manage the network of this machine: `NetworkManager`, systemd-networkd and mptcpd.

use pathbench_check::setup::{Manager, SetupHost};
use pathbench_host::managers::Managers;
use pathbench_host::netlink::NetworkInterface;
use pathbench_host::nmcli::{self, NetworkManagerState};
use pathbench_host::{device, leases, leases::state_value as value};
use pathbench_record::file;
use pathbench_record::time::SharedClock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

const NETWORKD_LINKS: &str = "run/systemd/netif/links";
/// Connection profiles that are examined.
const MOST_PROFILES: usize = 1024;

/// Reads what other programs manage. A watch reads it every second: `nmcli` runs only if the files have changed since.
#[derive(Debug)]
pub(super) struct ManagerReader {
    clock: SharedClock,
    answer: RefCell<Option<(BTreeMap<String, String>, NetworkManagerState)>>,
}

impl ManagerReader {
    pub(super) fn new(clock: &SharedClock) -> Self {
        Self { clock: clock.clone(), answer: RefCell::default() }
    }

    /// Adds to `host` what other programs manage, and what they know about interfaces.
    pub(super) fn read(&self, root: &Path, host: &mut SetupHost) {
        let links: Vec<&NetworkInterface> =
            host.links.iter().filter(|link| is_described(root, link)).collect();
        if links.is_empty() {
            return;
        }
        let mut managers = Managers::read_below(root, &links, self.clock.unix_seconds());
        if root == Path::new("/") && !managers.network_manager.is_empty() {
            self.ask(&mut managers);
        }
        for link in links {
            let index = link.index;
            if managers.network_manager.contains(&link.name) {
                host.managers.insert(index, Manager::NetworkManager);
                let uuid = managers.connections.get(&link.name);
                if managers.metered.contains(&link.name) || uuid.is_some_and(|uuid| is_metered(root, uuid)) {
                    host.metered.insert(index);
                }
                host.connections.extend(uuid.map(|uuid| (index, uuid.clone())));
            } else if managers.networkd.contains(&link.name) {
                host.managers.insert(index, Manager::Networkd);
            }
        }
        (host.has_mptcpd, host.networkd_keeps_rules) = (managers.mptcpd, managers.networkd_keeps_rules);
        host.network_manager_version = managers.network_manager_version;
        host.mptcpd_flags = managers.mptcpd_flags;
        host.leased_routers = leases::routers(&managers.leases, &host.addresses);
    }

    fn ask(&self, managers: &mut Managers) {
        let mut answer = self.answer.borrow_mut();
        if answer.as_ref().is_none_or(|(connections, _)| *connections != managers.connections) {
            *answer = Some((managers.connections.clone(), nmcli::state()));
        }
        if let Some((_, state)) = answer.as_ref() {
            managers.take_state(state);
        }
    }
}

/// Whether the files below `root` describe this interface. Those below `/` describe the interfaces of the namespace in
/// which sysfs was mounted.
fn is_described(root: &Path, link: &NetworkInterface) -> bool {
    !link.loopback && (root != Path::new("/") || device::sysfs(link).is_some())
}

/// The .network file of each interface that systemd-networkd manages, by index.
pub(super) fn network_files(root: &Path) -> BTreeMap<u32, String> {
    let Ok(entries) = fs::read_dir(root.join(NETWORKD_LINKS)) else { return BTreeMap::new() };
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let index: u32 = entry.file_name().to_str()?.parse().ok()?;
        let link = file::read_text(entry.path(), file::SMALL_FILE_BYTES).ok()?;
        let name = Path::new(value(&link, "NETWORK_FILE")?).file_name()?.to_str()?.to_owned();
        Some((index, name))
    };
    entries.filter_map(file).collect()
}

/// Whether the connection profile says `metered=yes`; the profiles are readable by root only.
fn is_metered(root: &Path, uuid: &str) -> bool {
    let directories = ["etc/NetworkManager/system-connections", "run/NetworkManager/system-connections"];
    let files = directories
        .iter()
        .filter_map(|directory| fs::read_dir(root.join(directory)).ok())
        .flatten()
        .flatten();
    let texts = files
        .take(MOST_PROFILES)
        .filter_map(|file| file::read_text_named(file.path(), file::SMALL_FILE_BYTES).ok());
    let mut profiles = texts.filter(|text| value(text, "uuid") == Some(uuid));
    // `NM_METERED_YES` is stored as 1.
    profiles.any(|text| matches!(value(&text, "metered"), Some("1" | "yes" | "true")))
}
