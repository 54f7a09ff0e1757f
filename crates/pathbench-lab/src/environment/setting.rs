//! Changes to a running lab by the events of a scenario.

use super::{Environment, EnvironmentError, Result, failure_at};
use crate::scenario::{EventAction, EventPlan, PathChange};
use pathbench_link::LinkChange;
use pathbench_link::pipe::PipeCondition;
use serde_json::{Map, Value};
use tracing::{info, info_span};

impl Environment {
    /// Carries out an event and returns its details once it is in effect.
    pub fn apply(&mut self, event: &EventPlan) -> Result<Map<String, Value>> {
        let wire = self.wire_index(&event.link)?;
        let _span = info_span!("link", name = event.link).entered();
        info!(node = event.node, action = ?event.action, "scenario event");
        let detail = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
        match &event.action {
            EventAction::Down | EventAction::Up => {
                let node = self.node_index(&event.node)?;
                let interface = self.nodes[node].set_interface(wire, event.action == EventAction::Up)?;
                return Ok(detail("interface", interface.into()));
            }
            EventAction::RemoveAddress => {
                let node = self.node_index(&event.node)?;
                return Ok(detail("addresses", self.nodes[node].withdraw_addresses(wire)?.into()));
            }
            EventAction::AddAddress => {
                let node = self.node_index(&event.node)?;
                return Ok(detail("addresses", self.nodes[node].return_addresses(wire)?.into()));
            }
            EventAction::Blackhole => self.set_condition(wire, PipeCondition::Blackhole)?,
            EventAction::Outage => self.set_condition(wire, PipeCondition::Outage)?,
            EventAction::Restore => self.set_condition(wire, PipeCondition::Carrying)?,
            EventAction::Set(change) => self.change(wire, change)?,
            EventAction::Fade(fade) => self.wires[wire].fade(&self.fabric, fade)?,
        }
        Ok(event.action.detail())
    }

    fn wire_index(&self, link: &str) -> Result<usize> {
        let names = || self.wires.iter().map(|wire| wire.link.name.as_str());
        names().position(|name| name == link).ok_or_else(|| EnvironmentError::NoSuchNode {
            name: link.to_owned(),
            known: names().collect::<Vec<_>>().join(", "),
        })
    }

    fn set_condition(&mut self, wire: usize, condition: PipeCondition) -> Result {
        let wire = &self.wires[wire];
        wire.engine.set_condition(&mut self.fabric, &wire.link, condition)
    }

    fn change(&mut self, wire: usize, change: &PathChange) -> Result {
        let hop = self.topology.hop(&self.wires[wire].link.name).cloned();
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
        Ok(())
    }

    fn set_mtu(&mut self, wire: usize, mtu_bytes: u32) -> Result {
        let wire = &mut self.wires[wire];
        wire.link.set_mtu_bytes(mtu_bytes);
        wire.engine.set_mtu(&mut self.fabric, &wire.link)?;
        for end in wire.link.ends.clone() {
            let node = self.node_index(&end.node)?;
            let routes = self.nodes[node].routes_mut();
            let context = format!("host `{}`: setting the MTU of {} to {mtu_bytes}", end.node, end.interface);
            let index = routes.link(&end.interface).map_err(failure_at(context.clone()))?.index;
            routes.set_mtu(index, mtu_bytes).map_err(failure_at(context))?;
        }
        Ok(())
    }
}
