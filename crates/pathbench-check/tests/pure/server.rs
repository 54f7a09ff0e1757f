//! What probes of a server show → the findings: one row per fault of a middlebox or setting, with the counters that
//! Linux 6.18 showed for it.

use pathbench_check::finding::{Finding, FindingId, Level, order};
use pathbench_check::server::counters::{Counters, JoinAttempt, Rises};
use pathbench_check::server::facts::{
    ClientEnd, Ending, MptcpProbe, MtuDirection, MtuProbe, PathProbe, ServerEnd, ServerFacts, ServerKind,
    Subflow, Transfer, UdpProbe,
};
use pathbench_check::server::findings;
use pathbench_record::mptcp::remedy::PathManagerState;
use pathbench_record::network::AddressFamily;
use pathbench_record::sample::PathState;
use std::net::{IpAddr, SocketAddr};

pub(crate) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 9, 1)), 4433);
pub(crate) const WIFI: usize = 1;

pub(crate) fn rises(names: &[&str]) -> Rises {
    Rises(names.iter().map(|name| ((*name).to_owned(), 1)).collect())
}

pub(crate) fn local(index: usize) -> IpAddr {
    IpAddr::from([10, 0, index as u8, 1])
}

pub(crate) fn subflow(index: usize, state: PathState, bytes: u64) -> Subflow {
    let local = SocketAddr::new(local(index), 5000);
    Subflow { local, remote: SERVER, state, bytes, sent_bytes: bytes, interface: None }
}

/// The counters of a connection with `joins` completed joins.
pub(crate) fn sound_probe(joins: u64) -> MptcpProbe {
    let client = ["MPCapableSYNTX", "MPCapableSYNACKRX", "MPJoinSynTx", "MPJoinSynAckRx"];
    let server = ["MPCapableSYNRX", "MPCapableACKRX", "MPJoinSynRx", "MPJoinAckRx"];
    let count = |names: &[&str]| {
        let rise = |name: &str| if name.starts_with("MPJoin") { joins } else { 1 };
        Rises(names.iter().map(|name| ((*name).to_owned(), rise(name))).collect())
    };
    MptcpProbe {
        ending: Ending::Complete,
        client: ClientEnd::Mptcp,
        server: Some(ServerEnd::Mptcp),
        counters: Counters::new(count(&client), Some(count(&server)), 1),
        subflows: vec![subflow(0, PathState::Open, 1_000_000), subflow(1, PathState::Open, 1_000_000)],
        attempts: Vec::new(),
        plain: Vec::new(),
    }
}

pub(crate) fn path(index: usize, name: &str) -> PathProbe {
    let size = || MtuDirection { mtu_bytes: Some(1500), ..MtuDirection::default() };
    PathProbe {
        name: name.to_owned(),
        interface: name.to_owned(),
        local: local(index),
        addresses: vec![local(index)],
        server: SERVER,
        backup: false,
        has_endpoint: true,
        is_tunnel: false,
        tcp: Ending::Complete,
        rates: None,
        mptcp: Some(sound_probe(1)),
        udp: vec![UdpProbe { port: 4433, answer: Ok(20.0) }],
        mtu: Some(MtuProbe { interface_mtu_bytes: 1500, upload: size(), download: size() }),
        hops: None,
        source_route: Vec::new(),
    }
}

/// Two paths on which everything works.
pub(crate) fn sound() -> ServerFacts {
    ServerFacts {
        server: "server.example".to_owned(),
        kind: ServerKind::Pathbench,
        no_mptcp: None,
        path_manager: PathManagerState::default(),
        paths: vec![path(0, "eth0"), path(WIFI, "wlan0")],
        other_family: Vec::new(),
        transfers: vec![
            Transfer { initial: 0, probe: sound_probe(1) },
            Transfer { initial: WIFI, probe: sound_probe(1) },
        ],
        buffers: None,
        closes_listener: false,
        left_out: Vec::new(),
    }
}

