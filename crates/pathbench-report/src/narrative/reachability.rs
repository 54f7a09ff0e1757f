//! Which transport gets through, in words.

use pathbench_record::document::{AddressFamily, Reachability, UnreachableBecause};
use pathbench_record::transport::Transport;

pub(crate) fn reachability(all: &[Reachability]) -> String {
    let mut transports = Vec::new();
    for one in all {
        if !transports.contains(&one.transport) {
            transports.push(one.transport);
        }
    }
    let reached = |transport| all.iter().any(|one| one.transport == transport && one.reachable);
    let (through, not): (Vec<_>, Vec<_>) = transports.into_iter().partition(|transport| reached(*transport));
    let names =
        |all: &[Transport]| all.iter().map(|transport| transport.name()).collect::<Vec<_>>().join(", ");
    let mut text = match (through.as_slice(), not.as_slice()) {
        ([], _) => format!("{}: none gets through", names(&not)),
        (_, []) => format!("{}: each gets through", names(&through)),
        _ => format!("{} get through, {} nowhere", names(&through), names(&not)),
    };
    if all.iter().any(|one| !one.reachable && reached(one.transport)) {
        text += ", but not everywhere";
    }
    text + "."
}

/// What does not get through, and why: transports, IP version and ports that share a reason in one sentence.
pub(crate) fn barriers(all: &[Reachability]) -> Vec<String> {
    let mut barriers: Vec<Barrier> = Vec::new();
    for one in all.iter().filter(|one| !one.reachable) {
        let why = why_unreachable(one);
        let same = |known: &&mut Barrier| {
            known.family == one.family && known.ports == [one.port] && known.why == why
        };
        match barriers.iter_mut().find(same) {
            Some(known) => known.transports.push(one.transport),
            None => barriers.push(Barrier {
                transports: vec![one.transport],
                family: one.family,
                ports: vec![one.port],
                why,
            }),
        }
    }
    let mut merged: Vec<Barrier> = Vec::new();
    for one in barriers {
        let same = |known: &&mut Barrier| {
            known.family == one.family && known.transports == one.transports && known.why == one.why
        };
        match merged.iter_mut().find(same) {
            Some(known) => known.ports.extend(one.ports),
            None => merged.push(one),
        }
    }
    merged.iter().map(Barrier::sentence).collect()
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

/// Why a server was not reached, in its own words or in ours.
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
