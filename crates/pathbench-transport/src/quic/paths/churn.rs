//! A client that opens and abandons paths without end.

use super::known::{MOST_PATH_IDS, MOST_PATHS_KEPT};
use super::*;
use crate::closed_paths::KEPT_CLOSED_PATHS;
use crate::quic::connection::QuicConnection;
use crate::quic::core::Core;
use crate::quic::library_client::{STEP, World};
use crate::quic::path_number::path_number;
use crate::quic::telemetry::QuicTelemetry;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;

/// What grows with the paths of a connection if anything does.
fn sizes(connection: &QuicConnection) -> [usize; 4] {
    let mut core = connection.lock();
    let events = core.events().len();
    let Paths { known, closed, kept_off, .. } = &core.paths;
    [known.len(), closed.sums().len(), kept_off.len(), events]
}

/// Opens a path, announces a status, and abandons it; returns the number of paths.
fn open_and_abandon(world: &mut World) -> u32 {
    let path = world.open();
    if let Some(path) = path {
        world.step(STEP);
        if path_number(path).is_multiple_of(2) {
            let _ = world.client.set_path_status(path, PathStatus::Backup);
        }
        world.step(STEP);
        world.abandon(path);
    }
    world.step(STEP * 20);
    path.is_some().into()
}

#[test]
fn state_of_closed_paths_stays_flat_during_60_s_of_path_churn() {
    const WINDOW: Duration = Duration::from_secs(20);
    let mut world = World::connected();
    let connection = world.connection().expect("a connection");
    let mut telemetry = QuicTelemetry::new(Arc::clone(&connection), Transport::Mpquic, true);
    let begun = world.clock.now();
    let mut opened = 0;
    // The largest of each kind, paths of a snapshot first, in each third of the time.
    let largest = [1, 2, 3].map(|window| {
        let mut largest = [0; 5];
        while world.clock.now().since(begun) < WINDOW * window {
            opened += open_and_abandon(&mut world);
            let [known, sums, kept_off, events] = sizes(&connection);
            let now = [telemetry.snapshot().subflows.len(), known, sums, kept_off, events];
            largest = std::array::from_fn(|kind| now[kind].max(largest[kind]));
        }
        largest
    });
    println!("{opened} paths, largest state in each 20 s: {largest:?}");
    assert!(opened > 1000 && connection.lock().ended.is_none(), "{opened} paths");
    assert_eq!(largest[1], largest[2], "after {opened} paths; in the first 20 s {:?}", largest[0]);
}

/// Once every closed path was in every snapshot, for ever.
#[test]
fn a_peer_that_opens_and_abandons_thousands_of_paths_makes_nothing_grow() {
    let mut world = World::connected();
    let connection = world.connection().expect("a connection");
    let mut telemetry = QuicTelemetry::new(Arc::clone(&connection), Transport::Mpquic, true);
    let (mut opened, mut largest, mut largest_sizes) = (0, 0, [0; 4]);
    while connection.lock().ended.is_none() && opened < 2 * MOST_PATH_IDS {
        opened += open_and_abandon(&mut world);
        if opened % 4 > 0 {
            continue;
        }
        let paths = telemetry.snapshot().subflows;
        largest = largest.max(paths.len());
        for (largest, size) in largest_sizes.iter_mut().zip(sizes(&connection)) {
            *largest = size.max(*largest);
        }
        let seen: u64 = paths.iter().filter_map(|path| path.control_bytes_received).sum();
        let stats = connection.lock().inner.stats();
        assert_eq!(seen, stats.udp_rx.bytes, "bytes received after {opened} paths");
    }
    assert!(largest <= MOST_PATHS_KEPT + KEPT_CLOSED_PATHS, "{largest} paths in one snapshot");
    let [known, sums, kept_off, events] = largest_sizes;
    assert!(known <= MOST_PATHS_KEPT + KEPT_CLOSED_PATHS, "{known} paths known");
    assert!(sums == 1 && kept_off <= MOST_PATHS_KEPT, "{sums} sums, {kept_off} paths kept off");
    assert_eq!(events, 4096);

    // Not for ever, either.
    let ended = connection.lock().ended.clone().expect("an end");
    assert!(opened > 8000 && ended.to_string().contains("path ids"), "{ended} after {opened} paths");
    for _ in 0..3 {
        world.step(Duration::from_secs(10));
    }
    assert!(world.connection().is_none(), "the connection is kept");
}

#[test]
fn paths_that_wait_for_their_end_are_few() {
    let mut world = World::connected();
    let connection = world.connection().expect("a connection");
    let mut most = 0;
    for _ in 0..1000 {
        if let Some(path) = world.open() {
            world.step(Duration::ZERO);
            world.abandon(path);
        }
        // No timer of the paths that wait for their end runs out.
        world.step(Duration::from_micros(1));
        most = most.max(connection.lock().inner.paths().len());
    }
    assert!(most <= MOST_PATHS_KEPT + 8, "{most} paths kept at a time");
    let ended = connection.lock().ended.clone().expect("an end");
    assert!(ended.to_string().contains("too fast"), "{ended}");
}

#[test]
fn statuses_of_paths_that_never_were_are_not_kept() {
    let world = World::connected();
    let connection = world.connection().expect("a connection");
    let mut core = connection.lock();
    let Core { inner, paths, .. } = &mut *core;
    for number in 1000..5000_u32 {
        assert!(!paths.changes_status(PathId::from(number), PathStatus::Backup, inner));
    }
    assert!(paths.changes_status(PathId::ZERO, PathStatus::Backup, inner));
    assert_eq!(paths.kept_off.len(), 1);
}
