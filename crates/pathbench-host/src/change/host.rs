//! Operations on a host: what prevents them, their execution, and their undo.

use super::journal::Entry;
use super::operation::Operation;
use crate::mptcp::{Endpoint, MptcpError, PathManager};
use crate::netlink::{FibEntry, RouteSocket};
use std::net::IpAddr;
use std::time::Duration;

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
    pub(super) fn open() -> Result<Self, MptcpError> {
        Ok(Self { routes: RouteSocket::open()?, manager: PathManager::open_if_known()? })
    }

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
