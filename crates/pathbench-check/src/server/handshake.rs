//! `MP_CAPABLE` and the first data of an MPTCP connection on one path (RFC 8684, sections 3.1 and 3.3).

use super::cause::{FaultCause, Suspects};
use super::counters::{End, PathCounters, Unattributed};
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
/// The server's own firewall is examined before a middlebox is.
pub(super) const SERVER_FIREWALL: &str = "on the server, as root: pathbench check names the rules of its own firewall that remove or drop MPTCP options";

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
        (Ending::Complete, ClientEnd::Mptcp) => {
            let found = format!("MP_CAPABLE and DSS pass between {} and {}", path.local, path.server);
            Some(Finding::ok(FindingId::PathMpCapable, found))
        }
        (_, ClientEnd::Mptcp) if !path.tcp.is_complete() => None,
        (_, ClientEnd::Tcp) if probe.server == Some(ServerEnd::TcpListener) => {
            Some(server_without_mptcp(facts))
        }
        _ => Some(failure(facts, path, probe)),
    };
    found.map(|finding| if finding.subject.is_some() { finding } else { finding.with_subject(&path.name) })
}

/// Whether the SYN with `MP_CAPABLE` of a path, or the answer, is lost or changed.
pub(super) fn loses_capable(path: &PathProbe) -> bool {
    let is_lost = |probe: &MptcpProbe| {
        let is_banned = |counters: PathCounters<'_>| counters.rose_at_client("MPCapableSYNTXDisabled");
        matches!(probe.client, ClientEnd::Unopened | ClientEnd::Tcp)
            && probe.server != Some(ServerEnd::TcpListener)
            && !probe.counters.of_handshake().is_ok_and(is_banned)
    };
    path.tcp.is_complete() && path.mptcp.as_ref().is_some_and(is_lost)
}

/// A handshake that failed, or first data that did not pass.
fn failure(facts: &ServerFacts, path: &PathProbe, probe: &MptcpProbe) -> Finding {
    let counters = match probe.counters.of_handshake() {
        Ok(counters) => counters,
        Err(why) => return not_attributed(FindingId::PathMpCapable, path, probe.ending.message(), why),
    };
    let handshake = Handshake { facts, path, probe, counters, culprit: Culprit::find(facts, path) };
    match probe.client {
        ClientEnd::Unopened => handshake.unopened(),
        ClientEnd::Tcp => handshake.fallback(),
        ClientEnd::FellBack | ClientEnd::Mptcp => handshake.later(),
    }
}

/// The counters show no cause, because other connections raised them.
pub(super) fn not_attributed(id: FindingId, path: &PathProbe, result: &str, why: Unattributed) -> Finding {
    let why = match why {
        Unattributed::NoSubflow => "the kernel listed no subflow".to_owned(),
        Unattributed::OtherTraffic(why) => why,
    };
    Finding::problem(
        id,
        format!(
            "MPTCP between {} and {} fails ({result}); the cause is not attributed: {why}",
            path.local, path.server
        ),
        "The kernel's counters count all connections of the network namespace.",
    )
    .with_step("repeat the check while no other program opens MPTCP connections")
}

/// The object to which a lost option is attributed.
struct Culprit {
    cause: FaultCause,
}

impl Culprit {
    fn find(facts: &ServerFacts, path: &PathProbe) -> Self {
        let works = |other: &&PathProbe| {
            other.name != path.name
                && other.server == path.server
                && other.mptcp.as_ref().is_some_and(|probe| probe.client == ClientEnd::Mptcp)
        };
        let suspects = Suspects {
            listens: Some(path.tcp.is_complete()),
            passes_elsewhere: facts.paths.iter().any(|other| works(&other)),
            hops: path.hops.as_ref().map_or_else(Default::default, super::hops::PathHops::evidence),
            ..Suspects::default()
        };
        Self { cause: suspects.cause() }
    }

