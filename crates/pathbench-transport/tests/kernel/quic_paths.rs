//! Multipath QUIC between two hosts with two links.

use crate::quic::Service;
use crate::support::{PATIENCE, in_namespace, send_during, transfer, wait_for};
use crate::two_links::{LINKS, TwoLinks, carried, client_address};
use pathbench_record::connection::{Negotiation, PathEventKind, Scheduler};
use pathbench_record::sample::PathState;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_testkit::{MonotonicClock, tests};
use pathbench_transport::{Connection, ConnectionSnapshot, QuicOptions, Session};
use std::thread;
use std::time::Duration;

tests! {
    in_namespace =>
    both_paths_carry_data_and_are_reported,
    jumbo_frames_are_found_per_path_and_kept,
    a_link_down_is_survived_and_its_return_is_used,
    a_silent_black_hole_is_survived_by_upload_and_download,
    a_flapping_link_is_used_each_time_it_is_up,
    a_connection_outlives_all_its_links,
    a_backup_path_stays_idle_until_it_is_needed,
    a_peer_without_multipath_is_reported,
}

/// The hosts and the endpoints of a connection.
struct Test {
    two: TwoLinks,
    session: Session,
    client: Connection,
    server: Connection,
    _service: Service,
}

fn connected(mtus: [u32; 2], rates_bps: Option<[u64; 2]>, quic: &QuicOptions) -> Test {
    let two = TwoLinks::new(mtus);
    for (link, rate) in rates_bps.into_iter().flatten().enumerate() {
        two.shape(link, rate);
    }
    let service = two.serve(quic.clone());
    let session = TwoLinks::session(&service, quic.clone());
    let client = two.client.run_in(|| session.open().expect("a stream")).expect("the client's host");
    let server = service.accept_test(&client);
    Test { two, session, client, server, _service: service }
}

fn snapshot(end: &Connection) -> ConnectionSnapshot {
    end.telemetry().expect("a handle").snapshot().expect("figures")
}

fn open_paths(end: &Connection) -> usize {
    snapshot(end).subflows.iter().filter(|path| path.state == PathState::Open).count()
}

fn await_both_paths(test: &Test) {
    for end in [&test.client, &test.server] {
        let opened = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            open_paths(end) == 2
        });
        assert!(opened, "{:#?}\n{:#?}", snapshot(end).subflows, end.path_events());
    }
}

fn both_paths_carry_data_and_are_reported() {
    let test = connected([1500, 1500], Some([50_000_000; 2]), &QuicOptions::default());
    await_both_paths(&test);
    let (up, down) = (4_000_000, 3_000_000);
    transfer(&test.client, &test.server, up);
    transfer(&test.server, &test.client, down);
    let seen = snapshot(&test.client);
    assert_eq!(seen.multipath, Negotiation::Negotiated);
    assert_eq!(snapshot(&test.server).multipath, Negotiation::Negotiated);
    for link in 0..LINKS.len() {
        let (sent, received) = carried(&seen, link);
        assert!(sent > up as u64 / 5 && received > down as u64 / 5, "{link}: {sent} {received} {seen:#?}");
    }
    let kinds: Vec<&str> = test.client.path_events().iter().map(|event| event.kind.name()).collect();
    assert!(kinds.contains(&"path-opened") && kinds.contains(&"path-established"), "{kinds:?}");
    let second = test.client.path_events().into_iter().find(|event| event.kind == PathEventKind::PathOpened);
    assert_eq!(second.and_then(|event| event.local), Some(client_address(1)));
}

/// Regression: GSO packets longer than an IP packet reduced the path MTU to 1200 bytes.
fn jumbo_frames_are_found_per_path_and_kept() {
    let test = connected([9000, 1500], None, &QuicOptions::default());
    await_both_paths(&test);
    for _ in 0..3 {
        transfer(&test.client, &test.server, 20_000_000);
    }
    // Probes wait for idle moments of the sender, and an unlimited link has none.
    let found = |seen: &ConnectionSnapshot, link| {
        let path = seen.subflows.iter().find(|path| path.local.ip() == client_address(link)).expect("a path");
        (path.pmtu_bytes, path.black_holes)
    };
    wait_for("the end of the search", || {
        let seen = snapshot(&test.client);
        (found(&seen, 0) == (9000, Some(0)) && found(&seen, 1) == (1500, Some(0))).then_some(())
    });
}

/// Sends from `from` to `to` until stopped while `disturb` runs; returns the arrival times.
fn arrivals_during(
    from: &Connection,
    to: &Connection,
    disturb: impl FnOnce(&MonotonicClock),
) -> Vec<Timestamp> {
    let mut arrivals = Vec::new();
    send_during(from, to, |_| arrivals.push(MonotonicClock.now()), || disturb(&MonotonicClock));
    arrivals
}

fn longest_pause(arrivals: &[Timestamp]) -> Duration {
    arrivals.windows(2).map(|pair| pair[1].duration_since(pair[0])).max().unwrap_or(PATIENCE)
}

fn settle() {
    thread::sleep(Duration::from_millis(1500));
}

