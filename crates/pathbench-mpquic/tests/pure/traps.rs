//! Behaviour of noq 1.4.0 that this crate works around, with the library alone at both ends. If a test fails with
//! another version, the behaviour has changed, and its workaround in `src/library.rs` may be unnecessary.

use super::*;
use noq_proto::congestion::{Controller, ControllerFactory};
use noq_proto::{PathAbandonReason, PathEvent, PathId, PathStatus};
use pathbench_record::units::QueueLimit;
use std::any::Any;
use std::time::Instant;

/// The library alone, with two paths that the test opened.
fn two_library_paths() -> World {
    let mut world = World::established(&library_only(&vec![link(50, 10); 2]));
    open_second(&mut world, PathStatus::Available);
    world
}

fn library_only(links: &[LinkModel]) -> Setup {
    Setup { library_only: [true; 2], ..Setup::new(links, Scheduler::LowestRtt) }
}

fn open_second(world: &mut World, status: PathStatus) {
    let now = world.client.instant(world.now);
    let route = FourTuple::new(SERVER, Some(client_address(1)));
    world.client.connection().open_path(route, status, now).unwrap();
    world.run_for(ms(200));
}

fn timed_out(host: &Host) -> Vec<PathId> {
    let timed_out = |(_, event): &(Timestamp, PathEvent)| match event {
        PathEvent::Abandoned { id, reason: PathAbandonReason::TimedOut, .. } => Some(*id),
        _ => None,
    };
    host.library_events().iter().filter_map(timed_out).collect()
}

/// Acknowledgements for all paths are sent on the path of lowest id. So the client receives nothing on the other path,
/// although it answers every keep-alive, and abandons a healthy path. Remedy: heartbeats from both ends.
#[test]
fn trap_1_idle_timeout_with_keep_alive_at_one_end_abandons_a_healthy_path() {
    let mut world = two_library_paths();
    let now = world.client.instant(world.now);
    for path in [PathId::ZERO, PathId::from(1_u32)] {
        let connection = world.client.connection();
        connection.set_path_max_idle_timeout(now, path, Some(ms(300))).unwrap();
        connection.set_path_keep_alive_interval(path, Some(ms(60))).unwrap();
        connection.ping_path(path).unwrap();
    }
    world.run_for(ms(3000));
    assert_eq!(timed_out(&world.client), [PathId::from(1_u32)]);
}

/// The remedy of trap 1 works: with heartbeats from both ends, packets arrive on each path.
#[test]
fn trap_1_heartbeats_from_both_ends_are_heard_on_every_path() {
    let mut world = World::established(&Setup::new(&vec![link(50, 10); 2], Scheduler::LowestRtt));
    let received = |world: &mut World| -> Vec<u64> {
        let connection = world.client.connection();
        let paths = connection.paths();
        paths.into_iter().map(|path| connection.path_stats(path).unwrap().udp_rx.datagrams).collect()
    };
    let before = received(&mut world);
    world.run_for(ms(3000));
    for (path, (after, before)) in received(&mut world).iter().zip(before).enumerate() {
        assert!(after - before >= 40, "{} datagrams in 50 intervals on path {path}", after - before);
    }
}

/// A congestion window that no loss reduces.
#[derive(Debug, Clone)]
struct FixedWindow;

const FIXED_WINDOW_BYTES: u64 = 14 << 20;

impl Controller for FixedWindow {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        FIXED_WINDOW_BYTES
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        FIXED_WINDOW_BYTES
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for FixedWindow {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Self)
    }
}

/// More than 1024 gaps in one stream's data end the connection. They occur when a path with much data in flight goes
/// down. Remedy: at most 2 MB per stream.
#[test]
fn trap_2_too_many_gaps_in_a_stream_end_the_connection() {
    let lose_much = |adjust: fn(&mut TransportConfig)| {
        let mut setup = library_only(&[link(800, 100)]);
        setup.adjust = [adjust; 2];
        let mut world = World::established(&setup);
        world.wires[0][1].pipe.change(world.now, &loss_change(0.3));
        world.client.wanted_streams = 1;
        world.server.load = Load::Bulk;
        world.run_for(ms(600));
        world.client.ended().cloned()
    };
    let ended = lose_much(|config| {
        config.stream_receive_window((64_u32 << 20).into()).receive_window((64_u32 << 20).into());
        config.send_window(64 << 20).congestion_controller_factory(Arc::new(FixedWindow));
    });
    assert!(ended.as_ref().is_some_and(|reason| reason.to_string().contains("gaps")), "{ended:?}");
    let ended = lose_much(|config| {
        config.congestion_controller_factory(Arc::new(FixedWindow));
    });
    assert_eq!(ended, None, "2 MB are too much as well");
}

