//! The changes that put a path's MTU right, what takes each back, and the commands that do the same.

use super::fib_command::{InterfaceNames, route_command};
use super::fib_entry::FibEntry;
use crate::mptcp::{Endpoint, EndpointFlags, Limits};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One change of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Operation {
    /// A route is added where there was none of its destination and metric.
    AddRoute {
        /// The route.
        route: FibEntry,
    },
    /// A route takes the place of another.
    ReplaceRoute {
        /// What was there.
        before: FibEntry,
        /// What is there then.
        after: FibEntry,
    },
    /// MPTCP connections may have another number of subflows.
    SetLimits {
        /// What was allowed.
        before: Limits,
        /// What is allowed then.
        after: Limits,
    },
    /// An MPTCP endpoint is removed and added again, so that connections close their subflow from it and open
    /// another one.
    RefreshEndpoint {
        /// The endpoint.
        endpoint: Endpoint,
        /// Whether connections that began at its address close that first subflow, too.
        first_subflow_too: bool,
        /// How long to wait in between. Peers hear of the removal (`REMOVE_ADDR`) by another path, whose queue may be
        /// long, and close by that number what they have then: the new subflow, if it is there first.
        wait_ms: u64,
    },
    /// Connections that began at this address, which is no endpoint, close that first subflow.
    CloseFirstSubflow {
        /// The address.
        address: IpAddr,
        /// How long to wait after it, as for [`Self::RefreshEndpoint`].
        wait_ms: u64,
    },
    /// An MPTCP endpoint is added.
    AddEndpoint {
        /// The endpoint, with an id.
        endpoint: Endpoint,
    },
}

impl Operation {
    /// The commands that do the same, to be pasted into a shell.
    pub fn commands(&self, names: &InterfaceNames) -> Vec<String> {
        match self {
            Self::AddRoute { route } => vec![route_command("add", route, names)],
            Self::ReplaceRoute { before, after } => replacement_commands(before, after, names),
            Self::SetLimits { after, .. } => vec![limits_command(*after)],
            Self::RefreshEndpoint { endpoint, first_subflow_too, wait_ms } => {
                let first = first_subflow_too.then(|| first_subflow_command(endpoint.address));
                let mut commands: Vec<_> = first.into_iter().collect();
                commands.push(remove_endpoint_command(endpoint));
                commands.push(wait_command(*wait_ms));
                commands.push(endpoint_command(endpoint, names));
                commands
            }
            Self::CloseFirstSubflow { address, wait_ms } => {
                vec![first_subflow_command(*address), wait_command(*wait_ms)]
            }
            Self::AddEndpoint { endpoint } => vec![endpoint_command(endpoint, names)],
        }
    }

    /// The commands that take it back; none where nothing stays of it.
    pub fn undo_commands(&self, names: &InterfaceNames) -> Vec<String> {
        match self {
            Self::AddRoute { route } => vec![route_command("delete", route, names)],
            Self::ReplaceRoute { before, after } => replacement_commands(after, before, names),
            Self::SetLimits { before, .. } => vec![limits_command(*before)],
            Self::RefreshEndpoint { .. } | Self::CloseFirstSubflow { .. } => Vec::new(),
            Self::AddEndpoint { endpoint } => vec![remove_endpoint_command(endpoint)],
        }
    }

    /// Whether nothing stays of it once it was made in full.
    pub(super) const fn leaves_nothing(&self) -> bool {
        matches!(self, Self::RefreshEndpoint { .. } | Self::CloseFirstSubflow { .. })
    }

    /// Whether it is one change for the kernel: made in full or not at all.
    pub(super) const fn is_atomic(&self) -> bool {
        !matches!(self, Self::RefreshEndpoint { .. })
    }
}

fn replacement_commands(there: &FibEntry, entry: &FibEntry, names: &InterfaceNames) -> Vec<String> {
    if there.hides(entry) {
        return vec![route_command("delete", there, names), route_command("add", entry, names)];
    }
    vec![route_command("replace", entry, names)]
}

fn limits_command(limits: Limits) -> String {
    format!("ip mptcp limits set subflows {} add_addr_accepted {}", limits.subflows, limits.add_addr_accepted)
}

fn first_subflow_command(address: IpAddr) -> String {
    format!("ip mptcp endpoint delete id 0 {address}")
}

fn wait_command(wait_ms: u64) -> String {
    format!("sleep {}.{:03}", wait_ms / 1000, wait_ms % 1000)
}

fn remove_endpoint_command(endpoint: &Endpoint) -> String {
    match endpoint.id {
        Some(id) => format!("ip mptcp endpoint delete id {id}"),
        None => format!("ip mptcp endpoint delete {}", endpoint.address),
    }
}

fn endpoint_command(endpoint: &Endpoint, names: &InterfaceNames) -> String {
    let mut words = vec![format!("ip mptcp endpoint add {}", endpoint.address)];
    words.extend(endpoint.port.map(|port| format!("port {port}")));
    words.extend(endpoint.interface.map(|index| {
        let name = names.get(&index).cloned().unwrap_or_else(|| format!("if{index}"));
        format!("dev {name}")
    }));
    words.extend(endpoint.id.map(|id| format!("id {id}")));
    if endpoint.flags != EndpointFlags::default() {
        words.push(endpoint.flags.to_string());
    }
    words.join(" ")
}
