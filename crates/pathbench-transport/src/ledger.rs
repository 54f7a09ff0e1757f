//! Keeps the subflows of a connection, including those that the kernel no longer lists.

use pathbench_mpquic::{ClosedPaths, KEPT_CLOSED_PATHS};
use pathbench_record::sample::{PathFigures, PathState};
use std::collections::BTreeSet;

/// A subflow in one snapshot of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedSubflow {
    /// The kernel's subflow id, where the telemetry source reports it.
    pub kernel_id: Option<u32>,
    /// The subflow's figures; the ledger assigns `subflow`.
    pub figures: PathFigures,
}

/// Merges successive snapshots of a connection. A subflow that the kernel no longer lists stays, closed, with its last
/// figures, and every subflow keeps its number. The last 32 closed subflows are kept individually, earlier ones as
/// sums, so that a peer that opens and closes subflows cannot grow the ledger without bound.
///
/// A subflow is identified by the kernel's id, else by its addresses and ports.
#[derive(Debug, Clone, Default)]
pub struct SubflowLedger {
    entries: Vec<ObservedSubflow>,
    closed: ClosedPaths,
    /// The highest number assigned to a subflow that is now part of the sums.
    highest: u32,
    /// Numbers of the subflows whose interface has been looked up.
    asked: BTreeSet<u32>,
}

impl SubflowLedger {
    /// Merges the subflows that the kernel lists now and returns [`SubflowLedger::subflows`].
    pub fn observe(&mut self, listed: impl IntoIterator<Item = ObservedSubflow>) -> Vec<PathFigures> {
        let mut present = vec![false; self.entries.len()];
        for seen in listed {
            if let Some(index) = self.position(&seen, &present) {
                present[index] = true;
                let entry = &mut self.entries[index];
                let (subflow, backup) = (entry.figures.subflow, entry.figures.backup);
                let interface = entry.figures.interface.take();
                entry.kernel_id = seen.kernel_id.or(entry.kernel_id);
                entry.figures = seen.figures;
                entry.figures.interface = entry.figures.interface.take().or(interface);
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

    /// Names the interface of each subflow that has been established since the last call. `look_up` is asked once per
    /// subflow: where the packets left first is its path, also if the routes change later.
    pub fn name_interfaces(&mut self, mut look_up: impl FnMut(&PathFigures) -> Option<String>) {
        for entry in self.entries.iter_mut().filter(|entry| entry.figures.state == PathState::Open) {
            if entry.figures.subflow > 0 && self.asked.insert(entry.figures.subflow) {
                entry.figures.interface = look_up(&entry.figures);
            }
        }
    }

    /// The sums of early closed subflows, then the others in order of appearance.
    pub fn subflows(&self) -> Vec<PathFigures> {
        self.closed.sums().iter().chain(self.entries.iter().map(|entry| &entry.figures)).cloned().collect()
    }

    /// Adds the earliest closed subflows to the sums, once more than 32 are closed.
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
            self.asked.remove(&entry.figures.subflow);
            self.closed.add(entry.figures);
        }
    }

    fn position(&self, seen: &ObservedSubflow, present: &[bool]) -> Option<usize> {
        let free = |&(index, _): &(usize, &ObservedSubflow)| !present[index];
        if seen.kernel_id.is_some() {
            let known = self.entries.iter().position(|entry| entry.kernel_id == seen.kernel_id);
            if known.is_some() {
                // The kernel lists an id once; a second entry in one snapshot repeats the first.
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
            // The highest number is in use; fewer entries than numbers exist, so a lower one is free.
            .or_else(|| (1..u32::MAX).find(|number| !taken(number)))
            .unwrap_or(u32::MAX)
    }
}

/// Whether `seen` is a later state of `entry`. Ports can be reused after a close, but the counters then restart at 0.
fn is_continued(entry: &ObservedSubflow, seen: &ObservedSubflow) -> bool {
    let (before, now) = (&entry.figures, &seen.figures);
    before.local == now.local
        && before.remote == now.remote
        && (before.state != PathState::Closed
            || (now.bytes_sent >= before.bytes_sent && now.bytes_received >= before.bytes_received))
}
