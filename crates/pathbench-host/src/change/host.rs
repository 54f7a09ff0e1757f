//! Operations on a host: what prevents them, their execution, and their undo.

use super::journal::JournalEntry;
use super::operation::Operation;
use crate::mptcp::{EndpointFlags, MptcpEndpoint, MptcpError, PathManager};
use crate::netlink::{FibEntry, NetlinkError, RouteSocket};
use crate::sysctl::{self, SysctlError};
use std::time::Duration;

/// The kernel rejects an operation, or the state that it depends on cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    #[error(transparent)]
    Mptcp(#[from] MptcpError),
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error("this kernel does not know the flag `laminar` of MPTCP endpoints: it requires Linux 6.18")]
    NoLaminar,
}

impl OperationError {
    /// Whether this host lacks the privilege or a kernel feature.
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::Mptcp(error) => error.is_host_unable(),
            Self::Netlink(error) => error.is_host_unable(),
            Self::Sysctl(error) => {
                matches!(error, SysctlError::NoPermission { .. } | SysctlError::NoSuchKey { .. })
            }
            Self::NoLaminar => true,
        }
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

/// Sockets for the objects that operations change, in one network namespace.
#[derive(Debug)]
pub(super) struct Host {
    routes: RouteSocket,
    manager: Option<PathManager>,
}

impl Host {
    /// For the calling thread's network namespace.
    pub(super) fn open() -> Result<Self, OperationError> {
        Ok(Self { routes: RouteSocket::open()?, manager: PathManager::open_if_known()? })
    }

    /// Describes the difference between host and plan that prevents `operation`; `None` if there is none.
    pub(super) fn obstacle(&mut self, operation: &Operation) -> Result<Option<String>, OperationError> {
        let obstacle = match operation {
            Operation::AddRoute { route } => {
                let there = self.first_entry_like(route)?;
                there.map(|_| format!("there is a route to {} by now", route.destination()))
            }
            Operation::ReplaceRoute { before, .. } => {
                let there = self.first_entry_like(before)?;
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
            Operation::ChangeEndpoint { before, .. } => {
                let there = self.manager()?.endpoints()?.contains(before);
                (!there).then(|| format!("MPTCP endpoint {before} has changed"))
            }
            Operation::AddRule { rule } => {
                let there = self.routes.rules()?.contains(rule);
                there.then(|| format!("there is a rule {rule} by now"))
            }
            Operation::SetSysctl { key, before, .. } => {
                let there = sysctl::read(key)?;
                (there != *before).then(|| format!("{key} is {there} by now"))
            }
        };
        Ok(obstacle)
    }

    /// Performs `operation`. `between` is called between the parts of a two-part operation; if it returns true, the
    /// second part is not performed.
    pub(super) fn make(
        &mut self,
        operation: &Operation,
        between: &mut dyn FnMut() -> bool,
    ) -> Result<(), OperationError> {
        match operation {
            Operation::AddRoute { route } => self.routes.add_entry(route)?,
            Operation::ReplaceRoute { before, after } => self.replace_route(before, after)?,
            Operation::SetLimits { after, .. } => self.manager()?.set_limits(after)?,
            Operation::RefreshEndpoint { endpoint, first_subflow_too, wait_ms } => {
                // This order notifies peers once: Linux 6.12 and newer also close the first subflow with the endpoint;
                // closing the first subflow after that would notify peers again.
                if *first_subflow_too {
                    self.manager()?.remove_endpoint(0, endpoint.address)?;
                }
                self.manager()?.remove_endpoint(endpoint.id.unwrap_or(0), endpoint.address)?;
                if between() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(*wait_ms));
                self.manager()?.add_endpoint(endpoint)?;
            }
            Operation::CloseFirstSubflow { address, wait_ms } => {
                self.manager()?.remove_endpoint(0, *address)?;
                std::thread::sleep(Duration::from_millis(*wait_ms));
            }
            Operation::AddEndpoint { endpoint } => self.add_endpoint(endpoint)?,
            Operation::ChangeEndpoint { before, after } => {
                self.manager()?.set_flags(&MptcpEndpoint { flags: *after, ..*before })?;
            }
            Operation::AddRule { rule } => self.routes.add_rule(rule)?,
            Operation::SetSysctl { key, after, .. } => sysctl::write(key, after)?,
        }
        Ok(())
    }

