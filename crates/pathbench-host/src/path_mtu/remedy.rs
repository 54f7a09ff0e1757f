//! Plans applied with a journal, and taken back.

use super::host::{HostError, UndoOutcome};
use super::identity::NamespaceIdentity;
use super::journal::{Journal, JournalError};
use super::plan::{Plan, PlannedStep};
use super::state::{PathObserver, PathStateError};
use std::path::{Path, PathBuf};

/// A plan was not applied in full, or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum RemedyError {
    /// The journal cannot be kept; the host was not touched.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel cannot be asked.
    #[error(transparent)]
    State(#[from] PathStateError),
    /// The host is not as it was when the plan was made. Steps before this one were made and stand in the journal.
    #[error("cannot do {command:?}: {obstacle} since the kernel was asked; try again")]
    Changed {
        /// The step.
        command: String,
        /// What has changed.
        obstacle: String,
    },
    /// The kernel refused. Steps before this one were made and stand in the journal.
    #[error("cannot do {command:?}: {source}")]
    Step {
        /// The step.
        command: String,
        /// What the kernel said.
        source: HostError,
    },
    /// A test stopped it here, as a crash would.
    #[error("it was stopped in the middle")]
    Interrupted,
}

impl RemedyError {
    /// Whether this host cannot do it at all, for want of privilege (`CAP_NET_ADMIN`) or of a kernel feature.
    pub fn is_host_unable(&self) -> bool {
        use crate::mptcp::MptcpError;
        match self {
            Self::Step { source, .. } => source.is_host_unable(),
            Self::State(PathStateError::Mptcp(MptcpError::NoPathManager)) => true,
            Self::Journal(JournalError::File { source, .. }) => {
                source.kind() == std::io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}

/// A step that was to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneStep {
    /// The commands that take it back.
    pub commands: Vec<String>,
    /// What became of it.
    pub outcome: UndoOutcome,
}

/// What an undo came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// The steps, the last one that was made first; none when there is no journal.
    pub steps: Vec<UndoneStep>,
}

impl UndoReport {
    /// Whether everything is as it was before the first step. Otherwise the journal is kept.
    pub fn is_complete(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step.outcome, UndoOutcome::Changed(_)))
    }
}

/// Stops a test's apply or undo as a crash would, when it answers `true`: it is asked before and after whatever lasts.
pub type Interruption = Box<dyn FnMut() -> bool + Send>;

/// Applies plans in a network namespace, and takes them back.
///
/// Each step stands in the journal, with what takes it back, before it is made; so whatever happens in between, an
/// undo restores what was there before the first step. A journal that stands is gone on with.
pub struct Remedy {
    host: PathObserver,
    journal: PathBuf,
    here: NamespaceIdentity,
    interruption: Option<Interruption>,
}

impl std::fmt::Debug for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remedy")
            .field("journal", &self.journal)
            .field("here", &self.here)
            .finish_non_exhaustive()
    }
}

impl Remedy {
    /// For the calling thread's network namespace, with the journal at `journal`, in a directory that exists.
    ///
    /// # Errors
    /// [`RemedyError::State`], [`RemedyError::Journal`].
    pub fn open(journal: &Path) -> Result<Self, RemedyError> {
        let here = NamespaceIdentity::of_this_thread()
            .map_err(|(file, source)| JournalError::Unidentified { file, source })?;
        Ok(Self { host: PathObserver::open()?, journal: journal.to_owned(), here, interruption: None })
    }

    /// The same, stopped where `interruption` says so. For tests.
    #[doc(hidden)]
    pub fn stopped_by(mut self, interruption: Interruption) -> Self {
        self.interruption = Some(interruption);
        self
    }

    /// Makes the steps of `plan`, in their order.
    ///
    /// # Errors
    /// [`RemedyError`]; what was made until then stands in the journal.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), RemedyError> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let mut journal = Journal::open_or_create(&self.journal, &self.here)?;
        for step in &plan.steps {
            match self.make(&mut journal, step) {
                Ok(()) => {}
                Err(RemedyError::Interrupted) => return Err(RemedyError::Interrupted),
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

    fn make(&mut self, journal: &mut Journal, step: &PlannedStep) -> Result<(), RemedyError> {
        let command = || step.commands.join("; ");
        let failed = |source| RemedyError::Step { command: command(), source };
        if let Some(obstacle) = self.host.obstacle(&step.operation).map_err(failed)? {
            return Err(RemedyError::Changed { command: command(), obstacle });
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
            return Err(RemedyError::Interrupted);
        }
        if let Err(source) = made {
            // Of what has one part, nothing was done.
            if step.operation.is_atomic() {
                journal.undone(number)?;
            }
            return Err(failed(source));
        }
        self.pause()?;
        let left = self.host.left_by(&step.operation).map_err(failed)?;
        journal.done(number, left)?;
        self.pause()
    }

    /// Takes back what the journal tells of, the last step first, and removes it when everything is as it was. Steps of
    /// which nothing stays once they were made in full are left out. What somebody has changed since is left alone, unless
    /// `force`.
    ///
    /// # Errors
    /// [`RemedyError`]; the journal stands then.
    pub fn undo(&mut self, force: bool) -> Result<UndoReport, RemedyError> {
        let mut report = UndoReport::default();
        let Some(mut journal) = Journal::open(&self.journal, &self.here)? else { return Ok(report) };
        for number in (0..journal.entries().len()).rev() {
            let Some(entry) = journal.entries().get(number).filter(|entry| !entry.is_settled()).cloned()
            else {
                continue;
            };
            self.pause()?;
            journal.undoing(number)?;
            self.pause()?;
            let outcome = self
                .host
                .take_back(&entry, force)
                .map_err(|source| RemedyError::Step { command: entry.undo_commands.join("; "), source })?;
            self.pause()?;
            match outcome {
                UndoOutcome::Changed(_) => journal.kept(number)?,
                _ => journal.undone(number)?,
            }
            report.steps.push(UndoneStep { commands: entry.undo_commands, outcome });
        }
        self.pause()?;
        if journal.is_settled() {
            journal.remove()?;
        }
        Ok(report)
    }

    /// The commands that would take back what the journal tells of, the last step first; none without a journal.
    pub fn standing(&self) -> Result<Vec<String>, RemedyError> {
        let Some(journal) = Journal::open(&self.journal, &self.here)? else { return Ok(Vec::new()) };
        let entries = journal.entries().iter().rev().filter(|entry| !entry.is_settled());
        Ok(entries.flat_map(|entry| entry.undo_commands.clone()).collect())
    }

    fn pause(&mut self) -> Result<(), RemedyError> {
        let stopped = self.interruption.as_mut().is_some_and(|stop| stop());
        if stopped { Err(RemedyError::Interrupted) } else { Ok(()) }
    }
}
