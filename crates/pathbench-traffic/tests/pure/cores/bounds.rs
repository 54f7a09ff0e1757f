//! The limits of a peer: a client's rate, waits for it, and slots.

use pathbench_record::network::Client;
use pathbench_record::time::Timestamp;
use pathbench_traffic::meter::{Wait, WaitEnd};
use pathbench_traffic::server::{Grant, MemorySlots, Pacers};
use pathbench_transport::{QuicSlots, most_per_network};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::Duration;

const BITS_NANOS_PER_BYTE: i128 = 8_000_000_000;

/// Largest burst of `streams` streams beyond the rate in any period: twice 10 ms of the rate, and 512 bytes of each.
fn burst_bytes(rate_bps: u64, streams: usize) -> u64 {
    2 * (rate_bps / 100 / 8) + (streams * 512) as u64
}

#[derive(Debug, Clone, Copy)]
struct Habits {
    wanted: usize,
    moves: usize,
    /// Time from a grant to the move (a socket that blocks), and from the move to the next request.
    holds_us: u64,
    rests_us: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Ask,
    Move,
}

/// The moves of all streams in virtual time, in order: time, stream, bytes.
fn simulate(rate_bps: u64, streams: &[Habits], span: Duration) -> Vec<(Timestamp, usize, u64)> {
    let pacers = Pacers::new(rate_bps);
    let mut moves = Vec::new();
    let mut granted: Vec<Option<Grant<'_>>> = streams.iter().map(|_| None).collect();
    let micros = |us: u64| Duration::from_micros(us);
    let begin = Timestamp::from_nanos(1_000_000_000);
    let mut agenda: BinaryHeap<_> =
        (0..streams.len()).map(|stream| Reverse((begin, Act::Ask, stream))).collect();
    while let Some(Reverse((now, act, stream))) = agenda.pop() {
        if now > begin + span {
            break;
        }
        let habits = streams[stream];
        match act {
            Act::Ask => {
                let grant = pacers.sent.grant(now, habits.wanted);
                let due = grant.due;
                granted[stream] = Some(grant);
                agenda.push(Reverse((due + micros(habits.holds_us), Act::Move, stream)));
            }
            Act::Move => {
                let Some(grant) = granted[stream].take() else { continue };
                let bytes = grant.bytes * habits.moves / 100;
                grant.spend(bytes);
                moves.push((now, stream, bytes as u64));
                // A move takes at least 1 µs, or virtual time would stop for a stream that moves nothing.
                agenda.push(Reverse((now + micros(habits.rests_us.max(1)), Act::Ask, stream)));
            }
        }
    }
    moves
}

fn worst_excess(rate_bps: u64, moves: &[(Timestamp, usize, u64)]) -> i128 {
    // Kadane's algorithm: the excess of the worst period that ends with this move.
    let (mut worst, mut excess, mut before) = (0, 0_i128, None::<Timestamp>);
    for &(at, _, bytes) in moves {
        let passed = before.map_or(0, |before| at.duration_since(before).as_nanos() as i128);
        excess = (excess - passed * i128::from(rate_bps)).max(0) + i128::from(bytes) * BITS_NANOS_PER_BYTE;
        worst = worst.max(excess);
        before = Some(at);
    }
    worst / BITS_NANOS_PER_BYTE
}

fn habits() -> impl Strategy<Value = Habits> {
    let wanted = prop_oneof![1_usize..2000, Just(131_072), Just(4 * 1024 * 1024)];
    let delay = || prop_oneof![Just(0), 0_u64..200, 0_u64..100_000];
    (wanted, prop_oneof![Just(100_usize), Just(0), 0_usize..=100], delay(), delay())
        .prop_map(|(wanted, moves, holds_us, rests_us)| Habits { wanted, moves, holds_us, rests_us })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_period_has_more_than_rate_and_burst(
        streams in prop::collection::vec(habits(), 1..129),
        rate_bps in prop_oneof![10_000_u64..10_000_000, Just(100_000_000), Just(10_000_000_000)],
    ) {
        let moves = simulate(rate_bps, &streams, Duration::from_millis(500));
        let excess = worst_excess(rate_bps, &moves);
        let most = burst_bytes(rate_bps, streams.len());
        prop_assert!(excess <= i128::from(most), "{excess} bytes beyond the rate, {most} allowed");
    }

    #[test]
    fn greedy_streams_get_all_of_the_rate_in_similar_parts(
        count in 1_usize..129,
        wanted in 512_usize..4_000_000,
        rate_bps in 1_000_000_u64..1_000_000_000,
    ) {
        let habits = Habits { wanted, moves: 100, holds_us: 60, rests_us: 5 };
        let span = Duration::from_secs(2);
        let moves = simulate(rate_bps, &vec![habits; count], span);
        let mut parts = vec![0; count];
        // The first grants of all streams are larger: no other stream had one yet.
        let settled = Timestamp::from_nanos(1_500_000_000);
        for (_, stream, bytes) in moves.into_iter().filter(|(at, ..)| *at >= settled) {
            parts[stream] += bytes;
        }
        let all: u64 = parts.iter().sum();
        let due = rate_bps * 3 / 2 / 8;
        prop_assert!(all as f64 > 0.95 * due as f64, "{all} of {due} bytes");
        let fair = all as f64 / count as f64;
        let (least, most) = (*parts.iter().min().unwrap() as f64, *parts.iter().max().unwrap() as f64);
        // Grants differ in size; every stream gets a rate near its fair share.
        prop_assert!(least > 0.5 * fair && most < 2.0 * fair, "{least} to {most}, not {fair}");
    }
}

