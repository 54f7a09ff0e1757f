//! The programs that manage the network of this machine: `NetworkManager`, systemd-networkd and mptcpd.
//!
//! They manage the machine's own network namespace; in another one, their files describe other interfaces.

use pathbench_check::setup::{Manager, SetupHost};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const NETWORK_MANAGER_DEVICES: &str = "run/NetworkManager/devices";
const NETWORKD_LINKS: &str = "run/systemd/netif/links";
const NETWORKD_LEASES: &str = "run/systemd/netif/leases";
const NETWORKD_CONFIGURATION: [&str; 3] = ["etc/systemd", "run/systemd", "usr/lib/systemd"];

/// Adds to `host` what other programs manage.
pub(super) fn read(root: &Path, host: &mut SetupHost) {
    if root == Path::new("/") && !is_machines_namespace() {
        return;
    }
    host.has_mptcpd = has_process(root, "mptcpd");
    host.networkd_keeps_rules = keeps_foreign_rules(root);
    let indices: Vec<u32> = host.links.iter().map(|link| link.index).collect();
    for index in indices {
        let entry = |directory: &str| fs::read_to_string(root.join(directory).join(index.to_string())).ok();
        if let Some(device) = entry(NETWORK_MANAGER_DEVICES)
            && is_managed_by_network_manager(&device)
        {
            host.managers.insert(index, Manager::NetworkManager);
            if let Some(uuid) = value(&device, "connection-uuid")
                && is_metered(root, uuid)
            {
                host.metered.insert(index);
            }
        }
        if entry(NETWORKD_LINKS).is_some_and(|link| value(&link, "NETWORK_FILE").is_some()) {
            host.managers.entry(index).or_insert(Manager::Networkd);
        }
        if let Some(lease) = entry(NETWORKD_LEASES) {
            let routers = value(&lease, "ROUTER").unwrap_or_default();
            let routers: Vec<IpAddr> =
                routers.split_whitespace().filter_map(|text| text.parse().ok()).collect();
            host.leased_routers.insert(index, routers);
        }
    }
}

/// The .network file of each interface that systemd-networkd manages, by index.
pub(super) fn network_files(root: &Path) -> BTreeMap<u32, String> {
    if root == Path::new("/") && !is_machines_namespace() {
        return BTreeMap::new();
    }
    let Ok(entries) = fs::read_dir(root.join(NETWORKD_LINKS)) else { return BTreeMap::new() };
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let index: u32 = entry.file_name().to_str()?.parse().ok()?;
        let link = fs::read_to_string(entry.path()).ok()?;
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

/// Whether this process is in the network namespace of PID 1. Only root may read which one that is; a user outside of
/// user namespaces is assumed to be in it.
fn is_machines_namespace() -> bool {
    let inode = |file: &str| fs::metadata(file).map(|metadata| metadata.ino());
    match (inode("/proc/1/ns/net"), inode("/proc/thread-self/ns/net")) {
        (Ok(first), Ok(own)) => first == own,
        _ => fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295")),
    }
}

/// A state file of `NetworkManager` (`nm-config.c`, `NM_CONFIG_DEVICE_STATE_*`).
fn is_managed_by_network_manager(device: &str) -> bool {
    value(device, "managed") != Some("false") && value(device, "connection-uuid").is_some()
}

/// Whether the connection profile says `metered=yes`; the profiles are readable by root only.
fn is_metered(root: &Path, uuid: &str) -> bool {
    let places = ["etc/NetworkManager/system-connections", "run/NetworkManager/system-connections"];
    let files = places.iter().filter_map(|place| fs::read_dir(root.join(place)).ok()).flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let mut profiles = texts.filter(|text| value(text, "uuid") == Some(uuid));
    // `NM_METERED_YES` is stored as 1.
    profiles.any(|text| matches!(value(&text, "metered"), Some("1" | "yes" | "true")))
}

fn keeps_foreign_rules(root: &Path) -> bool {
    let mut files = Vec::new();
    for place in NETWORKD_CONFIGURATION.map(|place| root.join(place)) {
        files.push(place.join("networkd.conf"));
        let more = fs::read_dir(place.join("networkd.conf.d")).into_iter().flatten().flatten();
        files.extend(more.map(|entry| entry.path()));
    }
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let mut answers = texts.filter_map(|text| {
        let answer = value(&text, "ManageForeignRoutingPolicyRules")?;
        Some(matches!(answer, "no" | "false" | "0" | "off"))
    });
    answers.any(|keeps| keeps)
}

fn has_process(root: &Path, name: &str) -> bool {
    let processes = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    let mut names = processes.filter_map(|process| fs::read_to_string(process.path().join("comm")).ok());
    names.any(|found| found.trim_end() == name)
}
