//! When heartbeats find a path silent and close it, and when they must not.

use super::*;
use noq_proto::PathId;

fn links(count: usize) -> Setup {
    Setup::new(&vec![link(8, 10); count], Scheduler::LowestRtt)
}

/// The verdicts at one end since a time: path, elapsed ms, and verdict.
fn verdicts(host: &mut Host, since: Timestamp) -> Vec<(u64, u64, &'static str)> {
    let verdict = |kind: &PathEventKind| match kind {
        PathEventKind::PathSuspended => Some("silent"),
        PathEventKind::PathResumed => Some("heard"),
        PathEventKind::PathGivenUp { .. } => Some("dead"),
        _ => None,
    };
    let events = host.events().into_iter().filter(|event| event.at >= since);
    let judged = events.filter_map(|event| {
        Some((event.path?, event.at.duration_since(since).as_millis() as u64, verdict(&event.kind)?))
    });
    judged.collect()
}

fn pings(host: &mut Host, path: u32) -> u64 {
    host.connection().path_stats(PathId::from(path)).unwrap().frame_tx.ping
}

#[test]
fn a_silent_path_is_suspended_given_up_and_taken_back() {
    let mut world = World::established(&links(2));
    world.run_for(ms(1000));
    assert_eq!(verdicts(&mut world.client, BEGIN), []);
    let cut = world.now;
    world.set_cut(0, true);
    world.run_for(ms(1000));
    for host in [&mut world.client, &mut world.server] {
        let found = verdicts(host, cut);
        assert!(matches!(found[0], (0, 230..400, "silent")), "{found:?}");
    }
    // 150 ms later, at the end that detects it first; the detour before the close takes at least 100 ms.
    let mut found = verdicts(&mut world.client, cut);
    found.extend(verdicts(&mut world.server, cut));
    found.retain(|(_, at, verdict)| *verdict == "dead" && (480..650).contains(at));
    assert_eq!(found.len(), 1, "{}", world.story());

    let mut world = World::established(&links(2));
    let cut = world.now;
    world.set_cut(0, true);
    world.run_for(ms(340));
    world.set_cut(0, false);
    world.run_for(ms(500));
    let found = verdicts(&mut world.client, cut);
    assert!(matches!(found[..], [(0, 230..340, "silent"), (0, 340..450, "heard")]), "{found:?}");
}

#[test]
fn silence_on_all_paths_condemns_none() {
    let mut world = World::established(&links(2));
    world.set_cut(0, true);
    world.set_cut(1, true);
    world.run_for(ms(20_000));
    assert_eq!(verdicts(&mut world.client, BEGIN), []);
    assert_eq!(verdicts(&mut world.server, BEGIN), []);
    assert!(world.client.ended().is_none() && world.server.ended().is_none());
}

#[test]
fn one_path_alone_is_not_judged() {
    let mut world = World::established(&links(1));
    world.set_cut(0, true);
    world.run_for(ms(20_000));
    assert_eq!(verdicts(&mut world.client, BEGIN), []);
    assert_eq!(verdicts(&mut world.server, BEGIN), []);
    assert!(world.client.ended().is_none() && world.server.ended().is_none());
}

#[test]
fn a_silent_path_is_not_taken_back_because_the_others_fall_silent() {
    let mut world = World::established(&links(2));
    world.set_cut(0, true);
    world.run_for(ms(350));
    let found = verdicts(&mut world.client, BEGIN);
    assert!(matches!(found[..], [(0, _, "silent")]), "{found:?}");
    world.set_cut(1, true);
    world.run_for(ms(1000));
    assert_eq!(verdicts(&mut world.client, BEGIN), found);
}

#[test]
fn where_the_rtt_varies_more_silence_is_waited_for() {
    let mut world = World::established(&links(2));
    for step in 0..20 {
        let delay = delay_change(ms(if step % 2 == 0 { 10 } else { 105 }));
        world.change(0, &LinkChange { reorder: Some(true), jitter: Some(Duration::from_nanos(1)), ..delay });
        world.run_for(ms(100));
    }
    let rttvar_ms = world.client.figures(world.now)[0].rttvar_ms as u64;
    assert!(rttvar_ms > 40, "{rttvar_ms}");
    let cut = world.now;
    world.set_cut(0, true);
    world.run_for(ms(1000));
    let found = verdicts(&mut world.client, cut);
    let expected = 2 * 60 + 4 * rttvar_ms;
    assert!(found[0].2 == "silent" && found[0].1.abs_diff(expected) < 150, "{found:?}, not {expected}");
    assert!(found[0].1 > 280, "{found:?}");
}

/// The process is stopped for a while; then one socket is read before the other.
#[test]
fn time_in_which_this_end_did_not_run_is_nobodys_silence() {
    let mut world = World::established(&links(2));
    world.run_for(ms(1000));
    let since = world.now;
    world.client.stand_still(since + ms(3000));
    world.cut_direction(0, 1, true);
    world.run_for(ms(3001));
    world.cut_direction(0, 1, false);
    world.run_for(ms(1000));
    assert_eq!(verdicts(&mut world.client, since), []);
    assert_eq!(world.open_paths(), 2);
}

#[test]
fn only_paths_on_which_nothing_else_is_sent_are_pinged() {
    let links = [link(8, 40), link(8, 10)];
    let mut world = World::established(&Setup::new(&links, Scheduler::LowestRtt));
    world.client.wanted_streams = 1;
    world.client.load = Load::Paced(500);
    world.run_for(ms(500));
    let counts =
        |world: &mut World, path| [&mut world.client, &mut world.server].map(|host| pings(host, path));
    let before = [counts(&mut world, 0), counts(&mut world, 1)];
    world.run_for(ms(1000));
    let after = counts(&mut world, 0);
    let sent = [after[0] - before[0][0], after[1] - before[0][1]];
    // Sixteen intervals; acknowledgements of one end's PINGs may replace every second one of the other's.
    assert!(sent.iter().all(|sent| (7..=17).contains(sent)), "{sent:?} in a second");
    assert!((15..=34).contains(&sent.iter().sum::<u64>()), "{sent:?} in a second");
    assert_eq!(counts(&mut world, 1)[0], before[1][0]);
}

/// A path on which a packet arrives at least every two intervals is never found silent, even if this end runs late.
#[test]
fn a_heard_path_is_never_condemned() {
    for seed in 1..=256 {
        let mut setup = links(2);
        setup.seed = seed;
        let mut world = World::established(&setup);
        for _ in 0..100 {
            let link = usize::from(world.dice.roll() < 0.5);
            let direction = usize::from(world.dice.roll() < 0.5);
            let gap = Duration::from_secs_f64(world.dice.roll() * 0.05);
            if world.dice.roll() < 0.3 {
                world.client.stand_still(world.now + gap * 2);
            }
            // At most one heartbeat (every 60 ms) is lost.
            world.cut_direction(link, direction, true);
            world.run_for(gap);
            world.cut_direction(link, direction, false);
            world.run_for(ms(150));
        }
        for host in [&mut world.client, &mut world.server] {
            assert_eq!(verdicts(host, BEGIN), [], "seed {seed}");
        }
    }
}
