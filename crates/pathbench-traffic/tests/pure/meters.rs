//! The meters of a calibration: the rate of a bottleneck from the arrivals of a train. The rests of a receiver.

use pathbench_record::time::Timestamp;
use pathbench_traffic::calibration::{RateMeter, SequenceMeter};
use pathbench_traffic::moderation::{REST, ReceiveModeration};
use std::time::Duration;

/// Arrivals after a bottleneck of `rate_bps`, `span_ns` long, each up to `jitter` late.
fn arrivals(rate_bps: u64, wire: u64, span_ns: u64, jitter: u64) -> Vec<u64> {
    let spacing = wire * 8_000_000_000 / rate_bps;
    let mut noise: u64 = 88_172_645_463_325_252;
    (0..span_ns / spacing)
        .map(|index| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            index * spacing + noise % jitter.max(1)
        })
        .collect()
}

fn off_by(meter: &RateMeter, rate_bps: u64) -> f64 {
    (meter.rate_bps().unwrap() as f64 / rate_bps as f64 - 1.0).abs()
}

#[test]
fn the_slope_is_the_rate_from_kilobits_to_ten_gigabits() {
    for (rate, wire, jitter) in [
        (1_000_000, 314, 500_000),
        (10_000_000, 1514, 300_000),
        (1_000_000_000, 16 * 1514, 100_000),
        (10_000_000_000, 43 * 1514, 100_000),
    ] {
        let mut meter = RateMeter::new(rate, 262_144);
        for at in arrivals(rate, wire, 150_000_000, jitter) {
            meter.arrived(at, wire, 0);
        }
        assert!(off_by(&meter, rate) < 0.005, "{rate}: {}", off_by(&meter, rate));
    }
}

#[test]
fn drops_at_the_receiver_count_as_arrivals() {
    let mut meter = RateMeter::new(1_000_000_000, 262_144);
    let mut drops = u32::MAX - 50; // wraps
    for (index, at) in arrivals(1_000_000_000, 15_140, 150_000_000, 1000).into_iter().enumerate() {
        if index % 100 < 20 {
            drops = drops.wrapping_add(1);
        } else {
            meter.arrived(at, 15_140, drops);
        }
    }
    assert!(off_by(&meter, 1_000_000_000) < 0.01, "{}", off_by(&meter, 1_000_000_000));
}

#[test]
fn pauses_of_the_sender_and_the_burst_after_them_do_not_count() {
    // 10 Gbit/s, bucket 256 KiB: every 10 ms the sender pauses for 3 ms, then the bucket's burst follows.
    let (rate, wire) = (10_000_000_000, 65_102);
    let mut meter = RateMeter::new(rate, 262_144);
    let (mut at, mut saved) = (0, 0);
    for index in 0..3000 {
        if index % 200 == 199 {
            at += 3_000_000;
            saved = 4;
        }
        if saved > 0 {
            saved -= 1;
            at += 1000;
        } else {
            at += wire * 8 / 10;
        }
        meter.arrived(at, wire, 0);
    }
    assert!(off_by(&meter, rate) < 0.005, "{}", off_by(&meter, rate));
}

#[test]
fn memory_is_bounded() {
    let mut meter = RateMeter::new(8_000_000_000, 262_144);
    for index in 0..200_000 {
        meter.arrived(index * 1000, 1000, 0);
    }
    let kept = format!("{meter:?}").matches("Point {").count();
    assert!((1_000..=16_384).contains(&kept), "{kept}");
}

#[test]
fn too_few_arrivals_give_no_rate() {
    let mut meter = RateMeter::new(8_000_000_000, 262_144);
    for index in 0..200_000 {
        meter.arrived(index * 1000, 1000, 0);
    }
    assert_eq!(meter.arrivals(), 200_000);
    assert!(off_by(&meter, 8_000_000_000) < 0.001);
    let mut few = RateMeter::new(8_000_000_000, 262_144);
    for index in 0..5 {
        few.arrived(index, 1000, 0);
    }
    assert_eq!(few.rate_bps(), None);
    let mut at_once = RateMeter::new(8_000_000_000, 262_144);
    for _ in 0..50 {
        at_once.arrived(7, 1000, 0);
    }
    assert_eq!(at_once.rate_bps(), None);
}