pub(crate) fn ordered(facts: &ServerFacts) -> Vec<Finding> {
    let mut found = findings(facts);
    order(&mut found);
    found
}

pub(crate) fn problems(facts: &ServerFacts) -> Vec<(FindingId, String)> {
    let problems = ordered(facts).into_iter().filter(|finding| finding.level == Level::Problem);
    problems.map(|finding| (finding.id, finding.found + " " + &finding.meaning)).collect()
}

pub(crate) fn first(facts: &ServerFacts) -> (FindingId, String) {
    problems(facts).into_iter().next().unwrap()
}

/// The connection that begins on the Wi-Fi path is plain TCP.
pub(crate) fn fallback(client: &[&str], server: Option<&[&str]>, end: Option<ServerEnd>) -> MptcpProbe {
    MptcpProbe {
        ending: Ending::Complete,
        client: ClientEnd::Tcp,
        server: end,
        counters: Counters::new(rises(client), server.map(rises), 1),
        subflows: vec![subflow(WIFI, PathState::Open, 1000)],
        attempts: Vec::new(),
        plain: Vec::new(),
    }
}

fn unopened(ending: Ending, client: &[&str], server: &[&str]) -> MptcpProbe {
    MptcpProbe { ending, client: ClientEnd::Unopened, ..fallback(client, Some(server), None) }
}

fn stalled(client: ClientEnd, rises_there: &[&str]) -> MptcpProbe {
    let ending = Ending::Stalled("no progress for 2 s".to_owned());
    MptcpProbe {
        ending,
        client,
        ..fallback(&["MPCapableSYNTX", "MPCapableSYNACKRX"], Some(rises_there), None)
    }
}

#[test]
fn two_sound_paths_have_no_problem_and_every_part_is_examined() {
    let found = ordered(&sound());
    assert!(found.iter().all(|finding| finding.level == Level::Ok), "{found:#?}");
    for id in [
        FindingId::ServerProtocol,
        FindingId::ServerMptcp,
        FindingId::PathTcp,
        FindingId::PathMtu,
        FindingId::PathMpCapable,
        FindingId::PathMpJoin,
        FindingId::PathUdp,
        FindingId::Multipath,
    ] {
        assert!(found.iter().any(|finding| finding.id == id), "{id:?}");
    }
}

