//! Stream data on each path: the figures for the shares of paths and for the verdict on multipath.

use super::*;
use noq_proto::{Connection, PathId};
use pathbench_record::sample::PathFigures;

fn of_paths(host: &mut Host, now: Timestamp) -> [PathFigures; 2] {
    host.figures(now).try_into().unwrap()
}

fn sent_udp_bytes(connection: &mut Connection, path: usize) -> u64 {
    connection.path_stats(PathId::from(path as u32)).unwrap().udp_tx.bytes
}

/// Regression: heartbeats and MTU probes counted as delivered data, sometimes 4 % of a message, on a path without data.
#[test]
fn a_spare_that_carried_no_stream_data_has_none() {
    let links = [link(50, 10), link(20, 30)];
    for scheduler in [Scheduler::backup(), Scheduler::LowestRtt] {
        let mut world = World::established(&Setup::new(&links, scheduler));
        world.client.wanted_streams = 1;
        world.client.load = Load::Paced(200);
        world.run_for(ms(20_000));
        let control = sent_udp_bytes(world.client.connection(), 1);
        let [first, spare] = of_paths(&mut world.client, world.now);
        assert!(first.bytes_sent > 190_000, "{first:?}");
        assert!(control > first.bytes_sent / 50, "{control} bytes of heartbeats and probes on the spare");
        assert_eq!(spare.control_bytes_sent, Some(control), "no packet carried stream data");
        for spare in [spare, of_paths(&mut world.server, world.now)[1].clone()] {
            assert_eq!((spare.bytes_sent, spare.retransmitted_bytes, spare.bytes_received), (0, 0, 0));
        }
    }
}

#[test]
fn stream_data_is_counted_to_the_byte_under_loss_on_both_paths() {
    let lossy = |megabits, delay_ms| link(megabits, delay_ms).with_change(&loss_change(0.01));
    let setup = Setup::new(&[lossy(20, 10), lossy(8, 25)], Scheduler::LowestRtt);
    let mut world = World::established(&setup);
    world.start_upload();
    world.run_for(ms(5000));
    // All written data arrives.
    world.client.load = Load::Silent;
    world.run_for(ms(3000));
    let written = world.server.received_bytes;
    let (sent, received) = (of_paths(&mut world.client, world.now), of_paths(&mut world.server, world.now));
    let new: u64 = sent.iter().map(|path| path.bytes_sent - path.retransmitted_bytes).sum();
    assert_eq!(new, written, "{sent:?}");
    for (path, (sent, received)) in sent.iter().zip(&received).enumerate() {
        let lost = (sent.bytes_sent - received.bytes_received) as f64 / sent.bytes_sent as f64;
        assert!((0.002..0.2).contains(&lost), "path {path}: {sent:?} {received:?}");
        let in_packets = sent_udp_bytes(world.client.connection(), path) - sent.control_bytes_sent.unwrap();
        assert!(sent.retransmitted_bytes > 0 && in_packets > sent.bytes_sent, "path {path}: {sent:?}");
    }
    let arrived: u64 = received.iter().map(|path| path.bytes_received).sum();
    assert!(arrived >= written && arrived < written + written / 50, "{arrived} of {written}");
}
