//! Other programs that manage endpoints, limits and rules.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let managers = &facts.managers;
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let mut findings = Vec::new();
    if !managers.network_manager.is_empty() {
        let version = managers.network_manager_version.map(|(major, minor)| format!(" {major}.{minor}"));
        let names = managers.network_manager.join(", ");
        let found = format!("NetworkManager{} manages {names}", version.unwrap_or_default());
        // The first version with endpoints.
        let is_without = managers.network_manager_version.is_some_and(|version| version < (1, 40));
        if is_without {
            findings.push(Finding::ok(
                FindingId::NetworkManager,
                format!("{found}; endpoints exist from 1.40 on"),
            ));
        } else {
            findings.push(network_manager(found, &managers.network_manager, endpoints.is_empty()));
        }
    }
    if managers.mptcpd {
        findings.push(mptcpd(!managers.network_manager.is_empty()));
    }
    if !managers.networkd.is_empty() {
        let found = format!("systemd-networkd manages {}", managers.networkd.join(", "));
        findings.push(networkd(facts, found));
    }
    findings
}

fn network_manager(found: String, interfaces: &[String], without_endpoints: bool) -> Finding {
    let id = FindingId::NetworkManager;
    if !without_endpoints {
        return Finding::ok(id, found);
    }
    Finding::advice(
        id,
        found,
        "NetworkManager 1.40 and later adds endpoints (`subflow`) for connections with a default route, replaces endpoints on \
         its interfaces that have other flags, sets rp_filter from 1 to 2, and sets no limits. Endpoints added by hand on its \
         interfaces disappear when a connection is reapplied: configure them in the connection.",
    )
    .with_steps(interfaces.iter().map(|name| {
        format!(
            "nmcli connection modify \"$(nmcli -g GENERAL.CONNECTION device show {name})\" connection.mptcp-flags \
             enabled,subflow && nmcli device reapply {name}"
        )
    }))
}

fn mptcpd(beside_network_manager: bool) -> Finding {
    let id = FindingId::Mptcpd;
    if !beside_network_manager {
        return Finding::ok(id, "mptcpd runs: it adds endpoints, and raises the limits");
    }
    Finding::advice(
        id,
        "mptcpd runs beside NetworkManager",
        "Both add and remove endpoints. mptcpd also leaves the endpoints of removed interfaces.",
    )
    .with_step("systemctl disable --now mptcp.service")
}

fn networkd(facts: &HostFacts, found: String) -> Finding {
    let id = FindingId::SystemdNetworkd;
    if facts.managers.networkd_keeps_rules {
        return Finding::ok(id, format!("{found}, with ManageForeignRoutingPolicyRules=no"));
    }
    Finding::advice(
        id,
        found,
        "systemd-networkd removes policy rules of other programs when it starts or reconfigures an interface: source rules \
         made by `ip rule` disappear.",
    )
    .with_step("Put the rules into .network files ([RoutingPolicyRule]), or keep foreign rules:")
    .with_step("mkdir -p /etc/systemd/networkd.conf.d")
    .with_step("printf '[Network]\\nManageForeignRoutingPolicyRules=no\\n' > /etc/systemd/networkd.conf.d/90-foreign-rules.conf")
    .with_step("systemctl restart systemd-networkd")
}
