//! Plans of an MPTCP set-up: endpoints, limits, policy rules with their tables, and settings.
//!
//! [`plan()`] compares the state of a host with the state that multipath requires, and returns the missing operations
//! with their reasons. A plan only adds: it neither changes nor removes an object of another program, and a host that
//! already is as planned yields no operation. `pathbench-host` applies the operations and undoes them.

mod endpoints;
mod paths;
pub mod persistence;
mod routing;
mod settings;

pub use paths::{PathAddress, Selection, SetupPath};

use pathbench_host::change::{ChangePlan, InterfaceNames, Operation, PlannedStep};
use pathbench_host::mptcp::{MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::{InterfaceAddress, NetworkInterface, Route, RoutingRule};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The role of a host in MPTCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Opens connections, and opens subflows from its addresses.
    #[default]
    Client,
    /// Accepts connections, and announces its addresses (`ADD_ADDR`).
    Server,
}

/// The access network of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    Wired,
    Wifi,
    Cellular,
}

/// The program that configures an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    NetworkManager,
    Networkd,
}

/// The state of a host.
#[derive(Debug, Clone, Default)]
pub struct SetupHost {
    pub links: Vec<NetworkInterface>,
    pub addresses: Vec<InterfaceAddress>,
    /// Unicast routes of all tables and both families.
    pub routes: Vec<Route>,
    /// Rules whose only condition is the source.
    pub rules: Vec<RoutingRule>,
    pub endpoints: Vec<MptcpEndpoint>,
    /// `None`: this kernel has no MPTCP path manager.
    pub limits: Option<MptcpLimits>,
    /// Kernel settings by key with slashes; a setting that the kernel lacks is absent.
    pub settings: BTreeMap<String, String>,
    /// By interface index, as the three below.
    pub media: BTreeMap<u32, Medium>,
    /// Interfaces whose traffic costs money according to `NetworkManager`.
    pub metered: BTreeSet<u32>,
    pub managers: BTreeMap<u32, Manager>,
    /// Routers from DHCP leases.
    pub leased_routers: BTreeMap<u32, Vec<IpAddr>>,
    /// The daemon mptcpd runs: it adds endpoints and raises limits.
    pub has_mptcpd: bool,
    /// Whether networkd keeps policy rules of other programs (`ManageForeignRoutingPolicyRules=no`).
    pub networkd_keeps_rules: bool,
    /// Whether the kernel knows the endpoint flag `laminar` (Linux 6.18).
    pub has_laminar: bool,
    /// Operations of earlier plans that are applied and not undone.
    pub standing: Vec<Operation>,
}

impl SetupHost {
    /// The value of a setting as a number; 0 if the kernel lacks it.
    fn number(&self, key: &str) -> u32 {
        self.settings.get(key).and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    }

    fn names(&self) -> InterfaceNames {
        self.links.iter().map(|link| (link.index, link.name.clone())).collect()
    }

    /// The settings that a plan depends on, for the interfaces with these names.
    pub fn setting_keys<'a>(interfaces: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut keys = vec![settings::ENABLED.to_owned(), settings::PM_TYPE.to_owned()];
        for interface in interfaces.chain(["all"]) {
            keys.extend(settings::PER_INTERFACE.map(|name| settings::key(interface, name)));
        }
        keys
    }
}

/// The wishes of the user.
#[derive(Debug, Clone, Default)]
pub struct SetupOptions {
    pub role: Role,
    /// Names of the interfaces to use; empty: all that lead out of this host.
    pub interfaces: Vec<String>,
    /// Names of interfaces that are backup paths, besides cellular and metered ones.
    pub backup: Vec<String>,
    /// Subflows from every endpoint to every address of the server.
    pub fullmesh: bool,
    /// Whether a named interface may be absent or down: a watch waits for it.
    pub may_be_absent: bool,
}

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
}

impl SetupPlan {
    /// The operations, to apply them.
    pub fn changes(&self) -> ChangePlan {
        ChangePlan { steps: self.steps.iter().map(|step| step.change.clone()).collect(), notes: Vec::new() }
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

/// The operations that `host` lacks for multipath.
/// Errors: each mistake in `options`, and the missing kernel feature.
pub fn plan(host: &SetupHost, options: &SetupOptions) -> Result<SetupPlan, Vec<String>> {
    let Selection { paths, notes } = paths::select(host, options)?;
    // In one subnet, the server's answers to each address leave by the interface that the server's address has, so that
    // each path needs a subflow between the addresses of its own link.
    let fullmesh = options.fullmesh || paths.iter().any(|path| paths::shared_subnet(path, &paths).is_some());
    let mut draft = Draft { host, options, fullmesh, names: host.names(), plan: SetupPlan::default() };
    draft.plan.notes = notes;
    draft.enable();
    draft.route(&paths);
    draft.filter(&paths);
    draft.resolve_addresses(&paths);
    draft.raise_limits(&paths);
    draft.announce(&paths);
    draft.plan.paths = paths;
    Ok(draft.plan)
}

/// Whether `operation`, which an earlier plan made, belongs to an interface that is down or to an address that the host
/// no longer has.
pub fn is_outdated(operation: &Operation, host: &SetupHost) -> bool {
    let is_up = |index: u32| host.links.iter().any(|link| link.index == index && link.up);
    let has = |address: IpAddr| {
        let mut addresses = host.addresses.iter();
        addresses.any(|known| known.network.addr() == address && is_up(known.index))
    };
    match operation {
        Operation::AddEndpoint { endpoint } | Operation::ChangeEndpoint { before: endpoint, .. } => {
            !has(endpoint.address)
        }
        Operation::AddRule { rule } => !has(rule.from.addr()),
        Operation::AddRoute { route } => route.next_hops().iter().any(|hop| !is_up(hop.interface)),
        _ => false,
    }
}

struct Draft<'a> {
    host: &'a SetupHost,
    options: &'a SetupOptions,
    fullmesh: bool,
    names: InterfaceNames,
    plan: SetupPlan,
}

impl Draft<'_> {
    fn step(&mut self, reason: String, operation: Operation) {
        self.plan.steps.push(SetupStep { reason, change: PlannedStep::new(operation, &self.names) });
    }

    fn note(&mut self, note: String) {
        if !self.plan.notes.contains(&note) {
            self.plan.notes.push(note);
        }
    }
}
