//! The order of the suspects, the paths to which counters belong, and the hop of a loss.

use crate::server::{
    SERVER, WIFI, first, local, ordered, path, problems, rises, sound, sound_probe, subflow,
};
use pathbench_check::finding::{FindingId, Level};
use pathbench_check::server::cause::{Announced, FaultCause, HopEvidence, Suspects};
use pathbench_check::server::counters::{Counters, JoinAttempt, Rises, Unattributed};
use pathbench_check::server::evidence::Joins;
use pathbench_check::server::facts::{
    ClientEnd, Ending, MptcpProbe, PlainProbe, ServerFacts, ServerKind, Transfer,
};
use pathbench_check::server::findings;
use pathbench_check::server::hops::{HopTrace, Located, Loss, PathHops};
use pathbench_check::server::lost_option;
use pathbench_host::hop_probe::{HopReply, HopReplyKind, QuotedOption, SynOption};
use pathbench_record::network::AddressFamily;
use pathbench_record::sample::PathState;
use std::net::{IpAddr, SocketAddr};

const BOOL: [bool; 2] = [false, true];
const HOPS: [HopEvidence; 3] =
    [HopEvidence::Unknown, HopEvidence::IntactAtLastRouter, HopEvidence::LostBeforeServer];

/// Every combination of evidence.
fn combinations() -> impl Iterator<Item = Suspects> {
    let announced = BOOL.into_iter().flat_map(|is_private| {
        BOOL.into_iter().map(move |connects| Some(Announced { is_private, connects }))
    });
    let announced: Vec<_> = std::iter::once(None).chain(announced).collect();
    [None, Some(false), Some(true)].into_iter().flat_map(move |listens| {
        announced.clone().into_iter().flat_map(move |announced| {
            (0..8_u8).flat_map(move |bits| {
                HOPS.into_iter().map(move |hops| Suspects {
                    listens,
                    announced,
                    is_rejected: bits & 1 != 0,
                    is_unknown_token: bits & 2 != 0,
                    passes_elsewhere: bits & 4 != 0,
                    hops,
                })
            })
        })
    })
}

#[test]
fn a_middlebox_is_named_only_if_every_other_suspect_is_excluded() {
    let mut named = 0;
    for suspects in combinations() {
        let is_reached = match suspects.announced {
            Some(announced) => announced.connects,
            None => suspects.listens == Some(true),
        };
        let is_server_excluded = !suspects.is_rejected && !suspects.is_unknown_token;
        let is_shown = suspects.hops == HopEvidence::LostBeforeServer || suspects.passes_elsewhere;
        let is_path = suspects.cause() == FaultCause::Path;
        assert_eq!(is_path, is_reached && is_server_excluded && is_shown, "{suspects:?}");
        named += u32::from(is_path);
    }
    assert_eq!(combinations().count(), 3 * 5 * 8 * 3);
    assert!(named > 0);
}

#[test]
fn each_suspect_before_the_middlebox_is_a_cause_of_its_own() {
    let open = Suspects { listens: Some(true), passes_elsewhere: true, ..Suspects::default() };
    let announced = |is_private| Some(Announced { is_private, connects: false });
    for (suspects, cause) in [
        (Suspects { listens: Some(false), ..open }, FaultCause::ClosedListener),
        (Suspects { announced: announced(true), ..open }, FaultCause::PrivateAnnouncement),
        (Suspects { announced: announced(false), ..open }, FaultCause::UnreachableAnnouncement),
        (Suspects { is_rejected: true, ..open }, FaultCause::ServerLimit),
        (Suspects { is_unknown_token: true, ..open }, FaultCause::OtherHost),
        (
            Suspects { passes_elsewhere: false, hops: HopEvidence::IntactAtLastRouter, ..open },
            FaultCause::Server,
        ),
        (Suspects { passes_elsewhere: false, ..open }, FaultCause::ServerOrPath),
        (open, FaultCause::Path),
    ] {
        assert_eq!(suspects.cause(), cause, "{suspects:?}");
    }
}

