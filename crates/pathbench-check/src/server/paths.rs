//! TCP, UDP, payload and path MTU of one path.

use super::facts::{Ending, MtuDirection, PathProbe, ServerFacts, ServerKind};
use super::handshake::altered;
use crate::finding::{Finding, FindingId};

pub(super) fn findings(facts: &ServerFacts, path: &PathProbe) -> Vec<Finding> {
    let found = [mtu(path), tcp(facts, path), udp(facts, path)];
    found.into_iter().flatten().map(|finding| finding.with_subject(&path.name)).collect()
}

/// Whether the path drops large packets silently in a direction.
pub(super) fn is_black_hole(path: &PathProbe) -> bool {
    path.mtu.as_ref().is_some_and(|mtu| [&mtu.upload, &mtu.download].into_iter().any(|one| one.silent))
}

fn tcp(facts: &ServerFacts, path: &PathProbe) -> Option<Finding> {
    let ends = format!("between {} and {}", path.local, path.server);
    let problem = |found: String, meaning: &str| Finding::problem(FindingId::PathTcp, found, meaning);
    let finding = match &path.tcp {
        Ending::Complete if facts.kind == ServerKind::Other => {
            Finding::ok(FindingId::PathTcp, format!("plain TCP {ends} connects, and the server answers"))
        }
        Ending::Complete => Finding::ok(FindingId::PathTcp, format!("plain TCP {ends} delivers every byte")),
        Ending::Altered(message) => altered(format!("plain TCP {ends}: {message}")),
        // The black hole is the cause.
        Ending::Stalled(_) if is_black_hole(path) => return None,
        // The listener accepted another path's connection, and is closed.
        Ending::Reset(_) if facts.closes_listener => return None,
        Ending::Reset(message) | Ending::NotConnected(message) => {
            let finding = problem(message.clone(), "The server is not reachable over this path.");
            finding.with_step(format!("ip route get {} from {}", path.server.ip(), path.local))
        }
        Ending::Stalled(message) | Ending::Failed(message) => {
            problem(format!("plain TCP {ends} opens, and {message}"), "Data does not pass over this path.")
        }
    };
    let has_sibling =
        facts.paths.iter().any(|other| other.interface == path.interface && other.tcp.is_complete());
    // The interface reaches the server in the other address family.
    let finding = if has_sibling && finding.id == FindingId::PathTcp && !path.tcp.is_complete() {
        Finding { level: crate::finding::Level::Advice, ..finding }
    } else {
        finding
    };
    Some(finding)
}

fn mtu(path: &PathProbe) -> Option<Finding> {
    let mtu = path.mtu.as_ref()?;
    let size = |direction: &MtuDirection| match (direction.mtu_bytes, &direction.error) {
        (Some(bytes), _) => format!("{bytes} bytes"),
        (None, Some(error)) => error.clone(),
        (None, None) => "unknown".to_owned(),
    };
    let sizes = format!("upload {}, download {}", size(&mtu.upload), size(&mtu.download));
    if !is_black_hole(path) {
        let known = mtu.upload.mtu_bytes.or(mtu.download.mtu_bytes).is_some();
        return known.then(|| Finding::ok(FindingId::PathMtu, format!("the path MTU is: {sizes}")));
    }
    let smallest = [&mtu.upload, &mtu.download].into_iter().filter_map(|one| one.mtu_bytes).min();
    let found = format!(
        "larger packets are dropped without an ICMP message: {sizes} (the interface: {} bytes)",
        mtu.interface_mtu_bytes
    );
    let meaning = "TCP and MPTCP send packets of the interface's size, which are lost: a subflow on this path is established \
                   and carries nothing.";
    let finding = if path.tcp.is_complete() {
        let meaning = "TCP copes with it on this host (tcp_mtu_probing, the route's MTU or an MSS clamp).";
        Finding::advice(FindingId::PathMtu, found, meaning)
    } else {
        Finding::problem(FindingId::PathMtu, found, meaning)
    };
    let finding = finding.with_step("pathbench mtu SERVER --apply sets the route's MTU");
    Some(match smallest {
        Some(bytes) => finding.with_step(format!(
            "or: ip route change (the route of {}) mtu {bytes}; on the server likewise for the download",
            path.interface
        )),
        None => finding,
    })
}

fn udp(facts: &ServerFacts, path: &PathProbe) -> Option<Finding> {
    if facts.kind == ServerKind::Other || path.udp.is_empty() {
        return None;
    }
    let passes = path.udp.iter().filter_map(|probe| Some((probe.port, *probe.answer.as_ref().ok()?)));
    let passes: Vec<String> = passes.map(|(port, ms)| format!("port {port} ({ms:.1} ms)")).collect();
    let blocked: Vec<&super::facts::UdpProbe> =
        path.udp.iter().filter(|probe| probe.answer.is_err()).collect();
    let ports = blocked.iter().map(|probe| probe.port.to_string()).collect::<Vec<_>>().join(", ");
    if blocked.is_empty() {
        return Some(Finding::ok(FindingId::PathUdp, format!("UDP passes: {}", passes.join(", "))));
    }
    let found = format!("no answer over UDP from {} to port {ports} of {}", path.local, path.server.ip());
    if !passes.is_empty() {
        let meaning = format!("QUIC works over {}.", passes.join(", "));
        return Some(Finding::advice(FindingId::PathUdp, found, meaning));
    }
    // An unreachable path has a finding of its own.
    if matches!(path.tcp, Ending::NotConnected(_) | Ending::Reset(_)) {
        return None;
    }
    let elsewhere = facts.paths.iter().any(|other| other.udp.iter().any(|probe| probe.answer.is_ok()));
    let meaning = if elsewhere {
        "The path drops UDP, TCP passes: QUIC does not work here, and Multipath QUIC does not use this path."
    } else {
        "No path passes UDP: a firewall of this host or the server drops it, or the server serves no QUIC."
    };
    Some(
        Finding::problem(FindingId::PathUdp, found, meaning)
            .with_step("try another port: serve --port on the server, --quic-port here (443 often passes)")
            .with_step("have the operator of the firewall pass UDP"),
    )
}
