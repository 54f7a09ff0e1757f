//! Additional subflows (`MP_JOIN`, RFC 8684 section 3.2), and the proof that all paths carry bytes.

use super::facts::{
    ClientEnd, Ending, MptcpProbe, PathProbe, Rises, ServerFacts, ServerKind, Subflow, Transfer,
};
use super::handshake::{CHECKSUM, MAPPING, altered, both, dss};
use super::paths::is_black_hole;
use crate::finding::{Finding, FindingId};
use pathbench_record::mptcp::remedy::{ANNOUNCE, NeededEndpoint};
use pathbench_record::mptcp::{EndpointFlags, MOST_ENDPOINTS, MptcpLimits};
use pathbench_record::sample::PathState;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The limits with which a connection uses two paths and an announced address.
const TWO_PATHS: MptcpLimits = MptcpLimits { subflows: 2, add_addr_accepted: 2 };

pub(super) fn findings(facts: &ServerFacts) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (number, transfer) in facts.transfers.iter().enumerate() {
        if transfer.probe.client != ClientEnd::Mptcp {
            continue;
        }
        for (_, path) in facts.usable().filter(|(index, _)| *index != transfer.initial) {
            let finding = joined(facts, transfer, path).with_subject(&path.name);
            // What this host does not attempt is the same for each initial path.
            if finding.id == FindingId::Multipath && number > 0 {
                continue;
            }
            let known = |known: &Finding| known.subject == finding.subject && known.id == finding.id;
            // Several transfers can join the same path; a success does not outweigh a failure.
            match found.iter_mut().find(|one| known(one)) {
                Some(one) if one.level < finding.level => *one = finding,
                Some(_) => {}
                None => found.push(finding),
            }
        }
    }
    found.extend(announcement(facts));
    found.extend(other_family(facts));
    found.push(proof(facts));
    found
}

fn joined(facts: &ServerFacts, transfer: &Transfer, path: &PathProbe) -> Finding {
    let probe = &transfer.probe;
    let subflows: Vec<_> = transfer.subflows(path).collect();
    let is_open = subflows.iter().any(|subflow| subflow.state == PathState::Open);
    let was_reset =
        !is_open && subflows.iter().any(|subflow| subflow.state == PathState::Closed && subflow.bytes == 0);
    let initial = &facts.paths[transfer.initial].name;
    if is_open || facts.is_used(transfer, path) {
        return Finding::ok(
            FindingId::PathMpJoin,
            format!("a connection that begins on {initial} is joined from {}", path.local),
        );
    }
    let checksums = both(probe, &CHECKSUM);
    if !checksums.is_empty() {
        return altered(format!("DSS checksums fail on the subflow from {} ({checksums})", path.local));
    }
    let client = &probe.client_rises;
    let completed = client.rose("MPJoinSynAckRx")
        && probe.server_rises.as_ref().is_none_or(|server| server.rose("MPJoinAckRx"));
    let reset = client.rose("MPRstTx") || client.rose("MPRstRx");
    if (was_reset || subflows.is_empty()) && completed && reset {
        let found = format!(
            "the subflow from {} opens and is reset at its first data ({})",
            path.local,
            both(probe, &MAPPING)
        );
        return dss(found);
    }
    join_failure(facts, probe, path, initial)
}

