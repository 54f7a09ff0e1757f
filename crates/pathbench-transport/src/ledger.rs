//! The memory of a connection's subflows: what the kernel forgets when one closes.

use pathbench_mpquic::{ClosedPaths, KEPT_CLOSED_PATHS};
use pathbench_record::sample::{PathFigures, PathState};

/// A subflow as one look at the kernel showed it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedSubflow {
    /// The kernel's subflow id, where the source of the figures tells it.
    pub kernel_id: Option<u32>,
    /// Its figures; the ledger fills in `subflow`.
    pub figures: PathFigures,
}

/// Merges successive looks at a connection: subflows that the kernel no longer lists are kept, closed, with their last
/// figures, and every subflow keeps its number. The last 32 closed ones are kept one by one, those before them as
/// sums, so that a peer that opens and closes subflows makes neither the ledger nor a look at it larger.
///
/// A subflow is recognised by the kernel's id, else by its pair of addresses and ports.
#[derive(Debug, Clone, Default)]
pub struct SubflowLedger {
    entries: Vec<ObservedSubflow>,
    closed: ClosedPaths,
    /// The highest number given to a subflow that is summed up now.
    highest: u32,
}

impl SubflowLedger {
    /// Takes in all subflows that the kernel lists now and returns [`SubflowLedger::subflows`].
    pub fn observe(&mut self, listed: impl IntoIterator<Item = ObservedSubflow>) -> Vec<PathFigures> {
        let mut present = vec![false; self.entries.len()];
        for seen in listed {
            if let Some(index) = self.position(&seen, &present) {
                present[index] = true;
                let entry = &mut self.entries[index];
                let (subflow, backup) = (entry.figures.subflow, entry.figures.backup);
                entry.kernel_id = seen.kernel_id.or(entry.kernel_id);
                entry.figures = seen.figures;
                entry.figures.subflow = subflow;
                entry.figures.backup = entry.figures.backup.or(backup);
            } else {
                let subflow = self.number(seen.kernel_id);
                let mut entry = seen;
                entry.figures.subflow = subflow;
                self.entries.push(entry);
                present.push(true);
            }
        }
        for (entry, _) in self.entries.iter_mut().zip(present).filter(|(_, present)| !present) {
            entry.figures.state = PathState::Closed;
        }
        self.sum_up();
        self.subflows()
    }

    /// The sums of subflows closed long ago, then the others as last seen, in order of appearance.
    pub fn subflows(&self) -> Vec<PathFigures> {
        self.closed.sums().iter().chain(self.entries.iter().map(|entry| &entry.figures)).cloned().collect()
    }

    /// Sums up the closed subflows that are too many to be kept one by one, the earliest first.
    fn sum_up(&mut self) {
        let is_closed = |entry: &ObservedSubflow| entry.figures.state == PathState::Closed;
        let excess =
            self.entries.iter().filter(|entry| is_closed(entry)).count().saturating_sub(KEPT_CLOSED_PATHS);
        if excess == 0 {
            return;
        }
        let mut left = excess;
        for entry in self.entries.extract_if(.., |entry| {
            let sums_up = left > 0 && is_closed(entry);
            left -= usize::from(sums_up);
            sums_up
        }) {
            self.highest = self.highest.max(entry.figures.subflow);
            self.closed.add(entry.figures);
        }
    }

    fn position(&self, seen: &ObservedSubflow, present: &[bool]) -> Option<usize> {
        let free = |&(index, _): &(usize, &ObservedSubflow)| !present[index];
        if seen.kernel_id.is_some() {
            let known = self.entries.iter().position(|entry| entry.kernel_id == seen.kernel_id);
            if known.is_some() {
                // The kernel lists an id once; a second mention in one look is a repetition, not a subflow.
                return known;
            }
        }
        self.entries
            .iter()
            .enumerate()
            .filter(free)
            .find(|(_, entry)| {
                (entry.kernel_id.is_none() || seen.kernel_id.is_none()) && is_continued(entry, seen)
            })
            .map(|(index, _)| index)
    }

    /// The kernel's id when it is free, else the next number.
    fn number(&self, kernel_id: Option<u32>) -> u32 {
        let taken = |number: &u32| {
            let sums = self.closed.sums().iter().map(|sum| sum.subflow);
            sums.chain(self.entries.iter().map(|entry| entry.figures.subflow)).any(|used| used == *number)
        };
        let following = || {
            let kept = self.entries.iter().map(|entry| entry.figures.subflow).max().unwrap_or(0);
            kept.max(self.highest).checked_add(1)
        };
        kernel_id
            .filter(|id| *id > 0 && !taken(id))
            .or_else(following)
            // The highest number is in use; there are fewer entries than numbers, so one below is free.
            .or_else(|| (1..u32::MAX).find(|number| !taken(number)))
            .unwrap_or(u32::MAX)
    }
}

