//! The content of the test data, its blocks, and its schedule.

use pathbench_record::end::TestId;
use pathbench_record::time::Timestamp;
use pathbench_traffic::content::{Content, ContentKind};
use pathbench_traffic::protocol::HEADER_BYTES;
use pathbench_traffic::throughput::{DataBlock, SendSchedule, payload_bytes_per_block};
use proptest::prelude::*;
use std::collections::HashSet;

const TEST: TestId = TestId([7; 16]);

fn bytes(content: Content, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    content.fill(offset, &mut bytes);
    bytes
}

#[test]
fn every_test_stream_and_lane_has_its_own_content() {
    let other = TestId([8; 16]);
    let mut seen = HashSet::new();
    for test in [TEST, other] {
        for stream in 0..3 {
            for kind in [ContentKind::Download, ContentKind::Requests, ContentKind::Answers] {
                assert!(seen.insert(bytes(Content::new(test, stream, kind), 0, 16)));
            }
        }
    }
}

#[test]
fn words_are_splitmix64s() {
    // Published outputs of the generator from the seed 1234567, which this test id and stream give.
    let test = TestId(0x9bb1_4435_3f72_83a5_u128.to_be_bytes());
    let words: [u64; 2] = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
    let content = Content::new(test, 0, ContentKind::Download);
    assert_eq!(bytes(content, 0, 16), words.map(u64::to_le_bytes).concat());
}

proptest! {
    #[test]
    fn any_piece_is_a_piece_of_the_whole(from in 0_usize..500, length in 0_usize..500) {
        let content = Content::new(TEST, 1, ContentKind::Download);
        let whole = bytes(content, 0, 1000);
        prop_assert_eq!(bytes(content, from as u64, length), &whole[from..from + length]);
        prop_assert_eq!(content.first_difference(from as u64, &whole[from..from + length]), None);
    }

    #[test]
    fn one_wrong_bit_is_found_where_it_is(
        from in 0_u64..1 << 60,
        length in 1_usize..500,
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let content = Content::new(TEST, 1, ContentKind::Download);
        let mut piece = bytes(content, from, length);
        let at = at.index(length);
        piece[at] ^= 1_u8 << bit;
        prop_assert_eq!(content.first_difference(from, &piece), Some(from + at as u64));
    }
}

fn at_ns(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Runs a schedule for `span` with every wake-up `late` late; returns the booked bytes.
fn run(rate_bps: u64, block: u64, late: u64, span: u64) -> u64 {
    let mut schedule = SendSchedule::new(rate_bps, at_ns(0));
    let (mut now, mut bytes) = (0, 0);
    while now < span {
        match schedule.ready(at_ns(now)) {
            Ok(()) => {
                schedule.book(block);
                bytes += block;
            }
            Err(due) => now = due.as_nanos() + late,
        }
    }
    bytes
}

#[test]
fn late_wake_ups_cause_no_drift() {
    // 333 Mbit/s in odd blocks, each wake-up 137 µs late, over a minute.
    let bytes = run(333_333_333, 7_777, 137_000, 60_000_000_000);
    let asked = 333_333_333_u64 * 60 / 8;
    assert!(bytes.abs_diff(asked) < 20_000, "{bytes} instead of {asked}");
}

#[test]
fn catching_up_after_a_stall_is_bounded() {
    let mut schedule = SendSchedule::new(8_000_000, at_ns(0));
    assert_eq!(schedule.ready(at_ns(0)), Ok(()));
    schedule.book(1_000);
    // After one second of silence (1 MB), 50 ms of the rate (50 kB) may follow at once.
    let now = at_ns(1_000_000_000);
    let mut burst = 0;
    while schedule.ready(now).is_ok() {
        schedule.book(1_000);
        burst += 1_000;
    }
    assert_eq!(burst, 51_000);
}

#[test]
fn the_due_time_does_not_overflow() {
    let mut schedule = SendSchedule::new(8_000, at_ns(5));
    schedule.book(u64::MAX / 2);
    assert!(schedule.ready(at_ns(u64::MAX / 2)).is_err());
}

#[test]
fn blocks_shrink_with_the_rate() {
    assert_eq!(payload_bytes_per_block(131_072, None), 131_064);
    assert_eq!(payload_bytes_per_block(131_072, Some(10_000_000_000)), 131_064);
    assert_eq!(payload_bytes_per_block(131_072, Some(8_000_000)), 10_000);
    assert_eq!(payload_bytes_per_block(131_072, Some(8_000)), 256);
    assert_eq!(payload_bytes_per_block(64, Some(8_000)), 56);
}

#[test]
fn payload_has_no_zero_and_does_not_compress_to_a_byte() {
    let block = DataBlock::new(10_000);
    let payload = &block.bytes[HEADER_BYTES..];
    assert_eq!(payload.len(), 10_000);
    assert!(!payload.contains(&0));
    let distinct: std::collections::BTreeSet<u8> = payload.iter().copied().collect();
    assert_eq!(distinct.len(), 255);
}
