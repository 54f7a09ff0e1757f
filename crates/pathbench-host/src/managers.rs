//! Programs that manage interfaces, rules or MPTCP endpoints of this network namespace: by their processes, and by the
//! files that they keep in `/run`. Files of a program that has ended are leftovers, and say nothing.

use crate::device;
use crate::leases::{self, DhcpLease, state_value};
use crate::netlink::NetworkInterface;
use crate::nmcli::{self, NetworkManagerState};
use crate::systemd;
use pathbench_record::file;
use rustix::process::geteuid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const NETWORK_MANAGER: &str = "NetworkManager";
const NETWORKD: &str = "systemd-networkd";
const MPTCPD: &str = "mptcpd";
const MPTCPD_SETTINGS: &str = "etc/mptcpd/mptcpd.conf";
/// State and settings files are shorter.
const MOST_BYTES: u64 = 1 << 20;
/// Users that log in, by `UID_MIN` and `UID_MAX` of login.defs(5): none of their processes is a manager.
const LOGIN_USERS: std::ops::RangeInclusive<u32> = 1000..=60_000;
/// The kernel's maximum (`PID_MAX_LIMIT` of linux/threads.h).
const MOST_PROCESSES: usize = 1 << 22;

/// The managers of the calling thread's network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers {
    /// Names of the interfaces that `NetworkManager` configures; it only watches those that another program has configured.
    pub network_manager: Vec<String>,
    /// Major and minor number; the files do not contain it.
    pub network_manager_version: Option<(u32, u32)>,
    /// The UUID of the active connection, by name of the interface.
    pub connections: BTreeMap<String, String>,
    /// Names of the interfaces that are metered according to `NetworkManager`.
    pub metered: BTreeSet<String>,
    pub networkd: Vec<String>,
    /// Whether systemd-networkd keeps policy rules of other programs.
    pub networkd_keeps_rules: bool,
    pub mptcpd: bool,
    /// Unknown if mptcpd does not run.
    pub mptcpd_flags: Option<MptcpdFlags>,
    /// Of any client, whether it runs or not.
    pub leases: Vec<DhcpLease>,
}

/// The flags that mptcpd uses: of its command line, or of mptcpd.conf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MptcpdFlags {
    /// `addr-flags`: of the endpoints that it adds. The default is none.
    pub endpoint: Vec<String>,
    /// `notify-flags`: with `existing`, mptcpd also adds addresses that are there when it starts.
    pub notification: Vec<String>,
}

impl Managers {
    /// Managers run in the network namespace in which sysfs was mounted; another namespace, such as a lab's host, has
    /// none. `now_s` is the Unix time.
    pub fn read(links: &[NetworkInterface], now_s: u64) -> Self {
        let shared: Vec<&NetworkInterface> =
            links.iter().filter(|link| !link.loopback && device::sysfs(link).is_some()).collect();
        if shared.is_empty() {
            return Self::default();
        }
        let mut managers = Self::read_below(Path::new("/"), &shared, now_s);
        if !managers.network_manager.is_empty() {
            managers.take_state(&nmcli::state());
        }
        managers
    }

    /// The same from the files below `root` alone.
    pub fn read_below(root: &Path, links: &[&NetworkInterface], now_s: u64) -> Self {
        let running = running_managers(root);
        let managed = |program: &str, is_managed: fn(&Path, u32) -> bool| -> Vec<String> {
            if !running.contains_key(program) {
                return Vec::new();
            }
            let managed = links.iter().filter(|link| is_managed(root, link.index));
            managed.map(|link| link.name.clone()).collect()
        };
        let network_manager = managed(NETWORK_MANAGER, network_manager_manages);
        let of_manager = links.iter().filter(|link| network_manager.contains(&link.name));
        let connection = |link: &&&NetworkInterface| {
            let uuid = state_value(&network_manager_file(root, link.index)?, "connection-uuid")?.to_owned();
            // It becomes a word of a command.
            let is_uuid = uuid.len() <= 36 && uuid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
            is_uuid.then(|| (link.name.clone(), uuid))
        };
        let mptcpd = running.get(MPTCPD);
        Self {
            connections: of_manager.filter_map(|link| connection(&link)).collect(),
            network_manager,
            network_manager_version: None,
            metered: BTreeSet::new(),
            networkd: managed(NETWORKD, networkd_manages),
            networkd_keeps_rules: networkd_keeps_rules(root),
            mptcpd: mptcpd.is_some(),
            mptcpd_flags: mptcpd.map(|process| mptcpd_flags(root, process)),
            leases: leases::read(root, links, now_s),
        }
    }