#[test]
fn each_fault_of_the_handshake_has_its_finding() {
    let capable = FindingId::PathMpCapable;
    let plain = ["MPCapableSYNTX", "MPCapableFallbackSYNACK"];
    let third = ["MPCapableSYNTX", "MPCapableSYNACKRX", "MPCapableDataFallback"];
    let dropped = ["MPCapableSYNTX", "MPCapableSYNTXDrop"];
    let received = ["MPCapableSYNRX", "MPCapableFallbackACK"];
    let timeout = || Ending::NotConnected("no answer within 5 s".to_owned());
    let reset = || Ending::Reset("connection refused".to_owned());
    let listener = Some(ServerEnd::TcpListener);
    let syn = Some(ServerEnd::PlainSyn);
    let fell_back = Some(ServerEnd::FellBack);
    let later = |mut probe: MptcpProbe| {
        probe.client = ClientEnd::FellBack;
        probe
    };
    let rows = [
        ("MP_CAPABLE removed from SYN", fallback(&plain, Some(&[]), syn), capable, "from the SYN:"),
        ("plain TCP server", fallback(&plain, Some(&[]), listener), FindingId::ServerMptcp, "without MPTCP"),
        ("an older server with MPTCP", fallback(&plain, None, syn), capable, "the SYN or the SYN/ACK"),
        ("removed from SYN/ACK, plain", fallback(&plain, Some(&received), syn), capable, "from the SYN/ACK:"),
        ("removed from SYN/ACK", fallback(&plain, Some(&received), fell_back), capable, "from the SYN/ACK:"),
        ("third ACK", later(fallback(&third, Some(&received), fell_back)), capable, "third ACK"),
        ("SYN dropped", fallback(&dropped, Some(&[]), syn), capable, "drops the SYN with"),
        ("SYN/ACK dropped, then TCP", fallback(&dropped, Some(&received), syn), capable, "drops the SYN/ACK"),
        ("SYN/ACK dropped", unopened(timeout(), &dropped, &received), capable, "drops the SYN/ACK"),
        ("SYN dropped for ever", unopened(timeout(), &dropped, &[]), capable, "drops the SYN with"),
        ("RST", unopened(reset(), &["MPCapableSYNTX"], &[]), capable, "with RST"),
        ("ban", fallback(&["MPCapableSYNTXDisabled"], Some(&[]), syn), FindingId::MptcpBlackhole, "Disabled"),
        ("DSS removed", stalled(ClientEnd::Mptcp, &["DssFallback"]), FindingId::PathDss, "DssFallback"),
        (
            "DSS removed, fallback",
            later(fallback(&third, Some(&["MPCapableSYNRX", "DssFallback"]), fell_back)),
            FindingId::PathDss,
            "plain TCP",
        ),
        ("checksum", stalled(ClientEnd::FellBack, &["DataCsumErr"]), FindingId::PathPayload, "DataCsumErr"),
    ];
    for (fault, probe, id, words) in rows {
        let mut facts = sound();
        facts.paths[WIFI].mptcp = Some(probe);
        facts.transfers.truncate(1);
        let (found, text) = first(&facts);
        assert_eq!(found, id, "{fault}: {text}");
        assert!(text.contains(words), "{fault}: {text}");
    }
}

/// Fault, counters of client and server, subflows, and the finding with some of its words.
type JoinRow<'a> = (&'a str, &'a [&'a str], Option<&'a [&'a str]>, Vec<Subflow>, FindingId, &'a str);

#[test]
fn each_fault_of_a_join_has_its_finding() {
    let join = FindingId::PathMpJoin;
    let sent: &[&str] = &["MPJoinSynTx"];
    let reset: &[&str] = &["MPJoinSynTx", "MPRstTx"];
    let answered: &[&str] = &["MPJoinSynTx", "MPJoinSynAckRx", "MPRstTx"];
    let closed = |bytes| vec![subflow(0, PathState::Open, 1000), subflow(WIFI, PathState::Closed, bytes)];
    let opening = || vec![subflow(0, PathState::Open, 1000), subflow(WIFI, PathState::Opening, 0)];
    let alone = || vec![subflow(0, PathState::Open, 1000)];
    let received: &[&str] = &["MPJoinSynRx"];
    let rows: [JoinRow<'_>; 13] = [
        ("removed from SYN", reset, Some(&[]), alone(), join, "removes MP_JOIN from the SYN from"),
        ("removed from SYN/ACK", reset, Some(received), alone(), join, "removes MP_JOIN from the SYN/ACK"),
        ("SYN dropped", sent, Some(&[]), opening(), join, "does not reach the server"),
        ("RST", sent, Some(&[]), alone(), join, "does not reach the server"),
        ("SYN/ACK dropped", sent, Some(received), opening(), join, "does not return"),
        ("third ACK lost", answered, Some(received), alone(), join, "third ACK"),
        (
            "limit",
            answered,
            Some(&["MPJoinSynRx", "MPJoinRejected"]),
            alone(),
            FindingId::ServerLimits,
            "rejects",
        ),
        ("other host", sent, Some(&["MPJoinSynRx", "MPJoinNoTokenFound"]), alone(), join, "token"),
        ("bind", &["MPJoinSynTxBindErr"], Some(&[]), alone(), join, "could not send"),
        ("older server", reset, None, alone(), join, "removed on the way"),
        ("no endpoint", &[], Some(&[]), alone(), FindingId::Multipath, "Nothing passes over wlan0"),
        (
            "DSS removed",
            answered,
            Some(&["MPJoinSynRx", "MPJoinAckRx"]),
            closed(0),
            FindingId::PathDss,
            "reset",
        ),
        (
            "checksum",
            answered,
            Some(&["MPJoinSynRx", "MPJoinAckRx", "DataCsumErr"]),
            closed(0),
            FindingId::PathPayload,
            "DataCsumErr",
        ),
    ];
    for (fault, client, server, subflows, id, words) in rows {
        let mut facts = sound();
        // The kernel reports the end of each socket of a join; a join that is in the samples is no other.
        let is_attempted = client.iter().any(|name| name.starts_with("MPJoin"));
        let remote = if client.contains(&"MPJoinSynTx") { SERVER } else { SocketAddr::from(([0; 4], 0)) };
        let attempts = is_attempted.then(|| JoinAttempt { local: local(WIFI), remote, packets_received: 0 });
        let probe = MptcpProbe {
            counters: Counters::new(rises(client), server.map(rises), 1),
            subflows,
            attempts: attempts.into_iter().collect(),
            ..sound_probe(0)
        };
        facts.transfers = vec![Transfer { initial: 0, probe }];
        let (found, text) = first(&facts);
        assert_eq!(found, id, "{fault}: {text}");
        assert!(text.contains(words), "{fault}: {text}");
        assert_eq!(problems(&facts).last().unwrap().0, FindingId::Multipath, "{fault}");
    }
}

