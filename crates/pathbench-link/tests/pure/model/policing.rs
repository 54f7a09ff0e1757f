//! Token buckets: one that delays (burst of the bottleneck) and one that drops (policer).

use crate::model::bench::{Bench, PACKET_A_MS_BPS, at, delivered, dropped, ms, rate, us, wire};
use pathbench_link::packet::{DropCause, Ecn, Fate, PacketFlow, PipePacket};
use pathbench_link::pipe::Pipe;
use pathbench_link::{LinkChange, LinkModel, PolicerModel, RateModel, RateSchedule, ScheduleEnd};
use pathbench_record::time::Timestamp;
use pathbench_record::units::QueueLimit;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const FRAME_BYTES: u64 = 1_514;

fn bucket(packets: u64) -> LinkModel {
    LinkModel { burst_bytes: packets * FRAME_BYTES, ..rate(PACKET_A_MS_BPS) }
}

#[test]
fn a_burst_leaves_at_once_and_the_rest_at_the_rate() {
    let mut bench = Bench::new(bucket(10), 1);
    for _ in 0..13 {
        bench.offer(ms(0), 1_500);
    }
    // 3 ms after the last departure, the bucket holds three packets, after a second ten.
    for number in 0..5 {
        bench.offer(ms(6), 1_500);
        assert!(number < 5);
    }
    for _ in 0..12 {
        bench.offer(ms(1_008), 1_500);
    }
    let times: Vec<u64> = delivered(&bench.finish()).map(|(_, at)| at.as_millis() as u64).collect();
    let first = [[0; 10].as_slice(), &[1, 2, 3]].concat();
    let second = [6, 6, 6, 7, 8];
    let third = [[1_008; 10].as_slice(), &[1_009, 1_010]].concat();
    assert_eq!(times, [first.as_slice(), &second, &third].concat());
}

#[test]
fn a_bucket_smaller_than_a_packet_shortens_the_first_transmission() {
    let mut bench = Bench::new(LinkModel { burst_bytes: FRAME_BYTES / 2, ..rate(PACKET_A_MS_BPS) }, 1);
    for _ in 0..3 {
        bench.offer(ms(0), 1_500);
    }
    assert_eq!(
        delivered(&bench.finish()).map(|(_, at)| at).collect::<Vec<_>>(),
        [us(500), us(1_500), us(2_500)]
    );
}

#[test]
fn a_bucket_fills_at_the_rate_of_each_step() {
    // No service for 10 ms, then a packet a millisecond: at 14 ms, the empty bucket has filled by 4 packets.
    let steps = vec![(ms(0), PACKET_A_MS_BPS), (ms(1), 0), (ms(10), PACKET_A_MS_BPS)];
    let steps = RateModel::Steps(Arc::new(RateSchedule { steps, end: ScheduleEnd::Hold }));
    let mut bench = Bench::new(LinkModel { rate: steps, ..bucket(8) }, 1);
    for _ in 0..9 {
        bench.offer(ms(0), 1_500);
    }
    for _ in 0..6 {
        bench.offer(ms(14), 1_500);
    }
    let times: Vec<u64> = delivered(&bench.finish()).map(|(_, at)| at.as_millis() as u64).collect();
    assert_eq!(times, [0, 0, 0, 0, 0, 0, 0, 0, 1, 14, 14, 14, 14, 15, 16]);
}

#[test]
fn a_change_of_the_burst_keeps_the_tokens_that_fit() {
    let mut bench = Bench::new(bucket(10), 1);
    bench.change(ms(1), &LinkChange { burst_bytes: Some(2 * FRAME_BYTES), ..LinkChange::default() });
    for _ in 0..3 {
        bench.offer(ms(1), 1_500);
    }
    assert_eq!(delivered(&bench.finish()).map(|(_, at)| at).collect::<Vec<_>>(), [ms(1), ms(1), ms(2)]);
    let mut bench = Bench::new(bucket(10), 1);
    bench.change(ms(1), &LinkChange { burst_bytes: Some(0), ..LinkChange::default() });
    bench.offer(ms(1), 1_500);
    assert_eq!(delivered(&bench.finish()).map(|(_, at)| at).collect::<Vec<_>>(), [ms(2)]);
}

/// Work in 10⁻⁹ bit, as integers: a rate of r bit/s does r of it in a nanosecond.
struct Tokens {
    rate_bps: u128,
    depth: u128,
    level: u128,
    at_ns: u128,
}

impl Tokens {
    fn new(rate_bps: u64, burst_bytes: u64) -> Self {
        let depth = u128::from(burst_bytes) * 8_000_000_000;
        Self { rate_bps: rate_bps.into(), depth, level: depth, at_ns: 0 }
    }

    fn fill(&mut self, to_ns: u128) {
        self.level = (self.level + (to_ns - self.at_ns) * self.rate_bps).min(self.depth);
        self.at_ns = to_ns;
    }
}

fn offers() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((prop_oneof![Just(0), 0..3_000_000_u64, 0..200_000_u64], 40..1_500_u32), 1..200)
}

