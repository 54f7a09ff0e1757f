//! Path MTU discovery (RFC 8899) on each path, and what it must not do to the scheduler's choices.

use super::*;
use noq_proto::PathId;

/// UDP payload that fits a packet of the MTU over IPv4.
const fn payload(mtu_bytes: usize) -> usize {
    mtu_bytes - 28
}

/// Interfaces of 9000 bytes, and behind them links that drop what is longer than this without a word.
fn behind_jumbo(links: &[(LinkModel, usize)], scheduler: Scheduler) -> Setup {
    let links: Vec<LinkModel> =
        links.iter().map(|(link, mtu)| LinkModel { mtu_bytes: payload(*mtu), ..*link }).collect();
    Setup { mtu_bytes: 9000, ..Setup::new(&links, scheduler) }
}

/// Stream frames that the server has sent on a path.
fn stream_frames(world: &mut World, path: u32) -> u64 {
    let stats = world.server.connection().path_stats(PathId::from(path)).unwrap();
    stats.frame_tx.stream
}

/// A lost MTU probe once counted as data that nothing is heard of: the path was taken for stalled, and messages went
/// over the slower one.
#[test]
fn lost_mtu_probes_do_not_divert_messages_to_the_slower_path() {
    for mtu in [1280, 1400, 1492, 1500, 4352, 9000] {
        let links = [(LinkModel::new(20, 40), mtu), (LinkModel::new(20, 10), mtu)];
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
