//! Decisions of both ends to open, close, hold back and retry paths.

use super::*;
use noq_proto::{PathId, PathStatus, VarInt};

const A: PathId = PathId::ZERO;

fn b() -> PathId {
    PathId::from(1_u32)
}

fn links(count: usize) -> Setup {
    Setup::new(&vec![link(8, 10); count], Scheduler::LowestRtt)
}

/// The events of a path at one end since a time: elapsed ms and kind.
fn happened(host: &mut Host, path: u64, since: Timestamp) -> Vec<(u64, PathEventKind)> {
    let events = host.events().into_iter().filter(|event| event.path == Some(path) && event.at >= since);
    events.map(|event| (event.at.duration_since(since).as_millis() as u64, event.kind)).collect()
}

/// The kinds of the events of a path at one end since a time.
fn kinds(host: &mut Host, path: u64, since: Timestamp) -> Vec<PathEventKind> {
    happened(host, path, since).into_iter().map(|(_, kind)| kind).collect()
}

/// The kinds of the end's own decisions, without the peer's statuses and the verdicts of heartbeats.
fn decided(host: &mut Host, path: u64, since: Timestamp) -> Vec<PathEventKind> {
    let mut kinds = kinds(host, path, since);
    kinds.retain(|kind| {
        let verdict = matches!(kind, PathEventKind::PathSuspended | PathEventKind::PathResumed);
        !verdict && !matches!(kind, PathEventKind::PathStatus { by_peer: true, .. })
    });
    kinds
}

/// The times at which an end began to open paths, in ms since a time.
fn openings(host: &mut Host, since: Timestamp) -> Vec<u64> {
    let events = host.events().into_iter().filter(|event| event.at >= since);
    let opened = events.filter(|event| matches!(event.kind, PathEventKind::PathOpened));
    opened.map(|event| event.at.duration_since(since).as_millis() as u64).collect()
}

fn gaps(times: &[u64]) -> Vec<u64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

const fn own_status(backup: bool) -> PathEventKind {
    PathEventKind::PathStatus { backup, by_peer: false }
}

const fn peers_status(backup: bool) -> PathEventKind {
    PathEventKind::PathStatus { backup, by_peer: true }
}

fn given_up(reason: &str) -> PathEventKind {
    PathEventKind::PathGivenUp { reason: reason.to_owned() }
}

#[test]
fn a_path_whose_link_goes_down_is_closed_at_once_and_opened_at_once_when_it_is_back() {
    let mut world = World::established(&links(2));
    world.run_for(ms(10_000));
    let down = world.now;
    world.bring_down(1);
    world.run_for(ms(5000));
    let mut story = happened(&mut world.client, 1, down);
    story.retain(|(_, kind)| *kind == given_up("the interface went down"));
    assert!(matches!(story[..], [(100..200, _)]), "after a detour: {}", world.story());
    assert_eq!(openings(&mut world.client, down), [] as [u64; 0], "the link is down");
    let up = world.now;
    world.bring_up(1);
    world.run_for(ms(500));
    assert_eq!(openings(&mut world.client, up), [0]);
    assert_eq!(world.open_paths(), 2);
    let kinds: Vec<_> = world.client.events().into_iter().map(|event| event.kind).collect();
    let change = || "simulated".to_owned();
    assert!(kinds.contains(&PathEventKind::InterfaceGone { change: change() }), "{kinds:?}");
    assert!(kinds.contains(&PathEventKind::InterfaceBack { change: change() }), "{kinds:?}");
}

#[test]
fn an_address_that_goes_takes_its_path_along() {
    let mut world = World::established(&links(2));
    let since = world.now;
    world.client.report(LocalInterface { addresses: Vec::new(), ..reported(0, true) });
    world.run_for(ms(1000));
    let story = kinds(&mut world.client, 0, since);
    assert!(story.contains(&given_up("the local address was removed")), "{story:?}");
}

