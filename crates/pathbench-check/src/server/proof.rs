//! The proof that all paths carry bytes: the transfer that shows most.

use super::facts::{ClientEnd, Ending, PathProbe, ServerFacts, ServerKind, Subflow, Transfer};
use super::paths::is_black_hole;
use crate::finding::{Finding, FindingId};
use std::collections::BTreeSet;

/// Whether another path of the interface is in use: a second address adds no path.
pub(super) fn has_used_sibling(facts: &ServerFacts, transfer: &Transfer, path: &PathProbe) -> bool {
    let is_sibling = |(index, other): (usize, &PathProbe)| {
        other.name != path.name
            && other.interface == path.interface
            && (index == transfer.initial || facts.is_used(transfer, other))
    };
    facts.paths.iter().enumerate().any(is_sibling)
}

/// The transfer that shows most: the one with the most paths that carried bytes.
pub(super) fn best(facts: &ServerFacts) -> Option<&Transfer> {
    let used = |transfer: &&Transfer| {
        let used = used_interfaces(facts, transfer);
        (transfer.probe.client == ClientEnd::Mptcp, used, std::cmp::Reverse(transfer.initial))
    };
    facts.transfers.iter().max_by_key(used)
}

/// Two paths of one interface are one path.
pub(super) fn used_interfaces(facts: &ServerFacts, transfer: &Transfer) -> usize {
    let used = facts.paths.iter().filter(|path| facts.is_used(transfer, path));
    let used = used.map(|path| path.interface.as_str());
    used.chain(facts.announced_paths(transfer).into_keys()).collect::<BTreeSet<_>>().len()
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

pub(super) fn proof(facts: &ServerFacts) -> Finding {
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
    let announced = facts.announced_paths(transfer).into_iter();
    let announced = announced.map(|(name, bytes)| format!("{name} {:.2} MB", bytes as f64 / 1e6));
    let carried = facts.paths.iter().map(share).chain(announced).collect::<Vec<_>>().join(", ");
    let found =
        format!("a transfer over MPTCP that begins on {}: {carried}", facts.paths[transfer.initial].name);
    let is_expected = |path: &&PathProbe| {
        path.tcp_reaches()
            && !has_used_sibling(facts, transfer, path)
            && (path.has_endpoint || !path.is_tunnel)
    };
    let unused = facts.paths.iter().filter(|path| !facts.is_used(transfer, path)).filter(is_expected);
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