#[test]
fn unused_grants_are_returned_and_each_direction_has_its_own_bound() {
    // 8 Mbit/s are 1000 bytes per millisecond; the credit is 10,000 bytes.
    let pacers = Pacers::new(8_000_000);
    let ms = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let first = pacers.sent.grant(ms(100), 1_000_000);
    assert_eq!((first.bytes, first.due), (2500, ms(100)));
    drop(first);
    let again = pacers.sent.grant(ms(100), 1_000_000);
    assert_eq!((again.bytes, again.due), (2500, ms(100)));
    again.spend(2500);
    // A message is sent as a whole and charged then.
    assert_eq!(pacers.sent.charge(ms(100), 17_500), ms(110));
    assert_eq!(pacers.sent.grant(ms(100), 1000).due, ms(111));
    assert_eq!(pacers.received.grant(ms(100), 1000).due, ms(100));
    // Only the credit makes up for a pause.
    assert_eq!(pacers.sent.charge(ms(1000), 11_000), ms(1001));
    assert!(pacers.sent.charge(ms(u64::MAX / 1_000_000), usize::MAX) > ms(1001));
}

fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

proptest! {
    #[test]
    fn no_progress_moves_a_deadline(gaps_ms in prop::collection::vec(1_u64..900, 20..200)) {
        let limit = Duration::from_secs(5);
        let silence = Duration::from_secs(1);
        let mut waits = [
            Wait::with_timeout(timestamp(0), limit, "answer"),
            Wait::with_timeout(timestamp(0), limit, "answer").or_silence(silence),
            Wait::with_deadline(timestamp(0), timestamp(5000)).or_silence(silence),
        ];
        let mut now_ms = 0;
        for gap_ms in gaps_ms {
            now_ms += gap_ms;
            for wait in &mut waits {
                wait.progressed(timestamp(now_ms));
                prop_assert_eq!(wait.check(timestamp(now_ms)).is_err(), now_ms > 5000);
            }
        }
    }
}

#[test]
fn silence_ends_a_wait_before_its_deadline_where_it_is_asked_about() {
    let limit = Duration::from_secs(5);
    let mut patient = Wait::with_timeout(timestamp(0), limit, "answer");
    let mut impatient = Wait::with_timeout(timestamp(0), limit, "answer").or_silence(Duration::from_secs(1));
    assert!(patient.check(timestamp(4900)).is_ok());
    let hung = impatient.check(timestamp(1000)).unwrap_err();
    assert_eq!(hung, WaitEnd::Silence(Duration::from_secs(1)));
    let late = patient.check(timestamp(5001)).unwrap_err();
    assert_eq!(late, WaitEnd::TooLate { task: "answer", after: Duration::from_millis(5001) });
}

/// A client of a network of its own.
fn client(number: u8) -> Client {
    Client::from(IpAddr::from([192, 0, number, 1]))
}

/// Regression: one /48 of IPv6 was 65,536 clients.
#[test]
fn the_clients_of_one_network_leave_half_of_the_slots_to_others() {
    let ipv4 = |number: u16| Client::from(IpAddr::from([192, 0, 2, number as u8]));
    let ipv6 = |number: u16| Client::from(IpAddr::from([0x2001, 0xdb8, 7, number, 0, 0, 0, 1]));
    let distant = Client::from(IpAddr::from([0x2001, 0xdb8, 8, 1, 0, 0, 0, 1]));
    for (most, per_client, network) in
        [(8, 2, 4), (1, 1, 1), (2, 2, 2), (9, 1, 5), (8, 6, 6), (512, 128, 256)]
    {
        assert_eq!(most_per_network(most, per_client), network);
        for near in [ipv4 as fn(u16) -> Client, ipv6] {
            let slots = QuicSlots::new(most, per_client);
            let taken: Vec<_> = (0..1000).filter_map(|number| slots.acquire(near(number % 250))).collect();
            assert_eq!(taken.len(), network, "{most} {per_client}");
            assert_eq!(slots.acquire(distant).is_some(), network < most);
            drop(taken);
            assert!(slots.acquire(near(1)).is_some());
        }
    }
}

#[test]
fn slots_are_limited_per_client_and_in_total_and_are_released() {
    let slots = QuicSlots::new(32, 4);
    let own: Vec<_> = (0..4).filter_map(|_| slots.acquire(client(1))).collect();
    assert_eq!(own.len(), 4);
    assert!(slots.acquire(client(1)).is_none());
    let others: Vec<_> = (2..100).filter_map(|last| slots.acquire(client(last))).collect();
    assert_eq!(own.len() + others.len(), 32);
    drop(own);
    assert!(slots.acquire(client(1)).is_some());
    drop(others);
    assert_eq!((0..100).filter_map(|last| slots.acquire(client(last))).collect::<Vec<_>>().len(), 32);
}

#[test]
fn a_test_holds_memory_until_its_streams_have_ended() {
    let memory = MemorySlots { tests: QuicSlots::new(2, 1), streams: QuicSlots::new(3, usize::MAX) };
    let mut tests = [vec![], vec![], vec![], vec![]];
    assert!(memory.acquire(client(1), &mut tests[0]));
    assert!(!memory.acquire(client(1), &mut tests[1]), "a second one of the client");
    assert!(memory.acquire(client(2), &mut tests[2]));
    assert!(!memory.acquire(client(3), &mut tests[3]), "a third one in all");
    assert!(memory.acquire(client(1), &mut tests[0]), "another stream of it");
    assert!(!memory.acquire(client(1), &mut tests[0]), "a fourth stream in all");
    drop(tests);
    assert!(memory.acquire(client(1), &mut Vec::new()));
}