fn a_link_down_is_survived_and_its_return_is_used() {
    for (link, name) in LINKS.into_iter().enumerate() {
        let test = connected([1500, 1500], Some([30_000_000; 2]), &QuicOptions::default());
        await_both_paths(&test);
        let mut before = (0, 0);
        let arrivals = arrivals_during(&test.client, &test.server, |_| {
            settle();
            test.two.set_up(link, false);
            settle();
            test.two.set_up(link, true);
            wait_for("the path back", || (open_paths(&test.client) == 2).then_some(()));
            before = carried(&snapshot(&test.client), link);
            settle();
        });
        let pause = longest_pause(&arrivals);
        eprintln!("{name}: down, longest pause {pause:?}");
        assert!(pause < Duration::from_secs(3), "{name}: {pause:?}");
        let after = carried(&snapshot(&test.client), link);
        assert!(after.0 > before.0 + 500_000, "{before:?} {after:?}");
        let events = test.client.path_events();
        let reported = |name| events.iter().any(|event| event.kind.name() == name);
        assert!(
            reported("interface-gone") && reported("interface-back") && reported("path-abandoned"),
            "{events:#?}"
        );
    }
}

fn a_silent_black_hole_is_survived_by_upload_and_download() {
    for (link, upload) in [(0, true), (1, true), (0, false), (1, false)] {
        let test = connected([1500, 1500], Some([30_000_000; 2]), &QuicOptions::default());
        await_both_paths(&test);
        let (from, to) = if upload { (&test.client, &test.server) } else { (&test.server, &test.client) };
        let mut before = (0, 0);
        let arrivals = arrivals_during(from, to, |_| {
            settle();
            test.two.blackhole(link);
            settle();
            test.two.restore(link);
            wait_for("the path back", || (open_paths(&test.client) == 2).then_some(()));
            before = carried(&snapshot(&test.client), link);
            settle();
        });
        let pause = longest_pause(&arrivals);
        eprintln!("{}: black hole, upload {upload}, longest pause {pause:?}", LINKS[link]);
        assert!(pause < Duration::from_secs(5), "{}: {pause:?}", LINKS[link]);
        let after = carried(&snapshot(&test.client), link);
        let more = if upload { after.0 - before.0 } else { after.1 - before.1 };
        assert!(more > 500_000, "{} upload {upload}: {before:?} {after:?}", LINKS[link]);
    }
}

/// The link flaps more often than there are concurrent path ids.
fn a_flapping_link_is_used_each_time_it_is_up() {
    let test = connected([1500, 1500], Some([30_000_000; 2]), &QuicOptions::default());
    await_both_paths(&test);
    let _ = arrivals_during(&test.client, &test.server, |_| {
        for _ in 0..12 {
            test.two.set_up(0, false);
            wait_for("one path less", || (open_paths(&test.client) == 1).then_some(()));
            test.two.set_up(0, true);
            wait_for("the path back", || (open_paths(&test.client) == 2).then_some(()));
        }
    });
}

fn a_connection_outlives_all_its_links() {
    let test = connected([1500, 1500], Some([30_000_000; 2]), &QuicOptions::default());
    await_both_paths(&test);
    let _ = arrivals_during(&test.client, &test.server, |_| {
        for link in [0, 1] {
            test.two.set_up(link, false);
        }
        settle();
        for link in [1, 0] {
            test.two.set_up(link, true);
        }
        await_both_paths(&test);
    });
}

fn a_backup_path_stays_idle_until_it_is_needed() {
    let quic = QuicOptions { scheduler: Scheduler::backup(), ..QuicOptions::default() };
    let test = connected([1500, 1500], Some([30_000_000; 2]), &quic);
    await_both_paths(&test);
    // On a machine that stalls, a delayed acknowledgement activates the backup until the path has recovered. Two equal paths
    // would each carry half of the data in every round.
    let carried_by_both = || [0, 1].map(|path| carried(&snapshot(&test.client), path));
    let mut rounds = Vec::new();
    let stays_idle = (0..5).any(|_| {
        let before = carried_by_both();
        transfer(&test.client, &test.server, 3_000_000);
        transfer(&test.server, &test.client, 3_000_000);
        let [main, backup] = std::array::from_fn(|path| {
            let (now, before) = (carried_by_both()[path], before[path]);
            (now.0 - before.0, now.1 - before.1)
        });
        rounds.push((main, backup));
        backup.0 < main.0 / 3 && backup.1 < main.1 / 3
    });
    assert!(stays_idle, "{rounds:?}");
    let before = carried_by_both()[1];
    test.two.set_up(0, false);
    transfer(&test.client, &test.server, 3_000_000);
    transfer(&test.server, &test.client, 3_000_000);
    let (sent, received) = carried(&snapshot(&test.client), 1);
    let (sent, received) = (sent - before.0, received - before.1);
    assert!(
        sent > 2_000_000 && received > 2_000_000,
        "{sent} {received} {:#?} {:#?}",
        snapshot(&test.client).subflows,
        test.client.path_events()
    );
    drop(test.session);
}

fn a_peer_without_multipath_is_reported() {
    let two = TwoLinks::new([1500, 1500]);
    let service = two.serve_single_path();
    let session = TwoLinks::session(&service, QuicOptions::default());
    let client = two.client.run_in(|| session.open().expect("a stream")).expect("the client's host");
    let server = service.accept(&client);
    transfer(&client, &server, 100_000);
    let seen = snapshot(&client);
    assert_eq!(seen.multipath, Negotiation::NotNegotiated);
    assert_eq!(seen.subflows.len(), 1);
}
