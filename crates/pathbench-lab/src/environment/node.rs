//! One node of the lab: its network namespace, its agent, and its configuration.

use super::error::{EnvironmentError, ErrorSource, Result, failure_at, refusal_at};
use super::offload::Cap;
use crate::addressing::InterfacePlan;
use crate::agent::{AgentError, AgentHandle, AgentLauncher};
use crate::scenario::{EndpointPlan, Node, NodeRole, RoutePlan, RulesChange};
use pathbench_host::connections;
use pathbench_host::counters::KernelCounters;
use pathbench_host::firewall::{Firewall, FirewallError, RouterCounters, RouterRules};
use pathbench_host::link_events::LinkEventStream;
use pathbench_host::mptcp::{EventStream, MptcpEndpoint, MptcpError, PathManager};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{NetlinkError, Route, RouteSocket};
use pathbench_host::paths::HostNetwork;
use pathbench_host::sysctl::{self, SysctlError};
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6};
use std::process::{Child, Command};

/// Settings of every lab host, applied before the settings of its scenario. The kernel's defaults would make runs
/// depend on each other, or send traffic over the wrong link.
const HOST_SYSCTLS: &[(&str, &str)] = &[
    // After one blocked MPTCP handshake the namespace would use plain TCP for an hour.
    ("net.mptcp.blackhole_timeout", "0"),
    // Replies to one link's address may arrive over another link.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // Each address answers on its own link only.
    ("net.ipv4.conf.all.arp_ignore", "1"),
    ("net.ipv4.conf.all.arp_announce", "2"),
    // IPv6 addresses stay when the interface goes down, as IPv4 addresses do.
    ("net.ipv6.conf.all.keep_addr_on_down", "1"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
];

const ROUTER_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    // Packets from one link's address may arrive over another link.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
];

/// Settings that an interface takes over when it is created.
const INTERFACE_SYSCTLS: &[(&str, &str)] = &[
    // A router solicits no neighbours while its link-local addresses are tentative.
    ("net.ipv6.conf.default.accept_dad", "0"),
];

#[derive(Debug)]
pub struct NodeHandle {
    name: String,
    namespace: NetNamespace,
    routes: RouteSocket,
    interfaces: Vec<InterfacePlan>,
    endpoints: Vec<EndpointPlan>,
    rules: Option<(Firewall, RouterRules)>,
    agent: AgentHandle,
}

