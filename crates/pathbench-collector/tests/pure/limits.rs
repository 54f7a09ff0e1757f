//! Bounds of requests: their rate, their memory, and one check of the stores for all clients.

use crate::support::demo::ManualClock;
use pathbench_collector::http::limits::{Quotas, RateLimit};
use pathbench_collector::http::ready::Readiness;
use pathbench_collector::memory::MemoryBudget;
use pathbench_collector::refusal::Refusal;
use pathbench_collector::task::Cancellation;
use pathbench_collector::turn::{ClientTurn, Turns};
use pathbench_record::network::Client;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

fn client(last: u8) -> Client {
    Client::from(IpAddr::from([192, 0, 2, last]))
}

const SECOND: Timestamp = Timestamp::from_nanos(1_000_000_000);

#[test]
fn a_client_has_a_burst_and_then_its_rate() {
    let limit = RateLimit::new(2);
    let address: IpAddr = [192, 0, 2, 1].into();
    assert!((0..8).all(|_| limit.take(address, SECOND).is_ok()));
    let wait = limit.take(address, SECOND).unwrap_err();
    assert_eq!(wait, Duration::from_millis(500));
    assert!(limit.take([192, 0, 2, 2].into(), SECOND).is_ok());
    assert!(limit.take(address, SECOND + wait).is_ok());
    assert!(limit.take(address, SECOND + wait).is_err());
}

#[test]
fn the_addresses_of_one_ipv6_host_are_one_client() {
    let limit = RateLimit::new(1);
    let of_host = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]);
    let taken = (0..100).filter(|host| limit.take(of_host(*host), SECOND).is_ok()).count();
    assert_eq!(taken, 4);
}

#[test]
fn memory_is_bounded_and_returned() {
    /// The unit in which memory is granted.
    const UNIT_BYTES: usize = 4096;
    let budget = MemoryBudget::new(64 * UNIT_BYTES);
    let mut share = budget.share(client(1));
    assert!(share.grow_to(1) && share.grow_to(40 * UNIT_BYTES));
    let mut other = budget.share(client(2));
    assert!(other.grow_to(20 * UNIT_BYTES) && !other.grow_to(40 * UNIT_BYTES));
    drop(share);
    assert!(other.grow_to(40 * UNIT_BYTES));
    drop(other);
    assert_eq!(budget.available_bytes(), 64 * UNIT_BYTES);
}