#[test]
fn a_black_hole_for_large_packets_explains_the_stall_of_tcp() {
    let mut facts = sound();
    let wifi = &mut facts.paths[WIFI];
    wifi.tcp = Ending::Stalled("no progress for 2 s".to_owned());
    wifi.mptcp = Some(stalled(ClientEnd::Mptcp, &[]));
    let silent = MtuDirection { mtu_bytes: Some(1400), silent: true, error: None };
    wifi.mtu = Some(MtuProbe { interface_mtu_bytes: 1500, upload: silent.clone(), download: silent });
    for transfer in &mut facts.transfers {
        transfer.probe.subflows =
            vec![subflow(0, PathState::Open, 1_000_000), subflow(WIFI, PathState::Open, 0)];
    }
    let ids: Vec<FindingId> = problems(&facts).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [FindingId::PathMtu, FindingId::Multipath]);
    // Where TCP copes with it, the finding is advice.
    facts.paths[WIFI].tcp = Ending::Complete;
    facts.paths[WIFI].mptcp = Some(sound_probe(1));
    facts.transfers = sound().transfers;
    assert_eq!(problems(&facts), []);
    let found = ordered(&facts);
    assert_eq!((found[0].id, found[0].level), (FindingId::PathMtu, Level::Advice));
}

#[test]
fn a_path_without_bytes_is_unused_only_where_tcp_reaches_the_server() {
    let stalled = || Ending::Stalled("no progress for 2 s".to_owned());
    let dead = Ending::NotConnected("no answer from 10.0.9.1 within 3 s".to_owned());
    let (unused, alone) = ("Nothing passes over wlan0", "Only one path reaches this server");
    for (tcp, silent, words) in [
        (Ending::Complete, false, unused),
        (Ending::Altered("byte 7 is wrong".to_owned()), false, unused),
        (stalled(), true, unused),
        (stalled(), false, alone),
        (dead, false, alone),
    ] {
        let mut facts = sound();
        facts.paths[WIFI].tcp = tcp;
        facts.paths[WIFI].mtu.as_mut().unwrap().upload.silent = silent;
        let probe = MptcpProbe { subflows: vec![subflow(0, PathState::Open, 1_000_000)], ..sound_probe(0) };
        facts.transfers = vec![Transfer { initial: 0, probe }];
        let found = problems(&facts);
        assert!(found.iter().any(|(_, text)| text.contains(words)), "{words}: {found:?}");
    }
}

