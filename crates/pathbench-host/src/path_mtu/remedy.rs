//! Applies plans with a journal, one operation at a time, and undoes them.

use super::journal::{Entry, Journal, JournalError, Line, NamespaceIdentity};
use super::operation::Operation;
use super::plan::{Plan, PlannedStep};
use super::state::{PathObserver, PathStateError};
use crate::mptcp::{Endpoint, MptcpError, PathManager};
use crate::netlink::FibEntry;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A plan was not applied in full, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum RemedyError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    State(#[from] PathStateError),
    #[error("cannot do {command:?}: {obstacle} since the kernel's state was read; try again")]
    Changed { command: String, obstacle: String },
    #[error("cannot do {command:?}: {source}")]
    Step { command: String, source: MptcpError },
    #[error("interrupted")]
    Interrupted,
}

impl RemedyError {
    /// Whether this host cannot apply any plan, because privilege (`CAP_NET_ADMIN`) or a kernel feature is missing.
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::Step { source, .. } => source.is_host_unable(),
            Self::State(PathStateError::Mptcp(error)) => error.is_host_unable(),
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
    /// For the calling thread's network namespace. The directory of the file `journal` must exist.
    pub fn open(journal: &Path) -> Result<Self, RemedyError> {
        let here = NamespaceIdentity::of_this_thread()
            .map_err(|(file, source)| JournalError::Unidentified { file, source })?;
        Ok(Self { host: PathObserver::open()?, journal: journal.to_owned(), here, interruption: None })
    }

    /// Adds an interruption. For tests.
    #[doc(hidden)]
    pub fn stopped_by(mut self, interruption: Interruption) -> Self {
        self.interruption = Some(interruption);
        self
    }

    /// Applies the steps of `plan` in order.
    /// Errors: the journal contains the steps made so far.
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
    pub fn undo(&mut self, force: bool) -> Result<UndoReport, RemedyError> {
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
                .map_err(|source| RemedyError::Step { command: entry.undo_commands.join("; "), source })?;
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
    pub fn standing(&self) -> Result<Vec<String>, RemedyError> {
        let Some(journal) = Journal::open(&self.journal, &self.here)? else { return Ok(Vec::new()) };
        let entries = journal.entries.iter().rev().filter(|entry| !entry.is_settled());
        Ok(entries.flat_map(|entry| entry.undo_commands.clone()).collect())
    }

    fn pause(&mut self) -> Result<(), RemedyError> {
        let stopped = self.interruption.as_mut().is_some_and(|stop| stop());
        if stopped { Err(RemedyError::Interrupted) } else { Ok(()) }
    }
}

/// The result of undoing a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoOutcome {
    Restored,
    /// Nothing to undo: the step was not made, is already undone, or has no lasting effect.
    Nothing,
    Gone,
    /// Another program has replaced the object, as described; it is left permanently.
    Superseded(String),
    /// Another program has changed the object, as described; it is left as it is.
    Changed(String),
}

impl PathObserver {
    /// Describes the difference between host and plan that prevents `operation`; `None` if there is none.
    pub(super) fn obstacle(&mut self, operation: &Operation) -> Result<Option<String>, MptcpError> {
        let obstacle = match operation {
            Operation::AddRoute { route } => {
                let there = self.first_in_place_of(route)?;
                there.map(|_| format!("there is a route to {} by now", route.destination()))
            }
            Operation::ReplaceRoute { before, .. } => {
                let there = self.first_in_place_of(before)?;
                (there.as_ref() != Some(before))
                    .then(|| format!("the route to {} has changed", before.destination()))
            }
            Operation::SetLimits { before, .. } => {
                (self.manager()?.limits()? != *before).then(|| "the MPTCP limits have changed".to_owned())
            }
            Operation::RefreshEndpoint { endpoint, .. } => {
                let there = self.manager()?.endpoints()?.contains(endpoint);
                (!there).then(|| format!("MPTCP endpoint {endpoint} has changed"))
            }
            Operation::AddEndpoint { endpoint } => {
                let rival = self.rival_of(endpoint)?;
                rival.map(|rival| format!("there is an MPTCP endpoint {rival} by now"))
            }
            Operation::CloseFirstSubflow { .. } => None,
        };
        Ok(obstacle)
    }

