//! Corrections of the kernel's path MTU: planned, applied step by step with a journal, verified, and undone.

use super::examination::{Examination, host_path};
use crate::journal::{self, Undone};
use pathbench_analysis::path_mtu;
use pathbench_host::change::{Applier, ApplyError, ChangePlan, PlannedStep};
use pathbench_host::path_mtu::{PathMtuState, PathObserver, Recovery, plan};
use pathbench_program::exit::Failure;
use pathbench_record::document::{MtuStep, PathMtu};
use pathbench_record::text::duration;
use pathbench_record::time::{Clock, Timestamp};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for stuck connections to recover.
const PATIENCE: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
#[derive(Debug)]
pub(super) struct RemedyApplication {
    applier: Applier,
    pub(super) journal: PathBuf,
}

#[derive(Debug, Default)]
pub(super) struct Corrected {
    /// Includes steps that were not done.
    pub(super) steps: Vec<MtuStep>,
    pub(super) notes: Vec<String>,
    /// Why a step is not done.
    pub(super) failure: Option<Failure>,
}

impl RemedyApplication {
    pub(super) fn open(journal: &Path) -> Result<Self, Failure> {
        let applier = Applier::open(journal).map_err(|error| failure(&error))?;
        Ok(Self { applier, journal: journal.to_owned() })
    }

    /// Corrects one path, based on the kernel's current state.
    pub(super) fn correct(
        &mut self,
        examination: &Examination,
        record: &PathMtu,
        observer: &mut PathObserver,
        clock: &dyn Clock,
    ) -> Corrected {
        let name = &examination.path.name;
        let plan = match plan_remedy(examination, record, observer) {
            Ok(plan) => plan,
            Err(note) => return Corrected { notes: vec![note], ..Corrected::default() },
        };
        let notes = plan.notes.iter().map(|note| format!("{name}: {note}")).collect();
        let mut corrected = Corrected { notes, ..Corrected::default() };
        let begun = clock.now();
        for (index, step) in plan.steps.iter().enumerate() {
            // One at a time, so that the steps that were made are known.
            let one = ChangePlan { steps: vec![step.clone()], notes: Vec::new() };
            match self.applier.apply(&one) {
                Ok(()) => corrected.steps.extend(records(name, &one.steps, true)),
                Err(error) => {
                    corrected.steps.extend(records(name, &plan.steps[index..], false));
                    corrected.failure = Some(failure(&error));
                    break;
                }
            }
        }
        if corrected.steps.iter().any(|step| step.done) {
            corrected.notes.extend(verify(examination, observer, clock, begun));
        }
        corrected
    }

    /// Undoes all changes in the journal, and reports unrestored changes on stderr.
    pub(super) fn undo(&mut self, force: bool) -> Undone {
        journal::undo(&mut self.applier, &self.journal, "mtu", force)
    }
}

/// The changes for one path, based on the kernel's current state; `Err`: why no change is possible.
pub(super) fn plan_remedy(
    examination: &Examination,
    record: &PathMtu,
    observer: &mut PathObserver,
) -> Result<ChangePlan, String> {
    // Probing took seconds, and changes for another path may have affected the same route.
    let Ok(state) = observer.state(&host_path(&examination.path)) else {
        return Ok(ChangePlan::default());
    };
    if !examination.is_answered() {
        return Ok(ChangePlan::default());
    }
    let target = path_mtu::target_bytes(record)?;
    let stuck = &examination.stuck;
    if !path_mtu::needs_correction(record, target) && stuck.is_empty() {
        return Ok(ChangePlan::default());
    }
    let has_icmp = !path_mtu::is_path_silent(record);
    // The kernel's PMTU exception expires after some minutes; without new ICMP messages the route's MTU replaces it.
    let lasting = PathMtuState { cached: state.cached.filter(|_| has_icmp), ..state };
    plan(&lasting, target, stuck).map_err(|error| format!("{}: {error}", examination.path.name))
}

fn failure(error: &ApplyError) -> Failure {
    journal::failure(error, "pathbench mtu SERVER --print")
}

/// Notes on whether the kernel uses the new MTU and stuck connections recover.
fn verify(
    examination: &Examination,
    observer: &mut PathObserver,
    clock: &dyn Clock,
    begun: Timestamp,
) -> Vec<String> {
    let path = host_path(&examination.path);
    let name = &examination.path.name;
    let mut notes = Vec::new();
    match observer.state(&path) {
        Ok(state) => notes.push(format!(
            "{name}: the kernel uses a path MTU of {} bytes to the server now",
            state.effective_mtu_bytes()
        )),
        Err(error) => notes.push(format!("{name}: {error}")),
    }
    // A plain TCP connection recovers by its retransmission timer.
    let stuck = examination.stuck.iter().filter(|stuck| stuck.subflow.is_some());
    let mut waiting: Vec<Recovery<'_>> = stuck.map(Recovery::new).collect();
    while !waiting.is_empty() {
        let now = observer.connections(&path).unwrap_or_default();
        let at = clock.now();
        waiting.retain_mut(|recovery| {
            let since = recovery.check(&now, at);
            notes.extend(since.map(|since| {
                let (local, remote) = (recovery.stuck.local, recovery.stuck.remote);
                let after = duration(since.duration_since(begun));
                format!(
                    "{name}: the connection {local} → {remote} carries data over this path again, after {after}"
                )
            }));
            since.is_none()
        });
        if at.duration_since(begun) >= PATIENCE {
            break;
        }
        clock.sleep_until(at + CHECK_INTERVAL);
    }
    notes.extend(waiting.into_iter().map(|recovery| {
        format!(
            "{name}: the connection {} → {} carried nothing over this path within {}",
            recovery.stuck.local,
            recovery.stuck.remote,
            duration(PATIENCE)
        )
    }));
    notes
}

/// The records of a path's steps, one command each.
pub(super) fn records(path: &str, steps: &[PlannedStep], done: bool) -> Vec<MtuStep> {
    let of_step = |step: &PlannedStep| {
        let last = step.commands.len().saturating_sub(1);
        let undo_of = |index: usize| {
            let rest = step.undo_commands.get(index..).unwrap_or_default();
            if index == last { rest.join("; ") } else { rest.first().cloned().unwrap_or_default() }
        };
        let record = |(index, command): (usize, &String)| MtuStep {
            path: path.to_owned(),
            command: command.clone(),
            undo: undo_of(index),
            done,
        };
        step.commands.iter().enumerate().map(record).collect::<Vec<_>>()
    };
    steps.iter().flat_map(of_step).collect()
}