#[test]
fn altered_payload_belongs_to_the_path_on_which_plain_tcp_shows_it() {
    let mut facts = sound();
    facts.paths[WIFI].tcp = Ending::Altered("byte 7 is wrong".to_owned());
    for path in &mut facts.paths {
        path.mptcp.as_mut().unwrap().ending = Ending::Altered("byte 7 is wrong".to_owned());
    }
    let found = problems(&facts);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, FindingId::PathPayload);
    assert!(found[0].1.contains("10.0.1.1"), "{found:?}");
}

#[test]
fn no_middlebox_is_named_where_only_mptcp_shows_altered_bytes() {
    let mut facts = sound();
    facts.paths[WIFI].mptcp.as_mut().unwrap().ending = Ending::Altered("byte 7 is wrong".to_owned());
    let found = ordered(&facts);
    assert_eq!(found[0].id, FindingId::PathPayload);
    assert!(found[0].meaning.contains("cannot tell whether a middlebox"), "{found:?}");
    assert_eq!(found[0].remedy, [] as [String; 0]);
}

#[test]
fn udp_is_a_problem_of_a_path_only_if_no_port_passes() {
    let mut facts = sound();
    let no_answer = |port| UdpProbe { port, answer: Err("no answer".to_owned()) };
    facts.paths[WIFI].udp = vec![no_answer(4433)];
    assert_eq!(first(&facts).0, FindingId::PathUdp);
    assert!(first(&facts).1.contains("The path drops UDP"));
    facts.paths[WIFI].udp.push(UdpProbe { port: 443, answer: Ok(3.0) });
    assert_eq!(problems(&facts), []);
    facts.paths[0].udp = vec![no_answer(4433)];
    facts.paths[WIFI].udp = vec![no_answer(4433)];
    assert!(first(&facts).1.contains("No path passes UDP"));
}

#[test]
fn an_interface_of_the_other_address_family_is_named() {
    let mut facts = sound();
    facts.paths.truncate(1);
    let probe = MptcpProbe { subflows: vec![subflow(0, PathState::Open, 1000)], ..sound_probe(0) };
    facts.transfers = vec![Transfer { initial: 0, probe }];
    facts.other_family = vec![("wwan0".to_owned(), AddressFamily::Ipv6)];
    let (id, text) = first(&facts);
    assert_eq!(id, FindingId::PathFamily);
    assert!(text.contains("wwan0 has IPv6 only"), "{text}");
}

#[test]
fn a_path_without_the_server_and_a_server_without_a_path_differ() {
    let mut facts = sound();
    facts.transfers = Vec::new();
    let dead = || Ending::NotConnected("no answer from 10.0.9.1 within 3 s".to_owned());
    facts.paths[WIFI].tcp = dead();
    facts.paths[WIFI].mptcp = None;
    assert_eq!(first(&facts).0, FindingId::PathTcp);
    facts.paths[0].tcp = dead();
    facts.paths[0].mptcp = None;
    assert_eq!(first(&facts).0, FindingId::ServerReach);
}

#[test]
fn what_an_older_or_another_server_does_not_show_is_named() {
    let examined = |facts: &ServerFacts, id| {
        let found = ordered(facts);
        let of_id: Vec<Level> =
            found.iter().filter(|finding| finding.id == id).map(|finding| finding.level).collect();
        of_id
    };
    let mut older = sound();
    for path in &mut older.paths {
        let probe = path.mptcp.as_mut().unwrap();
        probe.counters = Counters::new(rises(&["MPCapableSYNTX"]), None, 1);
    }
    assert_eq!(examined(&older, FindingId::ServerCounters), [Level::NotExamined]);
    assert_eq!(problems(&older), []);

    let mut other = sound();
    other.kind = ServerKind::Other;
    for path in &mut other.paths {
        let plain = fallback(&["MPCapableSYNTX", "MPCapableFallbackSYNACK"], None, None);
        (path.mptcp, path.udp, path.mtu) = (Some(plain), Vec::new(), None);
    }
    other.transfers = Vec::new();
    assert_eq!(examined(&other, FindingId::ServerProtocol), [Level::NotExamined]);
    let (id, text) = first(&other);
    assert_eq!(id, FindingId::ServerMptcp);
    assert!(text.contains("look alike"), "{text}");
    // The same server negotiates MPTCP on the other path: it is the path.
    other.paths[0].mptcp = Some(MptcpProbe { server: None, counters: Counters::default(), ..sound_probe(0) });
    assert_eq!(first(&other).0, FindingId::PathMpCapable);
}

