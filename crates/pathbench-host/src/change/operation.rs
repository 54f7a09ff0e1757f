//! The changes of a host, the equivalent commands, and the commands that undo them.

use super::commands::{
    InterfaceNames, endpoint_command, first_subflow_command, replacement_commands, route_command,
    rule_command, wait_command,
};
use super::setting;
use crate::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use crate::netlink::{FibEntry, RoutingRule};
use pathbench_record::mptcp::command::{change_endpoint, delete_endpoint, set_limits};
use pathbench_record::text::printable;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Characters of a journal's text in a message.
const LONGEST_SHOWN: usize = 80;
const LONGEST_WAIT_MS: u64 = 600_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Operation {
    /// Adds a route where no route has the same destination and metric.
    AddRoute {
        route: FibEntry,
    },
    ReplaceRoute {
        before: FibEntry,
        after: FibEntry,
    },
    SetLimits {
        before: MptcpLimits,
        after: MptcpLimits,
    },
    /// Removes an MPTCP endpoint and adds it again, so that connections close their subflow from it and open a new one.
    RefreshEndpoint {
        endpoint: MptcpEndpoint,
        /// Whether connections whose first subflow has its address close that subflow, too.
        first_subflow_too: bool,
        /// Delay between removal and addition. Peers receive the removal (`REMOVE_ADDR`) over another path, whose queue
        /// may be long, and then close the subflow with that id; if the removal arrives late, they close the new one.
        wait_ms: u64,
    },
    /// Closes the first subflow of connections from this address, which is no endpoint.
    CloseFirstSubflow {
        address: IpAddr,
        /// Delay after the removal, as for [`Self::RefreshEndpoint`].
        wait_ms: u64,
    },
    /// Without an id, the kernel assigns one, and an implicit endpoint with the same address becomes this one.
    AddEndpoint {
        endpoint: MptcpEndpoint,
    },
    /// Changes the flags `backup` and `fullmesh`, which the kernel can change while connections use the endpoint.
    ChangeEndpoint {
        before: MptcpEndpoint,
        after: EndpointFlags,
    },
    AddRule {
        rule: RoutingRule,
    },
    /// Sets a kernel setting, named with slashes or dots ([`crate::sysctl`]).
    SetSysctl {
        key: String,
        before: String,
        after: String,
    },
}

impl Operation {
    /// The equivalent shell commands.
    pub fn commands(&self, names: &InterfaceNames) -> Vec<String> {
        match self {
            Self::AddRoute { route } => vec![route_command("add", route, names)],
            Self::ReplaceRoute { before, after } => replacement_commands(before, after, names),
            Self::SetLimits { after, .. } => vec![set_limits(*after)],
            Self::RefreshEndpoint { endpoint, first_subflow_too, wait_ms } => {
                let first = first_subflow_too.then(|| first_subflow_command(endpoint.address));
                let mut commands: Vec<_> = first.into_iter().collect();
                commands.push(delete_endpoint(endpoint));
                commands.push(wait_command(*wait_ms));
                commands.push(endpoint_command(endpoint, names));
                commands
            }
            Self::CloseFirstSubflow { address, wait_ms } => {
                vec![first_subflow_command(*address), wait_command(*wait_ms)]
            }
            Self::AddEndpoint { endpoint } => vec![endpoint_command(endpoint, names)],
            Self::ChangeEndpoint { before, after } => {
                vec![change_endpoint(before, before.flags, *after)]
            }
            Self::AddRule { rule } => vec![rule_command("add", rule)],
            Self::SetSysctl { key, after, .. } => vec![setting::command(key, after)],
        }
    }

    /// The shell commands that undo the operation; empty if it has no lasting effect.
    pub fn undo_commands(&self, names: &InterfaceNames) -> Vec<String> {
        match self {
            Self::AddRoute { route } => vec![route_command("delete", route, names)],
            Self::ReplaceRoute { before, after } => replacement_commands(after, before, names),
            Self::SetLimits { before, .. } => vec![set_limits(*before)],
            Self::RefreshEndpoint { .. } | Self::CloseFirstSubflow { .. } => Vec::new(),
            Self::AddEndpoint { endpoint } => vec![delete_endpoint(endpoint)],
            Self::ChangeEndpoint { before, after } => {
                vec![change_endpoint(before, *after, before.flags)]
            }
            Self::AddRule { rule } => vec![rule_command("delete", rule)],
            Self::SetSysctl { key, before, .. } => vec![setting::command(key, before)],
        }
    }

    /// Whether a plan of Pathbench can have this operation. Errors: the problem.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::SetSysctl { key, .. } if !setting::is_changed_by_plans(key) => {
                Err(format!("{:?} is no setting that Pathbench changes", printable(key, LONGEST_SHOWN)))
            }
            Self::SetSysctl { key, before, after } => {
                match [before, after].into_iter().find(|one| !setting::is_value(key, one)) {
                    Some(value) => Err(format!("{:?} is no value of {key}", printable(value, LONGEST_SHOWN))),
                    None => Ok(()),
                }
            }
            Self::RefreshEndpoint { wait_ms, .. } | Self::CloseFirstSubflow { wait_ms, .. }
                if *wait_ms > LONGEST_WAIT_MS =>
            {
                Err(format!("a wait of {wait_ms} ms, and at most {LONGEST_WAIT_MS} ms"))
            }
            _ => Ok(()),
        }
    }

    pub(super) const fn leaves_nothing(&self) -> bool {
        matches!(self, Self::RefreshEndpoint { .. } | Self::CloseFirstSubflow { .. })
    }

    pub(super) const fn is_atomic(&self) -> bool {
        !matches!(self, Self::RefreshEndpoint { .. })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    pub operation: Operation,
    /// The equivalent shell commands.
    pub commands: Vec<String>,
    /// The shell commands that undo the operation; empty if it has no lasting effect.
    pub undo_commands: Vec<String>,
}

/// Changes to make in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangePlan {
    /// Empty if the host's state is as wanted.
    pub steps: Vec<PlannedStep>,
    /// Notes for the user, in sentences.
    pub notes: Vec<String>,
}

impl PlannedStep {
    pub fn new(operation: Operation, names: &InterfaceNames) -> Self {
        Self { commands: operation.commands(names), undo_commands: operation.undo_commands(names), operation }
    }
}

impl ChangePlan {
    pub fn push(&mut self, operation: Operation, names: &InterfaceNames) {
        self.steps.push(PlannedStep::new(operation, names));
    }
}