    const fn noun(&self) -> &'static str {
        match self.cause {
            FaultCause::Path => "the path",
            FaultCause::Server => "the server's own firewall or the last router before it",
            _ => "the server's own firewall or the path",
        }
    }

    fn finding(&self, path: &PathProbe, found: &str, meaning: &str) -> Finding {
        let meaning = match &path.hops {
            Some(hops) => format!("{meaning} {}", hops.describe()),
            None => meaning.to_owned(),
        };
        let finding = Finding::problem(FindingId::PathMpCapable, found, meaning);
        if self.cause == FaultCause::Path {
            return finding.with_step(PATH_REMEDY);
        }
        finding.with_step(SERVER_FIREWALL).with_step(PATH_REMEDY)
    }
}

struct Handshake<'a> {
    facts: &'a ServerFacts,
    path: &'a PathProbe,
    probe: &'a MptcpProbe,
    counters: PathCounters<'a>,
    culprit: Culprit,
}

impl Handshake<'_> {
    /// The rise of a counter at the server, if the server reports it.
    fn at_server(&self, name: &str) -> Option<u64> {
        self.counters.rise(End::Server, name)
    }

    fn capable(&self, found: &str) -> Finding {
        self.culprit.finding(self.path, found, FALLBACK_MEANING)
    }

    fn unopened(&self) -> Finding {
        let (path, noun) = (self.path, self.culprit.noun());
        let reset = matches!(self.probe.ending, Ending::Reset(_));
        let local = path.local;
        let found = match (reset, self.at_server("MPCapableSYNRX")) {
            (true, Some(0)) => {
                format!("{noun} answers the SYN with MP_CAPABLE from {local} with RST; plain TCP connects")
            }
            (true, _) => {
                format!("the SYN with MP_CAPABLE from {local} is answered with RST; plain TCP connects")
            }
            (false, Some(0)) => format!(
                "{noun} drops the SYN with MP_CAPABLE from {local} (MPCapableSYNRX did not rise at the server)"
            ),
            (false, Some(_)) => format!(
                "{noun} drops the SYN/ACK with MP_CAPABLE to {local}: the server received the SYN (MPCapableSYNRX), plain TCP \
                 connects"
            ),
            (false, None) => format!(
                "no connection with MP_CAPABLE opens from {local}, plain TCP connects: the SYN or the SYN/ACK is dropped"
            ),
        };
        self.culprit.finding(path, &found, "MPTCP sockets cannot connect over this path at all.")
    }

    /// The connection was plain TCP from the beginning.
    fn fallback(&self) -> Finding {
        let (counters, noun) = (&self.counters, self.culprit.noun());
        if counters.rose_at_client("MPCapableSYNTXDisabled") && !counters.rose_at_client("MPCapableSYNTX") {
            return banned(self.facts);
        }
        let received = self.at_server("MPCapableSYNRX");
        if counters.rose_at_client("MPCapableSYNTXDrop") {
            let part = if received.is_some_and(|rise| rise > 0) { "SYN/ACK" } else { "SYN" };
            let finding = self.capable(&format!(
                "{noun} drops the {part} with MP_CAPABLE; the kernel connects without it afterwards (MPCapableSYNTXDrop)"
            ));
            if !self.probe.counters.has_detected_black_hole() {
                return finding;
            }
            let meaning = format!(
                "{} The kernel's detection of black holes now keeps MPTCP off in this network namespace \
                 (net.mptcp.blackhole_timeout).",
                finding.meaning
            );
            return Finding { meaning, ..finding }.with_step(LIFT);
        }
        match (received, self.probe.server) {
            (Some(0), _) => self.capable(&format!(
                "{noun} removes MP_CAPABLE from the SYN: the server's listener has MPTCP and received none (MPCapableSYNRX \
                 did not rise)"
            )),
            (Some(_), _) if counters.rose_at_client("MPCapableFallbackSYNACK") => self.capable(&format!(
                "{noun} removes MP_CAPABLE from the SYN/ACK: the server received a SYN with it ({}), this host no answer with \
                 it (MPCapableFallbackSYNACK); or from the SYN, if the server received another client's",
                counters.list_at(End::Server, &["MPCapableSYNRX", "MPCapableFallbackACK"])
            )),
            (_, Some(ServerEnd::PlainSyn | ServerEnd::FellBack)) => self.capable(&format!(
                "{noun} removes MP_CAPABLE from the SYN or the SYN/ACK: the server's listener has MPTCP, the connection has not"
            )),
            _ => self.unknown(),
        }
    }

    /// Only the client's end is known: a plain SYN/ACK is the answer of a server without MPTCP, and of one behind a
    /// middlebox.
    fn unknown(&self) -> Finding {
        let (facts, path) = (self.facts, self.path);
        let works = |other: &&PathProbe| {
            let is_mptcp = |probe: &MptcpProbe| probe.client == ClientEnd::Mptcp;
            other.name != path.name && other.mptcp.as_ref().is_some_and(is_mptcp)
        };
        if let Some(other) = facts.paths.iter().find(works) {
            let noun = self.culprit.noun();
            let over = &other.name;
            return self.capable(&format!(
                "{noun} removes MP_CAPABLE: the same server negotiates MPTCP over {over}"
            ));
        }
        if self.culprit.cause == FaultCause::Path {
            return self.capable("the path removes MP_CAPABLE from the SYN");
        }
        server_or_path(facts, path)
    }

    /// MPTCP was negotiated, and the first data did not pass as MPTCP.
    fn later(&self) -> Finding {
        let counters = &self.counters;
        let checksums = counters.list(&CHECKSUM);
        if !checksums.is_empty() {
            return altered(format!("DSS checksums fail on this path ({checksums})"));
        }
        if counters.rose_at_client("MPCapableDataFallback")
            && self.at_server("MPCapableFallbackACK").is_some_and(|rise| rise > 0)
        {
            return self.capable(&format!(
                "{} removes MP_CAPABLE from the third ACK: MPTCP after connect, plain TCP after the reply ({})",
                self.culprit.noun(),
                counters.list(&["MPCapableDataFallback", "MPCapableFallbackACK"])
            ));
        }
        let evidence = counters.list(&MAPPING);
        let evidence = if evidence.is_empty() { String::new() } else { format!(" ({evidence})") };
        let result = match &self.probe.ending {
            Ending::Complete => "the connection continues as plain TCP",
            ending => ending.message(),
        };
        dss(format!("MPTCP is negotiated on this path, and its data does not pass: {result}{evidence}"))
    }
}