fn packet(ip_bytes: u32) -> PipePacket<()> {
    PipePacket { ip_bytes, segments: 1, ecn: Ecn::NotEct, flow: PacketFlow::default(), payload: () }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// tbf sends a packet as soon as the bucket holds its size (`tbf_dequeue` of `net/sched/sch_tbf.c`).
    #[test]
    fn the_bottleneck_with_a_burst_is_tbf(
        rate_bps in 500_000..50_000_000_u64, burst_bytes in 1_514..40_000_u64, offers in offers()
    ) {
        let queue = QueueLimit::Packets(1_000);
        let model = LinkModel { rate: RateModel::Constant(rate_bps), burst_bytes, queue, ..LinkModel::default() };
        let mut pipe = Pipe::new(model, 1, Timestamp::default());
        let mut bucket = Tokens::new(rate_bps, burst_bytes);
        let (mut now, mut expected) = (0, Vec::new());
        for (gap_ns, ip_bytes) in &offers {
            now += gap_ns;
            pipe.offer(at(Duration::from_nanos(now)), packet(*ip_bytes));
            let size = u128::from(ip_bytes + 14) * 8_000_000_000;
            bucket.fill(bucket.at_ns.max(now.into()));
            let missing = size.saturating_sub(bucket.level);
            let wait_ns = missing.div_ceil(bucket.rate_bps);
            bucket.level += wait_ns * bucket.rate_bps;
            bucket.at_ns += wait_ns;
            bucket.level -= size;
            expected.push(bucket.at_ns as u64);
        }
        let mut left = Vec::new();
        while let Some(deadline) = pipe.next_deadline() {
            while let Some(outcome) = pipe.poll(deadline) {
                let Fate::Delivered(delivery) = outcome.fate else { panic!("{outcome:?}") };
                left.push(delivery.due.as_nanos());
            }
        }
        prop_assert_eq!(left, expected);
    }

    #[test]
    fn a_policer_passes_exactly_the_packets_that_find_tokens(
        rate_bps in 500_000..50_000_000_u64, burst_bytes in 1..20_000_u64, offers in offers()
    ) {
        let policer = Some(PolicerModel { rate_bps, burst_bytes });
        let mut pipe = Pipe::new(LinkModel { policer, ..wire() }, 1, Timestamp::default());
        let mut bucket = Tokens::new(rate_bps, burst_bytes);
        let (mut now, mut expected, mut passed) = (0, Vec::new(), Vec::new());
        for (gap_ns, ip_bytes) in &offers {
            now += gap_ns;
            pipe.offer(at(Duration::from_nanos(now)), packet(*ip_bytes));
            bucket.fill(now.into());
            let size = u128::from(ip_bytes + 14) * 8_000_000_000;
            let passes = bucket.level >= size;
            if passes {
                bucket.level -= size;
            }
            expected.push(passes);
        }
        while let Some(deadline) = pipe.next_deadline() {
            while let Some(outcome) = pipe.poll(deadline) {
                passed.push((outcome.number, matches!(outcome.fate, Fate::Delivered(_))));
            }
        }
        passed.sort_unstable();
        let passed: Vec<bool> = passed.into_iter().map(|(_, passes)| passes).collect();
        prop_assert_eq!(passed, expected);
    }
}

#[test]
fn a_policer_drops_instead_of_delaying() {
    let policer = Some(PolicerModel { rate_bps: PACKET_A_MS_BPS, burst_bytes: 3 * FRAME_BYTES });
    let mut bench = Bench::new(LinkModel { policer, ..wire() }, 1);
    for _ in 0..5 {
        bench.offer(ms(0), 1_500);
    }
    bench.offer(ms(1), 1_500);
    bench.offer(ms(1), 1_500);
    let outcomes = bench.finish();
    assert_eq!(delivered(&outcomes).map(|(number, _)| number).collect::<Vec<_>>(), [0, 1, 2, 5]);
    assert_eq!(delivered(&outcomes).last(), Some((5, ms(1))), "nothing waits");
    assert_eq!((dropped(&outcomes).count(), bench.dropped(DropCause::Policer)), (3, 3));
}

#[test]
fn a_changed_policer_keeps_its_tokens_and_a_removed_one_passes_all() {
    let model =
        |packets| Some(PolicerModel { rate_bps: PACKET_A_MS_BPS, burst_bytes: packets * FRAME_BYTES });
    let change = |policer| LinkChange { policer: Some(policer), ..LinkChange::default() };
    let mut bench = Bench::new(LinkModel { policer: model(3), ..wire() }, 1);
    for _ in 0..3 {
        bench.offer(ms(0), 1_500);
    }
    // The larger bucket is not full at once.
    bench.change(ms(0), &change(model(20)));
    bench.offer(ms(0), 1_500);
    assert_eq!(bench.dropped(DropCause::Policer), 1);
    bench.change(ms(0), &change(None));
    for _ in 0..100 {
        bench.offer(ms(0), 1_500);
    }
    assert_eq!(bench.dropped(DropCause::Policer), 1);
    bench.change(ms(1), &change(model(2)));
    for _ in 0..3 {
        bench.offer(ms(1), 1_500);
    }
    assert_eq!(bench.dropped(DropCause::Policer), 2, "a new one begins full");
}
