//! The kernel's MPTCP implementation and its settings.

use super::endpoints;
use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use pathbench_host::kernel::MptcpSupport;
use pathbench_host::mptcp::EndpointFlags;
use pathbench_record::mptcp::remedy::NeededEndpoint;
use pathbench_record::network::AddressFamily;

/// Whether this kernel can create MPTCP sockets here.
pub(super) fn implementation(facts: &HostFacts) -> Vec<Finding> {
    let kernel = &facts.kernel.text;
    let out_of_tree = facts.setting("net.mptcp.mptcp_enabled").is_some();
    let id = FindingId::KernelMptcp;
    match facts.support {
        MptcpSupport::Available | MptcpSupport::Disabled => {
            let present = Finding::ok(id, format!("Linux {kernel} has upstream MPTCP"));
            vec![present, enabled(facts)]
        }
        _ if out_of_tree => vec![
            Finding::problem(
                id,
                format!("Linux {kernel} has the out-of-tree MPTCP of multipath-tcp.org (net.mptcp.mptcp_enabled)"),
                "That implementation makes TCP sockets MPTCP by itself and has its own path managers. Programs that create \
                 sockets with IPPROTO_MPTCP, such as Pathbench, and the commands of `ip mptcp` do not work with it.",
            )
            .with_step("Boot a distribution kernel, Linux 5.6 or later, better 6.1 or later."),
        ],
        MptcpSupport::TooOld => vec![
            Finding::problem(
                id,
                format!("Linux {kernel} has no MPTCP"),
                "The kernel rejects IPPROTO_MPTCP (EINVAL): upstream MPTCP exists since Linux 5.6.",
            )
            .with_step("Boot a distribution kernel, Linux 5.6 or later, better 6.1 or later."),
        ],
        MptcpSupport::NotBuilt => vec![
            Finding::problem(
                id,
                format!("Linux {kernel} was built without MPTCP"),
                "The kernel rejects IPPROTO_MPTCP (EPROTONOSUPPORT): its configuration lacks CONFIG_MPTCP.",
            )
            .with_step("Boot a distribution kernel, or build this one with CONFIG_MPTCP=y and CONFIG_MPTCP_IPV6=y."),
        ],
        MptcpSupport::Refused(errno) => vec![
            Finding::not_examined(id, format!("the kernel refuses an MPTCP socket: {errno}"))
                .with_step("Run it outside of the container or sandbox whose seccomp filter or security module refuses it."),
        ],
    }
}

fn enabled(facts: &HostFacts) -> Finding {
    let id = FindingId::MptcpEnabled;
    if facts.support == MptcpSupport::Available {
        return Finding::ok(id, "net.mptcp.enabled is 1");
    }
    Finding::problem(
        id,
        "net.mptcp.enabled is 0",
        "The kernel refuses MPTCP sockets in this network namespace (ENOPROTOOPT), and answers MP_CAPABLE with plain TCP.",
    )
    .with_step("sysctl -w net.mptcp.enabled=1")
    .with_step("To keep it: echo net.mptcp.enabled=1 > /etc/sysctl.d/90-mptcp.conf")
}

pub(super) fn settings(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = vec![path_manager(facts)];
    if facts.setting("net.mptcp.allow_join_initial_addr_port") == Some("0") {
        findings.push(join_initial_address(facts));
    }
    findings
}

fn join_initial_address(facts: &HostFacts) -> Finding {
    let (id, found) = (FindingId::JoinInitialAddress, "net.mptcp.allow_join_initial_addr_port is 0");
    let mut endpoints = facts.endpoints.as_deref().unwrap_or_default().iter();
    if let Some(announced) = endpoints.find(|endpoint| endpoint.flags.signal) {
        return Finding::ok(id, format!("{found}, and this host announces {}", announced.address));
    }
    let finding = Finding::advice(
        id,
        found,
        "Peers of this host's listeners open further subflows only to addresses that this host announces.",
    );
    let finding = match announcement(facts) {
        Some(commands) => finding.with_steps(commands).with_step("or:"),
        None => finding,
    };
    finding.with_step("sysctl -w net.mptcp.allow_join_initial_addr_port=1")
}

/// The commands that announce the address of a path beside the first.
fn announcement(facts: &HostFacts) -> Option<Vec<String>> {
    let path = AddressFamily::ALL.into_iter().find_map(|family| {
        let paths = facts.paths(family);
        let primary = facts.primary(family).or_else(|| paths.first().map(|path| path.link.index));
        paths.into_iter().find(|path| Some(path.link.index) != primary)
    })?;
    let flags = EndpointFlags { signal: true, ..EndpointFlags::default() };
    let needed = NeededEndpoint { address: path.address, device: &path.link.name, flags };
    // After the remedies of the endpoints' problems, which are printed before.
    endpoints::remedied(facts).endpoint_remedy(&needed).ok()
}

fn path_manager(facts: &HostFacts) -> Finding {
    let id = FindingId::MptcpPathManager;
    if let Some(reason) = facts.unread("net.mptcp.path_manager").or_else(|| facts.unread("net.mptcp.pm_type"))
    {
        return Finding::not_examined(id, reason);
    }
    let by_name = facts.setting("net.mptcp.path_manager");
    let (found, remedy) = match (by_name, facts.setting("net.mptcp.pm_type")) {
        (Some("kernel"), _) => return Finding::ok(id, "net.mptcp.path_manager is kernel"),
        (Some(other), _) => {
            (format!("net.mptcp.path_manager is {other}"), "sysctl -w net.mptcp.path_manager=kernel")
        }
        (None, Some("0")) => return Finding::ok(id, "net.mptcp.pm_type is 0 (kernel)"),
        (None, Some(other)) => (format!("net.mptcp.pm_type is {other}"), "sysctl -w net.mptcp.pm_type=0"),
        // Before Linux 5.19 there is only the kernel's.
        (None, None) => return Finding::ok(id, "the kernel's path manager"),
    };
    if facts.managers.mptcpd {
        return Finding::ok(id, format!("{found}, and mptcpd runs"));
    }
    Finding::problem(
        id,
        found,
        "The kernel ignores endpoints and limits for new connections, and no mptcpd runs that would open subflows.",
    )
    .with_step(remedy)
}
