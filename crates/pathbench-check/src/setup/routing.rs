//! Policy rules and their tables: packets from an address leave by its interface (source routing).

use super::host::Manager;
use super::paths::{SetupPath, has_router};
use super::plan::Draft;
use pathbench_host::change::Operation;
use pathbench_host::netlink::{MAIN_TABLE, Route, RoutingRule};
use pathbench_host::paths::{PathAddress, is_only_exit, leaves_by};
use pathbench_record::network::{AddressFamily, DEFAULT_V4, DEFAULT_V6, IpNet};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// First number of new tables, and of the priorities of their rules.
const FIRST_TABLE: u32 = 8300;
/// Priority of the rule for the main table.
const MAIN_PRIORITY: u32 = 32766;

impl Draft<'_> {
    /// Adds a table and a rule for each address whose packets could leave by another interface.
    pub(super) fn route(&mut self, paths: &[SetupPath]) {
        let mut tables: BTreeMap<u32, u32> = BTreeMap::new();
        for path in paths {
            for at in &path.addresses {
                let ipv4 = at.address.is_ipv4();
                let is_one_of_several =
                    paths.iter().any(|other| other.index != path.index && has(other, ipv4));
                if is_one_of_several && !self.leaves_by(at, path, paths) {
                    self.route_address(at, path, paths, &mut tables);
                }
            }
        }
        if !tables.is_empty() {
            self.warn_of_networkd(paths);
        }
    }

    /// Whether packets from `at` to any destination leave by the interface of `path`.
    fn leaves_by(&self, at: &PathAddress, path: &SetupPath, paths: &[SetupPath]) -> bool {
        let wanted = self.wanted_routes(at, path, paths);
        if let Some(rule) = self.rule_of(at.address) {
            return self.is_table_of(rule.table, path.index, &wanted);
        }
        let family = AddressFamily::from_address(at.address);
        let shares_subnet = |other: &SetupPath| {
            other.index != path.index && other.addresses.iter().any(|one| one.subnet == at.subnet)
        };
        if paths.iter().any(shares_subnet) {
            return false;
        }
        // With several next hops (ECMP), packets from an address leave by each of them.
        is_only_exit(&self.host.routes, path.index, family) && self.is_primary(path.index, family)
    }

    /// Whether the kernel sends new connections by this interface, as far as its answer is known: rules with other
    /// conditions than the source can precede the main table (a VPN).
    fn is_primary(&self, index: u32, family: AddressFamily) -> bool {
        let mut answers = self.host.primaries.iter();
        let answer = answers.find(|(to, _)| AddressFamily::from_address(*to) == family);
        answer.is_none_or(|(_, answer)| leaves_by(answer, index))
    }

    /// The rule for packets from `address` that the kernel evaluates first, if any precedes the main table's.
    fn rule_of(&self, address: IpAddr) -> Option<RoutingRule> {
        let rules = self.host.rules.iter();
        rules
            .filter(|rule| rule.priority < MAIN_PRIORITY && rule.from.prefix_len() > 0)
            .filter(|rule| rule.from.contains(&address))
            .min_by_key(|rule| rule.priority)
            .copied()
    }

    fn routes_of(&self, table: u32, ipv4: bool) -> impl Iterator<Item = &Route> {
        let routes = self.host.routes.iter();
        routes.filter(move |route| route.table == table && route.destination.addr().is_ipv4() == ipv4)
    }

    /// Whether all packets that look up `table` leave by the interface, and the table covers all `wanted` routes.
    fn is_table_of(&self, table: u32, index: u32, wanted: &[Route]) -> bool {
        let Some(first) = wanted.first() else { return false };
        let routes: Vec<&Route> = self.routes_of(table, first.destination.addr().is_ipv4()).collect();
        let covers = |one: &Route| routes.iter().any(|route| route.destination.contains(&one.destination));
        routes.iter().all(|route| route.interface == Some(index)) && wanted.iter().all(covers)
    }

    /// The routes of a table for the packets from `at`, without the table's number; those without a router come first.
    fn wanted_routes(&self, at: &PathAddress, path: &SetupPath, paths: &[SetupPath]) -> Vec<Route> {
        let ipv4 = at.address.is_ipv4();
        let index = path.index;
        let is_of_link = |route: &&Route| {
            let destination = route.destination.addr();
            let is_of_any_link = matches!(destination, IpAddr::V6(v6) if is_of_one_link(v6));
            route.interface == Some(index) && !is_of_any_link
        };
        let mut routes: Vec<Route> = self.routes_of(MAIN_TABLE, ipv4).filter(is_of_link).copied().collect();
        if !routes.iter().any(|route| route.destination == at.subnet) {
            routes.push(Route { interface: Some(index), ..Route::new(at.subnet) });
        }
        let everywhere = if ipv4 { DEFAULT_V4 } else { DEFAULT_V6 };
        let is_default = |route: &Route| route.destination == everywhere && route.interface == Some(index);
        if !routes.iter().any(is_default) {
            let elsewhere = self.host.routes.iter().find(|route| is_default(route)).copied();
            let leased = self.host.leased_routers.get(&index).into_iter().flatten();
            let leased = leased.copied().find(|router| at.subnet.contains(router));
            let leased = leased.map(|gateway| Route {
                gateway: Some(gateway),
                interface: Some(index),
                ..Route::new(everywhere)
            });
            routes.extend(elsewhere.or(leased));
        }
        if ipv4 && !has_router(self.host, index, true) {
            routes.extend(self.direct_routes(path, paths));
        }
        // One route per destination, the preferred one.
        routes.sort_by_key(|route| (route.gateway.is_some(), route.destination, route.metric.unwrap_or(0)));
        routes.dedup_by_key(|route| route.destination);
        routes.iter().map(|route| Route { metric: None, ..*route }).collect()
    }

    /// Routes to the subnets of the other paths without a router. Direct links lead to the same hosts, and a host answers
    /// ARP requests for all its addresses on every link (the weak host model of RFC 1122, section 3.3.4.2; `arp_ignore`
    /// of Documentation/networking/ip-sysctl.rst). IPv6 hosts do not: neighbour discovery is strict.
    fn direct_routes(&self, path: &SetupPath, paths: &[SetupPath]) -> Vec<Route> {
        let others = paths.iter().filter(|other| other.index != path.index);
        let direct = others.filter(|other| !has_router(self.host, other.index, true));
        let subnets = direct.flat_map(|other| &other.addresses).filter(|at| at.address.is_ipv4());
        let own = |subnet: &IpNet| path.addresses.iter().any(|at| at.subnet == *subnet);
        let subnets = subnets.map(|at| at.subnet).filter(|subnet| !own(subnet));
        subnets.map(|subnet| Route { interface: Some(path.index), ..Route::new(subnet) }).collect()
    }

    fn route_address(
        &mut self,
        at: &PathAddress,
        path: &SetupPath,
        paths: &[SetupPath],
        tables: &mut BTreeMap<u32, u32>,
    ) {
        let ipv4 = at.address.is_ipv4();
        let wanted = self.wanted_routes(at, path, paths);
        let foreign = self.rule_of(at.address);
        let own = foreign.filter(|rule| self.is_own(rule));
        if let Some(foreign) = foreign
            && own.is_none()
            && self.priority(FIRST_TABLE, Some(foreign)).is_none()
        {
            return self.note(format!(
                "Packets from {} follow the rule {foreign} of another program, and no rule can precede it.",
                at.address
            ));
        }
        let table = match (own, self.complete_table(path.index, &wanted)) {
            (Some(rule), _) => rule.table,
            (None, Some(table)) => table,
            (None, None) => self.new_table(path.index, tables),
        };
        let name = path.interface.clone();
        let there = self.destinations(table, ipv4);
        for route in wanted.iter().filter(|route| !there.contains(&route.destination)) {
            let Some(entry) = Route { table, ..*route }.to_entry() else { continue };
            self.step(
                format!("table {table} has the routes by {name}"),
                Operation::AddRoute { route: entry },
            );
        }
        if own.is_none() {
            let priority = self.priority(table, foreign).unwrap_or(table);
            let rule = RoutingRule { from: IpNet::from(at.address), table, priority };
            let reason = format!("packets from {} to all destinations leave by {name}", at.address);
            self.step(reason, Operation::AddRule { rule });
        }
        let leads_out = |path: &SetupPath| has_router(self.host, path.index, ipv4);
        if !leads_out(path) && paths.iter().any(leads_out) {
            self.note_missing_router(at, path);
        }
    }

    fn is_own(&self, rule: &RoutingRule) -> bool {
        let mut standing = self.host.standing.iter();
        standing.any(|operation| matches!(operation, Operation::AddRule { rule: own } if own == rule))
    }

    /// A table of this interface that has all `wanted` routes already.
    fn complete_table(&self, index: u32, wanted: &[Route]) -> Option<u32> {
        let has = |table: u32| {
            let there = |one: &Route| {
                self.routes_of(table, one.destination.addr().is_ipv4())
                    .any(|route| (route.destination, route.gateway) == (one.destination, one.gateway))
            };
            wanted.iter().all(there)
        };
        let tables: BTreeSet<u32> = self.host.routes.iter().map(|route| route.table).collect();
        tables
            .into_iter()
            .find(|table| *table >= FIRST_TABLE && self.is_table_of(*table, index, wanted) && has(*table))
    }

    /// The destinations of a table, with this plan applied.
    fn destinations(&self, table: u32, ipv4: bool) -> Vec<IpNet> {
        let planned = self.plan.steps.iter().filter_map(|step| match &step.change.operation {
            Operation::AddRoute { route } if route.table() == table && route.is_ipv4() == ipv4 => {
                Some(route.destination())
            }
            _ => None,
        });
        self.routes_of(table, ipv4).map(|route| route.destination).chain(planned).collect()
    }

    /// The table that this plan makes for an interface: one whose number no route and no rule has.
    fn new_table(&self, index: u32, tables: &mut BTreeMap<u32, u32>) -> u32 {
        let is_taken = |number: u32| {
            tables.values().any(|taken| *taken == number)
                || self.host.routes.iter().any(|route| route.table == number)
                || self.host.rules.iter().any(|rule| rule.table == number || rule.priority == number)
        };
        let free = (FIRST_TABLE..MAIN_PRIORITY).find(|number| !is_taken(*number));
        *tables.entry(index).or_insert(free.unwrap_or(FIRST_TABLE))
    }

    /// The table's number, or the largest free priority before a rule of another program for the same address; `None` if
    /// there is none.
    fn priority(&self, table: u32, foreign: Option<RoutingRule>) -> Option<u32> {
        let Some(foreign) = foreign.filter(|foreign| foreign.priority <= table) else { return Some(table) };
        let is_free = |priority: &u32| !self.host.rules.iter().any(|rule| rule.priority == *priority);
        (1..foreign.priority).rev().find(is_free)
    }

    fn note_missing_router(&mut self, at: &PathAddress, path: &SetupPath) {
        let (address, name) = (at.address, &path.interface);
        let (program, family) = if address.is_ipv4() { ("ip", "IPv4") } else { ("ip -6", "IPv6") };
        self.note(format!(
            "No {family} router is known on {name}: packets from {address} beyond the connected subnets take the main \
             table. If there is a router, add it first: {program} route add default via ROUTER dev {name} metric 600"
        ));
    }

    fn warn_of_networkd(&mut self, paths: &[SetupPath]) {
        let managed = |path: &&SetupPath| self.host.managers.get(&path.index) == Some(&Manager::Networkd);
        let names: Vec<&str> = paths.iter().filter(managed).map(|path| path.interface.as_str()).collect();
        if !names.is_empty() && !self.host.networkd_keeps_rules {
            self.note(format!(
                "systemd-networkd manages {} and removes rules of other programs when it reconfigures an interface, unless \
                 networkd.conf has ManageForeignRoutingPolicyRules=no: --persist writes the rules for networkd.",
                names.join(", ")
            ));
        }
    }
}

fn has(path: &SetupPath, ipv4: bool) -> bool {
    path.addresses.iter().any(|at| at.address.is_ipv4() == ipv4)
}

/// Link-local and multicast destinations.
const fn is_of_one_link(destination: Ipv6Addr) -> bool {
    destination.is_unicast_link_local() || destination.is_multicast()
}
