//! Managers by their processes and files: state files as `NetworkManager` 1.42, mptcpd 0.12 and systemd-networkd 252 of
//! Debian 12 wrote them.

use pathbench_host::managers::{Managers, MptcpdFlags, networkd_keeps_rules};
use pathbench_host::netlink::NetworkInterface;
use pathbench_host::nmcli::{ManagedDevice, NetworkManagerState};
use std::fs;
use std::path::Path;

pub(crate) fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

pub(crate) fn link(index: u32, name: &str) -> NetworkInterface {
    NetworkInterface {
        index,
        name: name.to_owned(),
        mtu: 1500,
        up: true,
        carrier: true,
        running: true,
        loopback: false,
        kind: None,
        mac: None,
        master: None,
        gso_max_size: None,
        gso_max_segs: None,
    }
}

fn managers(root: &Path) -> Managers {
    let links = [link(3, "eth0"), link(5, "wlan0"), link(6, "docker0")];
    Managers::read_below(root, &links.iter().collect::<Vec<_>>(), 0)
}

fn process(root: &Path, number: u32, name: &str, state: char) {
    let comm: String = name.chars().take(15).collect();
    write(root, &format!("proc/{number}/comm"), &format!("{comm}\n"));
    write(root, &format!("proc/{number}/stat"), &format!("{number} ({name}) {state} 1 57 57 0 -1 4194560"));
}

fn rules(root: &Path, file: &str, value: &str) {
    let text =
        format!("[Network]\n#ManageForeignRoutingPolicyRules=no\nManageForeignRoutingPolicyRules={value}\n");
    write(root, file, &text);
}

/// Regression: files that a stopped manager had left in `/run` were taken for a manager.
#[test]
fn leftovers_of_a_stopped_manager_are_no_manager() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let device =
        |managed, uuid| format!("[device]\nmanaged={managed}\nconnection-uuid={uuid}\nnm-owned=false\n");
    write(root, "run/NetworkManager/devices/3", &device(true, "678d5939-b2d8-366e-84b9-e3f25b6ab2e3"));
    write(root, "run/NetworkManager/devices/5", &device(true, "$(reboot)"));
    write(root, "run/NetworkManager/devices/6", &device(false, "0"));
    write(root, "run/NetworkManager/NetworkManager.pid", "57\n");
    write(root, "run/systemd/netif/links/3", "ADMIN_STATE=configured\nOPER_STATE=routable\n");
    write(root, "run/systemd/netif/links/5", "ADMIN_STATE=unmanaged\n");
    process(root, 1, "systemd", 'S');
    for (number, name, state) in [
        (57, "sh", 'S'),
        (58, "NetworkManager", 'Z'),
        (59, "systemd-networ", 'S'),
        (60, "mptcpd x) S (", 'S'),
    ] {
        process(root, number, name, state);
    }
    assert_eq!(managers(root), Managers::default());
    process(root, 58, "NetworkManager", 'S');
    let found = managers(root);
    assert_eq!(found.network_manager, ["eth0", "wlan0"]);
    // A word of a command.
    let uuids: Vec<_> = found.connections.into_iter().collect();
    assert_eq!(uuids, [("eth0".to_owned(), "678d5939-b2d8-366e-84b9-e3f25b6ab2e3".to_owned())]);
    assert!(found.networkd.is_empty() && !found.mptcpd);
    // The kernel keeps 15 bytes of the name.
    process(root, 61, "systemd-networkd", 'S');
    assert_eq!(managers(root).networkd, ["eth0"]);
}

/// `NetworkManager` shows the bridge of a container program as "connected (externally)", and writes managed=true for it.
#[test]
fn an_external_interface_is_not_managed() {
    let mut found = Managers {
        network_manager: vec!["eth0".to_owned(), "docker0".to_owned()],
        connections: [("docker0".to_owned(), "be3d0703".to_owned())].into(),
        ..Managers::default()
    };
    let device = |name: &str, is_external, is_metered| ManagedDevice {
        name: name.to_owned(),
        is_external,
        is_metered,
    };
    let devices = vec![device("eth0", false, true), device("docker0", true, false)];
    found.take_state(&NetworkManagerState { version: Some((1, 42)), devices });
    assert_eq!(found.network_manager, ["eth0"]);
    assert!(found.connections.is_empty() && found.metered.contains("eth0"));
    assert_eq!(found.network_manager_version, Some((1, 42)));
    // nmcli did not answer.
    let before = found.network_manager.clone();
    found.take_state(&NetworkManagerState::default());
    assert_eq!(found.network_manager, before);
}

#[test]
fn mptcpd_is_read_with_the_flags_that_it_uses() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let flags = |endpoint: &[&str], notification: &[&str]| {
        let owned = |flags: &[&str]| flags.iter().map(|flag| (*flag).to_owned()).collect();
        Some(MptcpdFlags { endpoint: owned(endpoint), notification: owned(notification) })
    };
    // Debian's file has both as comments.
    let stock = "[core]\nlog=stderr\npath-manager=addr_adv\n# addr-flags=subflow\n# notify-flags=existing,skip_link_local\n";
    write(root, "etc/mptcpd/mptcpd.conf", stock);
    assert_eq!(managers(root).mptcpd_flags, None, "it does not run");
    process(root, 66, "mptcpd", 'S');
    write(root, "proc/66/cmdline", "/usr/libexec/mptcpd\0--log=journal\0");
    assert!(managers(root).mptcpd);
    assert_eq!(managers(root).mptcpd_flags, flags(&[], &[]));
    write(root, "etc/mptcpd/mptcpd.conf", &stock.replace("# ", ""));
    assert_eq!(managers(root).mptcpd_flags, flags(&["subflow"], &["existing", "skip_link_local"]));
    write(root, "proc/66/cmdline", "/usr/libexec/mptcpd\0--addr-flags=signal\0--notify-flags=\0");
    assert_eq!(managers(root).mptcpd_flags, flags(&["signal"], &[]));
}

#[test]
fn the_last_drop_in_wins_and_etc_hides_other_files_of_its_name() {
    let root = tempfile::tempdir().unwrap();
    let keeps = || networkd_keeps_rules(root.path());
    assert!(!keeps(), "the default is to manage them");
    rules(root.path(), "usr/lib/systemd/networkd.conf", "no");
    assert!(keeps());
    rules(root.path(), "etc/systemd/networkd.conf", "yes");
    assert!(!keeps(), "the file in /etc precedes");
    rules(root.path(), "run/systemd/networkd.conf.d/50-rules.conf", "no");
    assert!(keeps(), "a drop-in precedes the file");
    rules(root.path(), "etc/systemd/networkd.conf.d/40-rules.conf", "yes");
    assert!(keeps(), "by name, not by directory");
    rules(root.path(), "etc/systemd/networkd.conf.d/50-rules.conf", "true");
    assert!(!keeps(), "hidden");
    rules(root.path(), "etc/systemd/networkd.conf.d/60-rules.conf", "off");
    assert!(keeps());
}
