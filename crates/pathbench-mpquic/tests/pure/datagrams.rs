//! Datagrams (RFC 9221) over the simulated links.

use super::*;
use bytes::Bytes;
use pathbench_mpquic::{DatagramArrival, DatagramDeparture, DatagramUnsent};

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn number(prefix: &[u8]) -> u32 {
    u32::from_be_bytes(prefix[..4].try_into().unwrap())
}

struct Outcome {
    departures: Vec<DatagramDeparture>,
    arrivals: Vec<DatagramArrival>,
    unsent: usize,
}

impl Outcome {
    fn arrived(&self) -> BTreeSet<u32> {
        self.arrivals.iter().map(|arrival| number(arrival.datagram.bytes())).collect()
    }

    fn on_path(&self, path: u32) -> usize {
        self.departures.iter().filter(|departure| departure.path == path).count()
    }
}

/// Sends `count` datagrams of `bytes` bytes from client to server, one each `interval`.
fn flow(world: &mut World, count: u32, bytes: usize, interval: Duration) -> Outcome {
    world.client.core().use_datagrams();
    world.server.core().use_datagrams();
    let mut outcome = Outcome { departures: Vec::new(), arrivals: Vec::new(), unsent: 0 };
    for sequence in 0..count {
        let mut payload = vec![0; bytes];
        payload[..4].copy_from_slice(&sequence.to_be_bytes());
        outcome.unsent += usize::from(world.client.core().send_datagram(Bytes::from(payload)).is_err());
        world.run_for(interval);
        outcome.departures.extend(world.client.core().take_departures());
        outcome.arrivals.extend(world.server.core().take_arrivals());
    }
    world.run_for(ms(500));
    outcome.departures.extend(world.client.core().take_departures());
    outcome.arrivals.extend(world.server.core().take_arrivals());
    outcome
}

#[test]
fn a_datagram_leaves_once_on_the_path_of_lowest_rtt() {
    let setup = Setup::new(&[link(10, 20), link(10, 5)], Scheduler::LowestRtt);
    let mut world = World::established(&setup);
    let outcome = flow(&mut world, 200, 160, ms(20));
    assert_eq!((outcome.departures.len(), outcome.arrivals.len(), outcome.unsent), (200, 200, 0));
    assert!(outcome.on_path(1) > 190, "{} of 200 on the faster path", outcome.on_path(1));
    for (departure, arrival) in outcome.departures.iter().zip(&outcome.arrivals) {
        let delay = arrival.at.duration_since(departure.at);
        assert!((ms(5)..ms(22)).contains(&delay), "{delay:?}");
    }
    // Each arrival is reported with the path of its departure.
    for arrival in &outcome.arrivals {
        let sent = outcome.departures.iter().find(|one| one.datagram == arrival.datagram).unwrap();
        assert_eq!(sent.path, arrival.path);
    }
}

#[test]
fn the_redundant_scheduler_sends_a_copy_on_each_path() {
    let setup = Setup::new(&[link(10, 20), link(10, 5)], Scheduler::Redundant);
    let mut world = World::established(&setup);
    let outcome = flow(&mut world, 200, 160, ms(20));
    assert_eq!(outcome.unsent, 0);
    assert_eq!([outcome.on_path(0), outcome.on_path(1)], [200, 200]);
    assert_eq!((outcome.arrivals.len(), outcome.arrived().len()), (400, 200));
}

#[test]
fn redundant_copies_over_two_lossy_paths_lose_the_product_of_the_losses() {
    let mut world = World::established(&Setup::new(&[link(10, 20), link(10, 5)], Scheduler::Redundant));
    (0..2).for_each(|link| world.change(link, &loss_change(0.1)));
    let outcome = flow(&mut world, 3_000, 160, ms(20));
    let lost = 3_000 - outcome.arrived().len();
    // Binomial(3000, 0.01): 30, and 13 to 50 with a probability of 99.9 %.
    assert!((10..=55).contains(&lost), "{lost} of 3000 lost");
    let sent = outcome.departures.len();
    assert!((5_700..=6_000).contains(&sent), "{sent} copies of 3000 datagrams");
    // Tail loss probes ignore the congestion window, so they could take a copy that is meant for another path.
    let copies = outcome.departures.iter().map(|one| (one.path, number(one.datagram.bytes())));
    assert_eq!(copies.collect::<BTreeSet<_>>().len(), sent, "a path carried two copies of a datagram");
}

/// Of streams, the redundant scheduler sends one copy.
#[test]
fn the_redundant_scheduler_sends_stream_data_once() {
    let mut world = World::established(&Setup::new(&[link(10, 10), link(10, 10)], Scheduler::Redundant));
    world.start_upload();
    let bytes = world.upload_for(ms(3_000));
    assert!(bytes.iter().sum::<u64>() < world.server.received_bytes * 12 / 10, "{bytes:?}");
}

#[test]
fn a_link_that_is_too_slow_leaves_datagrams_unsent_and_their_queue_bounded() {
    let mut world = World::established(&Setup::new(&[link(1, 10)], Scheduler::LowestRtt));
    let outcome = flow(&mut world, 2_000, 1_000, ms(1));
    assert!(outcome.unsent > 1_000, "{} unsent at 8 times the link's rate", outcome.unsent);
    let most = 64 * 1024 / 1_000 + 400;
    assert!(outcome.departures.len() < most + 2_000 / 8 + 200, "{}", outcome.departures.len());
}

#[test]
fn a_datagram_that_exceeds_the_packet_is_refused() {
    let mut world = World::established(&Setup::new(&[link(10, 10)], Scheduler::LowestRtt));
    let unsent = world.client.core().send_datagram(Bytes::from(vec![0; 1_600]));
    assert!(matches!(unsent, Err(DatagramUnsent::TooLarge { bytes: 1_600, most_bytes: 1_100..=1_500 })));
}
