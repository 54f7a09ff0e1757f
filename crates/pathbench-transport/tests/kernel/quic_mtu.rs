//! The path MTU of each Multipath QUIC path, where the interface MTU is larger than the path MTU.

use crate::quic::Service;
use crate::routed_topology::RoutedTopology;
use crate::support::{in_namespace, send_during, wait_for};
use pathbench_record::connection::PathEventKind;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Clock;
use pathbench_testkit::{MonotonicClock, tests};
use pathbench_transport::{Connection, ConnectionSnapshot, Session};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

tests! {
    in_namespace =>
    each_path_has_its_own_mtu_with_and_without_icmp,
    each_path_has_its_own_mtu_over_ipv6,
    mtu_changes_during_a_transfer_are_detected,
}

/// Rate of each path.
const RATE_BPS: u64 = 30_000_000;
/// Goodput that ends the measurement, of 2 × 30 Mbit/s minus headers.
const ENOUGH_BPS: u64 = 52_000_000;
/// More than one path can carry, with a margin for a busy machine.
const MULTIPATH_BPS: u64 = RATE_BPS * 11 / 10;

/// The topology and the endpoints of a connection.
struct Test {
    topology: RoutedTopology,
    _session: Session,
    client: Connection,
    server: Connection,
    _service: Service,
}

fn connected(mtus: [u32; 2], icmp: bool, ipv6: bool) -> Test {
    let topology = RoutedTopology::new(mtus, icmp, ipv6);
    topology.shape(RATE_BPS);
    let service = topology.serve();
    let session = RoutedTopology::session(&service);
    let client = topology.client.run_in(|| session.open().expect("a stream")).expect("the client's host");
    let server = service.accept_test(&client);
    let test = Test { topology, _session: session, client, server, _service: service };
    wait_for("both paths", || (open_paths(&snapshot(&test.client)).count() == 2).then_some(()));
    test
}

fn snapshot(end: &Connection) -> ConnectionSnapshot {
    end.telemetry().expect("a handle").snapshot().expect("figures")
}

fn open_paths(seen: &ConnectionSnapshot) -> impl Iterator<Item = &PathFigures> {
    seen.subflows.iter().filter(|path| path.state == PathState::Open)
}

/// Waits until the sender's paths have these MTUs; returns the elapsed time.
fn await_mtus(test: &Test, end: &Connection, mtus: [u32; 2]) -> Duration {
    let clock = MonotonicClock;
    let begun = clock.now();
    for _ in 0..1600 {
        if test.topology.path_mtus(&snapshot(end)) == mtus {
            return clock.now().duration_since(begun);
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not {mtus:?} after 16 s: {:#?}\n{:#?}", snapshot(end).subflows, end.path_events());
}

/// Received bits per second in the first of ten 1 s intervals that reaches the capacity of both paths, or else in the
/// best interval: the machine may be busy.
fn goodput(arrived: &AtomicU64) -> u64 {
    let clock = MonotonicClock;
    let mut best = 0;
    for _ in 0..10 {
        let (begun, before) = (clock.now(), arrived.load(Ordering::Relaxed));
        thread::sleep(Duration::from_secs(1));
        let bits = (arrived.load(Ordering::Relaxed) - before) * 8;
        best = best.max(bits * 1_000_000 / clock.now().duration_since(begun).as_micros() as u64);
        if best > ENOUGH_BPS {
            break;
        }
    }
    best
}

fn each_path_has_its_own_mtu(mtus: [u32; 2], icmp: bool, ipv6: bool, upload: bool) {
    let test = connected(mtus, icmp, ipv6);
    let (from, to) = if upload { (&test.client, &test.server) } else { (&test.server, &test.client) };
    let arrived = AtomicU64::new(0);
    let count = |bytes: usize| {
        arrived.fetch_add(bytes as u64, Ordering::Relaxed);
    };
    send_during(from, to, count, || {
        let found = await_mtus(&test, from, mtus);
        let rate = goodput(&arrived);
        eprintln!("{mtus:?} icmp {icmp} ipv6 {ipv6} upload {upload}: found after {found:?}, {rate} bit/s");
        let seen = snapshot(from);
        assert_eq!(test.topology.path_mtus(&seen), mtus);
        for path in open_paths(&seen) {
            assert!(path.bytes_sent * 8 > RATE_BPS / 2, "a path is not used: {:#?}", seen.subflows);
            assert_eq!(path.black_holes, Some(0), "{path:?}");
            assert_eq!(path.mss_bytes + if ipv6 { 48 } else { 28 }, path.pmtu_bytes);
            assert!(path.mtu_probes > Some(10));
        }
        assert!(rate > MULTIPATH_BPS, "{rate} bit/s: {:#?}", seen.subflows);
        // The peer runs its own search: the reverse path may differ.
        await_mtus(&test, to, mtus);
    });
}

fn each_path_has_its_own_mtu_with_and_without_icmp() {
    for (mtus, icmp, upload) in [
        ([9000, 1500], false, true),
        ([9000, 1500], true, true),
        ([1500, 9000], false, false),
        ([1280, 4352], false, true),
    ] {
        each_path_has_its_own_mtu(mtus, icmp, false, upload);
    }
}

fn each_path_has_its_own_mtu_over_ipv6() {
    each_path_has_its_own_mtu([9000, 1500], false, true, true);
}

fn mtu_changes_during_a_transfer_are_detected() {
    for upload in [true, false] {
        let test = connected([9000, 9000], false, false);
        let (from, to) = if upload { (&test.client, &test.server) } else { (&test.server, &test.client) };
        let arrived = AtomicU64::new(0);
        let count = |bytes: usize| {
            arrived.fetch_add(bytes as u64, Ordering::Relaxed);
        };
        send_during(from, to, count, || {
            await_mtus(&test, from, [9000, 9000]);
            test.topology.set_mtu(1, 1500);
            let found = await_mtus(&test, from, [9000, 1500]);
            let rate = goodput(&arrived);
            eprintln!("upload {upload}: 1500 found {found:?} after it shrank, then {rate} bit/s");
            let seen = snapshot(from);
            assert!(rate > MULTIPATH_BPS, "{rate} bit/s: {:#?}", seen.subflows);
            let reported =
                from.path_events().into_iter().any(|event| event.kind == PathEventKind::MtuBlackHole);
            assert!(reported, "{:#?}", from.path_events());
            assert!(seen.subflows.iter().any(|path| path.black_holes > Some(0)), "{:#?}", seen.subflows);
            test.topology.set_mtu(1, 9000);
            let found = await_mtus(&test, from, [9000, 9000]);
            eprintln!("upload {upload}: 9000 found {found:?} after it grew");
        });
    }
}
