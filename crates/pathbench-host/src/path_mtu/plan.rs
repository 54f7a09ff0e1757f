//! The steps that correct a path's MTU.

use super::state::PathMtuState;
use crate::change::{ChangePlan, Operation};
use crate::connections::{LiveConnection, LiveSubflow};
use crate::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use crate::netlink::FibEntry;
use pathbench_record::network::{IpNet, SMALLEST_IPV4_MTU_BYTES, SMALLEST_IPV6_MTU_BYTES};
use pathbench_record::text::duration;
use std::time::Duration;

/// `RTPROT_RA`: from a router advertisement.
const PROTOCOL_ROUTER_ADVERTISEMENT: u8 = 9;
/// The kernel's limit of subflows per connection beyond the first one (`MPTCP_SUBFLOWS_MAX`).
const MOST_SUBFLOWS: u32 = 8;

/// Bounds of the delay until peers have received a removal; the upper bound keeps the refresh below 1 s.
const LEAST_WAIT_MS: u64 = 100;
const MOST_WAIT_MS: u64 = 600;

/// The reason why the route cannot have the MTU.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    #[error(
        "an MTU of {mtu_bytes} bytes is below the {least_bytes} that every link must carry: no route can be given it; \
         the path is broken, have it mended"
    )]
    BelowMinimum { mtu_bytes: u32, least_bytes: u32 },
    #[error(
        "the route to {destination} in table {table} is not one that packets leave by: it has no MTU to set"
    )]
    NotUnicast { destination: IpNet, table: u32 },
    #[error(
        "table {table} has several routes to {destination} with metric {metric}, and a change would hit the first of \
         them instead of the one by {interface}: give them different metrics, or {interface} a table of its own"
    )]
    Ambiguous { destination: IpNet, table: u32, metric: u32, interface: String },
}

/// The steps that set the path's MTU to `mtu_bytes`, the largest IP packet that passes, and let the connections in
/// `stuck` ([`super::is_stuck`]) continue.
///
/// The MTU of a route limits the packets that this host sends and, by the MSS announced on new connections, the TCP
/// segments that it receives. For a path with different MTUs in each direction, pass the smaller one.
pub fn plan(state: &PathMtuState, mtu_bytes: u32, stuck: &[LiveConnection]) -> Result<ChangePlan, PlanError> {
    let mut draft = Draft { state, plan: ChangePlan::default() };
    draft.route(mtu_bytes)?;
    draft.cache(mtu_bytes);
    draft.connections(stuck);
    Ok(draft.plan)
}

struct Draft<'a> {
    state: &'a PathMtuState,
    plan: ChangePlan,
}

