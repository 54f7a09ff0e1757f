//! Facts about a server and the paths to it → findings.

pub mod announced;
mod buffers;
pub mod cause;
pub mod counters;
pub mod evidence;
pub mod facts;
mod handshake;
pub mod hops;
mod joins;
mod paths;
mod proof;

use crate::finding::{Finding, FindingId};
use facts::{Ending, ServerEnd, ServerFacts, ServerKind};
use pathbench_host::hop_probe::SynOption;

/// The findings of the server and of each path, in no particular order.
pub fn findings(facts: &ServerFacts) -> Vec<Finding> {
    let mut found = server(facts);
    for path in &facts.paths {
        found.extend(paths::findings(facts, path));
        let handshake = handshake::findings(facts, path);
        // A server without MPTCP is one finding, not one for each path.
        let same = |known: &Finding, new: &Finding| {
            (known.id, known.level, &known.subject) == (new.id, new.level, &new.subject)
        };
        let is_new = |new: &Finding| !found.iter().any(|known| same(known, new));
        found.extend(handshake.filter(is_new));
    }
    if reached(facts) {
        found.extend(joins::findings(facts));
        found.extend(buffers::finding(facts));
    } else {
        found.extend(joins::other_family(facts));
    }
    found.into_iter().map(|finding| named(facts, finding)).collect()
}

/// The MPTCP option of a SYN that a path loses, whose hops are worth an examination.
pub fn lost_option(facts: &ServerFacts, index: usize) -> Option<SynOption> {
    let path = facts.paths.get(index)?;
    if handshake::loses_capable(path) {
        return Some(SynOption::MpCapable);
    }
    joins::loses_join(facts, path).then_some(SynOption::MpJoin)
}

/// The summary prints `found` without the subject, so that the path's name is part of it.
fn named(facts: &ServerFacts, finding: Finding) -> Finding {
    let is_path = |subject: &&String| facts.paths.iter().any(|path| path.name == **subject);
    match finding.subject.as_ref().filter(is_path) {
        Some(name) if !finding.found.starts_with(name.as_str()) => {
            let found = format!("{name}: {}", finding.found);
            Finding { found, ..finding }
        }
        _ => finding,
    }
}

fn server(facts: &ServerFacts) -> Vec<Finding> {
    let server = &facts.server;
    let mut found = Vec::new();
    if !reached(facts) {
        let finding = Finding::problem(
            FindingId::ServerReach,
            format!("{server} answers on no path"),
            "Nothing else can be examined.",
        );
        found.push(
            finding.with_subject(server).with_step("check the address and port, and that the server runs"),
        );
        found.extend(left_out(facts));
        return found;
    }
    match facts.kind {
        ServerKind::Pathbench => {
            found.push(Finding::ok(FindingId::ServerProtocol, format!("{server} is a Pathbench server")).with_subject(server));
        }
        ServerKind::Other => found.push(
            Finding::not_examined(
                FindingId::ServerProtocol,
                format!(
                    "{server} answers, but not with Pathbench's test protocol: payload, UDP, path MTU, the server's counters and \
                     bytes on each path were not examined"
                ),
            )
            .with_subject(server),
        ),
    }
    if facts.closes_listener {
        found.push(
            Finding::problem(
                FindingId::ServerListener,
                format!("{server} answered a connection, and refuses the next one: its listener is closed"),
                "A join arrives at the port of a listening socket (RFC 8684, section 3.2): no connection to this server gets \
                 another subflow, and MPTCP was not examined.",
            )
            .with_subject(server)
            .with_step(cause::CLOSED_LISTENER_REMEDY),
        );
    }
    let probes = || facts.paths.iter().filter_map(|path| path.mptcp.as_ref());
    let reported = probes().any(|probe| probe.counters.has_server());
    if facts.kind == ServerKind::Pathbench && probes().any(|probe| probe.server.is_some()) && !reported {
        let reason = "the server reports no MPTCP counters: it runs an older Pathbench, or its kernel has none. Where an option \
                      was lost (SYN, SYN/ACK, join) remains unknown";
        found.push(Finding::not_examined(FindingId::ServerCounters, reason).with_subject(server));
    }
    if probes().any(|probe| probe.server == Some(ServerEnd::Mptcp)) {
        found.push(
            Finding::ok(FindingId::ServerMptcp, format!("{server} negotiates MPTCP")).with_subject(server),
        );
    }
    if let Some(why) = &facts.no_mptcp {
        found.push(Finding::not_examined(
            FindingId::PathMpCapable,
            format!("this host opens no MPTCP socket: {why}"),
        ));
    }
    found.extend(left_out(facts));
    found
}
fn left_out(facts: &ServerFacts) -> impl Iterator<Item = Finding> {
    facts.left_out.iter().map(|reason| Finding::not_examined(FindingId::ServerProtocol, reason.clone()))
}

fn reached(facts: &ServerFacts) -> bool {
    facts.paths.iter().any(|path| !matches!(path.tcp, Ending::NotConnected(_) | Ending::Reset(_)))
}
