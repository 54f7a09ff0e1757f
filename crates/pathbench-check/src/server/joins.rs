//! Additional subflows (`MP_JOIN`, RFC 8684 section 3.2), and the proof that all paths carry bytes.

use super::cause::{Announced, CLOSED_LISTENER_REMEDY, FaultCause, HopEvidence, Suspects};
use super::counters::{End, PathCounters, Unattributed};
use super::evidence::Joins;
use super::facts::{ClientEnd, Ending, PathProbe, ServerFacts, ServerKind, Subflow, Transfer};
use super::handshake::{CHECKSUM, MAPPING, SERVER_FIREWALL, altered, dss, not_attributed};
use super::proof::{best, has_used_sibling, proof, used_interfaces};
use crate::address::is_private;
use crate::finding::{Finding, FindingId, Level};
use pathbench_record::mptcp::remedy::{ANNOUNCE, NeededEndpoint};
use pathbench_record::mptcp::{EndpointFlags, MOST_ENDPOINTS, MptcpLimits};
use pathbench_record::network::AddressFamily;
use pathbench_record::sample::PathState;
use pathbench_record::stage::SubflowStage;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

const UNJOINED: &str = "Connections that begin on another path get no subflow on this one.";
const PATH_REMEDY: &str = "begin connections on this path (prefer its route), or have the operator of the middlebox pass TCP option 30";

/// The limits with which a connection uses two paths and an announced address.
const TWO_PATHS: MptcpLimits = MptcpLimits { subflows: 2, add_addr_accepted: 2 };

pub(super) fn findings(facts: &ServerFacts) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (number, transfer) in facts.transfers.iter().enumerate() {
        if transfer.probe.client != ClientEnd::Mptcp {
            continue;
        }
        for (_, path) in facts.usable().filter(|(index, _)| *index != transfer.initial) {
            let Some(finding) = joined(facts, transfer, path) else { continue };
            let finding = if finding.subject.is_some() { finding } else { finding.with_subject(&path.name) };
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
    for finding in unreachable_announcements(facts) {
        match found.iter_mut().find(|known| (known.id, &known.subject) == (finding.id, &finding.subject)) {
            Some(known) => *known = finding,
            None => found.push(finding),
        }
    }
    found.extend(announcement(facts));
    found.extend(other_family(facts));
    found.push(proof(facts));
    found
}

fn joined(facts: &ServerFacts, transfer: &Transfer, path: &PathProbe) -> Option<Finding> {
    let initial = &facts.paths[transfer.initial].name;
    if transfer.subflows(path).any(|subflow| subflow.state == PathState::Open)
        || facts.is_used(transfer, path)
    {
        return Some(Finding::ok(
            FindingId::PathMpJoin,
            format!("a connection that begins on {initial} is joined from {}", path.local),
        ));
    }
    let result = "the join fails";
    let failed = match FailedJoin::find(facts, transfer, path) {
        Ok(failed) => failed,
        Err(Unattributed::NoSubflow) if has_used_sibling(facts, transfer, path) => return None,
        Err(Unattributed::NoSubflow) => return Some(unattempted(facts, path, transfer)),
        Err(why) => return Some(not_attributed(FindingId::PathMpJoin, path, result, why)),
    };
    Some(failed.finding().unwrap_or_else(|| {
        let why = "several joins failed in the same time, and the counters rose for some of them";
        not_attributed(FindingId::PathMpJoin, path, result, Unattributed::OtherTraffic(why.to_owned()))
    }))
}

/// A join of which the kernel listed a subflow, and which carried nothing.
struct FailedJoin<'a> {
    facts: &'a ServerFacts,
    transfer: &'a Transfer,
    path: &'a PathProbe,
    joins: Joins<'a>,
    counters: PathCounters<'a>,
}

/// Whether the SYN with `MP_JOIN` of a path, or the answer, is lost or changed.
pub(super) fn loses_join(facts: &ServerFacts, path: &PathProbe) -> bool {
    let loses = |transfer: &Transfer| {
        let is_open = |subflow: &Subflow| subflow.state == PathState::Open;
        facts.paths[transfer.initial].name != path.name
            && !transfer.subflows(path).any(is_open)
            && FailedJoin::find(facts, transfer, path).is_ok_and(|failed| failed.is_lost_on_the_way())
    };
    facts.transfers.iter().any(loses)
}