/// The commands that end the kernel's ban of MPTCP: writing the setting, even with the same value, ends it.
const LIFT: &str = "sysctl -w net.mptcp.blackhole_timeout=$(sysctl -n net.mptcp.blackhole_timeout)";

/// The kernel opens no MPTCP connection after it has detected a path that drops SYN packets with `MP_CAPABLE`.
fn banned(facts: &ServerFacts) -> Finding {
    let detects =
        |path: &&PathProbe| path.mptcp.as_ref().is_some_and(|probe| probe.counters.has_detected_black_hole());
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

/// A plain SYN/ACK, and nothing that tells a server without MPTCP from a middlebox.
fn server_or_path(facts: &ServerFacts, path: &PathProbe) -> Finding {
    let kind = match facts.kind {
        ServerKind::Pathbench => "an older Pathbench server, which reports no counters",
        ServerKind::Other => "no Pathbench server",
    };
    Finding::problem(
        FindingId::ServerMptcp,
        format!("{} answers MP_CAPABLE with plain TCP (MPCapableFallbackSYNACK)", facts.server),
        format!(
            "The server has no MPTCP, or the paths remove MP_CAPABLE. The two look alike at this end, and the server \
             is {kind}.{}",
            path.hops.as_ref().map(|hops| format!(" {}", hops.describe())).unwrap_or_default()
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

pub(super) fn dss(found: String) -> Finding {
    Finding::problem(
        FindingId::PathDss,
        found,
        "A middlebox, or a rule of the server's own firewall, removes or changes the DSS option after the handshake: \
         connections that begin on this path stall or fall back, and subflows on it are reset. Plain TCP works.",
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
