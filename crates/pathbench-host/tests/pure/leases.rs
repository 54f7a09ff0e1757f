//! DHCP leases as their clients wrote them: systemd-networkd 252, `NetworkManager` 1.42 and dhclient 4.4.3 of Debian 12.

use crate::managers::{link, write};
use pathbench_host::leases::{DhcpLease, read, routers};
use pathbench_host::netlink::InterfaceAddress;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// 2026-11-28 21:00:00 UTC.
const NOW_S: u64 = 1_795_899_600;
const LEASES: &str = "var/lib/dhcp/dhclient.leases";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn found(root: &Path) -> Vec<(u32, Vec<IpAddr>)> {
    let links = [link(3, "eth0"), link(5, "wlan0")];
    let leases = read(root, &links.iter().collect::<Vec<_>>(), NOW_S);
    leases.into_iter().map(|lease| (lease.interface, lease.routers)).collect()
}

fn dhclient(interface: &str, router: &str, expire: &str) -> String {
    format!(
        "lease {{\n  interface \"{interface}\";\n  fixed-address 192.168.60.111;\n  option subnet-mask 255.255.255.0;\n  \
         option routers {router};\n  option dhcp-lease-time 3600;\n  option host-name \"vm\";\n  renew 6 2026/11/28 21:08:30;\n  \
         expire {expire};\n}}\n"
    )
}

#[test]
fn leases_of_networkd_expire_after_their_lifetime() {
    let root = tempfile::tempdir().unwrap();
    let text = "# This is private data. Do not parse.\nADDRESS=192.168.60.102\nNETMASK=255.255.255.0\nROUTER=192.168.60.1\n\
                SERVER_ADDRESS=192.168.60.1\nT1=1800\nT2=3150\nLIFETIME=3600\nHOSTNAME=vm\n";
    write(root.path(), "run/systemd/netif/leases/5", text);
    let file =
        std::fs::File::options().write(true).open(root.path().join("run/systemd/netif/leases/5")).unwrap();
    let written = |at_s: u64| file.set_modified(UNIX_EPOCH + Duration::from_secs(at_s)).unwrap();
    written(NOW_S - 3599);
    assert_eq!(found(root.path()), [(5, vec![ip("192.168.60.1")])]);
    written(NOW_S - 3600);
    assert_eq!(found(root.path()), []);
}

#[test]
fn leases_of_network_manager_are_in_its_state_files() {
    let root = tempfile::tempdir().unwrap();
    let text = |expiry: u64| {
        format!(
            "[device]\nmanaged=true\nconnection-uuid=678d5939-b2d8-366e-84b9-e3f25b6ab2e3\nnm-owned=false\n\
             route-metric-default-effective=101\nnext-server=192.168.60.1\n\n[dhcp4]\ndhcp4.dhcp_lease_time=3600\n\
             dhcp4.expiry={expiry}\ndhcp4.ip_address=192.168.60.141\ndhcp4.routers=192.168.60.1\n"
        )
    };
    write(root.path(), "run/NetworkManager/devices/5", &text(NOW_S + 1));
    assert_eq!(found(root.path()), [(5, vec![ip("192.168.60.1")])]);
    write(root.path(), "run/NetworkManager/devices/5", &text(NOW_S));
    assert_eq!(found(root.path()), []);
}

/// dhclient appends a lease at each renewal, and one that has expired when it releases the address.
#[test]
fn the_last_lease_of_dhclient_counts() {
    let root = tempfile::tempdir().unwrap();
    let renewed = dhclient("wlan0", "192.168.60.254", "6 2026/11/28 20:38:42")
        + &dhclient("wlan0", "192.168.60.1,192.168.60.2", "6 2026/11/28 21:38:42");
    write(root.path(), LEASES, &renewed);
    assert_eq!(found(root.path()), [(5, vec![ip("192.168.60.1"), ip("192.168.60.2")])]);
    write(root.path(), LEASES, &(renewed + &dhclient("wlan0", "192.168.60.1", "6 2026/11/28 20:38:43")));
    assert_eq!(found(root.path()), [], "released");
    let times = [
        ("never", true),
        ("epoch 1795899601", true),
        ("epoch 1795899600", false),
        ("6 2026/11/28 20:59:59", false),
        ("tomorrow", false),
        ("6 2026/11/28 99:99:99", false),
    ];
    for (expire, counts) in times {
        write(root.path(), LEASES, &dhclient("eth0", "10.0.0.1", expire));
        assert_eq!(!found(root.path()).is_empty(), counts, "{expire}");
    }
}

#[test]
fn hostile_files_are_no_leases() {
    let root = tempfile::tempdir().unwrap();
    let good = dhclient("eth0", "10.0.0.1", "never");
    // The option's text cannot end the statement: dhclient writes line breaks in it as \012.
    let option = "  option domain-name \"x; } lease { interface \\\"wlan0\\\"; option routers 6.6.6.6; expire never; }\";\n}\n";
    write(root.path(), LEASES, &good.replace("}\n", option));
    assert_eq!(found(root.path()), [(3, vec![ip("10.0.0.1")])]);
    for text in [
        "lease {\n",
        "}\n}\n}\n",
        "lease {\n  interface \"eth0\";\n  option routers x, ;\n  expire never;\n}\n",
        "\0",
    ] {
        write(root.path(), LEASES, text);
        assert_eq!(found(root.path()), [], "{text:?}");
    }
    let many = format!("10.0.0.1{}", ",10.0.0.1".repeat(5000));
    write(root.path(), LEASES, &dhclient("eth0", &many, "never"));
    assert_eq!(found(root.path())[0].1.len(), 8, "bounded");
    write(root.path(), LEASES, &(good.clone() + &" ".repeat(1 << 20)));
    assert_eq!(found(root.path()), [], "a file of this size is not read");
    std::fs::remove_file(root.path().join(LEASES)).unwrap();
    write(root.path(), "elsewhere", &good);
    symlink(root.path().join("elsewhere"), root.path().join(LEASES)).unwrap();
    assert_eq!(found(root.path()), [], "a link is not followed");
    std::fs::remove_file(root.path().join(LEASES)).unwrap();
    std::fs::create_dir(root.path().join(LEASES)).unwrap();
    assert_eq!(found(root.path()), [], "a directory");
}

/// A lease of another network, or of an address that was given up, says nothing.
#[test]
fn a_lease_counts_while_its_address_is_there() {
    let lease =
        |interface, address, router| DhcpLease { interface, address: ip(address), routers: vec![ip(router)] };
    let leases = [
        lease(3, "10.0.0.7", "10.0.0.1"),
        lease(5, "10.1.0.7", "10.1.0.1"),
        lease(5, "10.1.0.7", "10.1.0.1"),
    ];
    let address = |index, network: &str| InterfaceAddress {
        index,
        network: network.parse().unwrap(),
        tentative: false,
        permanent: false,
        deprecated: false,
        secondary: false,
        link_scope: false,
    };
    let addresses = [address(3, "10.0.0.8/24"), address(5, "10.1.0.7/24"), address(4, "10.0.0.7/24")];
    assert_eq!(routers(&leases, &addresses), [(5, vec![ip("10.1.0.1")])].into());
}