impl<'a> FailedJoin<'a> {
    fn find(
        facts: &'a ServerFacts,
        transfer: &'a Transfer,
        path: &'a PathProbe,
    ) -> Result<Self, Unattributed> {
        let joins = Joins::find(facts, transfer, path)?;
        let counters = joins.counters()?;
        Ok(Self { facts, transfer, path, joins, counters })
    }

    fn is_lost_on_the_way(&self) -> bool {
        let cause = self.suspects().cause();
        let is_open_question =
            matches!(cause, FaultCause::Path | FaultCause::Server | FaultCause::ServerOrPath);
        is_open_question && self.counters.rose(End::Client, "MPJoinSynAckRx") == Some(false)
    }

    /// `None` where the counters do not determine the fate of this join among several.
    fn finding(&self) -> Option<Finding> {
        let (counters, local) = (&self.counters, self.path.local);
        let unsent = counters
            .list_at(End::Client, &["MPJoinSynTxBindErr", "MPJoinSynTxConnectErr", "MPJoinSynTxCreatSkErr"]);
        if !unsent.is_empty() && !counters.rose_at_client("MPJoinSynTx") {
            let found = format!("the kernel could not send the join from {local} ({unsent})");
            return Some(
                Finding::problem(FindingId::PathMpJoin, found, UNJOINED).with_step(format!(
                    "ip address show; ip route get {} from {local}",
                    self.path.server.ip()
                )),
            );
        }
        let checksums = counters.list(&CHECKSUM);
        if !checksums.is_empty() {
            return Some(altered(format!("DSS checksums fail on the subflow from {local} ({checksums})")));
        }
        let suspects = self.suspects();
        match suspects.cause() {
            FaultCause::PrivateAnnouncement | FaultCause::UnreachableAnnouncement => {
                let (remote, ending) = self.announced()?;
                Some(unreachable_announcement(remote, self.path, ending))
            }
            FaultCause::ClosedListener => Some(self.closed_listener()),
            FaultCause::ServerLimit => Some(self.rejected()),
            FaultCause::OtherHost => Some(self.other_host()),
            cause => self.lost(cause),
        }
    }

    /// The announced address to which the joins went, with the result of plain TCP to it.
    fn announced(&self) -> Option<(SocketAddr, &Ending)> {
        let remote = self.joins.remotes().find(|remote| is_announced(self.facts, *remote))?;
        Some((remote, self.plain(remote)?))
    }

    fn plain(&self, remote: SocketAddr) -> Option<&Ending> {
        plain(self.transfer, self.path, remote)
    }

    fn suspects(&self) -> Suspects {
        let server = self.path.server;
        let announced = self.announced().map(|(remote, ending)| Announced {
            is_private: is_private(remote.ip()) && !is_private(server.ip()),
            connects: ending.is_complete(),
        });
        // A Pathbench server listens as long as it answers tests.
        let listens = match self.plain(server) {
            Some(ending) => Some(ending.is_complete()),
            None => (self.facts.kind == ServerKind::Pathbench).then(|| self.path.tcp.is_complete()),
        };
        let is_lost_forward = !self.counters.rose_at_client("MPJoinSynAckRx");
        Suspects {
            listens,
            announced,
            is_rejected: self.counters.rose_at_server("MPJoinRejected"),
            is_unknown_token: self.counters.rose_at_server("MPJoinNoTokenFound"),
            passes_elsewhere: passes_elsewhere(self.facts, self.path),
            hops: match &self.path.hops {
                Some(hops) if is_lost_forward => hops.evidence(),
                _ => HopEvidence::Unknown,
            },
        }
    }

    fn closed_listener(&self) -> Finding {
        let (server, local) = (self.path.server, self.path.local);
        Finding::problem(
            FindingId::ServerListener,
            format!(
                "{server} refuses joins and plain TCP while the connection is open: its listener closes after it has accepted a \
                 connection"
            ),
            format!(
                "A join arrives at the port of a listening socket (RFC 8684, section 3.2): without one the kernel answers the SYN \
                 from {local} with RST. No middlebox is involved."
            ),
        )
        .with_subject(&self.facts.server)
        .with_step(CLOSED_LISTENER_REMEDY)
    }