/// Whether `seen` is `entry` some time later. Ports can be used again after a close, but counters start afresh then.
fn is_continued(entry: &ObservedSubflow, seen: &ObservedSubflow) -> bool {
    let (before, now) = (&entry.figures, &seen.figures);
    before.local == now.local
        && before.remote == now.remote
        && (before.state != PathState::Closed
            || (now.bytes_sent >= before.bytes_sent && now.bytes_received >= before.bytes_received))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn seen(kernel_id: Option<u32>, port: u16, bytes_sent: u64) -> ObservedSubflow {
        let (local, remote) =
            (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80)));
        let figures =
            PathFigures { state: PathState::Open, bytes_sent, ..PathFigures::between(local, remote) };
        ObservedSubflow { kernel_id, figures }
    }

    fn told(subflows: &[PathFigures]) -> Vec<(u32, u64, PathState)> {
        subflows.iter().map(|path| (path.subflow, path.bytes_sent, path.state)).collect()
    }

    #[test]
    fn a_vanished_subflow_stays_closed_with_its_last_figures() {
        let mut ledger = SubflowLedger::default();
        ledger.observe([seen(None, 1, 10), seen(None, 2, 20)]);
        let after = ledger.observe([seen(None, 2, 30)]);
        assert_eq!(told(&after), [(1, 10, PathState::Closed), (2, 30, PathState::Open)]);
        assert_eq!(told(&ledger.observe([])), [(1, 10, PathState::Closed), (2, 30, PathState::Closed)]);
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let mut ledger = SubflowLedger::default();
        ledger.observe([seen(None, 1, 10), seen(None, 2, 20)]);
        let after = ledger.observe([seen(None, 2, 21), seen(None, 1, 11)]);
        assert_eq!(told(&after), [(1, 11, PathState::Open), (2, 21, PathState::Open)]);
    }

    #[test]
    fn the_kernels_numbers_are_kept_with_their_gaps() {
        let mut ledger = SubflowLedger::default();
        ledger.observe([seen(Some(1), 1, 0), seen(Some(3), 2, 0)]);
        let after = ledger.observe([seen(Some(3), 2, 5), seen(Some(4), 3, 1)]);
        let expected = [(1, 0, PathState::Closed), (3, 5, PathState::Open), (4, 1, PathState::Open)];
        assert_eq!(told(&after), expected);
    }

    #[test]
    fn the_same_addresses_with_a_new_kernel_id_are_a_new_subflow() {
        let mut ledger = SubflowLedger::default();
        ledger.observe([seen(Some(1), 1, 100)]);
        let after = ledger.observe([seen(Some(2), 1, 100)]);
        assert_eq!(told(&after), [(1, 100, PathState::Closed), (2, 100, PathState::Open)]);
    }

    #[test]
    fn reused_ports_with_counters_afresh_are_a_new_subflow() {
        let mut ledger = SubflowLedger::default();
        ledger.observe([seen(None, 1, 100)]);
        ledger.observe([]);
        let after = ledger.observe([seen(None, 1, 5)]);
        assert_eq!(told(&after), [(1, 100, PathState::Closed), (2, 5, PathState::Open)]);
        let again = ledger.observe([seen(None, 1, 6)]);
        assert_eq!(told(&again), [(1, 100, PathState::Closed), (2, 6, PathState::Open)]);
    }

    #[test]
    fn a_peer_that_opens_and_closes_subflows_makes_no_look_larger() {
        let mut ledger = SubflowLedger::default();
        let (mut largest, mut sent) = (0, 0);
        for number in 1..=10_000_u32 {
            let port = (number % 60_000) as u16;
            let initial = seen(Some(1), 1, u64::from(number));
            let look = ledger.observe([initial, seen(Some(number + 1), port, 100)]);
            sent += 100;
            largest = largest.max(look.len());
            let total: u64 = look.iter().map(|path| path.bytes_sent).sum();
            assert_eq!(total, sent + u64::from(number), "bytes of closed subflows after {number}");
            let mut numbers: Vec<u32> = look.iter().map(|path| path.subflow).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), look.len(), "numbers of subflows after {number}");
        }
        assert!(largest <= 1 + 1 + KEPT_CLOSED_PATHS + 1, "{largest} subflows in one look");
    }

    #[test]
    fn losing_the_kernels_ids_does_not_double_subflows() {
        let mut ledger = SubflowLedger::default();
        ledger.observe([seen(Some(1), 1, 100), seen(Some(2), 2, 50)]);
        let after = ledger.observe([seen(None, 1, 150)]);
        assert_eq!(told(&after), [(1, 150, PathState::Open), (2, 50, PathState::Closed)]);
    }

    proptest! {
        #[test]
        fn numbers_are_unique_and_nothing_is_ever_forgotten(
            looks in proptest::collection::vec(
                proptest::collection::vec((proptest::option::of(0_u32..6), 1_u16..6, 0_u64..100), 0..5),
                0..20,
            )
        ) {
            let mut ledger = SubflowLedger::default();
            let mut before: Vec<u32> = Vec::new();
            for look in looks {
                let listed = look.len();
                let all = ledger.observe(look.into_iter().map(|(id, port, sent)| seen(id, port, sent)));
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
}
