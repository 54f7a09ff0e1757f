use super::*;

fn way(mtu_bytes: u32, evidence: MtuEvidence) -> DirectionMtu {
    DirectionMtu {
        mtu_bytes: Some(mtu_bytes),
        evidence: Some(evidence),
        said_by: (evidence == Icmp).then(|| "192.0.2.1".to_owned()),
        said_bytes: (evidence == Icmp).then_some(mtu_bytes),
        smallest_lost_bytes: Some(mtu_bytes + 1),
        confidence: Some(0.9999),
        ..DirectionMtu::default()
    }
}

/// A kernel with an interface of 9000 and no better knowledge.
fn kernel() -> KernelBelief {
    KernelBelief { interface_mtu_bytes: 9000, table: 1001, ..KernelBelief::default() }
}

fn path(upload: DirectionMtu, download: DirectionMtu, kernel: KernelBelief) -> PathMtu {
    PathMtu {
        name: "wlan".to_owned(),
        interface: "wlan".to_owned(),
        local: "10.83.1.1".to_owned(),
        remote: "10.83.0.2:4433".to_owned(),
        upload,
        download,
        kernel: Some(kernel),
        ..PathMtu::default()
    }
}

fn connection(pmtu_bytes: u32, mss_bytes: u32, stuck: bool) -> ConnectionMtu {
    ConnectionMtu {
        transport: "mptcp".to_owned(),
        local: "10.83.1.1:40000".to_owned(),
        remote: "10.83.0.2:4433".to_owned(),
        pmtu_bytes,
        mss_bytes,
        backoff: u32::from(stuck) * 4,
        stuck,
    }
}

use MtuEvidence::{Bounded, Icmp, Interface, Vanished};

#[test]
fn a_route_is_changed_where_nobody_else_puts_it_right() {
    let with_route = |mtu| KernelBelief { route_mtu_bytes: Some(mtu), ..kernel() };
    let locked = |mtu| KernelBelief { route_mtu_locked: true, ..with_route(mtu) };
    let stuck = KernelBelief { connections: vec![connection(9000, 8948, true)], ..kernel() };
    let learned = KernelBelief { cached_mtu_bytes: Some(1500), ..kernel() };
    for (up, down, kernel, expected) in [
        // A black hole one way or the other.
        (way(1500, Vanished), way(1500, Vanished), kernel(), Some(1500)),
        (way(1500, Vanished), way(9000, Interface), kernel(), Some(1500)),
        (way(9000, Interface), way(1500, Vanished), kernel(), Some(1500)),
        (way(1500, Vanished), way(1400, Vanished), kernel(), Some(1400)),
        // The server's end has a small interface, and its kernel knows.
        (way(9000, Interface), way(1500, Interface), kernel(), None),
        // Put right already.
        (way(1500, Vanished), way(1500, Vanished), with_route(1500), None),
        // ICMP taught a kernel that forgets again.
        (way(1500, Vanished), way(1500, Vanished), learned, Some(1500)),
        // Routers tell one way only.
        (way(1500, Icmp), way(1400, Vanished), kernel(), Some(1400)),
        (way(1400, Vanished), way(1500, Icmp), kernel(), Some(1400)),
        // Routers tell.
        (way(1500, Icmp), way(1500, Icmp), kernel(), None),
        (way(1500, Icmp), way(1500, Icmp), locked(9000), Some(1500)),
        (way(1500, Icmp), way(1500, Icmp), stuck, Some(1500)),
        // What was put right is too little now.
        (way(9000, Interface), way(9000, Interface), with_route(1500), Some(9000)),
        (way(4352, Icmp), way(4352, Icmp), with_route(1500), Some(4352)),
        // Nothing to say.
        (way(9000, Interface), way(9000, Interface), kernel(), None),
        // An interface of 9000 and a route that says more: the interface bounds it.
        (way(9000, Interface), way(9000, Interface), with_route(16000), None),
        // Not sure.
        (way(1500, Bounded), way(1500, Vanished), kernel(), None),
        (DirectionMtu { confidence: Some(0.8), ..way(1500, Vanished) }, way(1500, Vanished), kernel(), None),
    ] {
        let path = path(up, down, kernel.clone());
        let target = target_bytes(&path).ok().filter(|target| needs_route(&path, &kernel, *target));
        assert_eq!(target, expected, "{path:#?}");
        // Advice and deed agree.
        let advises =
            |applying| advice(&path, "server", applying).iter().any(|words| words.contains("--apply"));
        assert_eq!(advises(false), expected.is_some(), "{path:#?}");
        assert!(!advises(true), "what is being done is advised: {path:#?}");
    }
}