    fn rejected(&self) -> Finding {
        Finding::problem(
            FindingId::ServerLimits,
            format!(
                "the server rejects the join from {} ({})",
                self.path.local,
                self.counters.list_at(End::Server, &["MPJoinRejected"])
            ),
            "The server's limit of subflows per connection is reached: this path carries nothing.",
        )
        .with_step(format!("on the server: ip mptcp limits set subflows {MOST_ENDPOINTS}"))
    }

    fn other_host(&self) -> Finding {
        let local = self.path.local;
        Finding::problem(
            FindingId::PathMpJoin,
            format!(
                "the join from {local} arrives with a token that the server does not know (MPJoinNoTokenFound)"
            ),
            "The join reaches another host than the connection: a load balancer or NAT in front of the server distributes by \
             address and port.",
        )
        .with_step("have the balancer send all subflows of a connection to the same host")
        .with_step(
            "or on each server: announce an address of its own (ip mptcp endpoint add ADDRESS dev INTERFACE signal) and set \
             net.mptcp.allow_join_initial_addr_port=0",
        )
    }

    /// The join, its answer or the third ACK is lost or changed.
    fn lost(&self, cause: FaultCause) -> Option<Finding> {
        let counters = &self.counters;
        let local = self.path.local;
        let noun = match cause {
            FaultCause::Path => "the path",
            FaultCause::Server => "the server's own firewall or the last router before it",
            _ => "the server's own firewall or the path",
        };
        let is_stripped = counters.rose(End::Client, "MPRstTx");
        let stage = self.joins.stage(counters)?;
        let is_answered = stage >= SubflowStage::Negotiated;
        if !counters.has_server() {
            return Some(self.lost_at_client(cause, noun, stage, is_stripped?));
        }
        let is_received = counters.rose(End::Server, "MPJoinSynRx")?;
        let is_completed = counters.rose(End::Server, "MPJoinAckRx")?;
        let found = match (is_received, is_answered) {
            (false, false) if is_stripped? => format!(
                "{noun} removes MP_JOIN from the SYN from {local} (this host: MPJoinSynTx, MPRstTx; server: no MPJoinSynRx)"
            ),
            (false, _) => format!(
                "the join from {local} does not reach the server: {noun} drops or rejects it (MPJoinSynTx here, no MPJoinSynRx \
                 there)"
            ),
            (true, false) if is_stripped? => format!(
                "{noun} removes MP_JOIN from the SYN/ACK to {local} (MPJoinSynRx at the server, MPRstTx here)"
            ),
            (true, false) => format!(
                "the answer to the join from {local} does not return: {noun} drops it (MPJoinSynRx at the server, no \
                 MPJoinSynAckRx here)"
            ),
            (true, true) if !is_completed => format!(
                "the third ACK of the join from {local} does not arrive as MP_JOIN (no MPJoinAckRx at the server)"
            ),
            (true, true) if is_stripped != Some(false) || counters.rose_at_client("MPRstRx") => {
                let seen = counters.list(&MAPPING);
                return Some(dss(format!(
                    "the subflow from {local} opens and is reset at its first data ({seen})"
                )));
            }
            (true, true) => {
                let names = ["MPJoinSynTx", "MPJoinSynAckRx", "MPJoinAckRx", "MPRstTx", "MPRstRx"];
                format!("the subflow from {local} opens and carries nothing ({})", counters.list(&names))
            }
        };
        Some(self.join(cause, found))
    }

    /// Only this host's counters are known.
    fn lost_at_client(
        &self,
        cause: FaultCause,
        noun: &str,
        stage: SubflowStage,
        is_stripped: bool,
    ) -> Finding {
        let local = self.path.local;
        let seen =
            self.counters.list_at(End::Client, &["MPJoinSynTx", "MPJoinSynAckRx", "MPRstTx", "MPRstRx"]);
        let found = match (stage >= SubflowStage::Negotiated, is_stripped) {
            (true, _) => {
                let found = format!(
                    "the server answers the join from {local}, and the subflow does not open ({seen}): the server's limit of \
                     subflows is reached, or the third ACK arrives without MP_JOIN"
                );
                return Finding::problem(FindingId::PathMpJoin, found, UNJOINED)
                        .with_step("on the server: ip mptcp limits show; its counters MPJoinRejected and MPJoinAckRx (nstat)")
                        .with_step(PATH_REMEDY);
            }
            (false, true) => {
                format!(
                    "this host sends a join from {local}, and its MP_JOIN is removed on the way: by {noun} ({seen})"
                )
            }
            (false, false) => format!(
                "the join from {local} was {} ({seen}): by {noun}, or by a load balancer that sends it to another host",
                if stage == SubflowStage::Attempted {
                    "dropped: attempted and never answered"
                } else {
                    "rejected by RST"
                }
            ),
        };
        self.join(cause, found)
    }

