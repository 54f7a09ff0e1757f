//! Path MTU discovery (RFC 8899) on each path, which must not affect the scheduler's choices.

use super::*;
use noq_proto::PathId;

/// UDP payload that fits a packet of the MTU over IPv4.
pub(super) const fn payload(mtu_bytes: usize) -> usize {
    mtu_bytes - 28
}

/// Interfaces of 9000 bytes, and links behind them that drop packets above their own MTU silently.
pub(super) fn behind_jumbo(links: &[(LinkModel, usize)], scheduler: Scheduler) -> Setup {
    let links: Vec<LinkModel> =
        links.iter().map(|(link, mtu)| LinkModel { mtu_bytes: *mtu as u32, ..link.clone() }).collect();
    Setup { mtu_bytes: 9000, ..Setup::new(&links, scheduler) }
}

/// Stream frames that the server has sent on a path.
fn stream_frames(world: &mut World, path: u32) -> u64 {
    let stats = world.server.connection().path_stats(PathId::from(path)).unwrap();
    stats.frame_tx.stream
}

/// Regression: a lost MTU probe counted as unacknowledged data, so the path counted as stalled, and messages took the
/// slower one.
#[test]
fn lost_mtu_probes_do_not_divert_messages_to_the_slower_path() {
    for mtu in [1280, 1400, 1492, 1500, 4352, 9000] {
        let links = [(link(20, 40), mtu), (link(20, 10), mtu)];
        let mut world = World::established(&behind_jumbo(&links, Scheduler::LowestRtt));
        world.client.wanted_streams = 1;
        world.run_for(ms(100));
        let before = stream_frames(&mut world, 0);
        world.server.load = Load::Paced(2000);
        world.run_for(ms(4000));
        let (slow, fast) = (stream_frames(&mut world, 0) - before, stream_frames(&mut world, 1));
        assert!(
            fast >= 200 && slow <= fast / 50,
            "{mtu}: {slow} stream frames on the slower path, {fast} on the other"
        );
    }
}

/// The UDP payload of the path MTU on each path of a host.
pub(super) fn found(host: &mut Host) -> Vec<usize> {
    let connection = host.connection();
    let paths = connection.paths();
    paths.into_iter().map(|path| connection.path_stats(path).unwrap().current_mtu.into()).collect()
}

/// From now on a link drops longer packets, in both directions.
fn set_mtu(world: &mut World, link: usize, mtu_bytes: usize) {
    world.change(link, &mtu_change(mtu_bytes));
}

pub(super) fn black_holes(host: &mut Host, path: u32) -> u64 {
    host.connection().path_stats(PathId::from(path)).unwrap().black_holes_detected
}

#[test]
fn every_path_has_its_own_mtu_to_the_byte_at_both_ends() {
    for mtus in [[9000, 1500], [1500, 9000], [1280, 4352], [1492, 1400], [1228, 8999], [1501, 1499]] {
        let links = mtus.map(|mtu| (link(30, 10), mtu));
        let mut world = World::established(&behind_jumbo(&links, Scheduler::LowestRtt));
        world.run_for(ms(2500));
        for host in [&mut world.client, &mut world.server] {
            assert_eq!(found(host), mtus.map(payload), "of {mtus:?}");
            assert_eq!((black_holes(host, 0), black_holes(host, 1)), (0, 0), "of {mtus:?}");
        }
    }
}

#[test]
fn a_single_path_has_its_mtu_found_under_load_too() {
    for mtu in [1400, 1500, 9000] {
        let mut world = World::established(&behind_jumbo(&[(link(20, 10), mtu)], Scheduler::LowestRtt));
        world.start_upload();
        world.run_for(ms(3000));
        assert_eq!(found(&mut world.client), [payload(mtu)]);
        let bytes = world.upload_for(ms(1000));
        let used = utilisation(bytes[0], ms(1000), 20_000_000);
        assert!(used > 0.9, "{mtu}: the link was used by {used:.2}");
    }
}

/// Regression: heartbeats were filled with data up to the old MTU and lost, and they delayed the library's probes of
/// 1200 bytes, which are not lost. So the path was closed as silent.
#[test]
fn a_path_whose_mtu_shrinks_is_used_again_within_seconds_and_one_that_grows_is_searched_again() {
    for download in [false, true] {
        let links = [(link(10, 10), 9000), (link(10, 10), 9000)];
        let mut world = World::established(&behind_jumbo(&links, Scheduler::LowestRtt));
        if download {
            world.start_download();
        } else {
            world.start_upload();
        }
        world.run_for(ms(3000));
        let shrunk = world.now;
        let receiver = if download { &mut world.client } else { &mut world.server };
        receiver.forget_stalls(shrunk);
        set_mtu(&mut world, 1, 1500);
        world.run_for(ms(4000));
        let now = world.now;
        let (sender, receiver) =
            if download { (&mut world.server, &world.client) } else { (&mut world.client, &world.server) };
        let stall = receiver.stall(now);
        assert_eq!(found(sender), [payload(9000), payload(1500)], "download {download}");
        assert!(black_holes(sender, 1) > 0 && black_holes(sender, 0) == 0, "download {download}");
        assert_eq!(sender.closed_as_silent(), [], "download {download}");
        assert!(stall < ms(1000), "download {download}: {stall:?}");
        let bytes = if download { world.download_for(ms(2000)) } else { world.upload_for(ms(2000)) };
        let used = utilisation(bytes[1], ms(2000), 10_000_000);
        assert!(used > 0.8, "download {download}: used by {used:.2} after it shrank");
        set_mtu(&mut world, 1, 9000);
        world.run_for(ms(12_000));
        let sender = if download { &mut world.server } else { &mut world.client };
        assert_eq!(found(sender), [payload(9000), payload(9000)], "download {download}");
    }
}

/// Regression: slow start overshot during the search, and the full queue dropped every probe: one search in five ended
/// below the path's MTU.
#[test]
fn a_search_in_the_midst_of_slow_start_ends_on_the_mtu_all_the_same() {
    for (link, mtus, seed, download) in [
        (link(30, 10), [9000, 1500], 4, true),
        (link(30, 10), [1500, 9000], 3, true),
        (link(30, 10), [1500, 9000], 6, false),
        (link(30, 10), [1400, 1492], 2, true),
        (link(30, 1), [9000, 1500], 1, false),
        (link(30, 1), [1500, 9000], 3, true),
    ] {
        let mut setup = behind_jumbo(&mtus.map(|mtu| (link.clone(), mtu)), Scheduler::LowestRtt);
        setup.seed = seed;
        let mut world = World::established(&setup);
        if download {
            world.start_download();
        } else {
            world.start_upload();
        }
        world.run_for(ms(2500));
        let sender = if download { &mut world.server } else { &mut world.client };
        assert_eq!(found(sender), mtus.map(payload), "{mtus:?}, seed {seed}");
    }
}