fn join_failure(facts: &ServerFacts, probe: &MptcpProbe, path: &PathProbe, initial: &str) -> Finding {
    let client = &probe.client_rises;
    let local = path.local;
    let unsent = client.list(&["MPJoinSynTxBindErr", "MPJoinSynTxConnectErr", "MPJoinSynTxCreatSkErr"]);
    if !unsent.is_empty() {
        return join(format!("the kernel could not send the join from {local} ({unsent})"))
            .with_step(format!("ip address show; ip route get {} from {local}", path.server.ip()));
    }
    if !client.rose("MPJoinSynTx") {
        return unattempted(facts, path, initial, client);
    }
    let stripped = client.rose("MPRstTx");
    let Some(server) = &probe.server_rises else {
        let reset = if stripped { "its MP_JOIN is removed on the path" } else { "no subflow results" };
        return join(format!(
            "this host sends a join from {local}, and {reset} ({})",
            both(probe, &["MPJoinSynTx", "MPRstTx"])
        ));
    };
    let [sent, received] = [client.rise("MPJoinSynTx"), server.rise("MPJoinSynRx")];
    let [answers, completions] = [client.rise("MPJoinSynAckRx"), server.rise("MPJoinAckRx")];
    if server.rose("MPJoinRejected") {
        return Finding::problem(
            FindingId::ServerLimits,
            format!(
                "the server rejects the join from {local} (MPJoinRejected +{})",
                server.rise("MPJoinRejected")
            ),
            "The server's limit of subflows per connection is reached: this path carries nothing.",
        )
        .with_step(format!("on the server: ip mptcp limits set subflows {MOST_ENDPOINTS}"));
    }
    if server.rose("MPJoinNoTokenFound") {
        return join(format!(
            "the join from {local} arrives with a token that the server does not know (MPJoinNoTokenFound)"
        ));
    }
    let found = if received < sent && stripped {
        format!(
            "the path removes MP_JOIN from the SYN from {local} (this host: MPJoinSynTx, MPRstTx; server: MPJoinSynRx +{received})"
        )
    } else if received < sent {
        format!(
            "the join from {local} does not reach the server (this host: MPJoinSynTx +{sent}; server: MPJoinSynRx +{received})"
        )
    } else if answers == 0 && stripped {
        format!(
            "the path removes MP_JOIN from the SYN/ACK to {local} (MPJoinSynRx at the server, MPRstTx here)"
        )
    } else if answers == 0 {
        format!(
            "the answer to the join from {local} does not return (MPJoinSynRx at the server, no MPJoinSynAckRx here)"
        )
    } else if completions < answers {
        format!(
            "the third ACK of the join from {local} does not arrive as MP_JOIN (no MPJoinAckRx at the server)"
        )
    } else {
        let seen = both(probe, &["MPJoinSynTx", "MPJoinSynAckRx", "MPJoinAckRx", "MPRstTx", "MPRstRx"]);
        format!("the subflow from {local} opens and carries nothing ({seen})")
    };
    join(found)
}

fn join(found: String) -> Finding {
    Finding::problem(
        FindingId::PathMpJoin,
        found,
        "Connections that begin on another path get no subflow on this one.",
    )
    .with_step("begin connections on this path (prefer its route), or have the operator of the middlebox pass TCP option 30")
}

/// The kernel sent no join at all.
fn unattempted(facts: &ServerFacts, path: &PathProbe, initial: &str, client: &Rises) -> Finding {
    let mut finding = Finding::problem(
        FindingId::Multipath,
        format!(
            "this host opens no subflow from {} to a connection that begins on {initial} (no MPJoinSynTx)",
            path.local
        ),
        "The path manager has no endpoint for the address, its limits allow no further subflow, or the server forbids joins \
         to its initial address (net.mptcp.allow_join_initial_addr_port=0).",
    );
    if client.rose("AddAddr") {
        finding.found += "; the server announces an address (AddAddr)";
    }
    let needed =
        NeededEndpoint { address: path.local, device: &path.interface, flags: EndpointFlags::SUBFLOW };
    let endpoint = facts.path_manager.endpoint_remedy(&needed);
    let finding = finding
        .with_steps(facts.path_manager.limits_remedy(TWO_PATHS))
        .with_steps(endpoint.unwrap_or_else(|reason| vec![reason.to_string()]));
    if finding.remedy.is_empty() {
        return finding.with_step("on the server: sysctl -w net.mptcp.allow_join_initial_addr_port=1");
    }
    finding
}

