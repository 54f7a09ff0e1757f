//! Bounds of requests: their rate, their memory, and one check of the stores for all clients.

use crate::support::demo::ManualClock;
use pathbench_collector::http::limits::RateLimit;
use pathbench_collector::http::ready::Readiness;
use pathbench_collector::memory::MemoryBudget;
use pathbench_collector::refusal::Refusal;
use pathbench_record::network::Client;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
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
