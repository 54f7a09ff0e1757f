//! Budgets and cookies of the datagrams other than QUIC.

use pathbench_record::time::Timestamp;
use pathbench_traffic::datagram::{Cookies, Cost, DatagramBudget};
use pathbench_traffic::server::TokenBucket;
use std::net::IpAddr;

#[test]
fn a_bucket_gives_what_it_gains_and_no_more_than_a_second_of_it_at_once() {
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let mut bucket = TokenBucket::full(1000, at(0));
    assert!(bucket.take(1000, at(0)));
    assert!(!bucket.take(1, at(0)));
    assert!(bucket.take(10, at(10)));
    assert!(!bucket.take(1001, at(1_000_000)));
    assert!(bucket.take(1000, at(1_000_000)));
}

#[test]
fn clients_are_remembered_up_to_a_bound_and_forgotten_when_idle() {
    let at = |ms: u64| Timestamp::from_nanos(10_000_000_000 + ms * 1_000_000);
    let client = |last: u8| IpAddr::from([192, 0, 2, last]);
    let mut budget = DatagramBudget::new(4, at(0));
    for last in 0..4 {
        assert!(budget.take(client(last), Cost::Probe, at(0)));
    }
    assert!(budget.is_full(client(4), at(5000)) && !budget.is_full(client(3), at(5000)));
    assert!(!budget.take(client(4), Cost::Probe, at(5000)));
    assert!(budget.take(client(3), Cost::Probe, at(5000)));
    assert!(!budget.is_full(client(4), at(11_000)));
    assert!(budget.take(client(4), Cost::Probe, at(11_000)));
    // Two clients are active, so two more are admitted.
    let taken = (5..9).filter(|last| budget.take(client(*last), Cost::Probe, at(11_000)));
    assert_eq!(taken.count(), 2);
}

fn at_seconds(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn a_cookie_outlives_one_change_of_the_key() {
    let address = "192.0.2.1:1000".parse().unwrap();
    let mut cookies = Cookies::new(at_seconds(0));
    let early = cookies.cookie(at_seconds(0), address, 1);
    let late = cookies.cookie(at_seconds(149), address, 1);
    assert_eq!(early, late);
    assert!(cookies.is_valid(at_seconds(150), address, 1, early), "the previous key");
    assert_ne!(cookies.cookie(at_seconds(151), address, 1), early);
    assert!(cookies.is_valid(at_seconds(299), address, 1, early));
    assert!(!cookies.is_valid(at_seconds(300), address, 1, early));
    let last = cookies.cookie(at_seconds(301), address, 1);
    assert!(!cookies.is_valid(at_seconds(1000), address, 1, last), "after minutes of silence");
    assert!(!Cookies::new(at_seconds(0)).is_valid(at_seconds(0), address, 1, early), "of another start");
}

#[test]
fn a_cookie_is_for_one_address_and_session() {
    let mut cookies = Cookies::new(at_seconds(0));
    let given = cookies.cookie(at_seconds(0), "192.0.2.1:1000".parse().unwrap(), 1);
    for (address, session) in [("192.0.2.1:1001", 1), ("192.0.2.2:1000", 1), ("192.0.2.1:1000", 2)] {
        assert!(!cookies.is_valid(at_seconds(0), address.parse().unwrap(), session, given));
    }
}