impl Draft<'_> {
    fn step(&mut self, operation: Operation) {
        self.plan.push(operation, &self.state.interface_names);
    }

    fn note(&mut self, note: String) {
        self.plan.notes.push(note);
    }

    fn route(&mut self, mtu_bytes: u32) -> Result<(), PlanError> {
        let state = self.state;
        let (route, interface) = (&state.route, state.interface_mtu_bytes);
        let narrow = mtu_bytes < interface;
        let least_bytes = if route.is_ipv4() { SMALLEST_IPV4_MTU_BYTES } else { SMALLEST_IPV6_MTU_BYTES };
        if narrow && mtu_bytes < least_bytes {
            return Err(PlanError::BelowMinimum { mtu_bytes, least_bytes });
        }
        if route.kind() != libc::RTN_UNICAST {
            return Err(PlanError::NotUnicast { destination: route.destination(), table: route.table() });
        }
        let cached = state.cached.map(|cached| cached.mtu_bytes);
        let wanted = match route.mtu_bytes() {
            _ if narrow => Some(mtu_bytes),
            // A route with another MTU also replaces the MTU that the kernel cached from ICMP.
            _ if cached.is_some_and(|cached| cached < interface) => Some(interface),
            // A locked MTU stays locked, which requires a value.
            Some(_) if route.is_mtu_locked() => Some(interface),
            Some(less) if less < interface => None,
            as_it_is => as_it_is,
        };
        let learnt = cached == Some(mtu_bytes.min(interface));
        if learnt || route.mtu_bytes() == wanted {
            return Ok(());
        }
        self.change_route(wanted)
    }

    fn change_route(&mut self, wanted: Option<u32>) -> Result<(), PlanError> {
        let state = self.state;
        let route = &state.route;
        let host = IpNet::from(state.path.server);
        let own_table = state.candidates.iter().all(|entry| entry.leaves_only_by(state.interface_index));
        if own_table && route.destination() != host {
            let copy = route.for_host(state.path.server).with_mtu(wanted);
            if let Some(taken) = state.candidates.iter().find(|entry| entry.shares_entry_with(&copy)) {
                return Err(self.ambiguous(taken));
            }
            self.step(Operation::AddRoute { route: copy });
            return Ok(());
        }
        let first = state.candidates.iter().find(|entry| entry.shares_entry_with(route));
        if first.is_some_and(|first| first != route) {
            return Err(self.ambiguous(route));
        }
        self.step(Operation::ReplaceRoute { before: route.clone(), after: route.with_mtu(wanted) });
        if route.destination() != host {
            self.explain_replacement();
        }
        Ok(())
    }

    fn explain_replacement(&mut self) {
        let state = self.state;
        let route = &state.route;
        self.note(format!(
            "Table {} leads to {} by other interfaces, too: a route for the server alone would draw their packets to \
             {}, so the MTU is set on the route to {} itself, for all that take it.",
            route.table(),
            state.path.server,
            state.path.interface,
            route.destination(),
        ));
        if !route.leaves_only_by(state.interface_index) {
            self.note("That route has several next hops: the MTU holds for all of them.".to_owned());
        }
        if !route.is_ipv4() && route.protocol() == PROTOCOL_ROUTER_ADVERTISEMENT {
            self.note(
                "The route came by a router's advertisement: the next one may add it again without the MTU."
                    .to_owned(),
            );
        }
    }

    fn ambiguous(&self, taken: &FibEntry) -> PlanError {
        PlanError::Ambiguous {
            destination: taken.destination(),
            table: taken.table(),
            metric: taken.metric(),
            interface: self.state.path.interface.clone(),
        }
    }

    fn cache(&mut self, mtu_bytes: u32) {
        let state = self.state;
        let other_interface = state.unbound_interface.filter(|index| *index != state.interface_index);
        if let Some(other) = other_interface.and_then(|index| state.interface_names.get(&index)) {
            self.note(format!(
                "Connections from {} that are not bound to {} leave by {other}: a rule for that address is missing.",
                state.path.local, state.path.interface,
            ));
        }
        let Some(cached) = state.cached else { return };
        let (mtu, rest) = (cached.mtu_bytes, duration(cached.expires_in));
        self.note(if !self.plan.steps.is_empty() {
            format!("The {mtu} that the kernel learnt by ICMP is not used with the new route any more.")
        } else if mtu == mtu_bytes {
            format!("The kernel has learnt {mtu} by ICMP and keeps it for {rest} more.")
        } else {
            format!("The kernel has learnt {mtu} by ICMP and uses it for {rest} more.")
        });
    }

    fn connections(&mut self, stuck: &[LiveConnection]) {
        let plain: Vec<_> = stuck.iter().filter(|connection| connection.subflow.is_none()).collect();
        if !plain.is_empty() {
            self.note(format!(
                "Stuck TCP connections take the new MTU at their next retransmission only: {}.",
                waits(&plain)
            ));
        }
        let subflows: Vec<_> = stuck.iter().filter(|connection| connection.subflow.is_some()).collect();
        let ids: Vec<_> = stuck.iter().filter_map(|connection| connection.subflow).collect();
        if ids.is_empty() {
            return;
        }
        if self.would_end_a_connection(&ids) {
            self.note(format!(
                "An MPTCP connection has subflows from {} only and would end with them: stuck ones are left to their \
                 next retransmission, {}.",
                self.state.path.local,
                waits(&subflows)
            ));
            return;
        }
        let state = self.state;
        let local = state.path.local;
        let Some(endpoints) = &state.endpoints else {
            self.note("Only root can list the MPTCP endpoints: stuck subflows stay stuck.".to_owned());
            return;
        };
        let first_subflow = ids.iter().any(|subflow| subflow.local_id == 0);
        let own = endpoints.iter().find(|endpoint| endpoint.address == local && !endpoint.flags.implicit);
        match own {
            Some(endpoint) if endpoint.flags.subflow => {
                if first_subflow {
                    self.raise_subflow_limit(stuck);
                }
                let endpoint = *endpoint;
                let wait_ms = self.wait_ms(stuck);
                self.step(Operation::RefreshEndpoint { endpoint, first_subflow_too: first_subflow, wait_ms });
            }
            Some(endpoint) => self.note(format!(
                "MPTCP endpoint {endpoint} opens no subflows, so that stuck ones cannot be opened anew: they follow at \
                 their next retransmission."
            )),
            None if first_subflow => self.renew_first_subflow(stuck, endpoints),
            None => self.note(format!(
                "{local} is no MPTCP endpoint: another path manager opened the stuck subflows, and must open them anew."
            )),
        }
    }

    /// Whether all subflows of an MPTCP connection are from the path's address. The kernel opens no further subflow
    /// after the last one is closed.
    fn would_end_a_connection(&self, stuck: &[LiveSubflow]) -> bool {
        let state = self.state;
        let token = |sibling: &LiveConnection| sibling.subflow.map(|own| own.token);
        let elsewhere: Vec<_> = state
            .siblings
            .iter()
            .filter(|sibling| sibling.local.ip() != state.path.local)
            .filter_map(token)
            .collect();
        let mut tokens = state.siblings.iter().filter_map(token).chain(stuck.iter().map(|own| own.token));
        tokens.any(|token| !elsewhere.contains(&token))
    }

    fn renew_first_subflow(&mut self, stuck: &[LiveConnection], endpoints: &[MptcpEndpoint]) {
        let state = self.state;
        let in_use = |id: u8| {
            endpoints.iter().any(|endpoint| endpoint.id == Some(id))
                || state.siblings.iter().any(|sibling| sibling.subflow.is_some_and(|own| own.local_id == id))
        };
        let Some(id) = (1..=u8::MAX).find(|id| !in_use(*id)) else {
            self.note("No id is left for an MPTCP endpoint: stuck subflows stay stuck.".to_owned());
            return;
        };
        self.raise_subflow_limit(stuck);
        let address = state.path.local;
        let wait_ms = self.wait_ms(stuck);
        self.step(Operation::CloseFirstSubflow { address, wait_ms });
        let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
        let interface = Some(state.interface_index);
        self.step(Operation::AddEndpoint {
            endpoint: MptcpEndpoint { address, port: None, id: Some(id), interface, flags },
        });
        self.note(format!(
            "{address} was no MPTCP endpoint and becomes one, without which the stuck connection opens no other \
             subflow from it; undoing it closes that subflow."
        ));
    }

    /// Upper bound of the time until peers receive a removal over the working subflows: their retransmission timeout,
    /// the kernel's own upper estimate of the RTT.
    fn wait_ms(&self, stuck: &[LiveConnection]) -> u64 {
        let is_stuck = |sibling: &&LiveConnection| stuck.iter().any(|other| other.is_same_as(sibling));
        let working = self.state.siblings.iter().filter(|sibling| !is_stuck(sibling));
        let longest_us = working.map(|sibling| u64::from(sibling.rto_us)).max().unwrap_or(0);
        longest_us.div_ceil(1000).clamp(LEAST_WAIT_MS, MOST_WAIT_MS)
    }

    fn raise_subflow_limit(&mut self, stuck: &[LiveConnection]) {
        let state = self.state;
        let Some(before) = state.limits else { return };
        let beginners =
            stuck.iter().filter_map(|connection| connection.subflow).filter(|own| own.local_id == 0);
        let subflows_of = |token| {
            let siblings = state.siblings.iter().filter_map(|sibling| sibling.subflow);
            siblings.filter(|sibling| sibling.token == token).count() as u32
        };
        let needed = beginners.map(|own| subflows_of(own.token)).max().unwrap_or(0).min(MOST_SUBFLOWS);
        if needed > before.subflows {
            self.step(Operation::SetLimits { before, after: MptcpLimits { subflows: needed, ..before } });
        }
    }
}

fn waits(connections: &[&LiveConnection]) -> String {
    let longest_us = connections.iter().map(|connection| connection.rto_us).max().unwrap_or(0);
    format!("in at most {}", duration(Duration::from_micros(longest_us.into())))
}