fn attempt(index: usize, remote: SocketAddr) -> JoinAttempt {
    JoinAttempt { local: local(index), remote, packets_received: 0 }
}

fn counts(of: &[(&str, u64)]) -> Rises {
    Rises(of.iter().map(|(name, rise)| ((*name).to_owned(), *rise)).collect())
}

/// A transfer that begins on the first of three paths. wlan0 has joined it; the third path is as `attempts` say.
fn third_path(client: &[(&str, u64)], server: &[(&str, u64)], attempts: Vec<JoinAttempt>) -> ServerFacts {
    let mut facts = sound();
    facts.paths.push(path(2, "lte0"));
    let probe = MptcpProbe {
        counters: Counters::new(counts(client), Some(counts(server)), 1),
        attempts,
        ..sound_probe(1)
    };
    facts.transfers = vec![Transfer { initial: 0, probe }];
    facts
}

#[test]
fn a_path_without_a_subflow_gets_no_counter() {
    let client = [("MPJoinSynTx", 1), ("MPJoinSynAckRx", 1)];
    let server = [("MPJoinSynRx", 1), ("MPJoinAckRx", 1)];
    let mut facts = third_path(&client, &server, Vec::new());
    facts.paths[2].has_endpoint = false;
    let found = problems(&facts);
    assert!(found.iter().all(|(id, _)| *id == FindingId::Multipath), "{found:?}");
    assert!(found.iter().any(|(_, text)| text.contains("opens no subflow from 10.0.2.1")), "{found:?}");
    assert!(!found.iter().any(|(_, text)| text.contains("carries nothing")), "{found:?}");
    let transfer = &facts.transfers[0];
    let refused = Joins::find(&facts, transfer, &facts.paths[2]).map(|_| ());
    assert_eq!(refused, Err(Unattributed::NoSubflow));
    // The remedy keeps the limits in force.
    let all = ordered(&facts);
    let own = all.iter().find(|one| one.id == FindingId::Multipath && one.subject.as_deref() == Some("lte0"));
    let remedy = own.unwrap().remedy.clone();
    assert_eq!(remedy, ["ip mptcp endpoint add 10.0.2.1 dev lte0 subflow"]);
    // A VPN without an endpoint need not be a path.
    facts.paths[2].is_tunnel = true;
    assert_eq!(problems(&facts), []);
}

#[test]
fn a_second_address_of_a_used_interface_is_no_unused_path() {
    let mut facts = third_path(&[("MPJoinSynTx", 1)], &[("MPJoinSynRx", 1)], Vec::new());
    facts.paths[2].interface = facts.paths[WIFI].interface.clone();
    assert_eq!(problems(&facts), []);
}

#[test]
fn a_temporary_address_of_the_subnet_is_the_paths_own() {
    let mut facts = sound();
    facts.paths[WIFI].addresses.push(local(9));
    for transfer in &mut facts.transfers {
        transfer.probe.subflows =
            vec![subflow(0, PathState::Open, 1_000_000), subflow(9, PathState::Open, 1_000_000)];
    }
    facts.transfers.truncate(1);
    assert_eq!(problems(&facts), []);
}

#[test]
fn counters_that_other_programs_raised_are_not_attributed() {
    let client = [("MPJoinSynTx", 7), ("MPJoinSynAckRx", 6), ("MPRstTx", 4)];
    let facts = third_path(&client, &[("MPJoinSynRx", 6), ("MPJoinAckRx", 6)], vec![attempt(2, SERVER)]);
    let (id, text) = first(&facts);
    assert_eq!(id, FindingId::PathMpJoin);
    assert!(
        text.contains("not attributed") && text.contains("sent 7 joins") && !text.contains("middlebox"),
        "{text}"
    );

    // The same of a handshake.
    let mut facts = sound();
    let disturbed = counts(&[("MPCapableSYNTX", 3), ("MPCapableFallbackSYNACK", 1)]);
    facts.paths[WIFI].mptcp = Some(MptcpProbe {
        client: ClientEnd::Tcp,
        counters: Counters::new(disturbed, Some(rises(&[])), 1),
        ..sound_probe(0)
    });
    let (id, text) = first(&facts);
    assert_eq!(id, FindingId::PathMpCapable);
    assert!(text.contains("not attributed") && text.contains("2 MPTCP connections"), "{text}");
}