#[test]
fn one_check_answers_all_requests_of_five_seconds() {
    let (readiness, clock, failed) =
        (Readiness::default(), ManualClock::default(), || Err(Refusal::failed("down")));
    assert_eq!(readiness.check(&clock, || Ok(())), Ok(()));
    clock.advance(Duration::from_secs(4));
    assert_eq!(readiness.check(&clock, failed), Ok(()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(readiness.check(&clock, failed), failed());
    assert_eq!(readiness.check(&clock, || Ok(())), failed());
}

#[test]
fn requests_during_a_check_get_the_last_outcome_and_start_none() {
    let (readiness, clock) = (Readiness::default(), ManualClock::default());
    let during = || readiness.check(&clock, || panic!("a second check at the same time"));
    let outcome = readiness.check(&clock, || {
        assert!(during().unwrap_err().error().contains("still runs"));
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
    clock.advance(Duration::from_secs(10));
    let outcome = readiness.check(&clock, || {
        assert_eq!(during(), Ok(()));
        clock.advance(Duration::from_secs(80));
        assert!(during().is_err());
        Err(Refusal::failed("down"))
    });
    assert!(outcome.is_err());
}

#[test]
fn one_client_gets_half_of_the_memory() {
    let budget = MemoryBudget::new(256 << 20);
    let mut shares: Vec<_> = (0..4).map(|_| budget.share(client(1))).collect();
    let granted = shares.iter_mut().filter_map(|share| share.grow_to(50 << 20).then_some(()));
    assert_eq!(granted.count(), 2);
    let mut other = budget.share(client(2));
    assert!(other.grow_to(100 << 20));
    other.shrink_to(10 << 20);
    assert_eq!(budget.available_bytes(), (256 - 100 - 10) << 20);
    drop((shares, other));
    assert_eq!(budget.available_bytes(), 256 << 20);
}

/// Some clients that take all they get leave memory for one that has none.
#[test]
fn greedy_clients_together_leave_memory_for_the_next_one() {
    /// The memory of a part of a long answer, and of unpacking.
    const PART_BYTES: usize = 2 << 20;
    const UNPACKING_BYTES: usize = 24 << 20;
    const SMALL_UNPACKING_BYTES: usize = 9 << 20;
    const KEPT_BYTES: usize = 2 << 20;
    let budget = MemoryBudget::new(256 << 20);
    let mut held = Vec::new();
    for _ in 0..64 {
        for greedy in 1..=6 {
            let mut share = budget.share(client(greedy));
            if share.grow_to(PART_BYTES) {
                held.push(share);
            }
        }
    }
    assert!(held.len() * PART_BYTES > 128 << 20, "{} parts", held.len());
    let mut modest = budget.share(client(7));
    assert!(modest.grow_to(UNPACKING_BYTES), "{} bytes are free", budget.available_bytes());
    // A report, while the client still has another one.
    modest.shrink_to(KEPT_BYTES);
    assert!(modest.another().grow_to(SMALL_UNPACKING_BYTES), "{} bytes are free", budget.available_bytes());
}

#[test]
fn a_client_has_its_quotas_of_a_day_and_gets_back_what_was_not_stored() {
    const ROW_BYTES: u64 = 16 << 10;
    let quotas = Quotas::new(10, 20 * ROW_BYTES, 1);
    let taken = quotas.take(client(1), (8, 0), SECOND).unwrap();
    assert!(quotas.take(client(1), (3, 0), SECOND).is_err());
    quotas.give_back(taken, 5);
    assert!(quotas.take(client(1), (7, 0), SECOND).is_ok());
    let used = quotas.take(client(1), (1, 0), SECOND).unwrap_err();
    assert_eq!(used.wait.as_secs(), 8_640);
    assert!(quotas.take(client(1), (1, 0), SECOND + used.wait).is_ok());
    // Bytes count with the rows.
    assert!(quotas.take(client(2), (2, 10 * ROW_BYTES), SECOND).is_ok());
    assert!(quotas.take(client(2), (2, 7 * ROW_BYTES), SECOND).is_err());
    assert!(quotas.take(client(2), (8, 0), SECOND).is_ok(), "the place of the results was given back");
    assert!(quotas.take_agent(client(2), SECOND).is_ok());
    assert!(quotas.take_agent(client(2), SECOND).is_err());
    assert!(quotas.take_agent(client(3), SECOND).is_ok());
}

async fn turn(turns: &Arc<Turns>, last: u8) -> Option<ClientTurn> {
    turns.take(client(last), Duration::from_millis(20)).await.ok()
}

#[tokio::test]
async fn one_client_never_holds_all_turns() {
    let turns = Turns::new(4, 2, Arc::new(ManualClock::default()));
    let first = turn(&turns, 1).await.unwrap();
    let _second = turn(&turns, 1).await.unwrap();
    assert!(turn(&turns, 1).await.is_none());
    let _others = [turn(&turns, 2).await.unwrap(), turn(&turns, 3).await.unwrap()];
    assert!(turn(&turns, 4).await.is_none(), "all turns are taken");
    drop(first);
    assert!(turn(&turns, 4).await.is_some());
}

#[tokio::test]
async fn the_client_that_used_less_time_is_next() {
    let clock = Arc::new(ManualClock::default());
    let turns = Turns::new(1, 1, clock.clone());
    let greedy = turn(&turns, 1).await.unwrap();
    clock.advance(Duration::from_secs(3));
    drop(greedy);
    let held = turn(&turns, 3).await.unwrap();
    let waiting = |last: u8| {
        let turns = Arc::clone(&turns);
        tokio::spawn(async move { turns.take(client(last), Duration::from_secs(60)).await })
    };
    let greedy: Vec<_> = (0..5).map(|_| waiting(1)).collect();
    tokio::task::yield_now().await;
    let modest = waiting(2);
    tokio::task::yield_now().await;
    drop(held);
    let modest = modest.await.unwrap().unwrap();
    assert!(greedy.iter().all(|one| !one.is_finished()));
    drop(modest);
    for one in greedy {
        drop(one.await.unwrap().unwrap());
    }
}

/// Those that gave up leave no turn behind, and no place in the queue.
#[tokio::test]
async fn turns_of_clients_that_left_are_free() {
    let turns = Turns::new(1, 1, Arc::new(ManualClock::default()));
    let held = turn(&turns, 1).await.unwrap();
    for _ in 0..10_000 {
        assert!(turns.take(client(2), Duration::ZERO).await.is_err());
    }
    drop(held);
    assert!(turn(&turns, 2).await.is_some());
    assert!(turn(&turns, 1).await.is_some());
}

#[tokio::test]
async fn work_that_nobody_waits_for_is_cancelled() {
    let (started, is_started) = std::sync::mpsc::channel();
    let (ended, is_ended) = std::sync::mpsc::channel();
    let work = move |cancellation: &Cancellation| {
        started.send(()).unwrap();
        while !cancellation.is_cancelled() {
            std::thread::yield_now();
        }
        ended.send(()).unwrap();
    };
    let waiting = tokio::spawn(pathbench_collector::task::run(Duration::from_secs(60), work));
    while is_started.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    let _ = waiting.await;
    is_ended.recv_timeout(Duration::from_secs(60)).unwrap();
    let late = |cancellation: &Cancellation| while !cancellation.is_cancelled() {};
    assert!(pathbench_collector::task::run(Duration::from_millis(1), late).await.is_err());
}