    fn join(&self, cause: FaultCause, found: String) -> Finding {
        let meaning = match &self.path.hops {
            Some(hops) => format!("{UNJOINED} {}", hops.describe()),
            None => UNJOINED.to_owned(),
        };
        let finding = Finding::problem(FindingId::PathMpJoin, found, meaning);
        match cause {
            FaultCause::Path => finding.with_step(PATH_REMEDY),
            _ => finding.with_step(SERVER_FIREWALL).with_step(PATH_REMEDY),
        }
    }
}

/// Whether a join over another path to the same address and port of the server succeeded.
fn passes_elsewhere(facts: &ServerFacts, path: &PathProbe) -> bool {
    facts.transfers.iter().any(|transfer| {
        let initial = &facts.paths[transfer.initial];
        let mut joined = transfer.probe.subflows.iter().filter(|one| !initial.has_address(one.local.ip()));
        joined.any(|one| {
            one.state == PathState::Open && one.remote == path.server && !path.has_address(one.local.ip())
        })
    })
}

fn plain<'a>(transfer: &'a Transfer, path: &PathProbe, remote: SocketAddr) -> Option<&'a Ending> {
    let mut probes = transfer.probe.plain.iter();
    probes.find(|probe| path.has_address(probe.local) && probe.remote == remote).map(|probe| &probe.ending)
}

/// Whether a subflow goes to another address than those of the server's name.
fn is_announced(facts: &ServerFacts, remote: SocketAddr) -> bool {
    !remote.ip().is_unspecified() && !facts.paths.iter().any(|path| path.server.ip() == remote.ip())
}

/// The announced addresses that neither a join nor plain TCP reaches. Joins to them begin at any address of this host, that of
/// the initial subflow included.
fn unreachable_announcements(facts: &ServerFacts) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (transfer, path) in
        facts.transfers.iter().flat_map(|transfer| facts.paths.iter().map(move |path| (transfer, path)))
    {
        let probes = transfer.probe.plain.iter().filter(|probe| {
            path.has_address(probe.local) && !probe.ending.is_complete() && is_announced(facts, probe.remote)
        });
        for probe in probes {
            let finding = unreachable_announcement(probe.remote, path, &probe.ending);
            if !found.iter().any(|known| known.subject == finding.subject) {
                found.push(finding);
            }
        }
    }
    let all = facts.usable().map(|(_, path)| path.interface.as_str()).collect::<BTreeSet<_>>().len();
    let is_used = best(facts).is_some_and(|transfer| used_interfaces(facts, transfer) == all);
    // All paths carry bytes without the address.
    let level = if is_used { Level::Advice } else { Level::Problem };
    found.into_iter().map(|finding| Finding { level, ..finding }).collect()
}

fn unreachable_announcement(remote: SocketAddr, path: &PathProbe, ending: &Ending) -> Finding {
    let (at, local) = (remote.ip(), path.local);
    let is_behind_nat = is_private(at) && !is_private(path.server.ip());
    let private = if is_behind_nat { "the private address " } else { "" };
    let message = ending.message();
    Finding::problem(
        FindingId::PathAddAddr,
        format!("the server announces {private}{at}, which plain TCP from {local} does not reach either: {message}"),
        "The joins go to the announced address: it belongs to a network behind the server's NAT, a firewall blocks it, or no \
         program listens there. No middlebox removes an option.",
    )
    .with_subject(at.to_string())
    .with_step(format!("on the server: ip mptcp endpoint show, and delete the endpoint of {at}"))
    .with_step("on the server: announce addresses (signal) only that clients reach, and on which the program listens")
}

