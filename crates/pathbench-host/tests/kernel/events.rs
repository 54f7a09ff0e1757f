//! Notifications about interfaces and addresses.

use crate::fixture::{Lab, v4, wait_until, wire_name};
use libtest_mimic::Failed;
use pathbench_host::link_events::LinkEventStream;
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::time::Duration;

tests!(
    interface_changes_are_reported,
    added_and_removed_addresses_are_reported,
    only_events_of_this_namespace_are_reported
);

/// Waits for the notification `last` of the interface and returns all notifications up to it.
fn changes(stream: &mut LinkEventStream, name: &str, last: LinkChange) -> Result<Vec<LinkChange>, Failed> {
    let mut seen: Vec<LinkEvent> = Vec::new();
    let reported = wait_until(Duration::from_secs(5), || {
        seen.extend(stream.receive()?);
        Ok(seen.iter().any(|event| event.name.as_deref() == Some(name) && event.change == last))
    })?;
    ensure!(reported, "no {last:?} of {name} in {seen:?}");
    Ok(seen
        .into_iter()
        .filter(|event| event.name.as_deref() == Some(name))
        .map(|event| event.change)
        .collect())
}

fn interface_changes_are_reported() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let name = wire_name(0);
    let index = lab.client.index(&name)?;
    let settled = wait_until(Duration::from_secs(2), || Ok(lab.client.socket.link(&name)?.carrier))?;
    ensure!(settled, "{name} has no carrier");
    let mut stream = LinkEventStream::subscribe_in(&lab.client.namespace)?;
    lab.client.socket.set_mtu(index, 1400)?;
    let seen = changes(&mut stream, &name, LinkChange::Mtu(1400))?;
    ensure!(seen.contains(&LinkChange::Mtu(1400)), "{seen:?}");
    lab.client.socket.set_down(index)?;
    let seen = changes(&mut stream, &name, LinkChange::Down)?;
    ensure!(!seen.contains(&LinkChange::Up), "{seen:?}");
    lab.client.socket.set_up(index)?;
    changes(&mut stream, &name, LinkChange::Up)?;
    // Removal of the peer clears only the carrier.
    let port = lab.port(0, 1)?;
    lab.fabric.socket.set_down(port)?;
    let seen = changes(&mut stream, &name, LinkChange::CarrierDown)?;
    ensure!(!seen.contains(&LinkChange::Down), "{seen:?}");
    lab.fabric.socket.set_up(port)?;
    changes(&mut stream, &name, LinkChange::CarrierUp)?;
    lab.fabric.socket.delete_link(port)?;
    changes(&mut stream, &name, LinkChange::Disappeared)?;
    Ok(())
}

fn added_and_removed_addresses_are_reported() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let name = wire_name(0);
    let index = lab.client.index(&name)?;
    let mut stream = LinkEventStream::subscribe_in(&lab.client.namespace)?;
    for network in ["10.9.9.9/24", "fd99::9/64"] {
        let network: IpNet = network.parse()?;
        lab.client.socket.add_address(index, network)?;
        changes(&mut stream, &name, LinkChange::AddressAdded(network))?;
        lab.client.socket.remove_address(index, network)?;
        changes(&mut stream, &name, LinkChange::AddressRemoved(network))?;
    }
    Ok(())
}

fn only_events_of_this_namespace_are_reported() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    // The removal of an address must not be reported in the other namespace.
    let mut stream = LinkEventStream::subscribe_in(&lab.server.namespace)?;
    let index = lab.client.index(&wire_name(0))?;
    lab.client.socket.remove_address(index, IpNet::new(v4(0, 1), 24)?)?;
    std::thread::sleep(Duration::from_millis(50));
    let seen = stream.receive()?;
    ensure!(seen.iter().all(|event| !matches!(event.change, LinkChange::AddressRemoved(_))), "{seen:?}");
    Ok(())
}