/// The announced addresses that the client's limit ignores.
fn ignored(facts: &ServerFacts, count: u64) -> Option<Finding> {
    let limits = facts.path_manager.limits.filter(|limits| limits.add_addr_accepted == 0)?;
    let found = format!(
        "the server announces addresses (AddAddr +{count}), and this host accepts none (subflows {}, add_addr_accepted 0)",
        limits.subflows
    );
    let meaning = "The path manager opens no subflow to an announced address.";
    // With several paths of its own, this host can use multipath without the announced addresses.
    let id = FindingId::MptcpLimits;
    let finding = if facts.usable().count() < 2 {
        Finding::problem(id, found, meaning)
    } else {
        Finding::advice(id, found, meaning)
    };
    let accepted = u32::try_from(count).unwrap_or(u32::MAX).max(1);
    let needed = MptcpLimits { subflows: accepted, add_addr_accepted: accepted };
    Some(finding.with_subject(&facts.server).with_steps(limits.remedy(needed)))
}

/// The addresses that the server announces (`ADD_ADDR`, RFC 8684 section 3.4.1), received by this host or not.
fn announcement(facts: &ServerFacts) -> Option<Finding> {
    let announced = |transfer: &Transfer| {
        transfer.probe.server_rises.as_ref().map_or(0, |server| server.rise("AddAddrTx"))
    };
    let received = facts.transfers.iter().find(|transfer| transfer.probe.client_rises.rose("AddAddr"));
    if let Some(transfer) = received {
        let is_new = |at: &IpAddr| !facts.paths.iter().any(|path| path.server.ip() == *at);
        let remotes = transfer.probe.subflows.iter().map(|subflow| subflow.remote.ip()).filter(is_new);
        let remotes: Vec<String> = remotes.map(|at| at.to_string()).collect();
        let count = transfer.probe.client_rises.rise("AddAddr");
        if remotes.is_empty()
            && let Some(finding) = ignored(facts, count)
        {
            return Some(finding);
        }
        let used = if remotes.is_empty() { "none of them is in use".to_owned() } else { remotes.join(", ") };
        let found = format!(
            "the server announces addresses (AddAddr +{count}); subflows to others than its own name's: {used}"
        );
        return Some(Finding::ok(FindingId::PathAddAddr, found));
    }
    let lost = |transfer: &&Transfer| announced(transfer) > 0 && !transfer.probe.client_rises.rose("AddAddr");
    let transfer = facts.transfers.iter().find(lost)?;
    let found = format!(
        "the server announces an address (AddAddrTx +{}), none arrives here (no AddAddr)",
        announced(transfer)
    );
    let meaning = "A middlebox removes ADD_ADDR, or the announcement was for another client: no subflow to the announced address.";
    let finding = if facts.other_family.is_empty() {
        Finding::advice(FindingId::PathAddAddr, found, meaning)
    } else {
        Finding::problem(FindingId::PathAddAddr, found, meaning)
    };
    let finding = finding.with_subject(&facts.paths[transfer.initial].name);
    Some(finding.with_step("have the operator of the middlebox pass TCP option 30"))
}

pub(super) fn other_family(facts: &ServerFacts) -> Vec<Finding> {
    let announced = facts.transfers.iter().any(|transfer| transfer.probe.client_rises.rose("AddAddr"));
    let one = |(interface, family): &(String, pathbench_record::network::AddressFamily)| {
        let family = family.name();
        let news =
            if announced { "announces none that this host uses" } else { "announces none (no AddAddr)" };
        Finding::problem(
            FindingId::PathFamily,
            format!("{interface} has {family} only; {} has no {family} address here and {news}", facts.server),
            "No subflow can use this interface: MPTCP combines IPv4 and IPv6 paths only if the server announces its other address.",
        )
        .with_subject(interface)
        .with_step(format!("on the server, with its {family} address: {ANNOUNCE}"))
        .with_steps(facts.path_manager.limits_remedy(TWO_PATHS))
    };
    facts.other_family.iter().map(one).collect()
}

/// The transfer that shows most: the one with the most paths that carried bytes.
fn best(facts: &ServerFacts) -> Option<&Transfer> {
    let used = |transfer: &&Transfer| {
        let used = used_interfaces(facts, transfer);
        (transfer.probe.client == ClientEnd::Mptcp, used, std::cmp::Reverse(transfer.initial))
    };
    facts.transfers.iter().max_by_key(used)
}