/// The kernel opened no subflow from any address of the path: no counter concerns it.
fn unattempted(facts: &ServerFacts, path: &PathProbe, transfer: &Transfer) -> Finding {
    let (initial, local) = (&facts.paths[transfer.initial].name, path.local);
    let mut found = format!(
        "this host opens no subflow from {local} to a connection that begins on {initial} (no join from it)"
    );
    if path.is_tunnel && !path.has_endpoint {
        let why = "the interface is a tunnel, and its address is no MPTCP endpoint";
        return Finding::ok(FindingId::Multipath, format!("{found}: {why}"));
    }
    if transfer.probe.counters.announcements().1 > 0 {
        found += "; the server announces an address (AddAddr)";
    }
    let finding = Finding::problem(
        FindingId::Multipath,
        found,
        "The path manager has no endpoint for the address, its limits allow no further subflow, or the server forbids joins \
         to its initial address (net.mptcp.allow_join_initial_addr_port=0).",
    );
    let wanted = facts.paths.iter().map(|path| &path.interface).collect::<BTreeSet<_>>().len();
    let wanted = u32::try_from(wanted.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
    let limits = MptcpLimits { subflows: wanted, add_addr_accepted: 0 };
    let finding = finding.with_steps(facts.path_manager.limits_remedy(limits));
    if path.has_endpoint {
        return finding
            .with_step("on the server: sysctl net.mptcp.allow_join_initial_addr_port; ip mptcp limits show");
    }
    let needed =
        NeededEndpoint { address: path.local, device: &path.interface, flags: EndpointFlags::SUBFLOW };
    let endpoint = facts.path_manager.endpoint_remedy(&needed);
    finding.with_steps(endpoint.unwrap_or_else(|reason| vec![reason.to_string()]))
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
    let announced = |transfer: &Transfer| transfer.probe.counters.announcements();
    let received = facts.transfers.iter().find(|transfer| announced(transfer).1 > 0);
    if let Some(transfer) = received {
        let is_new = |at: &IpAddr| !facts.paths.iter().any(|path| path.server.ip() == *at);
        let remotes = transfer.probe.subflows.iter().map(|subflow| subflow.remote.ip()).filter(is_new);
        let remotes: Vec<String> = remotes.map(|at| at.to_string()).collect();
        let (_, count) = announced(transfer);
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
    let lost = |transfer: &&Transfer| matches!(announced(transfer), (1.., 0));
    let transfer = facts.transfers.iter().find(lost)?;
    let found = format!(
        "the server announces an address (AddAddrTx +{}), none arrives here (no AddAddr)",
        announced(transfer).0
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

/// Interfaces without an address of the family of the connection. A socket of IPv4 has no subflows over IPv6; one of IPv6 has
/// them over both, unless it is `IPV6_V6ONLY` (`mptcp_pm_addr_families_match`, net/mptcp/pm.c).
pub(super) fn other_family(facts: &ServerFacts) -> Vec<Finding> {
    let announced = facts.transfers.iter().any(|transfer| transfer.probe.counters.announcements().1 > 0);
    let carries = |name: &str| {
        facts.transfers.iter().any(|transfer| facts.announced_paths(transfer).contains_key(name))
    };
    let one = |(interface, family): &(String, AddressFamily)| {
        let (id, server) = (FindingId::PathFamily, &facts.server);
        if carries(interface) {
            let found = format!(
                "{interface} has {} only, and carries a subflow to an announced address",
                family.name()
            );
            return Finding::ok(id, found).with_subject(interface);
        }
        if *family == AddressFamily::Ipv6 {
            return Finding::problem(
                id,
                format!("{interface} has IPv6 only, and the connections to {server} are over IPv4"),
                "An IPv4 socket has no subflows over IPv6, even if the server announces an IPv6 address. A connection to an IPv6 \
                 address has subflows over both.",
            )
            .with_subject(interface)
            .with_step("connect to an IPv6 address of the server")
            .with_step(format!("on the server, with its IPv4 address: {ANNOUNCE}"))
            .with_steps(facts.path_manager.limits_remedy(TWO_PATHS));
        }
        let news =
            if announced { "announces none that this host uses" } else { "announces none (no AddAddr)" };
        Finding::problem(
            id,
            format!("{interface} has IPv4 only; {server} has no IPv4 address here and {news}"),
            "No subflow can use this interface: a connection over IPv6 uses IPv4 only if the server announces its IPv4 address.",
        )
        .with_subject(interface)
        .with_step(format!("on the server, with its IPv4 address: {ANNOUNCE}"))
        .with_steps(facts.path_manager.limits_remedy(TWO_PATHS))
    };
    facts.other_family.iter().map(one).collect()
}
