//! Changes to a standing lab: what the events of a scenario do to its links.

use super::{Environment, EnvironmentError, netlink};
use crate::scenario::{Action, Change, EventPlan};
use serde_json::{Map, Value};

impl Environment {
    /// Carries out an event and returns once it is in force, with what there is to tell about it.
    ///
    /// # Errors
    /// When the kernel refuses it, or no engine of this machine can do it.
    pub fn apply(&mut self, event: &EventPlan) -> Result<Map<String, Value>, EnvironmentError> {
        let wire = self.wire_index(&event.link)?;
        match &event.action {
            Action::Down => self.set_interface(event, wire, false),
            Action::Up => self.set_interface(event, wire, true),
            Action::Blackhole => self.connect(wire, false),
            Action::Restore => self.connect(wire, true),
            Action::RemoveAddress => self.set_addresses(event, wire, false),
            Action::AddAddress => self.set_addresses(event, wire, true),
            Action::Set(change) => self.change(wire, change),
        }
    }

    fn wire_index(&self, link: &str) -> Result<usize, EnvironmentError> {
        self.wires.iter().position(|wire| wire.name() == link).ok_or_else(|| EnvironmentError::NoSuchNode {
            name: link.to_owned(),
            known: self.wires.iter().map(super::link::Wire::name).collect::<Vec<_>>().join(", "),
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
        Ok(told("interface", interface.into()))
    }

    fn connect(&mut self, wire: usize, connected: bool) -> Result<Map<String, Value>, EnvironmentError> {
        self.wires[wire].set_connected(&mut self.room, connected)?;
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
        Ok(told("addresses", addresses.into()))
    }

    fn change(&mut self, wire: usize, change: &Change) -> Result<Map<String, Value>, EnvironmentError> {
        let mut detail = Map::new();
        let link = self.wires[wire].link_mut();
        for model in [&mut link.forward, &mut link.backward] {
            if let Some(rate_bps) = change.rate_bps {
                model.rate_bps = Some(rate_bps);
                detail.insert("rate_bps".to_owned(), rate_bps.into());
            }
            if let Some(delay) = change.delay {
                model.delay = delay;
                detail.insert("delay_ms".to_owned(), (delay.as_secs_f64() * 1e3).into());
            }
            if let Some(loss) = change.loss {
                model.loss = loss;
                detail.insert("loss".to_owned(), loss.into());
            }
            if let Some(queue) = change.queue {
                model.queue = queue;
                detail.insert("queue".to_owned(), queue.to_string().into());
            }
        }
        if let Some(mtu_bytes) = change.mtu_bytes {
            link.mtu_bytes = mtu_bytes;
            detail.insert("mtu_bytes".to_owned(), mtu_bytes.into());
            self.set_mtu(wire, mtu_bytes)?;
        }
        if change.rate_bps.is_some()
            || change.delay.is_some()
            || change.loss.is_some()
            || change.queue.is_some()
        {
            self.wires[wire].shape(&mut self.room)?;
        }
        Ok(detail)
    }

    fn set_mtu(&mut self, wire: usize, mtu_bytes: u32) -> Result<(), EnvironmentError> {
        let link = self.wires[wire].link().clone();
        self.wires[wire].set_mtu(&mut self.room, mtu_bytes)?;
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

/// One thing to tell about an event.
fn told(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}