/// Two paths of one interface are one path.
fn used_interfaces(facts: &ServerFacts, transfer: &Transfer) -> usize {
    let used = facts.paths.iter().filter(|path| facts.is_used(transfer, path));
    used.map(|path| path.interface.as_str()).collect::<BTreeSet<_>>().len()
}

/// The interface by which the packets from the address of a path leave instead of its own.
fn left_by_other<'a>(
    facts: &'a ServerFacts,
    transfer: &'a Transfer,
    path: &'a PathProbe,
) -> Option<(&'a PathProbe, &'a str)> {
    let path = facts.paths.iter().find(|known| known.name == path.name)?;
    let other =
        |subflow: &'a Subflow| subflow.interface.as_deref().filter(|interface| *interface != path.interface);
    transfer.subflows(path).find_map(other).map(|interface| (path, interface))
}

fn proof(facts: &ServerFacts) -> Finding {
    // A server with another protocol receives no data that could show bytes on each path.
    let transfer = best(facts).filter(|_| facts.kind == ServerKind::Pathbench);
    let Some(transfer) = transfer else {
        let reason = match &facts.no_mptcp {
            Some(why) => format!("no transfer over all paths: {why}"),
            None if facts.kind == ServerKind::Other => {
                "no transfer over all paths: it requires a Pathbench server".to_owned()
            }
            None => "no transfer over all paths: MPTCP works on no path".to_owned(),
        };
        return Finding::not_examined(FindingId::Multipath, reason);
    };
    let share =
        |path: &PathProbe| format!("{} {:.2} MB", path.name, facts.bytes(transfer, path) as f64 / 1e6);
    let carried = facts.paths.iter().map(share).collect::<Vec<_>>().join(", ");
    let found =
        format!("a transfer over MPTCP that begins on {}: {carried}", facts.paths[transfer.initial].name);
    let unused = facts.paths.iter().filter(|path| !facts.is_used(transfer, path) && path.tcp_reaches());
    let (backups, unused): (Vec<&PathProbe>, Vec<&PathProbe>) = unused.partition(|path| path.backup);
    let names =
        |paths: &[&PathProbe]| paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>().join(", ");
    let problem = |found: String, meaning: String| Finding::problem(FindingId::Multipath, found, meaning);
    if transfer.probe.client != ClientEnd::Mptcp {
        let found = format!("{found}; the connection is plain TCP");
        return problem(found, "Multipath does not work to this server.".to_owned());
    }
    if !unused.is_empty() {
        if let Some((path, left_by)) = unused.iter().find_map(|path| left_by_other(facts, transfer, path)) {
            let found = format!("{found}; the packets from {} leave by {left_by}", path.local);
            let meaning = format!(
                "The subflows are one path, {left_by}: no routing rule for the address selects {}.",
                path.interface
            );
            return problem(found, meaning).with_steps(path.source_route.clone());
        }
        let meaning = format!("Nothing passes over {}; the problems above name the cause.", names(&unused));
        return problem(found, meaning);
    }
    if used_interfaces(facts, transfer) > 1 {
        return match &transfer.probe.ending {
            Ending::Complete => Finding::ok(FindingId::Multipath, found),
            ending => {
                problem(format!("{found}; {}", ending.message()), "The transfer did not complete.".to_owned())
            }
        };
    }
    if backups.is_empty() {
        return problem(found, "Only one path reaches this server.".to_owned());
    }
    let meaning =
        format!("{} are backups: they carry bytes only when the other path fails.", names(&backups));
    Finding::advice(FindingId::Multipath, found, meaning)
}

impl PathProbe {
    /// Whether the server answers on this path over TCP, large packets included or not.
    fn tcp_reaches(&self) -> bool {
        self.tcp.is_complete() || is_black_hole(self) || self.tcp.is_altered()
    }
}
