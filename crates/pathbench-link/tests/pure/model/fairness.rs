//! Fair queues: shares of flows and hosts, delays of sparse flows, and bounds.

use crate::model::bench::{Bench, delivered, ms, rate, us};
use pathbench_link::packet::{DropCause, PacketFlow};
use pathbench_link::{Discipline, LinkChange, LinkModel, QueueIsolation};
use pathbench_record::units::QueueLimit;
use std::collections::BTreeMap;
use std::time::Duration;

const RATE_BPS: u64 = 10_000_000;
/// A packet of 1500 bytes.
const PACKET: Duration = Duration::from_nanos(1_211_200);

fn link(queue_discipline: Discipline, queue: QueueLimit) -> LinkModel {
    LinkModel { queue_discipline, queue, mtu_bytes: 1_500, ..rate(RATE_BPS) }
}

fn fair(queue_isolation: QueueIsolation) -> LinkModel {
    LinkModel { queue_isolation, ..link(Discipline::FqCoDel, QueueLimit::Packets(1_000)) }
}

const fn flow(source: u32, destination: u32, flow: u32) -> PacketFlow {
    PacketFlow { source, destination, flow }
}

/// Bytes delivered by flow while each flow offers the link's rate in packets of its size.
fn shares(model: LinkModel, flows: &[(PacketFlow, u32)]) -> Vec<f64> {
    let mut bench = Bench::new(model, 7);
    let mut owner = Vec::new();
    let mut due: Vec<(u64, usize)> = (0..flows.len()).map(|index| (index as u64, index)).collect();
    loop {
        due.sort_unstable();
        let (at_us, index) = due[0];
        if at_us >= 20_000_000 {
            break;
        }
        let (flow, ip_bytes) = flows[index];
        bench.offer_flow(us(at_us), ip_bytes, flow);
        owner.push(index);
        due[0].0 += u64::from(ip_bytes + 14) * 8_000_000 / RATE_BPS;
    }
    let mut bytes = vec![0.0; flows.len()];
    for (number, at) in delivered(&bench.finish()) {
        if (5..20).contains(&at.as_secs()) {
            let index = owner[number as usize];
            bytes[index] += f64::from(flows[index].1 + 14);
        }
    }
    let sum: f64 = bytes.iter().sum();
    bytes.iter().map(|bytes| bytes / sum).collect()
}

fn assert_shares(model: LinkModel, flows: &[(PacketFlow, u32)], expected: &[f64]) {
    let isolation = model.queue_isolation;
    for (index, (share, expected)) in shares(model, flows).iter().zip(expected).enumerate() {
        assert!(
            (share / expected - 1.0).abs() < 0.03,
            "{isolation:?}, flow {index}: {share}, expected {expected}"
        );
    }
}

#[test]
fn flows_share_bytes_equally_whatever_their_packet_sizes() {
    let flows = [(flow(1, 9, 1), 1_500), (flow(1, 9, 2), 300), (flow(1, 9, 3), 700)];
    assert_shares(fair(QueueIsolation::Flows), &flows, &[1.0 / 3.0; 3]);
    // A single queue serves the packets in the order of their arrival.
    let alone = shares(link(Discipline::CoDel, QueueLimit::Packets(1_000)), &flows[..2]);
    assert!((alone[0] - 0.5).abs() > 0.05 || alone[1] > 0.0, "{alone:?}");
}

#[test]
fn hosts_share_first_where_isolation_names_their_side() {
    // Host 1 has one flow, host 2 has four; all go to host 9.
    let up: Vec<_> = (0..5).map(|number| (flow(if number == 0 { 1 } else { 2 }, 9, number), 1_000)).collect();
    let by_host = [0.5, 0.125, 0.125, 0.125, 0.125];
    assert_shares(fair(QueueIsolation::DualSourceHost), &up, &by_host);
    assert_shares(fair(QueueIsolation::Flows), &up, &[0.2; 5]);
    assert_shares(fair(QueueIsolation::DualDestinationHost), &up, &[0.2; 5]);
    // Both addresses of each flow count: all flows have the busy host 9, so triple-isolate finds them equal.
    assert_shares(fair(QueueIsolation::TripleIsolate), &up, &[0.2; 5]);
    let down: Vec<_> =
        up.iter().map(|(up, bytes)| (flow(up.destination, up.source, up.flow), *bytes)).collect();
    assert_shares(fair(QueueIsolation::DualDestinationHost), &down, &by_host);
    assert_shares(fair(QueueIsolation::DualSourceHost), &down, &[0.2; 5]);
    let apart: Vec<_> =
        up.iter().map(|(up, bytes)| (flow(up.source, up.source + 10, up.flow), *bytes)).collect();
    assert_shares(fair(QueueIsolation::TripleIsolate), &apart, &by_host);
}

