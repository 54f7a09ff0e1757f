//! `MP_CAPABLE` and the first data of an MPTCP connection on one path (RFC 8684, sections 3.1 and 3.3).

use super::facts::{ClientEnd, Ending, MptcpProbe, PathProbe, ServerEnd, ServerFacts, ServerKind};
use crate::finding::{Finding, FindingId};

/// Counters of a mapping (DSS) that does not arrive, at either end.
pub(super) const MAPPING: [&str; 8] = [
    "DssFallback",
    "DSSNoMatchTCP",
    "DSSNotMatching",
    "DSSCorruptionFallback",
    "DSSCorruptionReset",
    "MPCapableDataFallback",
    "MPRstTx",
    "MPRstRx",
];

/// Counters of a wrong DSS checksum.
pub(super) const CHECKSUM: [&str; 5] =
    ["DataCsumErr", "MPFailTx", "MPFailRx", "InfiniteMapTx", "InfiniteMapRx"];

const FALLBACK_MEANING: &str = "Connections that begin on this path are plain TCP and use this path only.";
const PATH_REMEDY: &str = "begin connections on another path (prefer its route), or have the operator of the middlebox pass TCP option 30";

pub(super) fn findings(facts: &ServerFacts, path: &PathProbe) -> Option<Finding> {
    let probe = path.mptcp.as_ref()?;
    // Without TCP on the path, MPTCP shows nothing more.
    if matches!(path.tcp, Ending::NotConnected(_) | Ending::Reset(_)) {
        return None;
    }
    let found = match (&probe.ending, probe.client) {
        // A subflow over another path, which plain TCP shows, may have carried the altered bytes.
        (Ending::Altered(_), _) if facts.paths.iter().any(|path| path.tcp.is_altered()) => None,
        (Ending::Altered(message), _) => Some(Finding::problem(
            FindingId::PathPayload,
            format!("MPTCP between {} and {}: {message}", path.local, path.server),
            "Plain TCP shows altered bytes on no path: this host cannot tell whether a middlebox changes only MPTCP, or the kernel \
             of either end loses bytes while a subflow joins.",
        )),
        (_, ClientEnd::Unopened) => Some(unopened(path, probe)),
        (_, ClientEnd::Tcp) => Some(fallback(facts, probe)),
        (_, ClientEnd::FellBack) => Some(later(probe)),
        (Ending::Complete, ClientEnd::Mptcp) => {
            let found = format!("MP_CAPABLE and DSS pass between {} and {}", path.local, path.server);
            Some(Finding::ok(FindingId::PathMpCapable, found))
        }
        (_, ClientEnd::Mptcp) => path.tcp.is_complete().then(|| later(probe)),
    };
    found.map(|finding| if finding.subject.is_some() { finding } else { finding.with_subject(&path.name) })
}

/// The rise of a counter at the server, if the server reports it.
fn at_server(probe: &MptcpProbe, name: &str) -> Option<u64> {
    probe.server_rises.as_ref().map(|rises| rises.rise(name))
}

fn capable(found: impl Into<String>) -> Finding {
    Finding::problem(FindingId::PathMpCapable, found, FALLBACK_MEANING).with_step(PATH_REMEDY)
}

fn unopened(path: &PathProbe, probe: &MptcpProbe) -> Finding {
    let reset = matches!(probe.ending, Ending::Reset(_));
    let found = match (reset, at_server(probe, "MPCapableSYNRX")) {
        (true, Some(0)) => {
            format!(
                "a middlebox answers the SYN with MP_CAPABLE from {} with RST; plain TCP connects",
                path.local
            )
        }
        (true, _) => {
            format!("the SYN with MP_CAPABLE from {} is answered with RST; plain TCP connects", path.local)
        }
        (false, Some(0)) => {
            format!(
                "the path drops the SYN with MP_CAPABLE from {} (MPCapableSYNRX did not rise at the server)",
                path.local
            )
        }
        (false, Some(_)) => format!(
            "the path drops the SYN/ACK with MP_CAPABLE to {}: the server received the SYN (MPCapableSYNRX), plain TCP connects",
            path.local
        ),
        (false, None) => {
            format!(
                "no connection with MP_CAPABLE opens from {}, plain TCP connects: the SYN or the SYN/ACK is dropped",
                path.local
            )
        }
    };
    Finding { meaning: "MPTCP sockets cannot connect over this path at all.".to_owned(), ..capable(found) }
}