/// A link with a queue before its bottleneck, and the impairments after it.
#[derive(Debug, Clone, Copy)]
struct Link {
    rate_bps: u64,
    queue_packets: u64,
    loss: f64,
    jitter_ns: u64,
    in_order: bool,
    /// Period of the sender's pauses in packets, and their length.
    away: Option<(u64, u64)>,
    /// Start of a stall and its length: packets due in it arrive at its end.
    held_up: Option<(u64, u64)>,
}

const PLAIN: Link = Link {
    rate_bps: 10_000_000,
    queue_packets: 100,
    loss: 0.0,
    jitter_ns: 100_000,
    in_order: false,
    away: None,
    held_up: None,
};
const WIRE: u64 = 1514;

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn chance(&mut self, probability: f64) -> bool {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64 <= probability
    }
}

/// The meter after a train of 120 ms for `asked_bps` over the link.
fn measured(link: Link, asked_bps: u64, seed: u64) -> SequenceMeter {
    let packet_ns = |bps: u64| WIRE * 8_000_000_000 / bps;
    let head_start = (4 * packet_ns(asked_bps)).max(2_000_000);
    let mut meter = SequenceMeter::new(asked_bps, head_start);
    let mut noise = Noise(0x0139_408d_cbbf_7a44 ^ seed);
    let offered_ns = packet_ns(asked_bps * 11 / 10);
    let (mut busy_until, mut late_until, mut away_ns, mut number) = (head_start, 0, 0, 0);
    while number * offered_ns < 120_000_000 {
        if let Some((every, pause)) = link.away
            && number % every == every - 1
        {
            away_ns = (number * offered_ns).max(away_ns) + pause;
        }
        let sent = (number * offered_ns).max(away_ns);
        let begins = busy_until.max(sent);
        if (begins - sent) / packet_ns(link.rate_bps) <= link.queue_packets {
            busy_until = begins + packet_ns(link.rate_bps);
            let mut at = busy_until + 30_000_000 + noise.next() % link.jitter_ns.max(1);
            if link.in_order {
                at = at.max(late_until);
                late_until = at;
            }
            if let Some((from, time)) = link.held_up
                && (from..from + time).contains(&at)
            {
                at = from + time;
            }
            if !noise.chance(link.loss) {
                meter.arrived(number, 1, WIRE, sent + 5_000_000_000, at);
            }
        }
        number += 1;
    }
    meter
}

