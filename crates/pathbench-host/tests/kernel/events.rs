//! What is told about interfaces and addresses.

use crate::fixture::{Lab, v4, wire_name, within};
use libtest_mimic::Failed;
use pathbench_host::link_events::LinkEventStream;
use pathbench_kerneltest::{Outcome, ensure, tests};
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use pathbench_record::network::IpNetwork;
use std::time::Duration;

tests!(changes_of_an_interface, addresses_that_come_and_go, only_of_this_namespace);

/// Waits until `last` has been told of the interface and returns everything up to it.
fn changes(stream: &mut LinkEventStream, name: &str, last: LinkChange) -> Result<Vec<LinkChange>, Failed> {
    let mut seen: Vec<LinkEvent> = Vec::new();
    let told = within(Duration::from_secs(5), || {
        seen.extend(stream.receive()?);
        Ok(seen.iter().any(|event| event.name.as_deref() == Some(name) && event.change == last))
    })?;
    ensure!(told, "no {last:?} of {name} in {seen:?}");
    Ok(seen
        .into_iter()
        .filter(|event| event.name.as_deref() == Some(name))
        .map(|event| event.change)
        .collect())
}

fn changes_of_an_interface() -> Outcome {
    let mut lab = Lab::new(&[None])?;
    let name = wire_name(0);
    let index = lab.client.index(&name)?;
    let settled = within(Duration::from_secs(2), || Ok(lab.client.socket.link(&name)?.carrier))?;
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
    // The other end's going away takes only the carrier.
    let port = lab.port(0, 1)?;
    lab.room.socket.set_down(port)?;
    let seen = changes(&mut stream, &name, LinkChange::CarrierDown)?;
    ensure!(!seen.contains(&LinkChange::Down), "{seen:?}");
    lab.room.socket.set_up(port)?;
    changes(&mut stream, &name, LinkChange::CarrierUp)?;
    lab.room.socket.delete_link(port)?;
    changes(&mut stream, &name, LinkChange::Disappeared)?;
    Ok(())
}

fn addresses_that_come_and_go() -> Outcome {
    let mut lab = Lab::new(&[None])?;
    let name = wire_name(0);
    let index = lab.client.index(&name)?;
    let mut stream = LinkEventStream::subscribe_in(&lab.client.namespace)?;
    for network in ["10.9.9.9/24", "fd99::9/64"] {
        let network: IpNetwork = network.parse()?;
        lab.client.socket.add_address(index, network)?;
        changes(&mut stream, &name, LinkChange::AddressAdded(network))?;
        lab.client.socket.remove_address(index, network)?;
        changes(&mut stream, &name, LinkChange::AddressRemoved(network))?;
    }
    Ok(())
}

fn only_of_this_namespace() -> Outcome {
    let mut lab = Lab::new(&[None])?;
    // Taking an address away here must not be told there.
    let mut stream = LinkEventStream::subscribe_in(&lab.server.namespace)?;
    let index = lab.client.index(&wire_name(0))?;
    lab.client.socket.remove_address(index, IpNetwork::new(v4(0, 1), 24)?)?;
    std::thread::sleep(Duration::from_millis(50));
    let seen = stream.receive()?;
    ensure!(seen.iter().all(|event| !matches!(event.change, LinkChange::AddressRemoved(_))), "{seen:?}");
    Ok(())
}
