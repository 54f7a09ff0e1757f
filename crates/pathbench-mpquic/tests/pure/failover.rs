//! The stall when a link goes down or becomes a black hole, and whether traffic returns to it.

use super::*;

/// A low rate, so that the simulation of many seconds is fast.
const RATE_MBPS: u64 = 8;

fn two_paths() -> Setup {
    Setup::new(&[link(RATE_MBPS, 10), link(RATE_MBPS, 10)], Scheduler::LowestRtt)
}

fn begin(download: bool) -> World {
    let mut world = World::established(&two_paths());
    if download {
        world.start_download();
    } else {
        world.start_upload();
    }
    world.run_for(ms(1500));
    world
}

fn receiver(world: &mut World, download: bool) -> &mut Host {
    if download { &mut world.client } else { &mut world.server }
}

/// Cuts a link, with or without a report, restores it, and returns the stall. At the end, both links must carry data.
fn cut_and_restore(download: bool, link: usize, reported: bool) -> Duration {
    let mut world = begin(download);
    let now = world.now;
    receiver(&mut world, download).forget_stalls(now);
    if reported {
        world.bring_down(link);
    } else {
        world.set_cut(link, true);
    }
    world.run_for(ms(3000));
    let now = world.now;
    let stall = receiver(&mut world, download).stall(now);
    assert!(world.client.ended().is_none() && world.server.ended().is_none(), "the connection is lost");
    if reported {
        world.bring_up(link);
    } else {
        world.set_cut(link, false);
    }
    world.run_for(ms(4500));
    let bytes = if download { world.download_for(ms(1000)) } else { world.upload_for(ms(1000)) };
    let used = utilisation(bytes[link], ms(1000), RATE_MBPS * 1_000_000);
    assert!(used > 0.5, "link {link} was used by {used:.2} after its return: {bytes:?}");
    stall
}

/// The stall is 72 ms; for a download without a detour, 260 ms.
#[test]
fn a_link_that_goes_down_costs_little_and_traffic_returns() {
    for (download, link) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let stall = cut_and_restore(download, link, true);
        assert!(stall < ms(150), "download {download}, link {link}: {stall:?}");
    }
}

/// The stall is 510 to 580 ms, with 450 ms of silence; without a detour, 770 to 800 ms.
#[test]
fn a_black_hole_costs_less_than_a_second_and_traffic_returns() {
    for (download, link) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let stall = cut_and_restore(download, link, false);
        assert!(stall < ms(650), "download {download}, link {link}: {stall:?}");
    }
}

/// The stall is at most 580 ms; 870 ms if the client waits until the server, which receives nothing, closes the path.
#[test]
fn a_black_hole_in_one_direction_is_survived() {
    for (download, direction) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let mut world = begin(download);
        let now = world.now;
        receiver(&mut world, download).forget_stalls(now);
        world.cut_direction(0, direction, true);
        world.run_for(ms(4000));
        let now = world.now;
        let stall = receiver(&mut world, download).stall(now);
        assert!(stall < ms(650), "download {download}, direction {direction}: {stall:?}\n{}", world.story());
        world.cut_direction(0, direction, false);
        world.run_for(ms(4500));
        assert_eq!(world.open_paths(), 2, "{}", world.story());
    }
}

/// The stall is at most 510 ms; without a detour, 620 ms.
#[test]
fn a_trickle_outlives_a_black_hole_too() {
    for (download, link) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let mut world = World::established(&two_paths());
        world.client.wanted_streams = 1;
        if download {
            world.server.load = Load::Paced(500);
        } else {
            world.client.load = Load::Paced(500);
        }
        world.run_for(ms(1500));
        let now = world.now;
        receiver(&mut world, download).forget_stalls(now);
        world.set_cut(link, true);
        world.run_for(ms(3000));
        let now = world.now;
        let stall = receiver(&mut world, download).stall(now);
        assert!(stall < ms(560), "download {download}, link {link}: {stall:?}\n{}", world.story());
    }
}

#[test]
fn of_three_paths_two_can_go() {
    let mut world = World::established(&Setup::new(&vec![link(RATE_MBPS, 10); 3], Scheduler::LowestRtt));
    world.start_download();
    world.run_for(ms(1000));
    world.bring_down(0);
    world.run_for(ms(500));
    world.set_cut(1, true);
    world.run_for(ms(1500));
    let bytes = world.download_for(ms(1000));
    let used = utilisation(bytes[2], ms(1000), RATE_MBPS * 1_000_000);
    assert!(used > 0.8, "the last link was used by {used:.2}: {bytes:?}\n{}", world.story());
}

#[test]
fn traffic_returns_after_a_black_hole_of_a_minute() {
    let mut world = World::established(&two_paths());
    world.set_cut(1, true);
    world.run_for(ms(60_000));
    world.set_cut(1, false);
    world.run_for(ms(2500));
    assert_eq!(world.open_paths(), 2, "{}", world.story());
    world.start_download();
    world.run_for(ms(500));
    let bytes = world.download_for(ms(1000));
    let used = utilisation(bytes[1], ms(1000), RATE_MBPS * 1_000_000);
    assert!(used > 0.5, "link 1 was used by {used:.2} after its return: {bytes:?}");
}

#[test]
fn an_idle_connection_keeps_all_its_paths() {
    let mut world = World::established(&two_paths());
    world.run_for(ms(60_000));
    assert_eq!(world.open_paths(), 2);
    assert!(world.client.closed_as_silent().is_empty());
    assert!(world.client.ended().is_none());
}

#[test]
fn a_busy_connection_with_losses_keeps_all_its_paths() {
    let mut setup = two_paths();
    for link in &mut setup.links {
        *link = link.with_change(&loss_change(0.03));
    }
    let mut world = World::established(&setup);
    world.start_download();
    world.run_for(ms(10_000));
    assert!(world.client.closed_as_silent().is_empty(), "{}", world.story());
    assert!(world.server.closed_as_silent().is_empty(), "{}", world.story());
}

#[test]
fn the_last_path_is_not_closed_and_goes_on_when_its_link_is_back() {
    let mut world = begin(true);
    world.bring_down(0);
    world.run_for(ms(500));
    world.bring_down(1);
    world.run_for(ms(4000));
    assert!(world.client.ended().is_none(), "{:?}", world.client.ended());
    world.bring_up(1);
    world.run_for(ms(4000));
    let bytes = world.download_for(ms(1000));
    let used = utilisation(bytes[1], ms(1000), RATE_MBPS * 1_000_000);
    assert!(used > 0.5, "link 1 was used by {used:.2} after its return");
}