#[test]
fn the_last_path_is_closed_only_when_another_is_established() {
    let mut world = World::established(&links(2));
    world.bring_down(1);
    world.run_for(ms(1500));
    let since = world.now;
    world.bring_down(0);
    world.run_for(ms(1000));
    assert_eq!(decided(&mut world.client, 0, since), [own_status(true)]);
    // The other interface is up again, but its link drops all packets.
    world.client.report(reported(1, true));
    world.run_for(ms(1000));
    assert_eq!(openings(&mut world.client, since).len(), 1);
    assert_eq!(
        decided(&mut world.client, 0, since),
        [own_status(true)],
        "the other one is not established yet"
    );
    world.set_cut(1, false);
    world.run_for(ms(3000));
    let story = decided(&mut world.client, 0, since);
    assert_eq!(story.get(1), Some(&given_up("the interface went down")), "{story:?}");
}

/// PINGs that the client has sent on the first path.
fn pings(world: &mut World) -> u64 {
    world.client.connection().path_stats(A).unwrap().frame_tx.ping
}

/// Here the library has already closed the other path, but the path manager has not processed that event.
#[test]
fn a_close_that_the_library_refuses_is_not_tried_again_until_another_path_is_established() {
    let mut world = World::established(&links(2));
    let since = world.now;
    let at = world.client.instant(world.now);
    let connection = world.client.connection();
    connection.close_path(at, b(), VarInt::from_u32(0)).unwrap();
    while connection.poll().is_some() {}
    // Each notification makes the path manager decide again, and a close begins with a PING.
    let mut close = || {
        world.client.report(LocalInterface { addresses: Vec::new(), ..reported(0, true) });
        let before = pings(&mut world);
        world.run_for(ms(1));
        let sent = pings(&mut world) - before;
        world.run_for(ms(9));
        sent
    };
    assert_eq!(close(), 1);
    // The library rejects the close at the end of the detour, and discards the other path 300 ms after its close.
    assert_eq!((0..25).map(|_| close()).sum::<u64>(), 0);
    assert_eq!(decided(&mut world.client, 0, since), []);
    world.run_for(ms(2000));
    let story = decided(&mut world.client, 0, since);
    assert_eq!(story.first(), Some(&given_up("the local address was removed")), "{story:?}");
}

#[test]
fn the_last_path_goes_on_when_its_link_is_back() {
    let mut world = World::established(&links(1));
    let since = world.now;
    world.bring_down(0);
    world.run_for(ms(5000));
    world.bring_up(0);
    world.run_for(ms(500));
    assert_eq!(kinds(&mut world.client, 0, since), [own_status(true), own_status(false)]);
    assert_eq!(openings(&mut world.client, since), [] as [u64; 0]);
}

/// A client with two links; the second one drops all packets.
fn unanswered() -> World {
    let mut world = World::new(&links(2));
    world.set_cut(1, true);
    world.run_for(ms(500));
    assert!(world.client.connected);
    world
}

#[test]
fn opening_is_bounded_and_retried_with_back_off() {
    let mut world = unanswered();
    world.run_for(Duration::from_secs(4300));
    let gaps = gaps(&openings(&mut world.client, BEGIN));
    assert_eq!(gaps.len(), 6, "as many as there are path ids: {gaps:?}");
    assert!((600_000..600_100).contains(&gaps[0]), "{gaps:?}");
    let waits: Vec<u64> = gaps.iter().map(|gap| gap - 600_000).collect();
    assert!(
        waits.windows(2).all(|pair| (pair[1]).abs_diff(2 * pair[0]) < 5),
        "twice as long each: {waits:?}"
    );
    let story = kinds(&mut world.client, 1, BEGIN);
    assert!(story.contains(&given_up("the peer did not answer on it in time")), "{story:?}");
}

#[test]
fn an_opening_is_soon_given_up_once_its_link_was_away_and_a_link_event_starts_afresh() {
    let mut world = unanswered();
    world.bring_down(1);
    world.run_for(ms(1000));
    let since = world.now;
    world.client.report(reported(1, true));
    world.run_for(ms(2900));
    assert_eq!(openings(&mut world.client, since), [] as [u64; 0]);
    world.run_for(ms(2000));
    let opened = openings(&mut world.client, since);
    assert!(matches!(opened[..], [3000..3100]), "{opened:?}");
    world.bring_down(1);
    world.run_for(ms(1000));
    world.bring_up(1);
    world.run_for(ms(3500));
    assert_eq!(world.open_paths(), 2, "{}", world.story());
}

