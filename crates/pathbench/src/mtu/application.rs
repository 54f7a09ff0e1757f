//! Putting the kernel right: steps made one by one with their journal, looked at afterwards, and taken back.

use super::examination::{Examination, way};
use super::treatment;
use crate::exit::Failure;
use pathbench_host::path_mtu::{
    Belief, LiveConnection, PathObserver, Plan, Remedy, RemedyError, UndoOutcome,
};
use pathbench_record::document::{MtuStep, PathMtu};
use pathbench_record::time::{Clock, Timestamp};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Stuck connections are given so long to go on.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at them.
const LOOK: Duration = Duration::from_millis(50);
/// The handshake's own byte counts as acknowledged, too.
const HANDSHAKE_BYTES: u64 = 1;

/// What makes changes, and takes them back.
#[derive(Debug)]
pub(super) struct Application {
    remedy: Remedy,
    journal: PathBuf,
}

/// What became of a path.
#[derive(Debug, Default)]
pub(super) struct Treated {
    /// Done or not.
    pub(super) steps: Vec<MtuStep>,
    pub(super) notes: Vec<String>,
    /// Why the steps that are not done are not.
    pub(super) failure: Option<Failure>,
}

impl Treated {
    /// Whether anything was changed.
    pub(super) fn is_changed(&self) -> bool {
        self.steps.iter().any(|step| step.done)
    }
}

impl Application {
    pub(super) fn open(journal: &Path) -> Result<Self, Failure> {
        let remedy = Remedy::open(journal).map_err(|error| failure(&error))?;
        Ok(Self { remedy, journal: journal.to_owned() })
    }

    /// Puts one path right, as the kernel sees it now.
    pub(super) fn treat(
        &mut self,
        examination: &Examination,
        record: &PathMtu,
        observer: &mut PathObserver,
        clock: &dyn Clock,
    ) -> Treated {
        let mut treated = Treated::default();
        let name = &examination.path.name;
        let planned = match planned(examination, record, observer) {
            Ok((belief, plan)) => {
                treated.notes.extend(plan.notes.iter().map(|note| format!("{name}: {note}")));
                (belief.is_some()).then_some(plan)
            }
            Err(note) => {
                treated.notes.push(note);
                None
            }
        };
        let Some(plan) = planned else { return treated };
        for (index, step) in plan.steps.iter().enumerate() {
            // One at a time, so that it is known which were made.
            let one = Plan { steps: vec![step.clone()], notes: Vec::new() };
            match self.remedy.apply(&one) {
                Ok(()) => treated.steps.extend(treatment::records(name, &one.steps, true)),
                Err(error) => {
                    treated.steps.extend(treatment::records(name, &plan.steps[index..], false));
                    treated.failure = Some(failure(&error));
                    break;
                }
            }
        }
        if treated.is_changed() {
            let begun = clock.now();
            treated.notes.extend(verify(examination, observer, clock, begun));
        }
        treated
    }

    /// Takes back all that the journal tells of; `tell` hears the commands that do the same.
    pub(super) fn undo(&mut self, force: bool, tell: &dyn Fn(&str)) -> Result<(), Failure> {
        let report = self.remedy.undo(force).map_err(|error| failure(&error))?;
        if report.steps.is_empty() {
            eprintln!("nothing to take back: there is no journal {}", self.journal.display());
        }
        for step in &report.steps {
            match &step.outcome {
                UndoOutcome::Restored => step.commands.iter().for_each(|command| tell(command)),
                UndoOutcome::Nothing => {}
                UndoOutcome::Gone => {
                    eprintln!("gone with its interface: {}", step.commands.join("; "));
                }
                UndoOutcome::Changed(how) => {
                    eprintln!("not taken back: {}: {how}", step.commands.join("; "));
                }
            }
        }
        if report.is_complete() {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "not everything was taken back, for somebody else has changed it since; take it back nevertheless with \
             pathbench mtu --undo --force; until then the journal stays: {}",
            self.journal.display()
        )))
    }

    /// The journal's file.
    pub(super) fn journal(&self) -> &Path {
        &self.journal
    }
}

/// What would put a path right, and what the kernel believed when it was planned; no belief when nothing is to be done.
pub(super) fn planned(
    examination: &Examination,
    record: &PathMtu,
    observer: &mut PathObserver,
) -> Result<(Option<Belief>, Plan), String> {
    // Probing took seconds, and another path's changes may have touched the same route.
    let Ok(belief) = observer.belief(&way(&examination.path)) else { return Ok((None, Plan::default())) };
    let plan = treatment::plan_for(examination, &belief, record)?;
    let belief = (!plan.steps.is_empty()).then_some(belief);
    Ok((belief, plan))
}

fn failure(error: &RemedyError) -> Failure {
    if error.is_host_unable() {
        return Failure::host_cannot(format!(
            "{error}\nthis takes CAP_NET_ADMIN: run it as root (sudo), or have the commands of --print run by somebody who \
             may"
        ));
    }
    Failure::failed(error)
}

/// Whether the kernel goes by what was set, and the connections that were stuck go on; in words.
fn verify(
    examination: &Examination,
    observer: &mut PathObserver,
    clock: &dyn Clock,
    begun: Timestamp,
) -> Vec<String> {
    let way = way(&examination.path);
    let name = &examination.path.name;
    let mut notes = Vec::new();
    match observer.belief(&way) {
        Ok(belief) => notes.push(format!(
            "{name}: the kernel goes by a path MTU of {} bytes to the server now",
            belief.effective_mtu_bytes()
        )),
        Err(error) => notes.push(format!("{name}: {error}")),
    }
    // A plain TCP connection is left to its retransmission timer.
    let mut waiting: Vec<&LiveConnection> =
        examination.stuck.iter().filter(|stuck| stuck.subflow.is_some()).collect();
    while !waiting.is_empty() {
        let now = observer.connections(&way).unwrap_or_default();
        let took = clock.now().since(begun);
        waiting.retain(|stuck| {
            let on = goes_on(stuck, &now);
            if on {
                let (local, remote) = (stuck.local, stuck.remote);
                let seconds = took.as_secs_f64();
                notes.push(format!(
                    "{name}: the connection of {local} → {remote} carries data by this path again, after {seconds:.2} s"
                ));
            }
            !on
        });
        if took >= PATIENCE {
            break;
        }
        clock.sleep_until(clock.now() + LOOK);
    }
    notes.extend(waiting.into_iter().map(|stuck| {
        format!(
            "{name}: the connection of {} → {} carried nothing by this path within {} s",
            stuck.local,
            stuck.remote,
            PATIENCE.as_secs()
        )
    }));
    notes
}

/// Whether a connection of which a subflow was stuck has one on the same path that gets data through.
fn goes_on(stuck: &LiveConnection, now: &[LiveConnection]) -> bool {
    let token = stuck.subflow.map(|own| own.token);
    now.iter().any(|one| {
        if one.is_same_as(stuck) {
            one.bytes_acked > stuck.bytes_acked
        } else {
            one.subflow.map(|own| own.token) == token && one.bytes_acked > HANDSHAKE_BYTES
        }
    })
}
