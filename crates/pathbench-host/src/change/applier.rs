//! Applies plans with a journal, one operation at a time, and undoes them.

use super::host::{Host, UndoOutcome};
use super::journal::{Journal, JournalError, Line, NamespaceIdentity};
use super::operation::{Plan, PlannedStep};
use crate::mptcp::MptcpError;
use std::path::{Path, PathBuf};

/// A plan was not applied in full, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Host(#[from] MptcpError),
    #[error("cannot do {command:?}: {obstacle} since the kernel's state was read; try again")]
    Changed { command: String, obstacle: String },
    #[error("cannot do {command:?}: {source}")]
    Step { command: String, source: MptcpError },
    #[error("interrupted")]
    Interrupted,
}

impl ApplyError {
    /// Whether this host cannot apply any plan, because privilege (`CAP_NET_ADMIN`) or a kernel feature is missing.
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::Step { source, .. } => source.is_host_unable(),
            Self::Host(error) => error.is_host_unable(),
            Self::Journal(JournalError::File { source, .. }) => {
                source.kind() == std::io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}

/// The undo of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneStep {
    /// The commands to undo it.
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
        !self.steps.iter().any(|step| matches!(step.outcome, UndoOutcome::Changed(_)))
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
    pub fn apply(&mut self, plan: &Plan) -> Result<(), ApplyError> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let mut journal = Journal::open_or_create(&self.journal, &self.here)?;
        for step in &plan.steps {
            match self.make(&mut journal, step) {
                Ok(()) => {}
                Err(ApplyError::Interrupted) => return Err(ApplyError::Interrupted),
                Err(error) => {
                    if journal.is_settled() {
                        journal.remove()?;
                    }
                    return Err(error);
                }
            }
        }
        if journal.is_settled() {
            journal.remove()?;
        }
        Ok(())
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
                journal.note(Line::Undone { step: number })?;
            }
            return Err(failed(source));
        }
        self.pause()?;
        let left = self.host.left_by(&step.operation).map_err(failed)?;
        journal.note(Line::Done { step: number, left })?;
        self.pause()
    }

    /// Undoes the steps of the journal, latest first, and removes the journal once the original state is restored.
    /// Omits completed steps without lasting effect. Without `force`, keeps objects that another program has changed.
    /// Errors: the journal is kept.
    pub fn undo(&mut self, force: bool) -> Result<UndoReport, ApplyError> {
        let mut report = UndoReport::default();
        let Some(mut journal) = Journal::open(&self.journal, &self.here)? else { return Ok(report) };
        for number in (0..journal.entries.len()).rev() {
            let Some(entry) = journal.entries.get(number).filter(|entry| !entry.is_settled()).cloned() else {
                continue;
            };
            self.pause()?;
            journal.note(Line::Undoing { step: number })?;
            self.pause()?;
            let outcome = self
                .host
                .take_back(&entry, force)
                .map_err(|source| ApplyError::Step { command: entry.undo_commands.join("; "), source })?;
            self.pause()?;
            match outcome {
                UndoOutcome::Changed(_) => journal.note(Line::Kept { step: number })?,
                _ => journal.note(Line::Undone { step: number })?,
            }
            report.steps.push(UndoneStep { commands: entry.undo_commands, outcome });
        }
        self.pause()?;
        if journal.is_settled() {
            journal.remove()?;
        }
        Ok(report)
    }

    /// The commands that would undo the steps of the journal, latest first; none without a journal.
    pub fn standing(&self) -> Result<Vec<String>, ApplyError> {
        let Some(journal) = Journal::open(&self.journal, &self.here)? else { return Ok(Vec::new()) };
        let entries = journal.entries.iter().rev().filter(|entry| !entry.is_settled());
        Ok(entries.flat_map(|entry| entry.undo_commands.clone()).collect())
    }

    fn pause(&mut self) -> Result<(), ApplyError> {
        let stopped = self.interruption.as_mut().is_some_and(|stop| stop());
        if stopped { Err(ApplyError::Interrupted) } else { Ok(()) }
    }
}