#[test]
fn a_path_that_nobody_answers_on_costs_one_path_id() {
    let mut world = unanswered();
    for _ in 0..20 {
        world.run_for(ms(2000));
        world.bring_down(1);
        world.run_for(ms(2000));
        world.client.report(reported(1, true));
    }
    assert_eq!(openings(&mut world.client, BEGIN).len(), 1, "{}", world.story());
    world.set_cut(1, false);
    world.run_for(ms(2500));
    assert_eq!(world.open_paths(), 2, "{}", world.story());
    let opened = openings(&mut world.client, BEGIN).len();
    assert!(opened <= 2, "{opened} openings\n{}", world.story());
}

#[test]
fn refused_openings_are_retried_soon_and_then_more_slowly() {
    let mut world = World::new(&links(2));
    world.client.refuses_sockets = true;
    world.run_for(ms(10_000));
    let refused = world.client.events().into_iter();
    let refused = refused.filter(|event| matches!(event.kind, PathEventKind::PathRefused { .. }));
    let gaps = gaps(&refused.map(|event| event.at.as_nanos() / 1_000_000).collect::<Vec<_>>());
    assert!((8..15).contains(&gaps.len()), "{gaps:?}");
    assert!(gaps.iter().skip(1).take(3).all(|gap| *gap <= 200), "{gaps:?}");
    world.client.refuses_sockets = false;
    world.run_for(ms(3500));
    assert_eq!(world.open_paths(), 2, "{}", world.story());
}

#[test]
fn a_dead_path_is_closed_and_tried_again() {
    let mut world = World::established(&links(2));
    let since = world.now;
    world.set_cut(0, true);
    world.run_for(ms(1000));
    let mut story = kinds(&mut world.client, 0, since);
    story.retain(|kind| *kind != peers_status(true));
    // Acknowledgements are sent on the other path.
    assert_eq!(story[..2], [PathEventKind::PathSuspended, own_status(true)], "{story:?}");
    story.extend(kinds(&mut world.server, 0, since));
    let silent = given_up("nothing was heard on it while another path was heard");
    assert_eq!(story.iter().filter(|kind| **kind == silent).count(), 1, "{story:?}");
    assert_eq!(openings(&mut world.client, since).len(), 1);
    world.set_cut(0, false);
    world.run_for(ms(2500));
    assert_eq!(world.open_paths(), 2, "{}", world.story());
}

/// Cuts a link until both ends have suspended its path, and restores it before they close the path.
fn interrupt(world: &mut World, link: usize) {
    world.set_cut(link, true);
    world.run_for(ms(340));
    world.set_cut(link, false);
    world.run_for(ms(300));
}

#[test]
fn a_silent_path_that_is_heard_again_is_used_again() {
    let mut world = World::established(&links(2));
    let since = world.now;
    interrupt(&mut world, 0);
    for host in [&mut world.client, &mut world.server] {
        let mut story = kinds(host, 0, since);
        story.retain(|kind| !matches!(kind, PathEventKind::PathStatus { by_peer: true, .. }));
        let (suspended, resumed) = (PathEventKind::PathSuspended, PathEventKind::PathResumed);
        assert_eq!(story, [suspended, own_status(true), resumed, own_status(false)]);
    }
}

#[test]
fn a_backup_path_is_available_while_no_other_is() {
    let mut setup = links(2);
    setup.paths[1].backup = true;
    let mut world = World::established(&setup);
    assert!(kinds(&mut world.client, 1, BEGIN).contains(&own_status(true)));
    let since = world.now;
    interrupt(&mut world, 0);
    for host in [&mut world.client, &mut world.server] {
        assert_eq!(decided(host, 1, since), [own_status(false), own_status(true)]);
    }
}