#[test]
fn what_is_not_known_is_no_ground_for_a_change() {
    let nothing = DirectionMtu { error: Some("no answer".to_owned()), ..DirectionMtu::default() };
    let why = target_bytes(&path(nothing.clone(), nothing, kernel())).unwrap_err();
    assert!(why.contains("not known") && why.contains("no answer"), "{why}");
    let mut v6 = path(way(1200, Vanished), way(1200, Vanished), kernel());
    v6.local = "2001:db8::1".to_owned();
    assert!(target_bytes(&v6).unwrap_err().contains("1280"));
    v6.upload.mtu_bytes = Some(1280);
    v6.download.mtu_bytes = Some(1280);
    assert_eq!(target_bytes(&v6), Ok(1280));
}

#[test]
fn disagreements_are_said_by_their_names() {
    let route = |mtu| KernelBelief { route_mtu_bytes: Some(mtu), ..kernel() };
    let cached = KernelBelief { cached_mtu_bytes: Some(1400), cached_expires_s: Some(411.7), ..kernel() };
    let with = |one: ConnectionMtu| KernelBelief { connections: vec![one], ..route(1500) };
    for (up, down, kernel, expected) in [
        (
            way(1500, Vanished),
            way(1500, Vanished),
            kernel(),
            vec!["up to 9000 bytes, and 1500 pass", "black hole"],
        ),
        (way(1500, Icmp), way(1500, Icmp), kernel(), vec!["192.0.2.1 says so (ICMP)"]),
        (way(1500, Icmp), way(1500, Vanished), route(1500), vec!["packets of the server", "black hole"]),
        (
            way(1500, Icmp),
            way(1500, Icmp),
            KernelBelief { route_mtu_locked: true, ..route(9000) },
            vec!["locked", "black hole"],
        ),
        (
            way(1500, Vanished),
            way(1500, Vanished),
            cached,
            vec!["up to 1400 bytes", "412 s", "1500 would pass"],
        ),
        (
            way(4352, Vanished),
            way(4352, Vanished),
            route(1500),
            vec!["because its route says so, and 4352 would pass"],
        ),
        (
            way(9000, Interface),
            way(1500, Vanished),
            kernel(),
            vec!["9000 bytes pass to the server, and 1500 from it: what the server sends may fall"],
        ),
        (
            way(1500, Vanished),
            way(1500, Vanished),
            with(connection(9000, 8948, true)),
            vec!["is stuck", "packets of 9000 bytes", "backoff 4"],
        ),
        (
            way(1500, Vanished),
            way(1500, Vanished),
            with(connection(9000, 8948, false)),
            vec!["first packet larger than 1500 is lost"],
        ),
        (way(1500, Vanished), way(1500, Vanished), with(connection(9000, 1448, false)), vec!["clamp"]),
        (way(1500, Vanished), way(1500, Vanished), with(connection(9000, 1460, false)), vec!["clamp"]),
        (
            way(1500, Vanished),
            way(1500, Vanished),
            with(connection(1400, 1348, false)),
            vec!["path MTU of 1400, and 1500 would pass"],
        ),
        (way(1500, Vanished), way(1500, Vanished), with(connection(1500, 1448, false)), vec![]),
        (way(1500, Vanished), way(1500, Vanished), route(1500), vec![]),
        (way(9000, Interface), way(9000, Interface), kernel(), vec![]),
    ] {
        let path = path(up, down, kernel);
        let words = disagreements(&path).join("\n");
        assert_eq!(words.is_empty(), expected.is_empty(), "{words}");
        for text in expected {
            assert!(words.contains(text), "`{text}` is not in `{words}`");
        }
    }
}

#[test]
fn a_clamped_mss_is_told_from_one_that_is_about_to_lose_packets() {
    for (local, mss, up, expected) in [
        ("10.0.0.1:1", 1448, 1500, true),
        ("10.0.0.1:1", 1460, 1500, true),
        // With time stamps, its packets have 1504 bytes.
        ("10.0.0.1:1", 1452, 1500, false),
        ("[2001:db8::1]:1", 1428, 1500, true),
        ("[2001:db8::1]:1", 1440, 1500, true),
        ("[2001:db8::1]:1", 1448, 1500, false),
    ] {
        let one = ConnectionMtu { local: local.to_owned(), ..connection(9000, mss, false) };
        assert_eq!(is_clamped(&one, up), expected, "{local} {mss}");
    }
    assert!(!is_clamped(&connection(1500, 1448, false), 1500), "nothing has to be clamped");
}
