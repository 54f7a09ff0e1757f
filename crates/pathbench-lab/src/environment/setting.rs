//! Changes to a standing lab: what the events of a scenario do to its links.

use super::detail;
use super::wire::Wire;
use super::{Environment, EnvironmentError, netlink};
use crate::scenario::{Action, Change, EventPlan};
use pathbench_emulator::pipe::Condition;
use pathbench_link::LinkChange;
use serde_json::{Map, Value};

impl Environment {
    /// Carries out an event and returns once it is in force, with what there is to tell about it.
    pub fn apply(&mut self, event: &EventPlan) -> Result<Map<String, Value>, EnvironmentError> {
        let wire = self.wire_index(&event.link)?;
        match &event.action {
            Action::Down => self.set_interface(event, wire, false),
            Action::Up => self.set_interface(event, wire, true),
            Action::Blackhole => self.set_condition(wire, Condition::Blackhole),
            Action::Outage => self.set_condition(wire, Condition::Outage),
            Action::Restore => self.set_condition(wire, Condition::Carrying),
            Action::RemoveAddress => self.set_addresses(event, wire, false),
            Action::AddAddress => self.set_addresses(event, wire, true),
            Action::Set(change) => self.change(wire, change),
            Action::Fade(fade) => {
                self.wires[wire].fade(&self.fabric, fade)?;
                Ok(detail::of_fade(fade))
            }
        }
    }

    fn wire_index(&self, link: &str) -> Result<usize, EnvironmentError> {
        self.wires.iter().position(|wire| wire.name() == link).ok_or_else(|| EnvironmentError::NoSuchNode {
            name: link.to_owned(),
            known: self.wires.iter().map(Wire::name).collect::<Vec<_>>().join(", "),
        })
    }

    fn set_interface(
        &mut self,
        event: &EventPlan,
        wire: usize,
        up: bool,
    ) -> Result<Map<String, Value>, EnvironmentError> {
        let node = self.node_index(&event.node)?;
        let interface = self.nodes[node].set_interface(wire, up)?;
        Ok(Map::from_iter([("interface".to_owned(), interface.into())]))
    }

    fn set_condition(
        &mut self,
        wire: usize,
        condition: Condition,
    ) -> Result<Map<String, Value>, EnvironmentError> {
        self.wires[wire].set_condition(&mut self.fabric, condition)?;
        Ok(Map::new())
    }

    fn set_addresses(
        &mut self,
        event: &EventPlan,
        wire: usize,
        present: bool,
    ) -> Result<Map<String, Value>, EnvironmentError> {
        let node = self.node_index(&event.node)?;
        let node = &mut self.nodes[node];
        let addresses = if present { node.return_addresses(wire) } else { node.withdraw_addresses(wire) }?;
        Ok(Map::from_iter([("addresses".to_owned(), addresses.into())]))
    }

    fn change(&mut self, wire: usize, change: &Change) -> Result<Map<String, Value>, EnvironmentError> {
        let hop = self.topology.hop(self.wires[wire].name()).cloned();
        if let Some(mtu_bytes) = change.link.mtu_bytes {
            self.set_mtu(wire, mtu_bytes)?;
            if let Some(hop) = &hop {
                self.set_mtu(self.wire_index(&hop.far)?, mtu_bytes)?;
            }
        }
        if let Some(hop) = &hop {
            if let Some(mtu_bytes) = change.path_mtu_bytes {
                self.set_mtu(self.wire_index(&hop.link)?, mtu_bytes)?;
            }
            if change.rules.is_given() {
                for router in &hop.routers {
                    let node = self.node_index(router)?;
                    self.nodes[node].change_rules(&change.rules)?;
                }
            }
        }
        let rest = LinkChange { mtu_bytes: None, ..change.link.clone() };
        if rest != LinkChange::default() {
            self.wires[wire].change(&mut self.fabric, &rest, change.direction)?;
        }
        Ok(detail::of_change(change))
    }

    fn set_mtu(&mut self, wire: usize, mtu_bytes: u32) -> Result<(), EnvironmentError> {
        self.wires[wire].set_mtu(&mut self.fabric, mtu_bytes)?;
        let link = self.wires[wire].link().clone();
        for end in &link.ends {
            let node = self.node_index(&end.node)?;
            let routes = self.nodes[node].routes_mut();
            let context = format!("host `{}`: setting the MTU of {} to {mtu_bytes}", end.node, end.interface);
            let index = routes.link(&end.interface).map_err(netlink(context.clone()))?.index;
            routes.set_mtu(index, mtu_bytes).map_err(netlink(context))?;
        }
        Ok(())
    }
}
