//! A set-up of this host: planned from its current state, applied, verified and undone.

use super::arguments::SetupArgs;
use super::host::LAMINAR_SINCE;
use super::managers::{self, ManagerReader};
use super::{executable, host};
use crate::journal::{self, Undone};
use pathbench_check::setup::persistence::{self, PersistentFile};
use pathbench_check::setup::{SetupHost, SetupOptions, SetupPlan, SetupStep, is_outdated, plan};
use pathbench_host::change::{Applier, ApplyError, Operation, OperationError, UndoReport};
use pathbench_host::{iproute, kernel};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::time::SharedClock;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct SetupApplication {
    applier: Applier,
    journal: PathBuf,
    options: SetupOptions,
    root: PathBuf,
    /// The kernel has dropped the flag, or the commands are for an `ip` that does not know it.
    lacks_laminar: bool,
    /// A note about the printed commands.
    note: Option<&'static str>,
    managers: ManagerReader,
}

impl SetupApplication {
    pub(super) fn open(journal: PathBuf, args: &SetupArgs, clock: &SharedClock) -> Result<Self, Failure> {
        let applier = Applier::open(&journal).map_err(|error| failure(&error))?;
        let root = args.root.clone();
        let note = if args.apply || args.undo { None } else { language_note(iproute::knows_laminar()) };
        let (lacks_laminar, managers) = (note.is_some(), ManagerReader::new(clock));
        Ok(Self { applier, journal, options: args.into(), root, lacks_laminar, note, managers })
    }

    /// The state of the host, and the operations of earlier plans.
    fn host(&self) -> Result<SetupHost, Failure> {
        let mut host = host::read(&self.root, &self.managers)?;
        host.standing = self.applier.standing_operations().map_err(|error| failure(&error))?;
        host.has_laminar &= !self.lacks_laminar;
        Ok(host)
    }

    /// The plan for the current state.
    pub(super) fn plan(&self) -> Result<SetupPlan, Failure> {
        let host = self.host()?;
        if host.limits.is_none() {
            return Err(Failure::host_cannot(
                "this kernel has no MPTCP path manager: it is older than 5.6 or was built without MPTCP (CONFIG_MPTCP)",
            ));
        }
        let kernel_lacks_laminar = !kernel::release().is_at_least(LAMINAR_SINCE.0, LAMINAR_SINCE.1);
        let mut plan =
            plan(&host, &self.options).map_err(|mistakes| Failure::bad_input(mistakes.join("\n")))?;
        let adds = |step: &SetupStep| matches!(step.change.operation, Operation::AddEndpoint { .. });
        if plan.steps.iter().any(adds) && !kernel_lacks_laminar {
            plan.notes.extend(self.note.map(str::to_owned));
        }
        Ok(plan)
    }

    /// Applies the plan for the current state; the plan is returned.
    pub(super) fn apply(&mut self) -> Result<SetupPlan, Failure> {
        let plan = self.plan()?;
        match self.applier.apply_whole(&plan.changes()) {
            Err(ApplyError::Step { source: OperationError::NoLaminar, .. }) if !self.lacks_laminar => {
                self.lacks_laminar = true;
                self.apply()
            }
            applied => applied.map(|()| plan).map_err(|error| failure(&error)),
        }
    }

    /// Checks that the host is set up now.
    pub(super) fn verify(&self) -> Result<(), Failure> {
        if self.has_journal() {
            let journal = self.journal.display();
            output::note(format_args!(
                "the changes are in the journal {journal}; pathbench setup --undo undoes them"
            ));
        }
        let missing = self.plan()?;
        if missing.steps.is_empty() {
            return Ok(());
        }
        let commands = missing.steps.iter().flat_map(|step| step.change.commands.clone());
        let commands: Vec<String> = commands.collect();
        Err(Failure::failed(format!(
            "the changes are made, but the host is not as planned; another program may change it at the same time. \
             Missing:\n{}",
            commands.join("\n")
        )))
    }

    pub(super) fn has_journal(&self) -> bool {
        self.journal.exists()
    }

    /// Undoes what belongs to interfaces that are down and to addresses that are gone.
    pub(super) fn take_back(&mut self) -> Result<UndoReport, Failure> {
        let host = self.host()?;
        let outdated = |operation: &Operation| is_outdated(operation, &host);
        if !host.standing.iter().any(outdated) {
            return Ok(UndoReport::default());
        }
        self.applier.undo_selected(&outdated, false).map_err(|error| failure(&error))
    }

    pub(super) fn undo(&mut self, force: bool) -> Undone {
        journal::undo(&mut self.applier, &self.journal, "setup", force)
    }

    /// The files that repeat the set-up at every boot.
    pub(super) fn files(&self, plan: &SetupPlan) -> Result<Vec<PersistentFile>, Failure> {
        let program = executable::find(&self.root)?;
        let host = self.host()?;
        let networks = managers::network_files(&self.root);
        Ok(persistence::files(&host, &self.options, plan, &program.display().to_string(), &networks))
    }
}

/// The difference between the printed commands and those of `--apply`; `knows_laminar`: of the installed `ip`.
const fn language_note(knows_laminar: Option<bool>) -> Option<&'static str> {
    match knows_laminar {
        Some(true) => None,
        Some(false) => Some(
            "the installed ip does not know the endpoint flag laminar, and the commands omit it; pathbench setup --apply sets it.",
        ),
        None => Some(
            "no ip that knows MPTCP is installed (iproute2 5.8 or later): pathbench setup --apply makes the changes without it.",
        ),
    }
}

fn failure(error: &ApplyError) -> Failure {
    journal::failure(error, "pathbench setup")
}
