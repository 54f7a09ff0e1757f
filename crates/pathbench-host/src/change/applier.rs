//! Applies plans with a journal, one operation at a time, and undoes them.

use super::host::{Host, OperationError, UndoOutcome};
use super::journal::{Journal, JournalError, JournalLine, NamespaceIdentity};
use super::operation::{ChangePlan, Operation, PlannedStep};
use std::path::{Path, PathBuf};

/// A plan was not applied in full, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Host(#[from] OperationError),
    #[error("cannot do {command:?}: {obstacle} since the kernel's state was read; try again")]
    Changed { command: String, obstacle: String },
    #[error("cannot do {command:?}: {source}")]
    Step { command: String, source: OperationError },
    #[error("{source}\nnot everything that was made before is undone ({detail}); the journal keeps the rest")]
    NotRolledBack { source: Box<ApplyError>, detail: String },
    #[error("interrupted")]
    Interrupted,
}

impl ApplyError {
    /// Whether this host cannot apply any plan, because privilege (`CAP_NET_ADMIN`) or a kernel feature is missing.
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::Step { source, .. } => source.is_host_unable(),
            Self::Host(error) => error.is_host_unable(),
            Self::NotRolledBack { source, .. } => source.is_host_unable(),
            Self::Journal(JournalError::File { source, .. }) => {
                source.kind() == std::io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneStep {
    pub commands: Vec<String>,
    pub outcome: UndoOutcome,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// The steps, latest first; empty without a journal.
    pub steps: Vec<UndoneStep>,
}

impl UndoReport {
    /// Whether the original state is restored. Otherwise the journal is kept.
    pub fn is_complete(&self) -> bool {
        self.kept().is_empty()
    }

    /// Why steps were not undone.
    fn kept(&self) -> Vec<&str> {
        let kept = self.steps.iter().filter_map(|step| match &step.outcome {
            UndoOutcome::Changed(how) => Some(how.as_str()),
            _ => None,
        });
        kept.collect()
    }
}

/// Simulates a crash in a test by returning `true`; it is called before and after each persistent change.
pub type Interruption = Box<dyn FnMut() -> bool + Send>;

/// Applies plans in a network namespace, and undoes them.
///
/// The journal records each step, with the data to undo it, before the step is made, so that an undo restores the
/// original state after any interruption. An existing journal is continued.
pub struct Applier {
    host: Host,
    journal: PathBuf,
    here: NamespaceIdentity,
    interruption: Option<Interruption>,
}

impl std::fmt::Debug for Applier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Applier")
            .field("journal", &self.journal)
            .field("here", &self.here)
            .finish_non_exhaustive()
    }
}

impl Applier {
    /// For the calling thread's network namespace. The directory of the file `journal` must exist.
    pub fn open(journal: &Path) -> Result<Self, ApplyError> {
        let here = NamespaceIdentity::of_this_thread()
            .map_err(|(file, source)| JournalError::Unidentified { file, source })?;
        Ok(Self { host: Host::open()?, journal: journal.to_owned(), here, interruption: None })
    }

    /// Adds an interruption. For tests.
    #[doc(hidden)]
    pub fn stopped_by(mut self, interruption: Interruption) -> Self {
        self.interruption = Some(interruption);
        self
    }

    /// Applies the steps of `plan` in order.
    /// Errors: the journal contains the steps made so far.
    pub fn apply(&mut self, plan: &ChangePlan) -> Result<(), ApplyError> {
        self.apply_steps(plan, false)
    }

    /// Applies all steps of `plan` in order. If a step fails, undoes the steps made before it in this call.
    pub fn apply_whole(&mut self, plan: &ChangePlan) -> Result<(), ApplyError> {
        self.apply_steps(plan, true)
    }

