//! The commands that make packets from an address leave by the interface that has it.

use crate::netlink::{MAIN_TABLE, Route};
use crate::paths::{HostNetwork, LOCAL_TABLE};
use pathbench_record::network::{AddressFamily, IpNet};
use std::collections::BTreeMap;
use std::net::IpAddr;

impl HostNetwork {
    /// For each routable address of an interface other than loopback: [`Self::source_route`].
    pub fn source_routes(&self) -> BTreeMap<IpAddr, Vec<String>> {
        let loopback = |index| self.links.iter().any(|link| link.index == index && link.loopback);
        let mut interfaces: Vec<u32> = Vec::new();
        let mut routes = BTreeMap::new();
        for own in self.addresses.iter().filter(|own| !own.link_scope && !loopback(own.index)) {
            if !interfaces.contains(&own.index) {
                interfaces.push(own.index);
            }
            // Each interface needs a table of its own.
            let number = interfaces.iter().position(|index| *index == own.index).unwrap_or_default() as u32;
            let address = own.network.addr();
            routes.insert(address, self.source_route(own.index, own.network.trunc(), address, number));
        }
        routes
    }

    /// The commands, to be run as root in this order, that make packets from `address` leave by `interface`: a table
    /// with a default route, and a rule. An existing table is used. `subnet` is the network of the address; `number`
    /// tells the new tables of several interfaces apart.
    pub fn source_route(&self, interface: u32, subnet: IpNet, address: IpAddr, number: u32) -> Vec<String> {
        let name = self.links.iter().find(|link| link.index == interface);
        let name = name.map_or_else(|| format!("interface {interface}"), |link| link.name.clone());
        let family = AddressFamily::from_address(address);
        let ip = if address.is_ipv4() { "ip" } else { "ip -6" };
        let existing = self.own_table(family, interface);
        let table = existing.unwrap_or_else(|| self.free_table(number));
        let rule = format!("{ip} rule add from {address} lookup {table}");
        if existing.is_some() {
            return vec![rule];
        }
        let is_point_to_point = subnet.prefix_len() == IpNet::from(address).prefix_len();
        let default = match self.router(family, interface) {
            Some(router) => format!("{ip} route add default via {router} dev {name} table {table}"),
            None if is_point_to_point => format!("{ip} route add default dev {name} table {table}"),
            None => format!(
                "with the router in {subnet} as ROUTER: {ip} route add default via ROUTER dev {name} table {table}"
            ),
        };
        if is_point_to_point {
            return vec![default, rule];
        }
        vec![format!("{ip} route add {subnet} dev {name} src {address} table {table}"), default, rule]
    }

    /// The default routes of this family by this interface, in all tables.
    fn defaults(&self, family: AddressFamily, interface: u32) -> impl Iterator<Item = &Route> {
        self.routes.iter().filter(move |route| {
            route.destination.prefix_len() == 0
                && route.interface == Some(interface)
                && AddressFamily::from_address(route.destination.addr()) == family
        })
    }

    fn router(&self, family: AddressFamily, interface: u32) -> Option<IpAddr> {
        self.defaults(family, interface).find_map(|route| route.gateway)
    }

    /// A table that has a default route by this interface alone, other than the main table.
    fn own_table(&self, family: AddressFamily, interface: u32) -> Option<u32> {
        let is_shared = |table: u32| {
            let others = self.links.iter().filter(|link| link.index != interface);
            others.flat_map(|link| self.defaults(family, link.index)).any(|route| route.table == table)
        };
        let mut tables = self.defaults(family, interface).map(|route| route.table);
        tables.find(|table| !matches!(*table, MAIN_TABLE | LOCAL_TABLE) && !is_shared(*table))
    }

    /// A table from 100 on without routes and without a rule.
    fn free_table(&self, number: u32) -> u32 {
        let is_used = |table: &u32| {
            self.routes.iter().any(|route| route.table == *table)
                || self.rules.iter().any(|rule| rule.table == *table)
        };
        (100..).filter(|table| !is_used(table)).nth(number as usize).unwrap_or(100)
    }
}
