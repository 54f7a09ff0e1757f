//! What each path carried of the streams: the figures on which shares of paths and the verdict on multipath rest.

use super::*;
use crate::quic::stream_meter::StreamBytes;
use noq_proto::{Connection, PathId};

fn of_paths(meter: &StreamMeter) -> [StreamBytes; 2] {
    [0_u32, 1].map(|path| meter.of(PathId::from(path)))
}

fn sent_udp_bytes(connection: &mut Connection, path: u32) -> u64 {
    connection.path_stats(PathId::from(path)).unwrap().udp_tx.bytes
}

/// Heartbeats and MTU probes once counted as delivered data: 4 % of a message now and then, on a path without any.
#[test]
fn a_spare_that_carried_no_stream_data_has_none() {
    let links = [LinkModel::new(50, 10), LinkModel::new(20, 30)];
    for scheduler in [Scheduler::backup(), Scheduler::LowestRtt] {
        let mut world = World::established(&Setup::new(&links, scheduler));
        world.client.wanted_streams = 1;
        world.client.load = Load::Paced(200);
        world.run_for(ms(20_000));
        let control = sent_udp_bytes(world.client.connection(), 1);
        let [first, spare] = of_paths(&world.client_meter);
        assert!(first.sent > 190_000, "{first:?}");
        assert!(control > first.sent / 50, "{control} bytes of heartbeats and probes on the spare");
        assert_eq!(spare, StreamBytes::default());
        assert_eq!(of_paths(&world.server_meter)[1], StreamBytes::default());
    }
}

#[test]
fn stream_data_is_counted_to_the_byte_under_loss_on_both_paths() {
    let lossy = |megabits, delay_ms| LinkModel { loss: 0.01, ..LinkModel::new(megabits, delay_ms) };
    let setup = Setup::new(&[lossy(20, 10), lossy(8, 25)], Scheduler::LowestRtt);
    let mut world = World::established(&setup);
    world.start_upload();
    world.run_for(ms(5000));
    // Everything that was written arrives.
    world.client.load = Load::Silent;
    world.run_for(ms(3000));
    let written = world.server.received_bytes;
    let (sent, received) = (of_paths(&world.client_meter), of_paths(&world.server_meter));
    let new: u64 = sent.iter().map(|path| path.sent - path.retransmitted).sum();
    assert_eq!(new, written, "{sent:?}");
    for (path, (sent, received)) in sent.iter().zip(&received).enumerate() {
        let lost = (sent.sent - received.received) as f64 / sent.sent as f64;
        assert!((0.002..0.2).contains(&lost), "path {path}: {sent:?} {received:?}");
        assert!(sent.retransmitted > 0 && sent.sent_in_packets > sent.sent, "path {path}: {sent:?}");
    }
    let arrived: u64 = received.iter().map(|path| path.received).sum();
    assert!(arrived >= written && arrived < written + written / 50, "{arrived} of {written}");
}