/// The connection was plain TCP from the beginning.
fn fallback(facts: &ServerFacts, probe: &MptcpProbe) -> Finding {
    let client = &probe.client_rises;
    if client.rose("MPCapableSYNTXDisabled") && !client.rose("MPCapableSYNTX") {
        return banned(facts);
    }
    if probe.server == Some(ServerEnd::TcpListener) {
        return server_without_mptcp(facts);
    }
    let received = at_server(probe, "MPCapableSYNRX");
    if client.rose("MPCapableSYNTXDrop") {
        let part = if received.is_some_and(|rise| rise > 0) { "SYN/ACK" } else { "SYN" };
        let finding = capable(format!(
            "the path drops the {part} with MP_CAPABLE; the kernel connects without it afterwards (MPCapableSYNTXDrop)"
        ));
        if !client.rose("Blackhole") {
            return finding;
        }
        let meaning = format!(
            "{} The kernel's detection of black holes now keeps MPTCP off in this network namespace \
             (net.mptcp.blackhole_timeout).",
            finding.meaning
        );
        return Finding { meaning, ..finding }.with_step(LIFT);
    }
    match (received, probe.server) {
        (Some(0), _) => capable(
            "the path removes MP_CAPABLE from the SYN: the server's listener has MPTCP and received none (MPCapableSYNRX \
             did not rise)",
        ),
        (Some(_), _) if client.rose("MPCapableFallbackSYNACK") => capable(format!(
            "the path removes MP_CAPABLE from the SYN/ACK: the server received a SYN with it ({}), this host no answer with \
             it (MPCapableFallbackSYNACK); or from the SYN, if the server received another client's",
            server_list(probe, &["MPCapableSYNRX", "MPCapableFallbackACK"])
        )),
        (_, Some(ServerEnd::PlainSyn | ServerEnd::FellBack)) => capable(
            "the path removes MP_CAPABLE from the SYN or the SYN/ACK: the server's listener has MPTCP, the connection has not",
        ),
        _ => unknown(facts),
    }
}

/// The commands that end the kernel's ban of MPTCP: writing the setting, even with the same value, ends it.
const LIFT: &str = "sysctl -w net.mptcp.blackhole_timeout=$(sysctl -n net.mptcp.blackhole_timeout)";

/// The kernel opens no MPTCP connection after it has detected a path that drops SYN packets with `MP_CAPABLE`.
fn banned(facts: &ServerFacts) -> Finding {
    let detects =
        |path: &&PathProbe| path.mptcp.as_ref().is_some_and(|probe| probe.client_rises.rose("Blackhole"));
    if let Some(path) = facts.paths.iter().find(detects) {
        let name = &path.name;
        let reason = format!(
            "after the dropped SYN packets on {name} the kernel opens no MPTCP connection (MPCapableSYNTXDisabled)"
        );
        return Finding::not_examined(FindingId::PathMpCapable, reason).with_step(LIFT);
    }
    Finding::problem(
        FindingId::MptcpBlackhole,
        "the kernel sends SYN packets without MP_CAPABLE (MPCapableSYNTXDisabled), because a path dropped them before",
        "New connections of this network namespace are plain TCP until the time is over.",
    )
    .with_subject("host")
    .with_step(LIFT)
}

