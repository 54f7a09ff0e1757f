//! Sentences about the transports that reach the server.

use crate::list::distinct;
use pathbench_record::document::{Reachability, UnreachableBecause};
use pathbench_record::network::AddressFamily;
use pathbench_record::transport::Transport;

pub(crate) fn reachability(all: &[Reachability]) -> String {
    let transports = distinct(all.iter().map(|one| one.transport));
    let reached = |transport| all.iter().any(|one| one.transport == transport && one.reachable);
    let (through, not): (Vec<_>, Vec<_>) = transports.into_iter().partition(|transport| reached(*transport));
    let names =
        |all: &[Transport]| all.iter().map(|transport| transport.name()).collect::<Vec<_>>().join(", ");
    let mut text = match (through.as_slice(), not.as_slice()) {
        ([], _) => format!("{}: none reaches the server", names(&not)),
        (_, []) => format!("{}: all reach the server", names(&through)),
        _ => format!("{} reach the server, {} do not", names(&through), names(&not)),
    };
    if all.iter().any(|one| !one.reachable && reached(one.transport)) {
        text += ", but not on every port and address family";
    }
    text + "."
}

/// Failed transports, IP versions and ports with the reason, one sentence for each reason.
pub(crate) fn barriers(all: &[Reachability]) -> Vec<String> {
    let barriers = all.iter().filter(|one| !one.reachable).map(|one| Barrier {
        transports: vec![one.transport],
        family: one.family,
        ports: vec![one.port],
        why: why_unreachable(one),
    });
    let by_port = joined(barriers, |known, one| known.ports == one.ports);
    let by_transport = joined(by_port, |known, one| known.transports == one.transports);
    by_transport.iter().map(Barrier::sentence).collect()
}

/// Joins barriers for which `same` holds.
fn joined(barriers: impl IntoIterator<Item = Barrier>, same: fn(&Barrier, &Barrier) -> bool) -> Vec<Barrier> {
    let mut joined: Vec<Barrier> = Vec::new();
    for one in barriers {
        let like =
            |known: &&mut Barrier| known.family == one.family && known.why == one.why && same(known, &one);
        match joined.iter_mut().find(like) {
            Some(known) => {
                known.transports = distinct(known.transports.drain(..).chain(one.transports));
                known.ports = distinct(known.ports.drain(..).chain(one.ports));
            }
            None => joined.push(one),
        }
    }
    joined
}

struct Barrier {
    transports: Vec<Transport>,
    family: AddressFamily,
    ports: Vec<u16>,
    why: String,
}

impl Barrier {
    fn sentence(&self) -> String {
        let transports: Vec<&str> = self.transports.iter().map(|one| one.name()).collect();
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let noun = if ports.len() > 1 { "ports" } else { "port" };
        let (transports, ports) = (transports.join(", "), ports.join(", "));
        format!("{transports} over {} on {noun} {ports}: {}", self.family.name(), self.why)
    }
}

pub(crate) fn why_unreachable(one: &Reachability) -> String {
    if let Some(error) = &one.error {
        return error.clone();
    }
    match one.error_kind {
        Some(UnreachableBecause::Timeout) => "no answer in time; the packets may be dropped on the path",
        Some(UnreachableBecause::NoRoute) => "no route to the address",
        Some(UnreachableBecause::Refused) => "connection refused: no server listens on the port",
        Some(UnreachableBecause::Other) | None => "no reason was recorded",
    }
    .to_owned()
}
