//! The path MTU of each path of Multipath QUIC, behind interfaces that promise more.

use crate::quic::Service;
use crate::routed_ways::RoutedWays;
use crate::support::{in_namespace, send_during, wait_for};
use pathbench_kerneltest::{MonotonicClock, tests};
use pathbench_record::connection::PathEventKind;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Clock;
use pathbench_transport::{Connection, ConnectionSnapshot, Session};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

tests! {
    in_namespace =>
    each_path_has_its_own_mtu_whether_icmp_says_so_or_not,
    each_path_has_its_own_mtu_over_ipv6,
    a_path_whose_mtu_shrinks_and_grows_in_mid_transfer_is_followed,
}

/// Of each path.
const RATE_BPS: u64 = 30_000_000;
/// Of 2 × 30 Mbit/s less headers: nothing more is waited for.
const ENOUGH_BPS: u64 = 52_000_000;
/// More than one path can carry, with room for a machine that is taken away.
const MULTIPATH_BPS: u64 = RATE_BPS * 11 / 10;

/// What holds a connection together.
struct Test {
    ways: RoutedWays,
    _session: Session,
    client: Connection,
    server: Connection,
    _service: Service,
}

fn connected(mtus: [u32; 2], icmp: bool, ipv6: bool) -> Test {
    let ways = RoutedWays::new(mtus, icmp, ipv6);
    ways.shape(RATE_BPS);
    let service = ways.serve();
    let session = RoutedWays::session(&service);
    let client = ways.client.run_in(|| session.open().expect("a stream")).expect("the client's host");
    let server = service.accept(&client);
    let test = Test { ways, _session: session, client, server, _service: service };
    wait_for("both paths", || (open_paths(&snapshot(&test.client)).count() == 2).then_some(()));
    test
}

fn snapshot(end: &Connection) -> ConnectionSnapshot {
    end.telemetry().expect("a handle").snapshot().expect("figures")
}

fn open_paths(seen: &ConnectionSnapshot) -> impl Iterator<Item = &PathFigures> {
    seen.subflows.iter().filter(|path| path.state == PathState::Open)
}

/// Waits until the sender's paths are of these MTUs; how long that took.
fn await_mtus(test: &Test, end: &Connection, mtus: [u32; 2]) -> Duration {
    let clock = MonotonicClock;
    let begun = clock.now();
    for _ in 0..1600 {
        if test.ways.path_mtus(&snapshot(end)) == mtus {
            return clock.now().since(begun);
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not {mtus:?} after 16 s: {:#?}\n{:#?}", snapshot(end).subflows, end.path_events());
}

/// Bits per second that arrive: in the first second of ten that is as good as both paths allow, or the best of them, for
/// the machine may have others to run.
fn goodput(arrived: &AtomicU64) -> u64 {
    let clock = MonotonicClock;
    let mut best = 0;
    for _ in 0..10 {
        let (begun, before) = (clock.now(), arrived.load(Ordering::Relaxed));
        thread::sleep(Duration::from_secs(1));
        let bits = (arrived.load(Ordering::Relaxed) - before) * 8;
        best = best.max(bits * 1_000_000 / clock.now().since(begun).as_micros() as u64);
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
        assert_eq!(test.ways.path_mtus(&seen), mtus);
        for path in open_paths(&seen) {
            assert!(path.bytes_sent * 8 > RATE_BPS / 2, "a path is not used: {:#?}", seen.subflows);
            assert_eq!(path.black_holes, Some(0), "{path:?}");
            assert_eq!(path.mss_bytes + if ipv6 { 48 } else { 28 }, path.pmtu_bytes);
            assert!(path.mtu_probes > Some(10));
        }
        assert!(rate > MULTIPATH_BPS, "{rate} bit/s: {:#?}", seen.subflows);
        // The other end searches for itself: the way back could be another.
        await_mtus(&test, to, mtus);
    });
}

fn each_path_has_its_own_mtu_whether_icmp_says_so_or_not() {
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

fn a_path_whose_mtu_shrinks_and_grows_in_mid_transfer_is_followed() {
    for upload in [true, false] {
        let test = connected([9000, 9000], false, false);
        let (from, to) = if upload { (&test.client, &test.server) } else { (&test.server, &test.client) };
        let arrived = AtomicU64::new(0);
        let count = |bytes: usize| {
            arrived.fetch_add(bytes as u64, Ordering::Relaxed);
        };
        send_during(from, to, count, || {
            await_mtus(&test, from, [9000, 9000]);
            test.ways.set_mtu(1, 1500);
            let found = await_mtus(&test, from, [9000, 1500]);
            let rate = goodput(&arrived);
            eprintln!("upload {upload}: 1500 found {found:?} after it shrank, then {rate} bit/s");
            let seen = snapshot(from);
            assert!(rate > MULTIPATH_BPS, "{rate} bit/s: {:#?}", seen.subflows);
            let told = from.path_events().into_iter().any(|event| event.kind == PathEventKind::MtuBlackHole);
            assert!(told, "{:#?}", from.path_events());
            assert!(seen.subflows.iter().any(|path| path.black_holes > Some(0)), "{:#?}", seen.subflows);
            test.ways.set_mtu(1, 9000);
            let found = await_mtus(&test, from, [9000, 9000]);
            eprintln!("upload {upload}: 9000 found {found:?} after it grew");
        });
    }
}