#[test]
fn two_joins_that_fail_differently_in_one_time_are_not_told_apart() {
    let attempts = vec![attempt(WIFI, SERVER), attempt(2, SERVER)];
    // Both are stripped: the counters say so of each.
    let mut facts = third_path(&[("MPJoinSynTx", 2), ("MPRstTx", 2)], &[], attempts.clone());
    facts.transfers[0].probe.subflows.truncate(1);
    let texts: Vec<String> = problems(&facts).into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        texts.iter().filter(|text| text.contains("removes MP_JOIN from the SYN")).count(),
        2,
        "{texts:?}"
    );
    // One of them reaches the server.
    let mut facts = third_path(&[("MPJoinSynTx", 2), ("MPRstTx", 1)], &[("MPJoinSynRx", 1)], attempts);
    facts.transfers[0].probe.subflows.truncate(1);
    let texts: Vec<String> = problems(&facts).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts.iter().filter(|text| text.contains("not attributed")).count(), 2, "{texts:?}");
}

/// A join from wlan0 that fails, and plain TCP to its destination.
fn failed_join(
    remote: SocketAddr,
    plain: Ending,
    client: &[(&str, u64)],
    server: Option<&[(&str, u64)]>,
) -> ServerFacts {
    let mut facts = sound();
    let probe = MptcpProbe {
        counters: Counters::new(counts(client), server.map(counts), 1),
        subflows: vec![subflow(0, PathState::Open, 1_000_000)],
        attempts: vec![attempt(WIFI, remote)],
        plain: vec![PlainProbe { local: local(WIFI), remote, ending: plain }],
        ..sound_probe(0)
    };
    facts.transfers = vec![Transfer { initial: 0, probe }];
    facts
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn each_cause_at_the_server_has_its_finding_and_remedy() {
    let refused = || Ending::Reset("connection refused".to_owned());
    let silent = || Ending::NotConnected("no answer within 1 s".to_owned());
    let public: SocketAddr = "198.51.100.2:4433".parse().unwrap();
    let private: SocketAddr = "192.168.7.2:4433".parse().unwrap();
    let other: SocketAddr = "203.0.113.2:4433".parse().unwrap();
    let sent = [("MPJoinSynTx", 1)];
    let answered = [("MPJoinSynTx", 1), ("MPJoinSynAckRx", 1), ("MPRstTx", 1)];
    let rejected = [("MPJoinSynRx", 1), ("MPJoinRejected", 1)];
    let unknown = [("MPJoinSynRx", 1), ("MPJoinNoTokenFound", 1)];
    let rows = [
        (
            "closed listener",
            failed_join(public, refused(), &sent, None),
            FindingId::ServerListener,
            "its listener closes",
            "listening socket",
        ),
        (
            "private announcement",
            failed_join(private, silent(), &sent, None),
            FindingId::PathAddAddr,
            "private address 192.168.7.2",
            "delete the endpoint",
        ),
        (
            "announcement without a listener",
            failed_join(other, refused(), &sent, None),
            FindingId::PathAddAddr,
            "announces 203.0.113.2",
            "delete the endpoint",
        ),
        (
            "limits 0",
            failed_join(public, Ending::Complete, &answered, Some(&rejected)),
            FindingId::ServerLimits,
            "rejects the join",
            "ip mptcp limits set",
        ),
        (
            "balancer",
            failed_join(public, Ending::Complete, &sent, Some(&unknown)),
            FindingId::PathMpJoin,
            "load balancer",
            "balancer",
        ),
        (
            "server firewall",
            failed_join(public, Ending::Complete, &sent, Some(&[])),
            FindingId::PathMpJoin,
            "the server's own firewall or the path",
            "on the server, as root: pathbench check",
        ),
        (
            "server firewall of another server",
            failed_join(public, Ending::Complete, &sent, None),
            FindingId::PathMpJoin,
            "the server's own firewall or the path",
            "on the server, as root: pathbench check",
        ),
        (
            "limits of another server",
            failed_join(public, Ending::Complete, &answered, None),
            FindingId::PathMpJoin,
            "limit of subflows",
            "ip mptcp limits show",
        ),
    ];
    for (fault, mut facts, id, words, step) in rows {
        facts.paths.iter_mut().for_each(|path| path.server = public);
        facts.kind = ServerKind::Other;
        facts.transfers[0].probe.subflows[0].remote = public;
        let found = ordered(&facts);
        assert_eq!((found[0].id, found[0].level), (id, Level::Problem), "{fault}: {:?}", found[0]);
        let text = format!("{} {}", found[0].found, found[0].meaning);
        assert!(text.contains(words), "{fault}: {text}");
        assert!(found[0].remedy[0].contains(step), "{fault}: {:?}", found[0].remedy);
        let names_middlebox = text.contains("the path removes") || text.contains(": the path drops");
        assert!(!names_middlebox, "{fault}: {text}");
    }
}

#[test]
fn a_server_that_accepts_one_connection_is_not_unreachable() {
    let mut facts = sound();
    facts.kind = ServerKind::Other;
    facts.transfers = Vec::new();
    facts.closes_listener = true;
    facts.paths[0].mptcp = None;
    facts.paths[WIFI].mptcp = None;
    facts.paths[WIFI].tcp = Ending::Reset("connection refused".to_owned());
    let found = problems(&facts);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, FindingId::ServerListener);
}