    fn apply_steps(&mut self, plan: &ChangePlan, roll_back: bool) -> Result<(), ApplyError> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let mut journal = Journal::open_or_create(&self.journal, &self.here)?;
        let first = journal.entries.len();
        let mut made = plan.steps.iter().try_for_each(|step| self.make(&mut journal, step));
        if matches!(made, Err(ApplyError::Interrupted)) {
            return made;
        }
        if roll_back && let Err(source) = made {
            made = Err(match self.undo_steps(&mut journal, &|number, _| number >= first, false) {
                Err(ApplyError::Interrupted) => return Err(ApplyError::Interrupted),
                Ok(report) if report.is_complete() => source,
                Ok(report) => not_rolled_back(source, &report.kept().join("; ")),
                Err(error) => not_rolled_back(source, &error.to_string()),
            });
        }
        if journal.is_settled() {
            journal.remove()?;
        }
        made
    }

    fn make(&mut self, journal: &mut Journal, step: &PlannedStep) -> Result<(), ApplyError> {
        let command = || step.commands.join("; ");
        let failed = |source| ApplyError::Step { command: command(), source };
        if let Some(obstacle) = self.host.obstacle(&step.operation).map_err(failed)? {
            return Err(ApplyError::Changed { command: command(), obstacle });
        }
        self.pause()?;
        let number = journal.begin(&step.operation, &step.undo_commands)?;
        self.pause()?;
        let mut stopped = false;
        let interruption = &mut self.interruption;
        let mut between = || {
            stopped = interruption.as_mut().is_some_and(|stop| stop());
            stopped
        };
        let made = self.host.make(&step.operation, &mut between);
        if stopped {
            return Err(ApplyError::Interrupted);
        }
        if let Err(source) = made {
            // An atomic operation that fails has changed nothing.
            if step.operation.is_atomic() {
                journal.note(JournalLine::Undone { step: number })?;
            }
            return Err(failed(source));
        }
        self.pause()?;
        let left = self.host.left_by(&step.operation).map_err(failed)?;
        journal.note(JournalLine::Done { step: number, left })?;
        self.pause()
    }

    /// Undoes the steps of the journal, latest first, and removes the journal once the original state is restored.
    /// Omits completed steps without lasting effect. Without `force`, keeps objects that another program has changed.
    /// Errors: the journal is kept.
    pub fn undo(&mut self, force: bool) -> Result<UndoReport, ApplyError> {
        self.undo_selected(&|_| true, force)
    }

    /// Undoes only the steps whose operation is `selected`.
    pub fn undo_selected(
        &mut self,
        selected: &dyn Fn(&Operation) -> bool,
        force: bool,
    ) -> Result<UndoReport, ApplyError> {
        let Some(mut journal) = Journal::open(&self.journal, &self.here)? else {
            return Ok(UndoReport::default());
        };
        let report = self.undo_steps(&mut journal, &|_, operation| selected(operation), force)?;
        self.pause()?;
        if journal.is_settled() {
            journal.remove()?;
        }
        Ok(report)
    }

    fn undo_steps(
        &mut self,
        journal: &mut Journal,
        selected: &dyn Fn(usize, &Operation) -> bool,
        force: bool,
    ) -> Result<UndoReport, ApplyError> {
        let mut report = UndoReport::default();
        for number in (0..journal.entries.len()).rev() {
            let unsettled = journal.entries.get(number).filter(|entry| !entry.is_settled());
            let Some(entry) = unsettled.filter(|entry| selected(number, &entry.operation)).cloned() else {
                continue;
            };
            self.pause()?;
            journal.note(JournalLine::Undoing { step: number })?;
            self.pause()?;
            let outcome = self
                .host
                .take_back(&entry, force)
                .map_err(|source| ApplyError::Step { command: entry.undo_commands.join("; "), source })?;
            self.pause()?;
            match outcome {
                UndoOutcome::Changed(_) => journal.note(JournalLine::Kept { step: number })?,
                _ => journal.note(JournalLine::Undone { step: number })?,
            }
            report.steps.push(UndoneStep { commands: entry.undo_commands, outcome });
        }
        Ok(report)
    }

    /// The operations of the journal that are not undone, in order; none without a journal.
    pub fn standing_operations(&self) -> Result<Vec<Operation>, ApplyError> {
        let Some(journal) = Journal::open(&self.journal, &self.here)? else { return Ok(Vec::new()) };
        let entries = journal.entries.iter().filter(|entry| !entry.is_settled());
        Ok(entries.map(|entry| entry.operation.clone()).collect())
    }

    fn pause(&mut self) -> Result<(), ApplyError> {
        let stopped = self.interruption.as_mut().is_some_and(|stop| stop());
        if stopped { Err(ApplyError::Interrupted) } else { Ok(()) }
    }
}

fn not_rolled_back(source: ApplyError, detail: &str) -> ApplyError {
    ApplyError::NotRolledBack { source: Box::new(source), detail: detail.to_owned() }
}