    /// The route of `operation` as stored by the kernel, if different from the request.
    pub(super) fn left_by(&mut self, operation: &Operation) -> Result<Option<FibEntry>, OperationError> {
        let (Operation::AddRoute { route } | Operation::ReplaceRoute { after: route, .. }) = operation else {
            return Ok(None);
        };
        let there = self.first_entry_like(route)?;
        Ok(there.filter(|there| there != route))
    }

    /// Undoes the operation of `entry`, which is not settled; the operation may not have been performed. With `force`,
    /// undoes it even after a change by another program.
    pub(super) fn take_back(
        &mut self,
        entry: &JournalEntry,
        force: bool,
    ) -> Result<UndoOutcome, OperationError> {
        let left = entry.left.as_ref();
        match &entry.operation {
            Operation::AddRoute { route } => {
                self.remove_route(left.unwrap_or(route), entry.is_interrupted(), force)
            }
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
            Operation::ChangeEndpoint { before, after } => self.restore_flags(before, *after, force),
            Operation::AddRule { rule } => {
                if !self.routes.rules()?.contains(rule) {
                    return Ok(UndoOutcome::Nothing);
                }
                self.routes.remove_rule(rule)?;
                Ok(UndoOutcome::Restored)
            }
            Operation::SetSysctl { key, before, after } => restore_sysctl(key, before, after, force),
        }
    }

    /// The kernel drops flags that it does not know without an error.
    fn add_endpoint(&mut self, endpoint: &MptcpEndpoint) -> Result<(), OperationError> {
        self.manager()?.add_endpoint(endpoint)?;
        if endpoint.flags.laminar {
            let there = self.own_endpoint(endpoint)?;
            if let Some(there) = there.filter(|there| !there.flags.laminar) {
                self.manager()?.remove_endpoint(there.id.unwrap_or(0), there.address)?;
                return Err(OperationError::NoLaminar);
            }
        }
        Ok(())
    }

    /// The endpoint that an operation has added: with its address and port, and with its id unless the kernel assigned
    /// one.
    fn own_endpoint(&mut self, ours: &MptcpEndpoint) -> Result<Option<MptcpEndpoint>, OperationError> {
        let is_ours = |there: &MptcpEndpoint| {
            let same_id = ours.id.is_none() || there.id == ours.id;
            same_id && !there.flags.implicit && (there.address, there.port) == (ours.address, ours.port)
        };
        Ok(self.manager()?.endpoints()?.into_iter().find(is_ours))
    }

    fn restore_flags(
        &mut self,
        before: &MptcpEndpoint,
        after: EndpointFlags,
        force: bool,
    ) -> Result<UndoOutcome, OperationError> {
        let Some(there) = self.own_endpoint(before)? else { return Ok(UndoOutcome::Gone) };
        if there == *before {
            return Ok(UndoOutcome::Nothing);
        }
        if there.flags != after && !force {
            return Ok(UndoOutcome::Changed(format!("MPTCP endpoint {there} has been changed since")));
        }
        self.manager()?.set_flags(before)?;
        Ok(UndoOutcome::Restored)
    }

