//! The kernel's path-MTU state against the results of the probes.

use pathbench_analysis::path_mtu::{advice, disagreements, is_clamped, needs_route, target_bytes};
use pathbench_record::document::{ConnectionMtu, DirectionMtu, KernelPathState, MtuEvidence, PathMtu};

fn direction(mtu_bytes: u32, evidence: MtuEvidence) -> DirectionMtu {
    DirectionMtu {
        mtu_bytes: Some(mtu_bytes),
        evidence: Some(evidence),
        reported_by: (evidence == Icmp).then(|| "192.0.2.1".to_owned()),
        reported_bytes: (evidence == Icmp).then_some(mtu_bytes),
        smallest_lost_bytes: Some(mtu_bytes + 1),
        confidence: Some(0.9999),
        ..DirectionMtu::default()
    }
}

/// A kernel with an interface MTU of 9000 and no cached path MTU.
fn kernel() -> KernelPathState {
    KernelPathState { interface_mtu_bytes: 9000, table: 1001, ..KernelPathState::default() }
}

fn path(upload: DirectionMtu, download: DirectionMtu, kernel: KernelPathState) -> PathMtu {
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

use MtuEvidence::{Bounded, DroppedSilently, Icmp, Interface};

#[test]
fn a_route_is_changed_where_icmp_does_not_correct_it() {
    let with_route = |mtu| KernelPathState { route_mtu_bytes: Some(mtu), ..kernel() };
    let locked = |mtu| KernelPathState { route_mtu_locked: true, ..with_route(mtu) };
    let stuck = KernelPathState { connections: vec![connection(9000, 8948, true)], ..kernel() };
    let learned = KernelPathState { cached_mtu_bytes: Some(1500), ..kernel() };
    for (up, down, kernel, expected) in [
        // A black hole in one direction or both.
        (direction(1500, DroppedSilently), direction(1500, DroppedSilently), kernel(), Some(1500)),
        (direction(1500, DroppedSilently), direction(9000, Interface), kernel(), Some(1500)),
        (direction(9000, Interface), direction(1500, DroppedSilently), kernel(), Some(1500)),
        (direction(1500, DroppedSilently), direction(1400, DroppedSilently), kernel(), Some(1400)),
        // The server's end has a small interface MTU, which its kernel respects.
        (direction(9000, Interface), direction(1500, Interface), kernel(), None),
        // Corrected already.
        (direction(1500, DroppedSilently), direction(1500, DroppedSilently), with_route(1500), None),
        // The kernel's path MTU from ICMP expires.
        (direction(1500, DroppedSilently), direction(1500, DroppedSilently), learned, Some(1500)),
        // Routers send ICMP in one direction only.
        (direction(1500, Icmp), direction(1400, DroppedSilently), kernel(), Some(1400)),
        (direction(1400, DroppedSilently), direction(1500, Icmp), kernel(), Some(1400)),
        // Routers send ICMP.
        (direction(1500, Icmp), direction(1500, Icmp), kernel(), None),
        (direction(1500, Icmp), direction(1500, Icmp), locked(9000), Some(1500)),
        (direction(1500, Icmp), direction(1500, Icmp), stuck, Some(1500)),
        // The corrected MTU is too small now.
        (direction(9000, Interface), direction(9000, Interface), with_route(1500), Some(9000)),
        (direction(4352, Icmp), direction(4352, Icmp), with_route(1500), Some(4352)),
        // No remark.
        (direction(9000, Interface), direction(9000, Interface), kernel(), None),
        // An interface MTU of 9000 and a larger route MTU: the interface bounds it.
        (direction(9000, Interface), direction(9000, Interface), with_route(16000), None),
        // Not sure.
        (direction(1500, Bounded), direction(1500, DroppedSilently), kernel(), None),
        (
            DirectionMtu { confidence: Some(0.8), ..direction(1500, DroppedSilently) },
            direction(1500, DroppedSilently),
            kernel(),
            None,
        ),
    ] {
        let path = path(up, down, kernel.clone());
        let target = target_bytes(&path).ok().filter(|target| needs_route(&path, &kernel, *target));
        assert_eq!(target, expected, "{path:#?}");
        // Advice and correction agree.
        let advises =
            |applying| advice(&path, "server", applying).iter().any(|words| words.contains("--apply"));
        assert_eq!(advises(false), expected.is_some(), "{path:#?}");
        assert!(!advises(true), "what is being done is advised: {path:#?}");
    }
}

#[test]
fn an_unknown_mtu_changes_nothing() {
    let nothing = DirectionMtu { error: Some("no answer".to_owned()), ..DirectionMtu::default() };
    let why = target_bytes(&path(nothing.clone(), nothing, kernel())).unwrap_err();
    assert!(why.contains("not known") && why.contains("no answer"), "{why}");
    let mut v6 = path(direction(1200, DroppedSilently), direction(1200, DroppedSilently), kernel());
    v6.local = "2001:db8::1".to_owned();
    assert!(target_bytes(&v6).unwrap_err().contains("1280"));
    v6.upload.mtu_bytes = Some(1280);
    v6.download.mtu_bytes = Some(1280);
    assert_eq!(target_bytes(&v6), Ok(1280));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn disagreements_are_named() {
    let route = |mtu| KernelPathState { route_mtu_bytes: Some(mtu), ..kernel() };
    let cached = KernelPathState { cached_mtu_bytes: Some(1400), cached_expires_s: Some(411.7), ..kernel() };
    let with = |one: ConnectionMtu| KernelPathState { connections: vec![one], ..route(1500) };
    for (up, down, kernel, expected) in [
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            kernel(),
            vec!["up to 9000 bytes, and 1500 pass", "black hole"],
        ),
        (direction(1500, Icmp), direction(1500, Icmp), kernel(), vec!["192.0.2.1 reports it (ICMP)"]),
        (
            direction(1500, Icmp),
            direction(1500, DroppedSilently),
            route(1500),
            vec!["packets of the server", "black hole"],
        ),
        (
            direction(1500, Icmp),
            direction(1500, Icmp),
            KernelPathState { route_mtu_locked: true, ..route(9000) },
            vec!["locked", "black hole"],
        ),
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            cached,
            vec!["up to 1400 bytes", "6 min 52 s", "1500 would pass"],
        ),
        (
            direction(4352, DroppedSilently),
            direction(4352, DroppedSilently),
            route(1500),
            vec!["because its route has this MTU, and 4352 would pass"],
        ),
        (
            direction(9000, Interface),
            direction(1500, DroppedSilently),
            kernel(),
            vec!["9000 bytes pass to the server, and 1500 from it: packets of the server may fall"],
        ),
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            with(connection(9000, 8948, true)),
            vec!["is stuck", "packets of 9000 bytes", "backoff 4"],
        ),
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            with(connection(9000, 8948, false)),
            vec!["first packet larger than 1500 is lost"],
        ),
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            with(connection(9000, 1448, false)),
            vec!["clamp"],
        ),
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            with(connection(9000, 1460, false)),
            vec!["clamp"],
        ),
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            with(connection(1400, 1348, false)),
            vec!["path MTU of 1400, and 1500 would pass"],
        ),
        (
            direction(1500, DroppedSilently),
            direction(1500, DroppedSilently),
            with(connection(1500, 1448, false)),
            vec![],
        ),
        (direction(1500, DroppedSilently), direction(1500, DroppedSilently), route(1500), vec![]),
        (direction(9000, Interface), direction(9000, Interface), kernel(), vec![]),
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
fn a_clamped_mss_differs_from_one_that_is_about_to_lose_packets() {
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