    /// Adds the answer of a running `NetworkManager`, which the files do not contain.
    pub fn take_state(&mut self, state: &NetworkManagerState) {
        self.network_manager_version = state.version;
        for device in &state.devices {
            if device.is_external {
                self.network_manager.retain(|name| *name != device.name);
                self.connections.remove(&device.name);
            }
            if device.is_metered {
                self.metered.insert(device.name.clone());
            }
        }
    }
}

fn network_manager_file(root: &Path, index: u32) -> Option<String> {
    file::read_text(root.join(leases::NETWORK_MANAGER).join(index.to_string()), MOST_BYTES).ok()
}

/// `NetworkManager` writes a file per interface; `managed` is in it since 1.6.
fn network_manager_manages(root: &Path, index: u32) -> bool {
    network_manager_file(root, index)
        .is_some_and(|text| text.lines().any(|line| line.trim() == "managed=true"))
}

fn networkd_manages(root: &Path, index: u32) -> bool {
    let file = root.join(format!("run/systemd/netif/links/{index}"));
    file::read_text(file, MOST_BYTES).is_ok_and(|text| {
        let state = text.lines().find_map(|line| line.strip_prefix("ADMIN_STATE="));
        state.is_some_and(|state| state != "unmanaged")
    })
}

/// `ManageForeignRoutingPolicyRules=` of networkd.conf(5). A drop-in precedes networkd.conf, the last one by name wins,
/// and a file in `/etc` hides the one of the same name in `/run` and `/usr/lib`. The default is yes.
pub fn networkd_keeps_rules(root: &Path) -> bool {
    let directories = ["etc/systemd", "run/systemd", "usr/lib/systemd"];
    let texts = systemd::texts(root, &directories, "networkd.conf", &["networkd.conf"]);
    let value = systemd::value(&texts, "Network", "ManageForeignRoutingPolicyRules");
    value.is_some_and(|value| matches!(value.as_str(), "no" | "false" | "off" | "0" | "n" | "f"))
}

/// The command line precedes the section `[core]` of the file.
fn mptcpd_flags(root: &Path, process: &Path) -> MptcpdFlags {
    let settings = file::read_text_named(root.join(MPTCPD_SETTINGS), MOST_BYTES).unwrap_or_default();
    let settings = [settings];
    let command = file::read_text(process.join("cmdline"), MOST_BYTES).unwrap_or_default();
    let flags = |key: &str| -> Vec<String> {
        let option = format!("--{key}=");
        let given = command.split('\0').rev().find_map(|word| word.strip_prefix(&option)).map(str::to_owned);
        let value = given.or_else(|| systemd::value(&settings, "core", key)).unwrap_or_default();
        value.split(',').map(str::trim).filter(|flag| !flag.is_empty()).map(str::to_owned).collect()
    };
    MptcpdFlags { endpoint: flags("addr-flags"), notification: flags("notify-flags") }
}

/// The directories of the running managers by name, in the network namespace of this thread as far as that can be read.
fn running_managers(root: &Path) -> BTreeMap<&'static str, PathBuf> {
    let own = fs::read_link(root.join("proc/thread-self/ns/net")).ok();
    let is_here = |process: &Path| {
        own.is_none() || fs::read_link(process.join("ns/net")).ok().is_none_or(|of| Some(of) == own)
    };
    let processes = fs::read_dir(root.join("proc")).into_iter().flatten().flatten().take(MOST_PROCESSES);
    let numbered =
        processes.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    let managers = numbered.map(|entry| entry.path()).filter_map(|process| {
        let comm = file::read_text(process.join("comm"), MOST_BYTES).ok()?;
        // The kernel keeps 15 bytes of a name (`TASK_COMM_LEN`).
        let is_name = |name: &&str| name[..name.len().min(15)] == *comm.trim_end_matches('\n');
        let name = [NETWORK_MANAGER, NETWORKD, MPTCPD].into_iter().find(is_name)?;
        (is_alive(&process) && is_of_a_service(&process) && is_here(&process)).then_some((name, process))
    });
    managers.collect()
}

/// Whether the process is no zombie: `57 (NetworkManager) S …`.
fn is_alive(process: &Path) -> bool {
    file::read_text(process.join("stat"), MOST_BYTES).is_ok_and(|stat| {
        stat.rsplit_once(')').is_some_and(|(_, state)| !state.trim_start().starts_with(['Z', 'X']))
    })
}

/// Another user's process can have any name.
fn is_of_a_service(process: &Path) -> bool {
    fs::symlink_metadata(process)
        .is_ok_and(|of| !LOGIN_USERS.contains(&of.uid()) || of.uid() == geteuid().as_raw())
}
