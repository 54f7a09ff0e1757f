//! DHCP leases of this host, in the files of their clients: systemd-networkd, `NetworkManager` and dhclient. udhcpc keeps
//! no file: its script sets the default route itself.
//!
//! The content comes from servers of foreign networks: only addresses and times are taken from it.

use crate::netlink::{InterfaceAddress, NetworkInterface};
use pathbench_record::file;
use pathbench_record::time::unix_from_rfc3339;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

const NETWORKD: &str = "run/systemd/netif/leases";
pub(crate) const NETWORK_MANAGER: &str = "run/NetworkManager/devices";
/// Directories of dhclient's files: of Debian, of Red Hat, and of `NetworkManager` with `dhcp=dhclient`.
const DHCLIENT: [&str; 3] = ["var/lib/dhcp", "var/lib/dhclient", "var/lib/NetworkManager"];
/// Files of a directory that are examined, and the largest size of one: dhclient rewrites its file before it has this size.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 1 << 20;
/// Routers of one lease.
const MOST_ROUTERS: usize = 8;

/// A lease that has not expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpLease {
    /// Index of the interface.
    pub interface: u32,
    pub address: IpAddr,
    pub routers: Vec<IpAddr>,
}

/// The leases of these interfaces in the files below `root` at the Unix time `now_s`.
pub fn read(root: &Path, links: &[&NetworkInterface], now_s: u64) -> Vec<DhcpLease> {
    let mut leases = Vec::new();
    for link in links {
        let entry = |directory: &str| root.join(directory).join(link.index.to_string());
        leases.extend(of_networkd(&entry(NETWORKD), link.index, now_s));
        leases.extend(of_network_manager(&entry(NETWORK_MANAGER), link.index, now_s));
    }
    for path in DHCLIENT.iter().flat_map(|directory| dhclient_files(&root.join(directory))) {
        let Ok(text) = file::read_text(&path, MOST_BYTES) else { continue };
        let found = of_dhclient(&text);
        leases.extend(links.iter().filter_map(|link| {
            let lease = found.get(link.name.as_str())?;
            (lease.expiry_s > now_s).then(|| lease.lease(link.index)).flatten()
        }));
    }
    leases
}

/// The routers by interface, of the leases whose address the interface has.
pub fn routers(leases: &[DhcpLease], addresses: &[InterfaceAddress]) -> BTreeMap<u32, Vec<IpAddr>> {
    let mut routers: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
    for lease in leases {
        let has =
            |one: &InterfaceAddress| one.index == lease.interface && one.network.addr() == lease.address;
        if addresses.iter().any(has) && !lease.routers.is_empty() {
            let known = routers.entry(lease.interface).or_default();
            known.extend(
                lease.routers.iter().filter(|router| !known.contains(router)).copied().collect::<Vec<_>>(),
            );
        }
    }
    routers
}

/// The value of `KEY=VALUE` in a state file.
pub fn state_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let pair = |line: &'a str| line.trim().strip_prefix(key)?.trim_start().strip_prefix('=');
    text.lines().find_map(pair).map(str::trim).filter(|value| !value.is_empty())
}

/// `ADDRESS=`, `ROUTER=` and, in seconds from the file's last change, `LIFETIME=`.
fn of_networkd(path: &Path, interface: u32, now_s: u64) -> Option<DhcpLease> {
    let text = file::read_text(path, MOST_BYTES).ok()?;
    if let Some(lifetime) = state_value(&text, "LIFETIME") {
        let written = fs::symlink_metadata(path).ok()?.modified().ok()?;
        let written_s = written.duration_since(UNIX_EPOCH).ok()?.as_secs();
        if written_s.saturating_add(lifetime.parse().ok()?) <= now_s {
            return None;
        }
    }
    lease(interface, state_value(&text, "ADDRESS")?, state_value(&text, "ROUTER"))
}

/// The section `[dhcp4]` of the interface's state file.
fn of_network_manager(path: &Path, interface: u32, now_s: u64) -> Option<DhcpLease> {
    let text = file::read_text(path, MOST_BYTES).ok()?;
    let expiry_s: u64 = state_value(&text, "dhcp4.expiry")?.parse().ok()?;
    let routers = state_value(&text, "dhcp4.routers");
    (expiry_s > now_s).then(|| lease(interface, state_value(&text, "dhcp4.ip_address")?, routers)).flatten()
}

fn lease(interface: u32, address: &str, routers: Option<&str>) -> Option<DhcpLease> {
    let routers = routers.unwrap_or_default().split([',', ' ']).filter_map(|text| text.trim().parse().ok());
    Some(DhcpLease {
        interface,
        address: address.parse().ok()?,
        routers: routers.take(MOST_ROUTERS).collect(),
    })
}

fn dhclient_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(MOST_FILES);
    let is_lease_file = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("dhclient") && path.extension().is_some_and(|end| end == "leases" || end == "lease")
    };
    entries.map(|entry| entry.path()).filter(is_lease_file).collect()
}

/// The statements of a `lease { … }` (dhclient.leases(5)).
#[derive(Debug, Clone, Copy, Default)]
struct Statements<'a> {
    interface: &'a str,
    address: &'a str,
    routers: &'a str,
    expiry_s: u64,
}

impl Statements<'_> {
    fn lease(&self, interface: u32) -> Option<DhcpLease> {
        lease(interface, self.address, Some(self.routers))
    }
}

/// The last lease of each interface, by name. dhclient writes a statement per line, and escapes line breaks in strings.
fn of_dhclient(text: &str) -> BTreeMap<&str, Statements<'_>> {
    let mut last = BTreeMap::new();
    let mut current: Option<Statements<'_>> = None;
    for line in text.lines() {
        match (line, &mut current) {
            ("lease {", _) => current = Some(Statements::default()),
            ("}", Some(lease)) => {
                last.insert(lease.interface, *lease);
                current = None;
            }
            (statement, Some(lease)) => lease.take(statement.trim_start()),
            _ => {}
        }
    }
    last
}

impl<'a> Statements<'a> {
    fn take(&mut self, statement: &'a str) {
        let Some((words, _comment)) = statement.split_once(';') else { return };
        if let Some(name) = words.strip_prefix("interface ") {
            self.interface = name.trim_matches('"');
        } else if let Some(address) = words.strip_prefix("fixed-address ") {
            self.address = address;
        } else if let Some(routers) = words.strip_prefix("option routers ") {
            self.routers = routers;
        } else if let Some(time) = words.strip_prefix("expire ") {
            self.expiry_s = expiry_s(time);
        }
    }
}

/// `6 2026/11/28 21:38:39` (day of the week, UTC), `epoch 1795901507` or `never`; 0 for another text.
fn expiry_s(time: &str) -> u64 {
    let words: Vec<&str> = time.split_whitespace().collect();
    let seconds = match words.as_slice() {
        ["never"] => Some(u64::MAX),
        ["epoch", seconds] => seconds.parse().ok(),
        [_, date, time] => unix_from_rfc3339(&format!("{}T{time}Z", date.replace('/', "-"))),
        _ => None,
    };
    seconds.unwrap_or(0)
}
