//! Tests of the scheduler over slots without sockets.

use super::arbiter::Arbiter;
use super::policy::{Contender, Rank, may_send, scaled, turn};
use super::slot::{Acked, PendingFrames, Slot};
use super::*;
use crate::library::stream_meter::StreamMeter;
use crate::time::Epoch;
use noq_proto::PathId;
use noq_proto::congestion::ControllerFactory;
use pathbench_record::connection::Scheduler;
use pathbench_record::sample::PathState;
use pathbench_record::time::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) fn instant() -> Instant {
    Epoch::starting(Timestamp::default()).instant(Timestamp::default())
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const MTU: u16 = 1200;

fn contender(rtt_ms: u64) -> Contender {
    let turn = turn(MTU, 1);
    Contender { rank: Rank::Usable, rtt: Some(ms(rtt_ms)), available: true, served: 0, turn }
}

fn chosen(scheduler: &Scheduler, contenders: &[Contender]) -> Vec<bool> {
    (0..contenders.len()).map(|index| may_send(scheduler, contenders, index)).collect()
}

#[test]
fn lowest_rtt_takes_the_next_path_when_the_window_of_the_best_is_full() {
    let mut paths = [contender(30), contender(10), contender(20)];
    assert_eq!(chosen(&Scheduler::LowestRtt, &paths), [false, true, false]);
    paths[1].available = false;
    // The full path may send: noq has to detect that its window is the limit.
    assert_eq!(chosen(&Scheduler::LowestRtt, &paths), [false, true, true]);
    paths[2].rtt = None;
    assert_eq!(chosen(&Scheduler::LowestRtt, &paths), [true, true, false]);
}

#[test]
fn of_equal_rtts_the_first_path_is_taken() {
    assert_eq!(chosen(&Scheduler::LowestRtt, &[contender(10), contender(10)]), [true, false]);
}

#[test]
fn only_paths_of_the_best_rank_are_used() {
    let ranks = [Rank::Usable, Rank::Stalled, Rank::Backup, Rank::Avoided, Rank::Suspended];
    for scheduler in [Scheduler::LowestRtt, Scheduler::RoundRobin, Scheduler::Weighted, Scheduler::backup()] {
        for (better, worse) in ranks.iter().zip(ranks.iter().skip(1)) {
            let mut paths = [contender(10), contender(100)];
            paths[0].rank = *worse;
            paths[1].rank = *better;
            assert_eq!(
                chosen(&scheduler, &paths),
                [false, true],
                "{scheduler:?}: {better:?} before {worse:?}"
            );
            // A worse path is not used even when the better one is full: a backup does not take excess data.
            paths[1].available = false;
            assert_eq!(
                chosen(&scheduler, &paths),
                [false, true],
                "{scheduler:?}: {better:?} before {worse:?}"
            );
        }
    }
}

#[test]
fn round_robin_skips_a_path_whose_window_is_full() {
    let mut paths = [contender(10), contender(10)];
    paths[0].served = paths[0].turn;
    assert_eq!(chosen(&Scheduler::RoundRobin, &paths), [false, true]);
    paths[1].available = false;
    assert!(chosen(&Scheduler::RoundRobin, &paths)[0]);
}

#[test]
fn weighted_waits_for_a_path_whose_window_is_full() {
    let mut paths = [contender(10), contender(10)];
    paths[0].served = paths[0].turn;
    paths[1].available = false;
    assert!(!chosen(&Scheduler::Weighted, &paths)[0]);
}

#[test]
fn a_weight_of_three_counts_a_byte_as_a_third() {
    assert_eq!(scaled(3000, 3), scaled(1000, 1));
    assert_eq!(turn(MTU, 3) * 3, turn(MTU, 1));
}

fn path_with(rtts_ms: &[u64], now: Instant) -> Slot {
    let mut slot = Slot::new(0, MTU, 100_000);
    slot.role.stage = PathState::Open;
    slot.pending = PendingFrames::default();
    for rtt in rtts_ms {
        slot.on_acked(now, &Acked { bytes: 1000, rtt: Some(ms(*rtt)), ..Acked::default() }, 0);
    }
    slot
}

#[test]
fn the_smoothed_rtt_is_that_of_rfc_9002() {
    let slot = path_with(&[100, 180], instant());
    assert_eq!(slot.seen.srtt, Some(ms(110)));
    // 3/4 × 50 + 1/4 × 80.
    assert_eq!(slot.seen.rttvar, Duration::from_micros(57_500));
    assert_eq!(slot.seen.min_rtt, Some(ms(100)));
    assert_eq!(slot.seen.retransmission_timeout(), Some(ms(110 + 230 + 25)));
}

#[test]
fn the_timeout_doubles_with_each_that_passes() {
    let now = instant();
    let mut slot = path_with(&[100; 60], now);
    let base = slot.seen.retransmission_timeout().unwrap();
    slot.on_sent(now, 1000);
    let timeout = |after: Duration| slot.backed_off_timeout(now + after).unwrap();
    assert_eq!(timeout(base / 2), base);
    assert!(!slot.is_stalled(now + base / 2));
    assert!(slot.is_stalled(now + base + ms(1)));
    assert_eq!(timeout(base + ms(1)), base * 2);
    assert_eq!(timeout(base * 3 + ms(1)), base * 4);
    assert_eq!(timeout(base * 7 + ms(1)), base * 8);
    // Telemetry reports the same timeout, and no back-off where nothing is in flight.
    let seen = |after: Duration| slot.observation(Some(now + after));
    assert_eq!((seen(base / 2).backoff, seen(base / 2).timeout_in_force()), (0, Some(base)));
    assert_eq!(
        (seen(base * 3 + ms(1)).backoff, seen(base * 3 + ms(1)).timeout_in_force()),
        (2, Some(base * 4))
    );
    assert_eq!(path_with(&[100; 60], now).observation(Some(now + base * 9)).backoff, 0);
}

/// A preferred path with these RTT samples and a backup path, with the paper's scheduler.
fn arbiter(rtts_ms: &[u64], now: Instant) -> Arbiter {
    let mut arbiter = Arbiter { scheduler: Scheduler::backup(), ..Arbiter::default() };
    for id in [0, 1] {
        let mut slot = path_with(if id == 0 { rtts_ms } else { &[20] }, now);
        slot.id = id;
        slot.path = Some(PathId::from(id as u32));
        slot.role.backup = id == 1;
        arbiter.slots.push(slot);
    }
    arbiter
}

fn windows(arbiter: &mut Arbiter, now: Instant) -> [bool; 2] {
    arbiter.begin_poll(now, 1);
    [arbiter.window(0, 100_000) > 0, arbiter.window(1, 100_000) > 0]
}

#[test]
fn the_papers_thresholds_are_600_ms_and_1500_ms() {
    let now = instant();
    let mut good = arbiter(&[590; 40], now);
    assert_eq!(windows(&mut good, now), [true, false]);
    assert_eq!(good.trouble, None);

    let mut slow = arbiter(&[610; 40], now);
    assert_eq!(windows(&mut slow, now), [false, true]);
    assert_eq!(slow.trouble, Some(Trouble::SlowPath { srtt: ms(610) }));

    let varying: Vec<u64> = (0..40).flat_map(|_| [100, 900]).collect();
    let mut long = arbiter(&varying, now);
    long.slots[0].seen.srtt = Some(ms(500));
    assert_eq!(windows(&mut long, now), [false, true]);
    assert!(
        matches!(long.trouble, Some(Trouble::LongTimeout { rto }) if rto > ms(1500)),
        "{:?}",
        long.trouble
    );
}

#[test]
fn a_timeout_is_trouble_only_with_new_data_to_send() {
    let now = instant();
    let mut arbiter = arbiter(&[100; 60], now);
    arbiter.on_sent(0, now, 1200);
    let later = now + ms(200);
    arbiter.begin_poll(later, 1);
    assert_eq!(arbiter.trouble, None, "noq did not ask for a window: nothing to send");
    assert_eq!(windows(&mut arbiter, later), [false, true]);
    assert!(matches!(arbiter.trouble, Some(Trouble::Timeout { .. })), "{:?}", arbiter.trouble);
    // Two timeouts after an acknowledgement the path has recovered.
    arbiter.on_acked(0, later, &Acked { bytes: 1200, rtt: Some(ms(200)), ..Acked::default() }, 0);
    let timeout = arbiter.slots[0].seen.retransmission_timeout().unwrap();
    assert_eq!(windows(&mut arbiter, later + timeout), [false, true]);
    assert_eq!(windows(&mut arbiter, later + timeout * 2), [true, false]);
    assert_eq!(arbiter.trouble, None);
    let troubles: Vec<bool> = arbiter.events.iter().map(|event| event.trouble.is_some()).collect();
    assert_eq!(troubles, [true, false]);
}

#[test]
fn what_pacing_holds_goes_elsewhere_but_never_to_a_path_of_lower_rank() {
    let now = instant();
    let mut arbiter = arbiter(&[100], now);
    arbiter.scheduler = Scheduler::LowestRtt;
    arbiter.slots[1].role.backup = false;
    arbiter.slots[1].seen.srtt = Some(ms(500));
    assert_eq!(windows(&mut arbiter, now), [true, false]);
    // The first path was allowed to send, but noq sent nothing.
    assert!(arbiter.poll_again());
    assert_eq!(windows(&mut arbiter, now), [true, true]);
    assert!(!arbiter.poll_again(), "asked for ever");
    // A burst later the first path is preferred again.
    assert_eq!(windows(&mut arbiter, now + ms(5)), [true, false]);
    arbiter.slots[1].role.backup = true;
    assert!(arbiter.poll_again());
    assert_eq!(windows(&mut arbiter, now + ms(5)), [true, false]);
}

#[test]
fn a_path_that_noq_does_not_even_ask_holds_nobody_back() {
    let now = instant();
    let mut arbiter = arbiter(&[100], now);
    arbiter.begin_poll(now, 1);
    assert_eq!(arbiter.window(1, 5000), 0);
    assert!(arbiter.poll_again());
    arbiter.begin_poll(now, 1);
    assert_eq!(arbiter.window(1, 5000), 5000);
}

#[test]
fn a_ping_gets_through_once_whatever_holds_the_path() {
    let now = instant();
    let mut arbiter = arbiter(&[100], now);
    arbiter.slots[1].ping_allowed = true;
    assert_eq!(windows(&mut arbiter, now), [true, true]);
    arbiter.on_sent(1, now, 50);
    assert_eq!(windows(&mut arbiter, now), [true, false]);
}

#[test]
fn a_lost_mtu_probe_is_no_silence_and_takes_neither_a_turn_nor_the_allowed_ping() {
    let now = instant();
    let mut arbiter = arbiter(&[100; 60], now);
    arbiter.slots[1].ping_allowed = true;
    for path in [0, 1] {
        arbiter.on_sent(path, now, u64::from(MTU) + 1);
    }
    assert!(!arbiter.slots[0].is_stalled(now + ms(10_000)));
    assert_eq!(arbiter.slots[0].stalled_at(), None);
    assert_eq!(arbiter.slots[0].served, 0);
    assert!(arbiter.slots[1].ping_allowed);
    // Data sent after the probe starts the timeout, and the probe's acknowledgement leaves the data in flight.
    arbiter.on_sent(0, now + ms(500), 1000);
    assert_eq!(arbiter.slots[0].waiting(now + ms(600)), ms(100));
    let acked = Acked {
        bytes: u64::from(MTU) + 1,
        probe_bytes: u64::from(MTU) + 1,
        large: Some(now),
        ..Acked::default()
    };
    arbiter.on_acked(0, now + ms(600), &acked, 1000);
    assert!(arbiter.slots[0].is_stalled(now + ms(10_000)));
    // Later noq drops the probe without a report: only noq's own count of bytes in flight shows it.
    arbiter.on_acked(0, now + ms(700), &Acked { bytes: 1000, ..Acked::default() }, 0);
    assert_eq!((arbiter.slots[0].data_in_flight_bytes, arbiter.slots[0].seen.in_flight_bytes), (0, 0));
}

/// Whether each of `count` MTU probes of one size, sent one after another, is held back.
fn held(arbiter: &mut Arbiter, now: Instant, count: usize) -> Vec<bool> {
    (0..count)
        .map(|_| {
            arbiter.begin_poll(now, 1);
            arbiter.on_sent(0, now, u64::from(MTU) + 100);
            arbiter.end_poll(now);
            arbiter.hold.take().is_some()
        })
        .collect()
}

#[test]
fn the_last_mtu_probe_of_a_size_waits_for_room_on_a_busy_path() {
    let now = instant();
    let mut idle = arbiter(&[100], now);
    assert_eq!(held(&mut idle, now, 3), [false, false, false]);

    let mut busy = arbiter(&[100], now);
    for _ in 0..70 {
        busy.on_sent(0, now, u64::from(MTU));
    }
    busy.on_transmission(0, now);
    assert_eq!(held(&mut busy, now, 4), [false, false, true, false]);
    // Meanwhile the path sends only PINGs, and the other path sends the data.
    busy.scheduler = Scheduler::LowestRtt;
    busy.slots[1].role.backup = false;
    busy.slots[1].seen.srtt = Some(ms(500));
    assert_eq!(windows(&mut busy, now), [false, true]);
    busy.slots[0].ping_allowed = true;
    assert_eq!(windows(&mut busy, now), [true, true]);
    busy.slots[0].ping_allowed = false;
    assert_eq!(windows(&mut busy, now + ms(30)), [true, false]);

    // A packet of an ordinary transmission is no MTU probe.
    for _ in 0..6 {
        busy.begin_poll(now, 1);
        busy.on_sent(0, now, u64::from(MTU));
        busy.on_transmission(0, now);
        busy.end_poll(now);
        assert_eq!(busy.hold, None);
    }
}

#[test]
fn statistics_are_told_the_real_window() {
    let board = Board::new(Scheduler::LowestRtt);
    let factory =
        Arc::new(SchedulerFactory::new(board.clone(), StreamMeter::default(), CongestionControl::Cubic));
    let controllers = [(); 2].map(|()| Arc::clone(&factory).build(instant(), MTU));
    for (index, controller) in controllers.iter().enumerate() {
        assert_eq!(controller.window(), controller.initial_window(), "of path {index}");
        assert_eq!(controller.metrics().congestion_window, controller.initial_window());
    }
}

#[test]
fn every_congestion_control_is_known_by_its_name() {
    for control in CongestionControl::ALL {
        assert_eq!(CongestionControl::by_name(control.name()), Some(control));
        let factory = Arc::new(SchedulerFactory::new(
            Board::new(Scheduler::LowestRtt),
            StreamMeter::default(),
            control,
        ));
        assert!(factory.build(instant(), MTU).window() >= 2 * u64::from(MTU));
    }
    assert_eq!(CongestionControl::by_name("reno"), None);
}

/// A path with a minimum RTT of `least` ms that carries `packets` at a time, with an RTT of `loaded` ms.
fn loaded_path(least: u64, loaded: u64, packets: u64, begin: Instant) -> Slot {
    let mut slot = path_with(&[least], begin);
    for turn in 1..=30 {
        let now = begin + ms(loaded) * turn;
        slot.on_sent(now, packets * u64::from(MTU));
        let acked = Acked { bytes: packets * u64::from(MTU), rtt: Some(ms(loaded)), ..Acked::default() };
        slot.on_acked(now + ms(loaded), &acked, 0);
    }
    slot
}

#[test]
fn a_queue_of_ours_counts_as_far_as_it_is_still_in_flight() {
    let mut slot = loaded_path(10, 30, 100, instant());
    let expected = |slot: &Slot| slot.expected_rtt(0).unwrap().as_millis();
    assert_eq!(expected(&slot), 10, "nothing in flight");
    slot.data_in_flight_bytes = 60 * u64::from(MTU);
    assert_eq!(expected(&slot), 18, "60 packets of 100 in 30 ms");
    slot.data_in_flight_bytes = 1000 * u64::from(MTU);
    assert!(expected(&slot) <= 30, "no more than was ever seen");
}

#[test]
fn a_queue_of_others_counts_whatever_is_in_flight() {
    // With a few packets at a time, or only PINGs.
    let few = loaded_path(10, 30, 5, instant());
    assert!(few.expected_rtt(0).unwrap() >= ms(29), "{:?}", few.expected_rtt(0));
    // The minimum RTT expires after two seconds.
    let long = loaded_path(10, 100, 100, instant());
    assert!(long.expected_rtt(0).unwrap() >= ms(95), "{:?}", long.expected_rtt(0));
}

#[test]
fn a_path_with_something_of_its_own_to_say_is_heard_once_although_another_is_busy() {
    let now = instant();
    let mut arbiter = arbiter(&[20], now);
    arbiter.scheduler = Scheduler::LowestRtt;
    arbiter.slots[1].role.backup = false;
    assert_eq!(windows(&mut arbiter, now), [true, false]);
    arbiter.slots[1].pending.add();
    assert_eq!(windows(&mut arbiter, now), [false, true]);
    // The path had no frames to send.
    assert!(arbiter.poll_again());
    assert_eq!(windows(&mut arbiter, now), [true, false]);
    // The path is polled again some milliseconds later, and sends its frames.
    assert_eq!(windows(&mut arbiter, now + ms(5)), [false, true]);
    arbiter.on_sent(1, now + ms(5), 50);
    arbiter.end_poll(now + ms(5));
    assert_eq!(windows(&mut arbiter, now + ms(20)), [true, false]);
}