impl NodeHandle {
    pub(super) fn create(
        node: &Node,
        interfaces: Vec<InterfacePlan>,
        launcher: &AgentLauncher,
    ) -> Result<Self> {
        let context = format!("host `{}`", node.name);
        let namespace = NetNamespace::create().map_err(failure_at(&context))?;
        let written = namespace.run_in(|| write_existing(INTERFACE_SYSCTLS)).map_err(failure_at(&context))?;
        written.map_err(failure_at(&context))?;
        let agent = launcher.launch(&node.name, &namespace).map_err(agent_failure(&node.name))?;
        let routes = RouteSocket::open_in(&namespace).map_err(failure_at(context))?;
        let endpoints = node.mptcp.endpoints.clone();
        Ok(Self { name: node.name.clone(), namespace, routes, interfaces, endpoints, rules: None, agent })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn namespace(&self) -> &NetNamespace {
        &self.namespace
    }

    pub fn agent(&self) -> &AgentHandle {
        &self.agent
    }

    /// A subscription to the MPTCP events of this node's kernel; `None` if the kernel has no MPTCP.
    pub fn mptcp_events(&self) -> Result<Option<EventStream>> {
        self.present(EventStream::subscribe_in(&self.namespace))
    }

    /// A subscription to the changes of this node's interfaces and addresses.
    pub fn link_events(&self) -> Result<LinkEventStream> {
        LinkEventStream::subscribe_in(&self.namespace).map_err(self.error_for("listening to its links"))
    }

    pub fn mib(&self) -> Result<KernelCounters> {
        self.run_in(KernelCounters::read)?.map_err(self.error_for("reading the MIB counters"))
    }

    /// The node's links, addresses and routes.
    pub fn network(&self) -> Result<HostNetwork> {
        self.run_in(HostNetwork::read)?.map_err(self.error_for("reading its network"))
    }

    /// Starts a program in the node's network namespace.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        self.run_in(|| command.spawn())?.map_err(|source| EnvironmentError::Spawn {
            program,
            node: self.name.clone(),
            source,
        })
    }

    fn run_in<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        self.namespace.run_in(work).map_err(self.error())
    }

    /// Ends the agent and its connections: a connection with unacknowledged data would keep the namespace for minutes.
    pub(super) fn end(&mut self) {
        self.agent.end();
        // If the kernel cannot reset connections, it frees the namespace later.
        let _later = connections::abort_all(&self.namespace);
    }

    pub(super) fn wait_until_ready(&self) -> Result {
        self.agent.wait_until_ready().map_err(agent_failure(&self.name))
    }

    /// Whether all links of the node pass packets, and packets to its addresses are delivered.
    pub(super) fn is_running(&mut self) -> Result<bool> {
        for plan in self.interfaces.clone() {
            let link = self
                .routes
                .link(&plan.interface)
                .map_err(self.error_for("asking whether an interface runs"))?;
            let mut running = link.running;
            for own in plan.addresses {
                running &=
                    self.routes.delivers(own.addr()).map_err(self.error_for("asking for an address"))?;
            }
            if !running {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn cap_offload(&mut self, interface: &str, cap: Cap) -> Result {
        let index = self.interface_index(interface)?;
        self.routes
            .set_gso(index, cap.bytes, cap.segments)
            .map_err(self.error_for("capping segmentation offload"))
    }

    pub(super) fn configure(&mut self, node: &Node) -> Result {
        self.write_sysctls(node)?;
        self.routes.set_loopback_up().map_err(self.error_for("bringing lo up"))?;
        for plan in self.interfaces.clone() {
            self.configure_interface(&plan)?;
        }
        for route in &node.routes {
            self.add_hand_route(route)?;
        }
        if node.role == NodeRole::Host {
            self.configure_mptcp(node)?;
        }
        if let Some(rules) = node.rules.clone() {
            let mut firewall = Firewall::open_in(&self.namespace).map_err(self.firewall())?;
            firewall.apply(&rules).map_err(self.firewall())?;
            self.rules = Some((firewall, rules));
        }
        Ok(())
    }

    /// Changes the router's rules. The plan ensures that it has rules.
    pub(super) fn change_rules(&mut self, change: &RulesChange) -> Result {
        let Some((firewall, rules)) = &mut self.rules else { return Ok(()) };
        let changed = change.applied_to(rules);
        let applied = firewall.apply(&changed);
        *rules = changed;
        applied.map_err(self.firewall())
    }

    /// Counters of the router's rules; `None` if it has no rules.
    pub(super) fn rules_met(&mut self) -> Result<Option<RouterCounters>> {
        let met = self.rules.as_mut().map(|(firewall, _)| firewall.counters()).transpose();
        met.map_err(self.firewall())
    }

    fn write_sysctls(&self, node: &Node) -> Result {
        let defaults = match node.role {
            NodeRole::Host => HOST_SYSCTLS,
            NodeRole::Router => ROUTER_SYSCTLS,
        };
        let written = self.run_in(|| {
            write_existing(defaults)?;
            node.sysctls.iter().try_for_each(|(key, value)| sysctl::write(key, value))
        })?;
        written.map_err(self.error())
    }

    /// Brings the interface of `plan` up with its addresses, routes and rules; existing ones stay.
    pub(super) fn configure_interface(&mut self, plan: &InterfacePlan) -> Result {
        let index = self.interface_index(&plan.interface)?;
        self.routes.set_up(index).map_err(self.error_for("bringing an interface up"))?;
        for &prefix in &plan.addresses {
            let added = self.routes.add_address(index, prefix);
            self.tolerate(NetlinkError::is_already_there, added, "adding an address")?;
        }
        for rule in &plan.rules {
            let added = self.routes.add_rule(rule);
            self.tolerate(NetlinkError::is_already_there, added, "adding a source rule")?;
        }
        // The kernel has removed the routes if the interface was down.
        for route in &plan.routes {
            let route = Route { interface: Some(index), ..*route };
            self.routes.replace_route(&route).map_err(self.error_for("adding a route"))?;
        }
        Ok(())
    }

    /// The result of `what`, which is no failure if the error is `harmless`.
    fn tolerate(
        &self,
        harmless: fn(&NetlinkError) -> bool,
        done: std::result::Result<(), NetlinkError>,
        what: &str,
    ) -> Result {
        match done {
            Err(error) if harmless(&error) => Ok(()),
            done => done.map_err(self.error_for(what)),
        }
    }

    fn add_hand_route(&mut self, plan: &RoutePlan) -> Result {
        let default = if plan.via.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 };
        let destination = plan.destination.unwrap_or(default);
        let route = Route { gateway: Some(plan.via), metric: plan.metric, ..Route::new(destination) };
        self.routes.replace_route(&route).map_err(self.error_for("adding a route of the scenario"))
    }

    fn configure_mptcp(&mut self, node: &Node) -> Result {
        let Some(mut manager) = self.path_manager()? else { return Ok(()) };
        manager.set_limits(&node.mptcp.limits).map_err(self.error())?;
        for endpoint in self.endpoints.clone() {
            self.add_endpoint(&mut manager, &endpoint)?;
        }
        Ok(())
    }

    /// Brings the interface of link `wire` down, or up again with the configuration that the kernel has removed.
    pub(super) fn set_interface(&mut self, wire: usize, up: bool) -> Result<String> {
        let plan = self.plan_of(wire)?;
        let interface = plan.interface.clone();
        if up {
            self.configure_interface(&plan)?;
        } else {
            let index = self.interface_index(&interface)?;
            self.routes.set_down(index).map_err(self.error_for("taking an interface down"))?;
        }
        Ok(interface)
    }

    /// Removes the addresses of link `wire`, and with them their MPTCP endpoints, as a network manager does.
    pub(super) fn withdraw_addresses(&mut self, wire: usize) -> Result<Vec<String>> {
        let plan = self.plan_of(wire)?;
        let index = self.interface_index(&plan.interface)?;
        if let Some(mut manager) = self.path_manager()? {
            let present = manager.endpoints().map_err(self.error())?;
            for endpoint in present {
                if plan.addresses.iter().any(|own| own.addr() == endpoint.address) {
                    manager
                        .remove_endpoint(endpoint.id.unwrap_or_default(), endpoint.address)
                        .map_err(self.error())?;
                }
            }
        }
        for &prefix in &plan.addresses {
            let removed = self.routes.remove_address(index, prefix);
            self.tolerate(NetlinkError::is_absent, removed, "removing an address")?;
        }
        Ok(in_words(&plan))
    }

    pub(super) fn return_addresses(&mut self, wire: usize) -> Result<Vec<String>> {
        let plan = self.plan_of(wire)?;
        self.configure_interface(&plan)?;
        let Some(mut manager) = self.path_manager()? else { return Ok(in_words(&plan)) };
        for endpoint in self.endpoints.clone() {
            if plan.addresses.iter().any(|own| own.addr() == endpoint.address) {
                self.add_endpoint(&mut manager, &endpoint)?;
            }
        }
        Ok(in_words(&plan))
    }

    fn plan_of(&self, wire: usize) -> Result<InterfacePlan> {
        self.interfaces.iter().find(|plan| plan.link == wire).cloned().ok_or_else(|| {
            EnvironmentError::NoSuchNode {
                name: format!("{} on link {wire}", self.name),
                known: String::new(),
            }
        })
    }

    pub(super) fn routes_mut(&mut self) -> &mut RouteSocket {
        &mut self.routes
    }

    /// `None` on a kernel without MPTCP: scenarios that run mptcp are rejected before a lab is built, and other
    /// scenarios need no path manager.
    fn path_manager(&self) -> Result<Option<PathManager>> {
        self.present(PathManager::open_in(&self.namespace))
    }

    /// `None` if the kernel has no MPTCP.
    fn present<T>(&self, opened: std::result::Result<T, MptcpError>) -> Result<Option<T>> {
        match opened {
            Err(MptcpError::NoPathManager) => Ok(None),
            opened => opened.map(Some).map_err(self.error()),
        }
    }

    fn interface_index(&mut self, name: &str) -> Result<u32> {
        self.routes.link(name).map(|link| link.index).map_err(self.error_for(&format!("looking up {name}")))
    }

    fn error_for<E: Into<ErrorSource>>(&self, what: &str) -> impl FnOnce(E) -> EnvironmentError + use<E> {
        failure_at(format!("host `{}`: {what}", self.name))
    }

    fn error<E: Into<ErrorSource>>(&self) -> impl FnOnce(E) -> EnvironmentError + use<E> {
        failure_at(format!("host `{}`", self.name))
    }

    fn firewall(&self) -> impl FnOnce(FirewallError) -> EnvironmentError + use<> {
        refusal_at(format!("router `{}`", self.name), FirewallError::is_host_unable)
    }

    fn add_endpoint(&mut self, manager: &mut PathManager, plan: &EndpointPlan) -> Result {
        let interface = plan.device.as_deref().map(|device| self.interface_index(device)).transpose()?;
        let endpoint =
            MptcpEndpoint { address: plan.address, port: None, id: None, interface, flags: plan.flags };
        manager.add_endpoint(&endpoint).map_err(self.error())
    }
}

/// A failure of the agent of `node`.
pub(super) fn agent_failure(node: &str) -> impl FnOnce(AgentError) -> EnvironmentError + use<> {
    let node = node.to_owned();
    move |source| EnvironmentError::Agent { node, source }
}

fn in_words(plan: &InterfacePlan) -> Vec<String> {
    plan.addresses.iter().map(ToString::to_string).collect()
}

/// A kernel without a key (no IPv6, older MPTCP) does not need the setting.
fn write_existing(settings: &[(&str, &str)]) -> std::result::Result<(), SysctlError> {
    settings.iter().try_for_each(|(key, value)| match sysctl::write(key, value) {
        Err(SysctlError::NoSuchKey { .. }) => Ok(()),
        written => written,
    })
}
