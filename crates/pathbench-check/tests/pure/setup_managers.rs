//! Plans of a set-up beside other programs that manage endpoints and rules.

use crate::setup::{laptop, planned};
use pathbench_check::setup::persistence::{self, DROP_IN, NETWORKD};
use pathbench_check::setup::{Manager, SetupHost, SetupOptions, plan};
use pathbench_host::managers::MptcpdFlags;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint};
use std::collections::BTreeMap;

const UUID: &str = "678d5939-b2d8-366e-84b9-e3f25b6ab2e3";

/// wlan0 belongs to this version of `NetworkManager`.
fn managed(version: (u32, u32)) -> SetupHost {
    let mut host = laptop();
    host.managers.insert(3, Manager::NetworkManager);
    host.network_manager_version = Some(version);
    host.connections.insert(3, UUID.to_owned());
    host.has_laminar = true;
    host
}

fn with_endpoint(mut host: SetupHost, address: &str, id: u8, interface: u32, subflow: bool) -> SetupHost {
    let flags = EndpointFlags { subflow, ..EndpointFlags::default() };
    let address = address.parse().unwrap();
    host.endpoints.push(MptcpEndpoint {
        address,
        port: None,
        id: Some(id),
        interface: Some(interface),
        flags,
    });
    host
}

fn notes(host: &SetupHost) -> String {
    planned(host).notes.join("\n")
}

/// Regression: nmcli 1.42 refuses `laminar`, which Linux 6.18 knows.
#[test]
fn the_note_has_a_command_that_this_version_of_network_manager_accepts() {
    let host = managed((1, 42));
    let step = format!(
        "nmcli connection modify {UUID} connection.mptcp-flags enabled,subflow && nmcli device reapply wlan0"
    );
    assert!(notes(&host).contains(&step), "{}", notes(&host));
    assert!(planned(&host).is_incomplete);
    assert!(notes(&managed((1, 56))).contains("enabled,subflow,laminar"));
    // With the endpoint nothing is left to do.
    let host = with_endpoint(host, "198.51.100.9", 1, 3, true);
    let plan = planned(&host);
    assert!(!plan.is_incomplete && plan.notes.is_empty(), "{:?}", plan.notes);
}

/// Regression: `ip mptcp endpoint change` lasts until `nmcli device reapply`.
#[test]
fn a_backup_path_of_network_manager_is_one_of_its_connection() {
    let mut host = with_endpoint(managed((1, 42)), "198.51.100.9", 1, 3, true);
    host.metered.insert(3);
    let found = notes(&host);
    assert!(
        found.contains("connection.mptcp-flags enabled,subflow,backup && nmcli device reapply wlan0"),
        "{found}"
    );
    assert!(!found.contains("ip mptcp endpoint change"), "{found}");
}

#[test]
fn a_network_manager_without_endpoints_leaves_them_to_the_plan() {
    let plan = planned(&managed((1, 36)));
    let commands: Vec<_> = plan.steps.iter().flat_map(|step| step.change.commands.clone()).collect();
    assert!(commands.iter().any(|command| command.contains("endpoint add 198.51.100.9")), "{commands:#?}");
    assert!(!plan.is_incomplete);
}

fn mptcpd(endpoint: &[&str], notification: &[&str]) -> SetupHost {
    let owned = |flags: &[&str]| flags.iter().map(|flag| (*flag).to_owned()).collect();
    let flags = MptcpdFlags { endpoint: owned(endpoint), notification: owned(notification) };
    SetupHost { has_mptcpd: true, mptcpd_flags: Some(flags), ..laptop() }
}

/// Regression: beside the stock mptcpd 0.12, which adds no endpoint for addresses that are there at its start, the plan said
/// that this host is set up.
#[test]
fn endpoints_that_mptcpd_has_not_added_are_missing() {
    let plan = planned(&mptcpd(&[], &[]));
    let found = plan.notes.join("\n");
    assert!(plan.is_incomplete);
    for text in [
        "no endpoint with `subflow` for 192.0.2.7, 198.51.100.9",
        "printf 'addr-flags=subflow\\nnotify-flags=existing,skip_link_local,skip_loopback\\n' >> /etc/mptcpd/mptcpd.conf",
        "systemctl restart mptcp.service",
    ] {
        assert!(found.contains(text), "{text}: {found}");
    }
    // Its endpoints have no flags without addr-flags, and a restart does not replace them.
    let host = with_endpoint(mptcpd(&[], &["existing"]), "198.51.100.9", 4, 3, false);
    let found = notes(&host);
    assert!(
        found.contains("ip mptcp endpoint delete id 4; ") && found.contains("addr-flags=subflow"),
        "{found}"
    );
    let host = with_endpoint(mptcpd(&["subflow"], &["existing"]), "198.51.100.9", 4, 3, true);
    let host = with_endpoint(host, "192.0.2.7", 5, 2, true);
    assert!(!planned(&host).is_incomplete && notes(&host).contains("mptcpd runs: it adds endpoints"));
}

/// Regression: a drop-in of a .network file that two interfaces use gave each of them the routes of both: systemd-networkd 252
/// added the default route of eth0 to wlan0 in the same table.
#[test]
fn a_network_file_of_several_interfaces_gets_no_routes_of_one() {
    let mut host = laptop();
    host.managers.extend([(2, Manager::Networkd), (3, Manager::Networkd)]);
    let options = SetupOptions::default();
    let plan = plan(&host, &options).unwrap();
    let files = |networks: &[(u32, &str)]| {
        let networks: BTreeMap<u32, String> =
            networks.iter().map(|(index, name)| (*index, (*name).to_owned())).collect();
        let files = persistence::files(&host, &options, &plan, "/usr/bin/pathbench", &networks);
        files.into_iter().map(|file| file.path).filter(|path| path.starts_with(NETWORKD)).collect::<Vec<_>>()
    };
    assert_eq!(
        files(&[(2, "10-wired.network"), (3, "20-wlan.network")]),
        [format!("{NETWORKD}/20-wlan.network.d/{DROP_IN}")]
    );
    assert!(files(&[(2, "10-all.network"), (3, "10-all.network")]).is_empty());
    // Not even beside an interface that is no path.
    assert!(files(&[(7, "20-wlan.network"), (3, "20-wlan.network")]).is_empty());
}