/// When large packets are lost (as a GSO packet above 64 KiB, which the kernel drops silently), the path MTU is
/// searched again from 1200 bytes. Remedy: shorter GSO packets.
#[test]
fn trap_3_lost_large_packets_collapse_the_path_mtu() {
    let mut world = World::established(&library_only(&[link(50, 10)]));
    world.start_download();
    world.run_for(ms(1000));
    let mtu = |world: &mut World| world.server.connection().path_stats(PathId::ZERO).unwrap().current_mtu;
    assert!(mtu(&mut world) > 1400, "{}", mtu(&mut world));
    world.change(0, &mtu_change(1328));
    let mut smallest = u16::MAX;
    for _ in 0..100 {
        world.run_for(ms(30));
        smallest = smallest.min(mtu(&mut world));
    }
    assert_eq!(smallest, 1200);
    assert!(world.server.connection().path_stats(PathId::ZERO).unwrap().black_holes_detected > 0);
}

/// `Backup` given to `open_path` is not signalled to the peer. Remedy: open as available, then change the status.
#[test]
fn trap_4_only_a_change_of_the_status_is_signalled() {
    let remote_status = |world: &World| -> Vec<PathStatus> {
        let status = |(_, event): &(Timestamp, PathEvent)| match event {
            PathEvent::RemoteStatus { status, .. } => Some(*status),
            _ => None,
        };
        world.server.library_events().iter().filter_map(status).collect()
    };
    let mut world = World::established(&library_only(&vec![link(50, 10); 2]));
    open_second(&mut world, PathStatus::Backup);
    assert_eq!(remote_status(&world), [], "the status is signalled when a path is opened");

    let mut world = two_library_paths();
    let path = PathId::from(1_u32);
    world.client.connection().set_path_status(path, PathStatus::Backup).unwrap();
    world.run_for(ms(200));
    assert_eq!(remote_status(&world), [PathStatus::Backup]);
    // The peer's library does not act on the status.
    assert_eq!(world.server.connection().path_status(path).unwrap(), PathStatus::Available);
}

/// Each path that is opened and closed before a packet reaches the peer uses up a path id, which noq's server does not
/// replace. Remedy: wait longer for an unanswered path.
#[test]
fn path_ids_of_unheard_paths_are_not_replaced() {
    let mut world = World::established(&library_only(&vec![link(50, 10); 2]));
    world.set_cut(1, true);
    let mut begun = 0;
    for _ in 0..20 {
        let at = world.client.instant(world.now);
        let route = FourTuple::new(SERVER, Some(client_address(1)));
        if let Ok(path) = world.client.connection().open_path(route, PathStatus::Available, at) {
            begun += 1;
            world.run_for(ms(1000));
            let at = world.client.instant(world.now);
            world.client.connection().close_path(at, path, 0_u32.into()).unwrap();
        }
        world.run_for(ms(1000));
    }
    assert_eq!(begun, pathbench_mpquic::PATHS - 1);
}

/// noq retransmits a path's data in flight only when it discards the path: after the peer's answer to `PATH_ABANDON`,
/// and three PTOs of the path. A failover takes at least this long.
#[test]
fn what_was_in_flight_on_a_closed_path_is_sent_again_after_three_ptos() {
    let mut world = two_library_paths();
    world.start_download();
    world.run_for(ms(1000));
    let path = PathId::from(1_u32);
    world.set_cut(1, true);
    let at = world.client.instant(world.now);
    world.client.connection().close_path(at, path, 0_u32.into()).unwrap();
    let closed = world.now;
    // The PTO without the RTT variation (RFC 9002 section 6.2.1), which the library does not report.
    let timeout = world.server.connection().rtt(path).unwrap() + ms(25);
    world.run_for(ms(2000));
    let discarded = |(at, event): &(Timestamp, PathEvent)| match event {
        PathEvent::Discarded { id, .. } if *id == path => Some(at.duration_since(closed)),
        _ => None,
    };
    let after = world.server.library_events().iter().find_map(discarded).unwrap();
    assert!(after > timeout * 2 && after < timeout * 5, "{after:?} with a PTO of {timeout:?}");
}

/// After an update of the keys, the library compares packet numbers of different paths, and does not decrypt packets of the
/// slower path that were sent before. It updates them after 10 to 1,000 packets, in the middle of slow start. Remedy: an
/// update while the connection has one path.
#[test]
fn trap_5_an_update_of_the_keys_loses_no_packet_of_the_slower_path() {
    for seed in 1..=8 {
        // No queue is full.
        let links =
            [10, 40].map(|delay_ms| LinkModel { queue: QueueLimit::Bytes(8 << 20), ..link(20, delay_ms) });
        let mut world = World::established(&Setup { seed, ..Setup::new(&links, Scheduler::LowestRtt) });
        world.start_download();
        world.run_for(ms(900));
        let connection = world.server.connection();
        let paths = connection.paths();
        assert_eq!(paths.len(), 2);
        for path in paths {
            let stats = connection.path_stats(path).unwrap();
            assert!(stats.udp_tx.datagrams > 500, "seed {seed}, {path}: {}", stats.udp_tx.datagrams);
            assert_eq!(stats.lost_packets, stats.lost_plpmtud_probes, "seed {seed}, {path}");
        }
    }
}
