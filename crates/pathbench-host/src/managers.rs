//! Programs that manage interfaces, rules or MPTCP endpoints of this network namespace, by the files in `/run` and by
//! their processes.

use crate::device;
use crate::netlink::NetworkInterface;
use pathbench_record::file;
use std::fs;
use std::path::{Path, PathBuf};

/// The managers of the calling thread's network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers {
    pub network_manager: Vec<String>,
    /// Major and minor number; the files do not contain it.
    pub network_manager_version: Option<(u32, u32)>,
    pub networkd: Vec<String>,
    /// Whether systemd-networkd keeps policy rules of other programs.
    pub networkd_keeps_rules: bool,
    pub mptcpd: bool,
}

impl Managers {
    /// Managers run in the network namespace in which sysfs was mounted; another namespace, such as a lab's host, has
    /// none.
    pub fn read(links: &[NetworkInterface]) -> Self {
        let shared: Vec<&NetworkInterface> =
            links.iter().filter(|link| !link.loopback && device::sysfs(link).is_some()).collect();
        if shared.is_empty() { Self::default() } else { Self::read_below(Path::new("/"), &shared) }
    }

    pub fn read_below(root: &Path, links: &[&NetworkInterface]) -> Self {
        let managed = |is_managed: fn(&Path, u32) -> bool| {
            links.iter().filter(|link| is_managed(root, link.index)).map(|link| link.name.clone()).collect()
        };
        Self {
            network_manager: managed(network_manager_manages),
            network_manager_version: None,
            networkd: managed(networkd_manages),
            networkd_keeps_rules: networkd_keeps_rules(root),
            mptcpd: is_running(root, "mptcpd"),
        }
    }
}

/// `NetworkManager` writes a file per interface; `managed` is in it since 1.6.
fn network_manager_manages(root: &Path, index: u32) -> bool {
    let file = root.join(format!("run/NetworkManager/devices/{index}"));
    file::read_text_named(file, file::SMALL_FILE_BYTES)
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "managed=true"))
}

fn networkd_manages(root: &Path, index: u32) -> bool {
    let file = root.join(format!("run/systemd/netif/links/{index}"));
    file::read_text_named(file, file::SMALL_FILE_BYTES).is_ok_and(|text| {
        let state = text.lines().find_map(|line| line.strip_prefix("ADMIN_STATE="));
        state.is_some_and(|state| state != "unmanaged")
    })
}

/// `ManageForeignRoutingPolicyRules=` of networkd.conf(5). A drop-in precedes networkd.conf, the last one by name wins,
/// and a file in `/etc` hides the one of the same name in `/run` and `/usr/lib`. The default is yes.
pub fn networkd_keeps_rules(root: &Path) -> bool {
    let directories = ["usr/lib/systemd", "run/systemd", "etc/systemd"].map(|directory| root.join(directory));
    let mut drop_ins: Vec<PathBuf> = Vec::new();
    for directory in &directories {
        let files = fs::read_dir(directory.join("networkd.conf.d")).into_iter().flatten().flatten();
        for file in
            files.map(|file| file.path()).filter(|file| file.extension().is_some_and(|end| end == "conf"))
        {
            drop_ins.retain(|other| other.file_name() != file.file_name());
            drop_ins.push(file);
        }
    }
    drop_ins.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    let main =
        directories.iter().rev().map(|directory| directory.join("networkd.conf")).find(|file| file.exists());
    let texts = main
        .iter()
        .chain(&drop_ins)
        .filter_map(|file| file::read_text_named(file, file::SMALL_FILE_BYTES).ok());
    let mut keeps = false;
    for text in texts {
        let mut values =
            text.lines().filter_map(|line| line.trim().strip_prefix("ManageForeignRoutingPolicyRules="));
        if let Some(value) = values.next_back() {
            keeps = matches!(value.trim(), "no" | "false" | "off" | "0" | "n" | "f");
        }
    }
    keeps
}

/// Whether a process of this name runs.
fn is_running(root: &Path, name: &str) -> bool {
    let processes = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    processes.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)).any(
        |entry| {
            file::read_text(entry.path().join("comm"), file::SMALL_FILE_BYTES)
                .is_ok_and(|comm| comm.trim() == name)
        },
    )
}