/// Only the client's end is known: a plain SYN/ACK is the answer of a server without MPTCP, and of one behind a middlebox.
fn unknown(facts: &ServerFacts) -> Finding {
    let works = |path: &&PathProbe| path.mptcp.as_ref().is_some_and(|probe| probe.client == ClientEnd::Mptcp);
    if let Some(other) = facts.paths.iter().find(works) {
        let other = &other.name;
        return capable(format!(
            "the path removes MP_CAPABLE: the same server negotiates MPTCP over {other}"
        ));
    }
    let kind = match facts.kind {
        ServerKind::Pathbench => "an older Pathbench server, which reports no counters",
        ServerKind::Other => "no Pathbench server",
    };
    Finding::problem(
        FindingId::ServerMptcp,
        format!("{} answers MP_CAPABLE with plain TCP (MPCapableFallbackSYNACK)", facts.server),
        format!(
            "The server has no MPTCP, or the paths remove MP_CAPABLE. The two look alike at this end, and the server \
             is {kind}."
        ),
    )
    .with_subject(&facts.server)
    .with_step("on the server: sysctl net.mptcp.enabled, and ss -tlnM for MPTCP listeners")
    .with_step("to tell them apart, run the current `pathbench serve` on the server and `pathbench check` against it")
}

fn server_without_mptcp(facts: &ServerFacts) -> Finding {
    Finding::problem(
        FindingId::ServerMptcp,
        format!("{} listens without MPTCP: MP_CAPABLE arrives at a TCP socket", facts.server),
        "Every connection falls back to TCP and uses one path. No setting of this host or of the paths changes that.",
    )
    .with_subject(&facts.server)
    .with_step("on the server: sysctl -w net.mptcp.enabled=1")
    .with_step("on the server: restart the program, with MPTCP sockets (pathbench serve opens them by itself)")
}

/// MPTCP was negotiated, and the first data did not pass as MPTCP.
fn later(probe: &MptcpProbe) -> Finding {
    let checksums = both(probe, &CHECKSUM);
    if !checksums.is_empty() {
        return altered(format!("DSS checksums fail on this path ({checksums})"));
    }
    if probe.client_rises.rose("MPCapableDataFallback")
        && at_server(probe, "MPCapableFallbackACK").is_some_and(|rise| rise > 0)
    {
        return capable(format!(
            "the path removes MP_CAPABLE from the third ACK: MPTCP after connect, plain TCP after the reply ({})",
            both(probe, &["MPCapableDataFallback", "MPCapableFallbackACK"])
        ));
    }
    let evidence = both(probe, &MAPPING);
    let evidence = if evidence.is_empty() { String::new() } else { format!(" ({evidence})") };
    let result = match &probe.ending {
        Ending::Complete => "the connection continues as plain TCP",
        ending => ending.message(),
    };
    dss(format!("MPTCP is negotiated on this path, and its data does not pass: {result}{evidence}"))
}

pub(super) fn dss(found: String) -> Finding {
    Finding::problem(
        FindingId::PathDss,
        found,
        "A middlebox removes or changes the DSS option after the handshake: connections that begin on this path stall or \
         fall back, and subflows on it are reset. Plain TCP works.",
    )
    .with_step("do not use this path for MPTCP: delete the endpoint of its address (ip mptcp endpoint show)")
    .with_step("have the operator of the middlebox pass TCP option 30")
}

pub(super) fn altered(found: String) -> Finding {
    Finding::problem(
        FindingId::PathPayload,
        found,
        "A middlebox on this path changes the payload. MPTCP detects that only with DSS checksums, and then stops using \
         the path; without them the application receives altered data.",
    )
    .with_step("encrypt the traffic (TLS), so that the middlebox cannot change it")
    .with_step("sysctl -w net.mptcp.checksum_enabled=1 on either end, so that MPTCP detects it")
}

fn server_list(probe: &MptcpProbe, names: &[&str]) -> String {
    probe.server_rises.as_ref().map(|rises| rises.list(names)).unwrap_or_default()
}

/// The counters that rose at either end: `client MPRstTx +1; server DssFallback +1`.
pub(super) fn both(probe: &MptcpProbe, names: &[&str]) -> String {
    let ends = [("client", probe.client_rises.list(names)), ("server", server_list(probe, names))];
    let rose = ends.into_iter().filter(|(_, list)| !list.is_empty());
    rose.map(|(end, list)| format!("{end} {list}")).collect::<Vec<_>>().join("; ")
}