#[test]
fn the_rate_is_found_whatever_the_link_does_to_packets() {
    let lossy = Link { loss: 0.02, ..PLAIN };
    let fast = Link { rate_bps: 1_000_000_000, queue_packets: 10_000, jitter_ns: 60_000, ..PLAIN };
    for (link, asked_bps, within) in [
        (PLAIN, 10_000_000, 0.005),
        (lossy, 10_000_000, 0.005),
        (Link { loss: 0.05, ..PLAIN }, 10_000_000, 0.005),
        // Some packets are also dropped before the bottleneck, and the link is slower than requested.
        (Link { queue_packets: 5, ..lossy }, 10_000_000, 0.005),
        (Link { rate_bps: 9_000_000, queue_packets: 10, ..lossy }, 10_000_000, 0.005),
        (Link { rate_bps: 10_500_000, ..lossy }, 10_000_000, 0.005),
        (Link { jitter_ns: 10_000_000, ..lossy }, 10_000_000, 0.03),
        (Link { jitter_ns: 10_000_000, in_order: true, ..PLAIN }, 10_000_000, 0.03),
        (Link { away: Some((40, 15_000_000)), ..PLAIN }, 10_000_000, 0.005),
        (Link { away: Some((40, 15_000_000)), ..lossy }, 10_000_000, 0.005),
        (Link { held_up: Some((30_000_000, 25_000_000)), ..PLAIN }, 10_000_000, 0.005),
        (Link { held_up: Some((80_000_000, 25_000_000)), ..PLAIN }, 10_000_000, 0.005),
        (Link { held_up: Some((125_000_000, 25_000_000)), ..PLAIN }, 10_000_000, 0.005),
        (Link { held_up: Some((30_000_000, 25_000_000)), ..lossy }, 10_000_000, 0.03),
        (Link { held_up: Some((80_000_000, 25_000_000)), ..fast }, 1_000_000_000, 0.005),
        (fast, 1_000_000_000, 0.005),
        (Link { loss: 0.01, ..fast }, 1_000_000_000, 0.005),
        (Link { loss: 0.05, ..fast }, 1_000_000_000, 0.005),
        (Link { queue_packets: 20, loss: 0.02, ..fast }, 1_000_000_000, 0.02),
    ] {
        for seed in 0..20 {
            let rate = measured(link, asked_bps, seed).rate_bps().unwrap();
            let off = (rate as f64 / link.rate_bps as f64 - 1.0).abs();
            assert!(off < within, "{link:?}: seed {seed}: {rate}");
        }
    }
}

#[test]
fn duplicates_do_not_count_and_batches_do() {
    let mut meter = SequenceMeter::new(10_000_000, 5_000_000);
    for batch in 0..30_u64 {
        let at = 1_000_000 + batch * 4 * 1_211_200;
        for copy in 0..2 {
            meter.arrived(batch * 4, 4, WIRE, batch * 4_400_000, at + copy * 300_000);
        }
    }
    let rate = meter.rate_bps().unwrap();
    assert!((rate as f64 / 1e7 - 1.0).abs() < 0.001, "{rate}");
}

#[test]
fn nonsense_says_nothing() {
    assert_eq!(SequenceMeter::new(0, 0).rate_bps(), None);
    let mut meter = SequenceMeter::new(10_000_000, 0);
    for _ in 0..20 {
        meter.arrived(u64::MAX, 1, WIRE, 0, 0);
        meter.arrived(1, u64::MAX, WIRE, 0, 0);
        meter.arrived(1, 0, WIRE, 0, 0);
    }
    assert_eq!((meter.arrivals(), meter.rate_bps()), (0, None));
    for number in 0..20 {
        meter.arrived(number, 1, WIRE, u64::MAX - number, 7);
    }
    assert_eq!(meter.rate_bps(), None, "all at once");
}

/// Received in pieces of `bytes` every `interval`: the number of rests, and whether any was longer than one.
fn rests(bytes: usize, interval: Duration, emptied: bool) -> usize {
    let mut moderation = ReceiveModeration::default();
    let mut now = Timestamp::from_nanos(1_000);
    let mut count = 0;
    for _ in 0..1_000 {
        if let Some(until) = moderation.rest(now, bytes, emptied) {
            assert_eq!(until.duration_since(now), REST);
            now = until;
            count += 1;
        }
        now = now + interval;
    }
    count
}

#[test]
fn only_a_fast_receiver_whose_socket_is_empty_rests() {
    let packet = 64 * 1024;
    // 52 and 10 Gbit/s: every second piece completes what makes a stream fast.
    for micros in [10, 50] {
        assert_eq!(rests(packet, Duration::from_micros(micros), true), 499);
        assert_eq!(rests(packet, Duration::from_micros(micros), false), 0);
    }
    // 1 Gbit/s, whatever the size of its pieces.
    for bytes in [1_500, 8 * 1024, packet, 1 << 20] {
        assert_eq!(rests(bytes, Duration::from_nanos(bytes as u64 * 8), true), 0, "{bytes}");
    }
}