#[test]
fn with_the_backup_scheduler_all_but_the_first_are_backups_until_they_are_needed() {
    let links = [link(20, 30), link(20, 5)];
    let mut world = World::established(&Setup::new(&links, Scheduler::backup()));
    assert_eq!(decided(&mut world.client, 1, BEGIN).last(), Some(&own_status(true)));
    world.client.wanted_streams = 1;
    world.client.load = Load::Paced(2000);
    world.run_for(ms(1000));
    let since = world.now;
    world.set_cut(0, true);
    world.run_for(ms(250));
    world.set_cut(0, false);
    world.run_for(ms(3000));
    let story = decided(&mut world.client, 1, since);
    assert_eq!(story, [own_status(false), own_status(true)], "{}", world.story());
}

/// Uploads data for half a second at a rate that fits either link; returns the bytes by link.
fn upload(world: &mut World) -> Vec<u64> {
    world.client.wanted_streams = 1;
    world.client.load = Load::Paced(1500);
    let bytes = world.upload_for(ms(500));
    world.client.load = Load::Silent;
    bytes
}

#[test]
fn what_the_server_says_beyond_the_clients_own_status_is_avoided_and_not_echoed() {
    let links = [link(20, 5), link(20, 20)];
    let mut world = World::established(&Setup::new(&links, Scheduler::LowestRtt));
    assert!(upload(&mut world)[0] > 20_000);
    for (status, backup) in [(PathStatus::Backup, true), (PathStatus::Available, false)] {
        let since = world.now;
        world.server.connection().set_path_status(A, status).unwrap();
        world.run_for(ms(200));
        assert_eq!(kinds(&mut world.client, 0, since), [peers_status(backup)]);
        assert_eq!(world.client.connection().path_status(A), Ok(PathStatus::Available));
        let bytes = upload(&mut world);
        assert!(
            if backup { bytes[0] < bytes[1] / 4 } else { bytes[0] > 4 * bytes[1] },
            "{backup}: {bytes:?}"
        );
    }
    // The server repeats the client's own status.
    interrupt(&mut world, 0);
    let bytes = upload(&mut world);
    assert!(bytes[0] > 4 * bytes[1], "{bytes:?}\n{}", world.story());
}

#[test]
fn the_clients_status_is_followed_both_ways() {
    // The library alone at the client, which sends on each path.
    let mut world = World::established(&Setup { library_only: [true, false], ..links(2) });
    let now = world.client.instant(world.now);
    let route = FourTuple::new(SERVER, Some(client_address(1)));
    world.client.connection().open_path(route, PathStatus::Available, now).unwrap();
    for path in [A, b()] {
        world.client.connection().set_path_keep_alive_interval(path, Some(ms(50))).unwrap();
    }
    world.run_for(ms(500));
    for (status, backup) in [(PathStatus::Backup, true), (PathStatus::Available, false)] {
        let since = world.now;
        world.client.connection().set_path_status(b(), status).unwrap();
        world.run_for(ms(200));
        assert_eq!(kinds(&mut world.server, 1, since), [peers_status(backup), own_status(backup)]);
        assert_eq!(world.server.figures(world.now)[1].backup, Some(backup));
    }
}

#[test]
fn a_dead_path_is_closed_once_and_only_while_another_is_heard() {
    let mut world = World::established(&links(2));
    let since = world.now;
    world.set_cut(0, true);
    world.set_cut(1, true);
    world.run_for(ms(3000));
    for host in [&mut world.client, &mut world.server] {
        assert_eq!(kinds(host, 0, since), [], "the other is silent as well");
    }
    world.set_cut(1, false);
    world.run_for(ms(3000));
    for host in [&mut world.client, &mut world.server] {
        let story = kinds(host, 0, since);
        let given_up = |kind: &&PathEventKind| matches!(kind, PathEventKind::PathGivenUp { .. });
        assert!(story.iter().filter(given_up).count() <= 1, "{story:?}");
        let gone = story.iter().position(|kind| matches!(kind, PathEventKind::PathAbandoned { .. }));
        let after = gone.map(|gone| &story[gone + 1..]);
        assert_eq!(after, Some(&[PathEventKind::PathClosed][..]), "no event of a path that is abandoned");
    }
}