/// Longest delay of a sparse flow's packets beside a flow that fills the queue, and its packets that were dropped.
fn sparse_beside_bulk(model: LinkModel) -> (Duration, usize) {
    let mut bench = Bench::new(model, 3);
    let mut sparse = BTreeMap::new();
    let mut number = 0;
    for tick in 0..20_000_u64 {
        bench.offer_flow(us(tick * 600), 1_500, flow(1, 9, 1));
        if tick % 33 == 32 {
            sparse.insert(number + 1, us(tick * 600 + 300));
            bench.offer_flow(us(tick * 600 + 300), 160, flow(2, 9, 2));
            number += 1;
        }
        number += 1;
    }
    let outcomes = bench.finish();
    let waited = delivered(&outcomes).filter_map(|(number, at)| Some(at - *sparse.get(&number)?));
    let waited: Vec<Duration> = waited.collect();
    (waited.iter().max().copied().unwrap_or_default(), sparse.len() - waited.len())
}

#[test]
fn a_sparse_flow_waits_for_one_packet_at_most_beside_a_bulk_flow() {
    let own = Duration::from_nanos((160 + 14) * 8 * 100);
    for queue in [QueueLimit::Packets(1_000), QueueLimit::Packets(20)] {
        for isolation in QueueIsolation::NAMED.map(|(_, isolation)| isolation) {
            let model = LinkModel { queue, ..fair(isolation) };
            let (longest, dropped) = sparse_beside_bulk(model);
            assert!(longest <= PACKET + own, "{queue:?} {isolation:?}: {longest:?}");
            assert_eq!(dropped, 0, "{queue:?} {isolation:?}: the longest queue is the bulk flow's");
        }
    }
    let (longest, dropped) = sparse_beside_bulk(link(Discipline::DropTail, QueueLimit::Packets(1_000)));
    assert!(longest > Duration::from_secs(1) && dropped > 0, "{longest:?} {dropped}");
    let (longest, _) = sparse_beside_bulk(link(Discipline::CoDel, QueueLimit::Packets(1_000)));
    assert!(longest > ms(50), "{longest:?}");
}

#[test]
fn memory_and_collisions_of_many_flows_are_bounded() {
    // A bulk flow and 20,000 flows of one packet each: only those that share the bulk flow's bucket, one in 1024, wait.
    let mut bench = Bench::new(fair(QueueIsolation::Flows), 5);
    let mut sparse = BTreeMap::new();
    for tick in 0..20_000_u64 {
        bench.offer_flow(us(tick * 1_000), 1_500, flow(1, 9, 0));
        sparse.insert(tick * 2 + 1, us(tick * 1_000 + 500));
        bench.offer_flow(us(tick * 1_000 + 500), 160, flow(2, 9, 1 + tick as u32));
    }
    assert!(bench.pipe.statistics().largest_queue_packets <= 1_000);
    let outcomes = bench.finish();
    let late = delivered(&outcomes)
        .filter(|(number, at)| sparse.get(number).is_some_and(|sent| *at - *sent > 3 * PACKET))
        .count();
    // The expectation is 19.5; a bucket that attracts more would show here.
    assert!((1..60).contains(&late), "{late}");

    let mut bench = Bench::new(fair(QueueIsolation::TripleIsolate), 5);
    for number in 0..50_000 {
        bench.offer_flow(ms(0), 1_500, flow(number, number / 3, number));
    }
    assert_eq!(bench.pipe.statistics().queue_packets, 1_000);
    assert_eq!(bench.dropped(DropCause::QueueFull), 48_999);
    assert_eq!(delivered(&bench.finish()).count() as u64 + bench.dropped(DropCause::QueueManagement), 1_001);
}

#[test]
fn a_changed_discipline_keeps_the_packets() {
    let mut bench = Bench::new(fair(QueueIsolation::Flows), 5);
    let to = |discipline| LinkChange { queue_discipline: Some(discipline), ..LinkChange::default() };
    for number in 0..30 {
        bench.offer_flow(ms(0), 1_500, flow(number % 3, 9, number % 3));
    }
    bench.change(ms(0), &to(Discipline::DropTail));
    assert_eq!(bench.pipe.statistics().queue_packets, 29);
    bench.change(ms(5), &to(Discipline::FqCoDel));
    bench.change(ms(9), &to(Discipline::Pie));
    let numbers: Vec<u64> = delivered(&bench.finish()).map(|(number, _)| number).collect();
    assert_eq!(numbers.len(), 30);
    let last = &numbers[12..];
    assert!(last.is_sorted(), "in the order of their arrival: {numbers:?}");
}
