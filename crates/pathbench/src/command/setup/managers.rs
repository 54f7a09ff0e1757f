//! The programs that manage the network of this machine: `NetworkManager`, systemd-networkd and mptcpd.

use pathbench_check::setup::{Manager, SetupHost};
use pathbench_host::device;
use pathbench_host::managers::Managers;
use pathbench_host::netlink::NetworkInterface;
use pathbench_record::file;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

const NETWORK_MANAGER_DEVICES: &str = "run/NetworkManager/devices";
const NETWORKD_LINKS: &str = "run/systemd/netif/links";
const NETWORKD_LEASES: &str = "run/systemd/netif/leases";

/// Adds to `host` what other programs manage, and what they know about interfaces.
pub(super) fn read(root: &Path, host: &mut SetupHost) {
    let links: Vec<&NetworkInterface> = host.links.iter().filter(|link| is_described(root, link)).collect();
    let managers =
        if root == Path::new("/") { Managers::read(&host.links) } else { Managers::read_below(root, &links) };
    (host.has_mptcpd, host.networkd_keeps_rules) = (managers.mptcpd, managers.networkd_keeps_rules);
    for link in links {
        let index = link.index;
        let entry = |directory: &str| {
            file::read_text(root.join(directory).join(index.to_string()), file::SMALL_FILE_BYTES).ok()
        };
        if managers.network_manager.contains(&link.name) {
            host.managers.insert(index, Manager::NetworkManager);
            let device = entry(NETWORK_MANAGER_DEVICES).unwrap_or_default();
            if value(&device, "connection-uuid").is_some_and(|uuid| is_metered(root, uuid)) {
                host.metered.insert(index);
            }
        } else if managers.networkd.contains(&link.name) {
            host.managers.insert(index, Manager::Networkd);
        }
        if let Some(lease) = entry(NETWORKD_LEASES) {
            let routers = value(&lease, "ROUTER").unwrap_or_default();
            let routers = routers.split_whitespace().filter_map(|text| text.parse().ok()).collect();
            host.leased_routers.insert(index, routers);
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

/// The value of `KEY=VALUE` in a state file.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let pair = |line: &'a str| line.trim().strip_prefix(key)?.trim_start().strip_prefix('=');
    text.lines().find_map(pair).map(str::trim).filter(|value| !value.is_empty())
}

/// Whether the connection profile says `metered=yes`; the profiles are readable by root only.
fn is_metered(root: &Path, uuid: &str) -> bool {
    let directories = ["etc/NetworkManager/system-connections", "run/NetworkManager/system-connections"];
    let files = directories
        .iter()
        .filter_map(|directory| fs::read_dir(root.join(directory)).ok())
        .flatten()
        .flatten();
    let texts = files.filter_map(|file| file::read_text_named(file.path(), file::SMALL_FILE_BYTES).ok());
    let mut profiles = texts.filter(|text| value(text, "uuid") == Some(uuid));
    // `NM_METERED_YES` is stored as 1.
    profiles.any(|text| matches!(value(&text, "metered"), Some("1" | "yes" | "true")))
}