#[test]
fn a_backup_path_need_not_carry_bytes() {
    let mut facts = sound();
    facts.paths[WIFI].backup = true;
    for transfer in &mut facts.transfers {
        transfer.probe.subflows =
            vec![subflow(0, PathState::Open, 1_000_000), subflow(WIFI, PathState::Open, 0)];
    }
    assert_eq!(problems(&facts), []);
}

#[test]
fn an_announcement_that_does_not_arrive_is_a_problem_only_where_an_interface_needs_it() {
    let mut facts = sound();
    let announce = |facts: &mut ServerFacts, client: &[&str]| {
        for transfer in &mut facts.transfers {
            transfer.probe.counters = Counters::new(rises(client), Some(rises(&["AddAddrTx"])), 1);
        }
    };
    announce(&mut facts, &[]);
    let found = ordered(&facts);
    assert_eq!((found[0].id, found[0].level), (FindingId::PathAddAddr, Level::Advice));
    facts.other_family = vec![("wwan0".to_owned(), AddressFamily::Ipv6)];
    assert_eq!(first(&facts).0, FindingId::PathAddAddr);
    announce(&mut facts, &["AddAddr"]);
    assert_eq!(first(&facts).0, FindingId::PathFamily);
}

#[test]
fn the_reason_without_a_transfer_over_all_paths_is_named() {
    let reason = |kind: ServerKind, no_mptcp: Option<&str>| {
        let mut facts = sound();
        (facts.kind, facts.no_mptcp, facts.transfers) = (kind, no_mptcp.map(str::to_owned), Vec::new());
        let mut found = findings(&facts);
        found.retain(|finding| finding.id == FindingId::Multipath);
        assert_eq!((found.len(), found[0].level), (1, Level::NotExamined));
        found.remove(0).found
    };
    assert!(reason(ServerKind::Pathbench, None).ends_with("MPTCP works on no path"));
    assert!(reason(ServerKind::Other, None).ends_with("it requires a Pathbench server"));
    assert!(reason(ServerKind::Other, Some("MPTCP is off")).ends_with("MPTCP is off"));
}

#[test]
fn the_ban_after_a_dropped_syn_is_no_cause() {
    let mut facts = sound();
    let disabled = ["MPCapableSYNTXDisabled"];
    let drop = ["MPCapableSYNTX", "MPCapableSYNTXDrop", "Blackhole"];
    facts.paths[0].mptcp = Some(fallback(&drop, Some(&[]), Some(ServerEnd::PlainSyn)));
    facts.paths[WIFI].mptcp = Some(fallback(&disabled, Some(&[]), Some(ServerEnd::PlainSyn)));
    facts.transfers = Vec::new();
    let found = problems(&facts);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, FindingId::PathMpCapable);
    assert!(found[0].1.contains("drops the SYN with") && found[0].1.contains("keeps MPTCP off"), "{found:?}");
    let all = ordered(&facts);
    let wifi =
        all.iter().find(|one| one.subject.as_deref() == Some("wlan0") && one.id == FindingId::PathMpCapable);
    assert_eq!(wifi.unwrap().level, Level::NotExamined);
}