    fn remove_route(
        &mut self,
        ours: &FibEntry,
        interrupted: bool,
        force: bool,
    ) -> Result<UndoOutcome, OperationError> {
        let Some(there) = self.first_entry_like(ours)? else { return Ok(UndoOutcome::Nothing) };
        // After an interruption, the journal lacks the attributes that the kernel has added.
        let is_ours = there == *ours || (interrupted && there.next_hops() == ours.next_hops());
        if !is_ours && !force {
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
    ) -> Result<UndoOutcome, OperationError> {
        let there = self.first_entry_like(before)?;
        let there_is_none = there.is_none();
        if there.as_ref() == Some(before) {
            return Ok(UndoOutcome::Nothing);
        }
        if let Some(there) = there.filter(|there| there == ours || force) {
            // The lifetime has decreased in the meantime.
            self.replace_route(&there, &before.expiring_like(&there))?;
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
    fn restore_endpoint(
        &mut self,
        endpoint: &MptcpEndpoint,
        force: bool,
    ) -> Result<UndoOutcome, OperationError> {
        let rival = self.rival_of(endpoint)?;
        if rival == Some(*endpoint) {
            return Ok(UndoOutcome::Nothing);
        }
        if let Some(rival) = rival {
            let how = format!("MPTCP endpoint {rival} has been added since, instead of {endpoint}");
            return Ok(if force { UndoOutcome::Superseded(how) } else { UndoOutcome::Changed(how) });
        }
        self.manager()?.add_endpoint(endpoint)?;
        Ok(UndoOutcome::Restored)
    }

    fn remove_endpoint(&mut self, ours: &MptcpEndpoint, force: bool) -> Result<UndoOutcome, OperationError> {
        let Some(there) = self.own_endpoint(ours)? else { return Ok(UndoOutcome::Nothing) };
        if (there.interface, there.flags) != (ours.interface, ours.flags) && !force {
            return Ok(UndoOutcome::Changed(format!("MPTCP endpoint {there} has been changed since")));
        }
        self.manager()?.remove_endpoint(there.id.unwrap_or(0), there.address)?;
        Ok(UndoOutcome::Restored)
    }

    fn manager(&mut self) -> Result<&mut PathManager, MptcpError> {
        self.manager.as_mut().ok_or(MptcpError::NoPathManager)
    }

    fn rival_of(&mut self, endpoint: &MptcpEndpoint) -> Result<Option<MptcpEndpoint>, OperationError> {
        let same = |other: &MptcpEndpoint| {
            let same_address = other.address == endpoint.address && other.port == endpoint.port;
            // The kernel replaces an implicit endpoint if the request has no id (`mptcp_pm_nl_append_new_local_addr`).
            let is_replaced = endpoint.id.is_none() && other.flags.implicit;
            (endpoint.id.is_some() && other.id == endpoint.id) || (same_address && !is_replaced)
        };
        Ok(self.manager()?.endpoints()?.into_iter().find(same))
    }

    fn replace_route(&mut self, there: &FibEntry, entry: &FibEntry) -> Result<(), OperationError> {
        self.routes.replace_entry(entry)?;
        if there.hides(entry) && self.first_entry_like(entry)?.as_ref() == Some(there) {
            self.routes.remove_entry(there)?;
            self.routes.add_entry(entry)?;
        }
        Ok(())
    }

    fn first_entry_like(&mut self, entry: &FibEntry) -> Result<Option<FibEntry>, OperationError> {
        let entries = self.routes.fib_entries(entry.destination().addr(), entry.table())?;
        Ok(entries.into_iter().find(|there| there.shares_entry_with(entry)))
    }

    fn is_absent(&mut self, entry: &FibEntry) -> Result<bool, OperationError> {
        let links = self.routes.links()?;
        let up = |index| links.iter().any(|link| link.index == index && link.up);
        Ok(entry.next_hops().iter().any(|hop| !up(hop.interface)))
    }
}

fn restore_sysctl(key: &str, before: &str, after: &str, force: bool) -> Result<UndoOutcome, OperationError> {
    let there = match sysctl::read(key) {
        Ok(there) => there,
        // The settings of an interface disappear with it.
        Err(SysctlError::NoSuchKey { .. }) => return Ok(UndoOutcome::Gone),
        Err(error) => return Err(error.into()),
    };
    if there == before {
        return Ok(UndoOutcome::Nothing);
    }
    if there != after && !force {
        return Ok(UndoOutcome::Changed(format!("{key} has been set to {there} since")));
    }
    sysctl::write(key, before)?;
    Ok(UndoOutcome::Restored)
}
