//! A client that opens and abandons paths continuously: the library alone, against the shipped core of a server.

use super::tampered::{Hooks, tampered};
use super::*;
use noq_proto::{PathId, PathStatus, VarInt};

const STEP: Duration = ms(1);
/// Paths of a connection that a server keeps at a time, and closed paths with kept figures.
const MOST_PATHS_KEPT: usize = 64;
const KEPT_CLOSED_PATHS: usize = 32;
/// Path ids of a connection in all.
const MOST_PATH_IDS: u32 = 8192;
const MAX_EVENTS: usize = 4096;

fn connected() -> World {
    let mut setup = Setup::new(&[link(100_000, 0)], Scheduler::LowestRtt);
    setup.library_only = [true, false];
    World::established(&setup)
}

fn open(world: &mut World) -> Option<PathId> {
    let at = world.client.instant(world.now);
    let route = FourTuple::new(SERVER, Some(client_address(0)));
    world.client.connection().open_path(route, PathStatus::Available, at).ok()
}

fn abandon(world: &mut World, path: PathId) {
    let at = world.client.instant(world.now);
    // Fails when the server has already closed the path or the connection.
    let _ = world.client.connection().close_path(at, path, VarInt::from_u32(0));
}

/// Opens a path, announces a status, and abandons it; returns the number of paths.
fn open_and_abandon(world: &mut World) -> u32 {
    let path = open(world);
    if let Some(path) = path {
        world.run_for(STEP);
        if path.to_string().parse::<u32>().unwrap().is_multiple_of(2) {
            let _ = world.client.connection().set_path_status(path, PathStatus::Backup);
        }
        world.run_for(STEP);
        abandon(world, path);
    }
    world.run_for(STEP * 20);
    path.is_some().into()
}

/// State that could grow with the number of paths: known paths, sums of closed paths, and events.
fn sizes(world: &mut World) -> [usize; 3] {
    let figures = world.server.figures(world.now);
    let sums = figures.iter().filter(|path| path.closed_paths.is_some()).count();
    [figures.len() - sums, sums, world.server.events().len()]
}

#[test]
fn state_of_closed_paths_stays_flat_during_60_s_of_path_churn() {
    const WINDOW: Duration = Duration::from_secs(20);
    let mut world = connected();
    let begun = world.now;
    let mut opened = 0;
    // The largest of each kind in each third of the time.
    let largest = [1, 2, 3].map(|window| {
        let mut largest = [0; 3];
        while world.now.duration_since(begun) < WINDOW * window {
            opened += open_and_abandon(&mut world);
            let now = sizes(&mut world);
            largest = std::array::from_fn(|kind| now[kind].max(largest[kind]));
        }
        largest
    });
    println!("{opened} paths, largest state in each 20 s: {largest:?}");
    assert!(opened > 1000 && world.server.ended().is_none(), "{opened} paths");
    assert_eq!(largest[1], largest[2], "after {opened} paths; in the first 20 s {:?}", largest[0]);
}

/// Regression: every snapshot listed every closed path.
#[test]
fn a_peer_that_opens_and_abandons_thousands_of_paths_makes_nothing_grow() {
    let mut world = connected();
    let (mut opened, mut largest) = (0, [0; 3]);
    while world.server.ended().is_none() && opened < 2 * MOST_PATH_IDS {
        opened += open_and_abandon(&mut world);
        if opened % 4 > 0 {
            continue;
        }
        let paths = world.server.figures(world.now);
        let now = sizes(&mut world);
        largest = std::array::from_fn(|kind| now[kind].max(largest[kind]));
        let seen: u64 = paths.iter().filter_map(|path| path.control_bytes_received).sum();
        let stats = world.server.connection().stats();
        assert_eq!(seen, stats.udp_rx.bytes, "bytes received after {opened} paths");
    }
    let [known, sums, events] = largest;
    assert!(known < MOST_PATHS_KEPT + KEPT_CLOSED_PATHS, "{known} paths known");
    assert_eq!(sums, 1);
    assert_eq!(events, MAX_EVENTS);

    // The server ends the connection after a bounded number of paths.
    let ended = world.server.ended().cloned().expect("an end");
    assert!(opened > 8000 && ended.to_string().contains("path ids"), "{ended} after {opened} paths");
    for _ in 0..3 {
        world.run_for(Duration::from_secs(10));
    }
    assert!(world.server.is_drained(), "the connection is kept");
}

#[test]
fn paths_that_wait_for_their_end_are_few() {
    let mut world = connected();
    let mut most = 0;
    for _ in 0..1000 {
        if let Some(path) = open(&mut world) {
            world.run_for(Duration::from_nanos(500));
            abandon(&mut world, path);
        }
        // Too short for the timers that discard abandoned paths.
        world.run_for(Duration::from_micros(1));
        most = most.max(world.server.connection().paths().len());
    }
    assert!(most <= MOST_PATHS_KEPT + 8, "{most} paths kept at a time");
    let ended = world.server.ended().cloned().expect("an end");
    assert!(ended.to_string().contains("too fast"), "{ended}");
}

/// Overwrites the padding of an MTU probe with statuses of unknown path ids, in frames of six bytes.
fn announce_backups(packet: u64, payload: &mut [u8]) {
    let padding = payload.iter().rev().take_while(|byte| **byte == 0).count();
    let end = payload.len();
    for (number, frame) in payload[end - padding..].chunks_exact_mut(6).enumerate() {
        let [high, low] = (1000 + (packet % 10) as u16 * 200 + number as u16).to_be_bytes();
        frame.copy_from_slice(&[0x7e, 0x76, 0x40 | high, low, 0x40, 0x01]);
    }
}

#[test]
fn statuses_of_paths_that_never_were_are_not_kept() {
    let mut setup = Setup::new(&[link(100_000, 0)], Scheduler::LowestRtt);
    setup.library_only = [true, false];
    setup.mtu_bytes = 9000;
    setup.client_crypto = |crypto| tampered(crypto, Hooks { sends: announce_backups, ..Hooks::default() });
    let mut world = World::established(&setup);
    world.run_for(ms(2000));
    let announced = |world: &mut World| {
        let statuses = world.server.events().into_iter();
        statuses.filter(|event| matches!(event.kind, PathEventKind::PathStatus { by_peer: true, .. })).count()
    };
    let received = world.server.connection().path_stats(PathId::ZERO).unwrap().frame_rx.path_status_backup;
    assert!(received > 500 && world.server.ended().is_none(), "{received} statuses");
    assert_eq!((announced(&mut world), world.server.figures(world.now).len()), (0, 1));
    // The status of an existing path is recorded once, even when it is repeated.
    for status in [PathStatus::Backup, PathStatus::Backup, PathStatus::Available] {
        world.client.connection().set_path_status(PathId::ZERO, status).unwrap();
        world.run_for(ms(10));
    }
    assert_eq!(announced(&mut world), 2);
}