#[test]
fn an_unreachable_announcement_is_advice_where_all_paths_carry_bytes() {
    let remote: SocketAddr = "192.168.7.2:4433".parse().unwrap();
    let silent = || Ending::NotConnected("no answer within 1 s".to_owned());
    let mut facts = sound();
    // The join begins at the address of the initial subflow.
    let probe = &mut facts.transfers[0].probe;
    probe.attempts = vec![attempt(0, remote)];
    probe.plain = vec![PlainProbe { local: local(0), remote, ending: silent() }];
    assert_eq!(problems(&facts), []);
    let found = ordered(&facts);
    assert_eq!((found[0].id, found[0].level), (FindingId::PathAddAddr, Level::Advice));
    assert_eq!(found[0].subject.as_deref(), Some("192.168.7.2"));
    facts.transfers.truncate(1);
    facts.transfers[0].probe.subflows.truncate(1);
    facts.transfers[0].probe.counters = Counters::new(rises(&[]), Some(rises(&[])), 1);
    assert_eq!(first(&facts).0, FindingId::PathAddAddr);
}

#[test]
fn a_join_that_passes_over_another_path_to_the_same_address_leaves_the_path() {
    let mut facts = failed_join(SERVER, Ending::Complete, &[("MPJoinSynTx", 1), ("MPRstTx", 1)], Some(&[]));
    assert!(first(&facts).1.contains("the server's own firewall or the path removes MP_JOIN from the SYN"));
    facts.transfers.push(Transfer { initial: WIFI, probe: sound_probe(1) });
    assert!(first(&facts).1.contains("wlan0: the path removes MP_JOIN from the SYN"), "{}", first(&facts).1);
    assert_eq!(lost_option(&facts, WIFI), Some(SynOption::MpJoin));
    assert_eq!(lost_option(&facts, 0), None);
}