#[test]
fn addresses_of_the_other_family_are_not_used() {
    let mut world = World::established(&links(1));
    let mut setup = links(2);
    setup.links.pop();
    let mut other = World::established(&setup);
    for world in [&mut world, &mut other] {
        let since = world.now;
        let addresses = vec!["2001:db8::1".parse().unwrap()];
        world.client.report(LocalInterface { name: interface(1), up: true, addresses });
        world.run_for(ms(5000));
        assert_eq!(openings(&mut world.client, since), [] as [u64; 0]);
        assert_eq!(world.open_paths(), 1);
    }
}

/// Whether the client may be about to close a path, as it found one silent lately.
fn gives_up(world: &mut World) -> bool {
    let lately = |at| world.now.duration_since(at) < ms(700);
    let mut events = world.client.events().into_iter().rev().take_while(|event| lately(event.at));
    events.any(|event| matches!(event.kind, PathEventKind::PathSuspended))
}

/// A random event of an interface or path.
fn disturb(world: &mut World) {
    let link = (world.dice.roll() * 3.0) as usize;
    match (world.dice.roll() * 12.0) as u32 {
        0..=2 => world.bring_up(link),
        3 | 4 => world.bring_down(link),
        5 => world.client.report(LocalInterface { addresses: Vec::new(), ..reported(link, true) }),
        6 => world.set_cut(link, true),
        // If each end closes the other's last path at the same time, the connection ends.
        7 if !gives_up(world) && world.open_paths() > 1 => {
            let at = world.server.instant(world.now);
            let paths = world.server.connection().paths();
            // Fails for the last path.
            let path = paths[link % paths.len()];
            let _ = world.server.connection().close_path(at, path, VarInt::from_u32(0));
        }
        8 => world.client.refuses_sockets = !world.client.refuses_sockets,
        _ => {
            let passed = Duration::from_secs_f64(world.dice.roll() * 2.0);
            world.run_for(passed);
        }
    }
    world.run_for(ms(1));
}

/// After any events, an interface never has two paths, the last path is never closed, and the number of events is
/// bounded. Once all links work again, every path is open.
#[test]
fn in_the_end_every_path_that_is_up_is_open() {
    for seed in 1..=256 {
        let mut setup = links(3);
        setup.seed = seed;
        for (index, path) in setup.paths.iter_mut().enumerate() {
            path.backup = seed & (1 << index) != 0;
        }
        let mut world = World::established(&setup);
        for step in 0..30 {
            disturb(&mut world);
            let figures = world.client.figures(world.now);
            for link in 0..3 {
                let address = client_address(link);
                let used = figures.iter().filter(|path| path.local.ip() == address);
                let count =
                    used.filter(|path| path.state != pathbench_record::sample::PathState::Closed).count();
                assert!(
                    count <= 1,
                    "seed {seed}, step {step}: {count} paths of link {link}\n{}",
                    world.story()
                );
            }
            assert!(world.client.ended().is_none(), "seed {seed}, step {step}\n{}", world.story());
        }
        world.client.refuses_sockets = false;
        for link in 0..3 {
            world.bring_up(link);
        }
        let limit = world.now + ms(20_000);
        // The server may still give up a path that it did not hear while a link was down.
        let mut open_since = world.now;
        while world.now.duration_since(open_since) < ms(1000) && world.now < limit {
            world.run_for(ms(200));
            if world.open_paths() < 3 {
                open_since = world.now;
            }
        }
        assert_eq!(world.open_paths(), 3, "seed {seed}\n{}", world.story());
        let events = world.client.events().len() as f64;
        let bound = 12.0 * 36.0 + 24.0 * world.now.duration_since(BEGIN).as_secs_f64();
        assert!(events < bound, "seed {seed}: {events} events");
    }
}