    /// Performs `operation`. `between` is called between the parts of a two-part operation; if it returns true, the
    /// second part is not performed.
    pub(super) fn make(
        &mut self,
        operation: &Operation,
        between: &mut dyn FnMut() -> bool,
    ) -> Result<(), MptcpError> {
        match operation {
            Operation::AddRoute { route } => self.routes.add_entry(route)?,
            Operation::ReplaceRoute { before, after } => self.put_in_place_of(before, after)?,
            Operation::SetLimits { after, .. } => self.manager()?.set_limits(after)?,
            Operation::RefreshEndpoint { endpoint, first_subflow_too, wait_ms } => {
                // This order notifies peers once: Linux 6.12 and newer also close the first subflow with the endpoint;
                // closing the first subflow after that would notify peers again.
                if *first_subflow_too {
                    self.close_first_subflow(endpoint.address)?;
                }
                self.manager()?.remove_endpoint(endpoint.id.unwrap_or(0), endpoint.address)?;
                if between() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(*wait_ms));
                self.manager()?.add_endpoint(endpoint)?;
            }
            Operation::CloseFirstSubflow { address, wait_ms } => {
                self.close_first_subflow(*address)?;
                std::thread::sleep(Duration::from_millis(*wait_ms));
            }
            Operation::AddEndpoint { endpoint } => self.manager()?.add_endpoint(endpoint)?,
        }
        Ok(())
    }

    /// The route of `operation` as stored by the kernel, if different from the request.
    pub(super) fn left_by(&mut self, operation: &Operation) -> Result<Option<FibEntry>, MptcpError> {
        let (Operation::AddRoute { route } | Operation::ReplaceRoute { after: route, .. }) = operation else {
            return Ok(None);
        };
        let there = self.first_in_place_of(route)?;
        Ok(there.filter(|there| there != route))
    }

    /// Undoes the operation of `entry`, which is not settled; the operation may not have been performed. With `force`,
    /// undoes it even after a change by another program.
    pub(super) fn take_back(&mut self, entry: &Entry, force: bool) -> Result<UndoOutcome, MptcpError> {
        let left = entry.left.as_ref();
        match &entry.operation {
            Operation::AddRoute { route } => self.remove_route(left.unwrap_or(route), force),
            Operation::ReplaceRoute { before, after } => {
                self.restore_route(before, left.unwrap_or(after), entry.is_interrupted(), force)
            }
            Operation::SetLimits { before, after } => {
                let there = self.manager()?.limits()?;
                if there == *before {
                    return Ok(UndoOutcome::Nothing);
                }
                if there != *after && !force {
                    return Ok(UndoOutcome::Changed(
                        "the MPTCP limits have been set to something else since".to_owned(),
                    ));
                }
                self.manager()?.set_limits(before)?;
                Ok(UndoOutcome::Restored)
            }
            Operation::RefreshEndpoint { endpoint, .. } => self.restore_endpoint(endpoint, force),
            Operation::CloseFirstSubflow { .. } => Ok(UndoOutcome::Nothing),
            Operation::AddEndpoint { endpoint } => self.remove_endpoint(endpoint, force),
        }
    }

    fn remove_route(&mut self, ours: &FibEntry, force: bool) -> Result<UndoOutcome, MptcpError> {
        let Some(there) = self.first_in_place_of(ours)? else { return Ok(UndoOutcome::Nothing) };
        if there != *ours && !force {
            return Ok(UndoOutcome::Changed(format!(
                "the route to {} in table {} has been changed since",
                ours.destination(),
                ours.table()
            )));
        }
        self.routes.remove_entry(&there)?;
        Ok(UndoOutcome::Restored)
    }

    fn restore_route(
        &mut self,
        before: &FibEntry,
        ours: &FibEntry,
        interrupted: bool,
        force: bool,
    ) -> Result<UndoOutcome, MptcpError> {
        let there = self.first_in_place_of(before)?;
        let there_is_none = there.is_none();
        if there.as_ref() == Some(before) {
            return Ok(UndoOutcome::Nothing);
        }
        if let Some(there) = there.filter(|there| there == ours || force) {
            // The lifetime has decreased in the meantime.
            self.put_in_place_of(&there, &before.expiring_like(&there))?;
            return Ok(UndoOutcome::Restored);
        }
        if self.is_absent(before)? {
            return Ok(UndoOutcome::Gone);
        }
        // Replacing a route with a next hop object removes and adds it; the interruption may have come between the two.
        if force || (interrupted && there_is_none && before.uses_next_hop_object()) {
            self.routes.add_entry(before)?;
            return Ok(UndoOutcome::Restored);
        }
        Ok(UndoOutcome::Changed(format!(
            "the route to {} in table {} has been changed or removed since",
            before.destination(),
            before.table()
        )))
    }

    /// Adds the endpoint of an interrupted refresh again. Leaves an endpoint with the same address or id that another
    /// program has added.
    fn restore_endpoint(&mut self, endpoint: &Endpoint, force: bool) -> Result<UndoOutcome, MptcpError> {
        let rival = self.rival_of(endpoint)?;
        if rival == Some(*endpoint) {
            return Ok(UndoOutcome::Nothing);
        }
        if let Some(rival) = rival {
            let how = format!("MPTCP endpoint {rival} has been added since, in the place of {endpoint}");
            return Ok(if force { UndoOutcome::Superseded(how) } else { UndoOutcome::Changed(how) });
        }
        self.manager()?.add_endpoint(endpoint)?;
        Ok(UndoOutcome::Restored)
    }

    fn remove_endpoint(&mut self, ours: &Endpoint, force: bool) -> Result<UndoOutcome, MptcpError> {
        let key = |endpoint: &Endpoint| (endpoint.id, endpoint.address, endpoint.port);
        let mut endpoints = self.manager()?.endpoints()?.into_iter();
        let Some(there) = endpoints.find(|there| key(there) == key(ours)) else {
            return Ok(UndoOutcome::Nothing);
        };
        if there != *ours && !force {
            return Ok(UndoOutcome::Changed(format!("MPTCP endpoint {there} has been changed since")));
        }
        self.manager()?.remove_endpoint(there.id.unwrap_or(0), there.address)?;
        Ok(UndoOutcome::Restored)
    }

    /// Closes the first subflow of connections from `address`; succeeds if there is none.
    fn close_first_subflow(&mut self, address: IpAddr) -> Result<(), MptcpError> {
        self.manager()?.remove_endpoint(0, address)?;
        Ok(())
    }

    fn manager(&mut self) -> Result<&mut PathManager, MptcpError> {
        self.manager.as_mut().ok_or(MptcpError::NoPathManager)
    }

    fn rival_of(&mut self, endpoint: &Endpoint) -> Result<Option<Endpoint>, MptcpError> {
        let same = |other: &Endpoint| {
            other.id == endpoint.id || (other.address == endpoint.address && other.port == endpoint.port)
        };
        Ok(self.manager()?.endpoints()?.into_iter().find(same))
    }

    fn put_in_place_of(&mut self, there: &FibEntry, entry: &FibEntry) -> Result<(), MptcpError> {
        self.routes.replace_entry(entry)?;
        if there.hides(entry) && self.first_in_place_of(entry)?.as_ref() == Some(there) {
            self.routes.remove_entry(there)?;
            self.routes.add_entry(entry)?;
        }
        Ok(())
    }

    fn first_in_place_of(&mut self, entry: &FibEntry) -> Result<Option<FibEntry>, MptcpError> {
        let entries = self.routes.fib_entries(entry.destination().addr(), entry.table())?;
        Ok(entries.into_iter().find(|there| there.shares_place_with(entry)))
    }

    fn is_absent(&mut self, entry: &FibEntry) -> Result<bool, MptcpError> {
        let links = self.routes.links()?;
        let up = |index| links.iter().any(|link| link.index == index && link.up);
        Ok(entry.next_hops().iter().any(|hop| !up(hop.interface)))
    }
}