#[test]
fn mp_capable_that_is_lost_on_every_path_is_not_the_paths_alone() {
    let mut facts = sound();
    facts.transfers = Vec::new();
    let dropped = [("MPCapableSYNTX", 1), ("MPCapableSYNTXDrop", 1)];
    for path in &mut facts.paths {
        path.mptcp = Some(MptcpProbe {
            client: ClientEnd::Tcp,
            counters: Counters::new(counts(&dropped), Some(rises(&[])), 1),
            ..sound_probe(0)
        });
    }
    let (_, text) = first(&facts);
    assert!(text.contains("the server's own firewall or the path drops the SYN"), "{text}");
    facts.paths[WIFI].mptcp = Some(sound_probe(1));
    let (_, text) = first(&facts);
    assert!(text.contains("eth0: the path drops the SYN"), "{text}");
}

fn reply(hops: u8, kind: HopReplyKind) -> HopReply {
    let is_server = matches!(kind, HopReplyKind::SynAck { .. } | HopReplyKind::Reset);
    let from = if is_server { SERVER.ip() } else { IpAddr::from([10, hops, 0, 1]) };
    HopReply { hops, from, kind }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn the_answers_of_the_hops_show_where_an_option_is_lost() {
    use HopReplyKind::{Reset, SynAck, TimeExceeded};
    use QuotedOption::{Changed, Intact, NotQuoted, Removed};
    let expired = |hops, quote| reply(hops, TimeExceeded(quote));
    let plain = || {
        vec![
            expired(1, Intact),
            expired(2, Intact),
            expired(3, Intact),
            reply(4, SynAck { has_mptcp: false }),
        ]
    };
    let located = |plain: Vec<HopReply>, with_option: Vec<HopReply>| {
        HopTrace { port: 443, option: SynOption::MpJoin, plain, with_option }.locate()
    };
    let end = reply(4, Reset);
    let rows = [
        (
            "strip",
            plain(),
            vec![expired(1, Intact), expired(2, Removed), expired(3, Removed), end],
            "between hop 1 (10.1.0.1) and hop 2 (10.2.0.1)",
            HopEvidence::LostBeforeServer,
        ),
        (
            "a silent hop before",
            plain(),
            vec![expired(1, Intact), expired(3, Changed), end],
            "between hop 1 (10.1.0.1) and hop 3 (10.3.0.1)",
            HopEvidence::LostBeforeServer,
        ),
        (
            "a short quote before",
            plain(),
            vec![expired(1, NotQuoted), expired(2, Removed), end],
            "between this host (its own firewall included) and hop 2 (10.2.0.1)",
            HopEvidence::LostBeforeServer,
        ),
        (
            "drop",
            plain(),
            vec![expired(1, Intact)],
            "between hop 1 (10.1.0.1) and hop 2 (10.2.0.1)",
            HopEvidence::LostBeforeServer,
        ),
        (
            "a hop that answers once",
            plain(),
            vec![expired(1, Intact), expired(3, Intact), end],
            "at or after hop 3 (10.3.0.1), the last router, which received the option intact",
            HopEvidence::IntactAtLastRouter,
        ),
        (
            "drop at the server",
            plain(),
            vec![expired(1, Intact), expired(2, Intact), expired(3, Intact)],
            "between hop 3 (10.3.0.1) and hop 4 (10.0.9.1, the server)",
            HopEvidence::IntactAtLastRouter,
        ),
        (
            "drop, and silence beyond",
            vec![expired(1, Intact), expired(2, Intact)],
            vec![expired(1, Intact), expired(2, Intact)],
            "at or after hop 2 (10.2.0.1), the last that answered",
            HopEvidence::Unknown,
        ),
        (
            "RST in the server's name",
            plain(),
            vec![expired(1, Intact), reply(2, Reset)],
            "between hop 1 (10.1.0.1) and hop 2 (10.2.0.1)",
            HopEvidence::LostBeforeServer,
        ),
        (
            "short quotes",
            plain(),
            vec![expired(1, NotQuoted), expired(2, NotQuoted), expired(3, NotQuoted), end],
            "unknown: the hops do not quote enough of the SYN",
            HopEvidence::Unknown,
        ),
        ("silence", Vec::new(), Vec::new(), "unknown: no hop answered", HopEvidence::Unknown),
    ];
    for (row, plain, with_option, words, evidence) in rows {
        let found = located(plain, with_option);
        assert_eq!((found.to_string(), found.evidence()), (words.to_owned(), evidence), "{row}");
    }
    let stripped = located(plain(), vec![expired(1, Intact), expired(2, Removed)]);
    assert!(matches!(stripped, Located::Between { loss: Loss::Changed, .. }), "{stripped:?}");
}

#[test]
fn the_finding_names_the_hop_and_the_ports_that_differ() {
    let expired = |hops, quote| reply(hops, HopReplyKind::TimeExceeded(quote));
    let end = reply(3, HopReplyKind::Reset);
    let plain = vec![expired(1, QuotedOption::Intact), expired(2, QuotedOption::Intact), end];
    let trace = |port, quote| HopTrace {
        port,
        option: SynOption::MpJoin,
        plain: plain.clone(),
        with_option: vec![expired(1, QuotedOption::Intact), expired(2, quote), end],
    };
    let mut facts = failed_join(SERVER, Ending::Complete, &[("MPJoinSynTx", 1), ("MPRstTx", 1)], Some(&[]));
    let traces = vec![
        trace(4433, QuotedOption::Removed),
        trace(80, QuotedOption::Removed),
        trace(443, QuotedOption::Intact),
    ];
    facts.paths[WIFI].hops = Some(PathHops::Examined(traces));
    let (_, text) = first(&facts);
    assert!(text.contains("wlan0: the path removes MP_JOIN from the SYN"), "{text}");
    assert!(text.contains("between hop 1 (10.1.0.1) and hop 2 (10.2.0.1)"), "{text}");
    assert!(
        text.contains("port 80 likewise") && text.contains("port 443 differs: the option passes"),
        "{text}"
    );
    assert!(text.contains("The download direction was not examined"), "{text}");
    facts.paths[WIFI].hops = Some(PathHops::NotExamined("it needs CAP_NET_RAW".to_owned()));
    assert!(
        first(&facts).1.contains("The hop was not examined: it needs CAP_NET_RAW"),
        "{}",
        first(&facts).1
    );
}

/// Regression: the advice for a connection over IPv4 was to announce an IPv6 address, which an IPv4 socket cannot use, and an
/// interface that carried half of the bytes was said to be of no use.
#[test]
fn an_interface_of_the_other_family_has_the_remedy_of_its_family() {
    let family = |facts: &ServerFacts| {
        findings(facts).into_iter().find(|one| one.id == FindingId::PathFamily).unwrap()
    };
    let mut facts = sound();
    facts.other_family = vec![("wwan0".to_owned(), AddressFamily::Ipv6)];
    let found = family(&facts);
    assert_eq!(
        (found.level, found.remedy[0].as_str()),
        (Level::Problem, "connect to an IPv6 address of the server")
    );
    assert!(found.remedy.iter().all(|step| !step.contains("IPv6 address: ip mptcp")), "{found:?}");
    facts.other_family = vec![("wwan0".to_owned(), AddressFamily::Ipv4)];
    let found = family(&facts);
    assert_eq!(found.level, Level::Problem);
    assert!(found.remedy[0].contains("with its IPv4 address"), "{found:?}");
    let joined = &mut facts.transfers[0].probe.subflows[1];
    joined.local = "192.0.2.77:5000".parse().unwrap();
    joined.interface = Some("wwan0".to_owned());
    assert_eq!(family(&facts).level, Level::Ok);
    // A path to the announced address, although the server's name has none of its family.
    facts.paths.truncate(1);
    facts.transfers.truncate(1);
    let multipath = findings(&facts).into_iter().find(|one| one.id == FindingId::Multipath).unwrap();
    assert!(multipath.level == Level::Ok && multipath.found.contains("wwan0 1.00 MB"), "{multipath:?}");
}
