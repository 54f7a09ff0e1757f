//! The plan of a set-up, and its draft.

use super::host::SetupHost;
use super::options::SetupOptions;
use super::paths::{SetupPath, Withheld};
use pathbench_host::change::{ChangePlan, InterfaceNames, Operation, PlannedStep};

/// A planned change and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupStep {
    pub reason: String,
    pub change: PlannedStep,
}

/// The plan of a set-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetupPlan {
    pub paths: Vec<SetupPath>,
    /// In the order of their execution; empty if the host is set up already.
    pub steps: Vec<SetupStep>,
    /// Notes for the user, in sentences.
    pub notes: Vec<String>,
    /// Endpoints that the plan lacks, because they would bypass a VPN.
    pub withheld: Vec<Withheld>,
    /// Another program has to act before this host is set up, as a note says.
    pub is_incomplete: bool,
}

impl SetupPlan {
    /// The operations, to apply them.
    pub fn changes(&self) -> ChangePlan {
        ChangePlan { steps: self.steps.iter().map(|step| step.change.clone()).collect(), notes: Vec::new() }
    }

    /// Why the plan lacks endpoints; `None` if it lacks none.
    pub fn why_withheld(&self) -> Option<String> {
        let first = self.withheld.first()?;
        let named: Vec<String> =
            self.withheld.iter().map(|one| format!("{} ({})", one.interface, one.address)).collect();
        Some(format!(
            "new connections leave by the VPN {}, and endpoints of {} would bypass it: the packets and addresses of their \
             subflows are visible outside of the VPN; --bypass-vpn permits it",
            first.vpn,
            named.join(", ")
        ))
    }

    /// Why a client that is set up like this uses one path only; `None` with several paths.
    pub fn why_single_path(&self) -> Option<String> {
        match self.paths.as_slice() {
            [] => Some("no interface that is up has an address for a path".to_owned()),
            [only] => Some(format!("{} is the only interface with an address for a path", only.interface)),
            _ => None,
        }
    }
}

pub(super) struct Draft<'a> {
    pub(super) host: &'a SetupHost,
    pub(super) options: &'a SetupOptions,
    pub(super) fullmesh: bool,
    pub(super) names: InterfaceNames,
    pub(super) plan: SetupPlan,
}

impl Draft<'_> {
    pub(super) fn step(&mut self, reason: String, operation: Operation) {
        self.plan.steps.push(SetupStep { reason, change: PlannedStep::new(operation, &self.names) });
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.plan.notes.contains(&note) {
            self.plan.notes.push(note);
        }
    }

    /// A note about the part of the set-up that another program has to make.
    pub(super) fn leave(&mut self, note: String) {
        self.note(note);
        self.plan.is_incomplete = true;
    }
}
