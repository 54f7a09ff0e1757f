//! The subflow ledger over successive snapshots.

use pathbench_mpquic::KEPT_CLOSED_PATHS;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_transport::{ObservedSubflow, SubflowLedger};
use proptest::prelude::*;
use std::net::SocketAddr;

fn seen(kernel_id: Option<u32>, port: u16, bytes_sent: u64) -> ObservedSubflow {
    let (local, remote) = (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80)));
    let figures = PathFigures { state: PathState::Open, bytes_sent, ..PathFigures::new(local, remote) };
    ObservedSubflow { kernel_id, figures }
}

fn states(subflows: &[PathFigures]) -> Vec<(u32, u64, PathState)> {
    subflows.iter().map(|path| (path.subflow, path.bytes_sent, path.state)).collect()
}

#[test]
fn a_subflow_that_the_kernel_no_longer_lists_stays_closed_with_its_last_figures() {
    let mut ledger = SubflowLedger::default();
    ledger.observe([seen(None, 1, 10), seen(None, 2, 20)]);
    let after = ledger.observe([seen(None, 2, 30)]);
    assert_eq!(states(&after), [(1, 10, PathState::Closed), (2, 30, PathState::Open)]);
    assert_eq!(states(&ledger.observe([])), [(1, 10, PathState::Closed), (2, 30, PathState::Closed)]);
}

#[test]
fn the_order_of_the_list_does_not_matter() {
    let mut ledger = SubflowLedger::default();
    ledger.observe([seen(None, 1, 10), seen(None, 2, 20)]);
    let after = ledger.observe([seen(None, 2, 21), seen(None, 1, 11)]);
    assert_eq!(states(&after), [(1, 11, PathState::Open), (2, 21, PathState::Open)]);
}

#[test]
fn the_kernels_numbers_are_kept_with_their_gaps() {
    let mut ledger = SubflowLedger::default();
    ledger.observe([seen(Some(1), 1, 0), seen(Some(3), 2, 0)]);
    let after = ledger.observe([seen(Some(3), 2, 5), seen(Some(4), 3, 1)]);
    let expected = [(1, 0, PathState::Closed), (3, 5, PathState::Open), (4, 1, PathState::Open)];
    assert_eq!(states(&after), expected);
}

#[test]
fn the_same_addresses_with_a_new_kernel_id_are_a_new_subflow() {
    let mut ledger = SubflowLedger::default();
    ledger.observe([seen(Some(1), 1, 100)]);
    let after = ledger.observe([seen(Some(2), 1, 100)]);
    assert_eq!(states(&after), [(1, 100, PathState::Closed), (2, 100, PathState::Open)]);
}

#[test]
fn reused_ports_with_reset_counters_are_a_new_subflow() {
    let mut ledger = SubflowLedger::default();
    ledger.observe([seen(None, 1, 100)]);
    ledger.observe([]);
    let after = ledger.observe([seen(None, 1, 5)]);
    assert_eq!(states(&after), [(1, 100, PathState::Closed), (2, 5, PathState::Open)]);
    let again = ledger.observe([seen(None, 1, 6)]);
    assert_eq!(states(&again), [(1, 100, PathState::Closed), (2, 6, PathState::Open)]);
}

#[test]
fn opening_and_closing_subflows_does_not_grow_a_snapshot() {
    let mut ledger = SubflowLedger::default();
    let (mut largest, mut sent) = (0, 0);
    for number in 1..=10_000_u32 {
        let port = (number % 60_000) as u16;
        let initial = seen(Some(1), 1, u64::from(number));
        let subflows = ledger.observe([initial, seen(Some(number + 1), port, 100)]);
        sent += 100;
        largest = largest.max(subflows.len());
        let total: u64 = subflows.iter().map(|path| path.bytes_sent).sum();
        assert_eq!(total, sent + u64::from(number), "bytes of closed subflows after {number}");
        let mut numbers: Vec<u32> = subflows.iter().map(|path| path.subflow).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), subflows.len(), "numbers of subflows after {number}");
    }
    assert!(largest <= 1 + 1 + KEPT_CLOSED_PATHS + 1, "{largest} subflows in one snapshot");
}

#[test]
fn losing_the_kernels_ids_does_not_double_subflows() {
    let mut ledger = SubflowLedger::default();
    ledger.observe([seen(Some(1), 1, 100), seen(Some(2), 2, 50)]);
    let after = ledger.observe([seen(None, 1, 150)]);
    assert_eq!(states(&after), [(1, 150, PathState::Open), (2, 50, PathState::Closed)]);
}

proptest! {
    #[test]
    fn numbers_are_unique_and_no_subflow_is_lost(
        snapshots in proptest::collection::vec(
            proptest::collection::vec((proptest::option::of(0_u32..6), 1_u16..6, 0_u64..100), 0..5),
            0..20,
        )
    ) {
        let mut ledger = SubflowLedger::default();
        let mut before: Vec<u32> = Vec::new();
        for snapshot in snapshots {
            let listed = snapshot.len();
            let all = ledger.observe(snapshot.into_iter().map(|(id, port, sent)| seen(id, port, sent)));
            let numbers: Vec<u32> = all.iter().map(|path| path.subflow).collect();
            prop_assert_eq!(&numbers[..before.len()], &before[..], "numbers and order stay");
            let mut unique = numbers.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), numbers.len());
            prop_assert!(!numbers.contains(&0));
            let open = all.iter().filter(|path| path.state != PathState::Closed).count();
            prop_assert!(open <= listed);
            before = numbers;
        }
    }
}
