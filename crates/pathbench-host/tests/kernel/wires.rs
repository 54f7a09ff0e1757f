//! Namespaces, interfaces, veth pairs, bridges.

use crate::fixture::{Host, Lab, MTU, message_arrives, v4, v6, wait_until, wire_name};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{NetlinkError, RouteSocket, VethEnd, VethPair};
use pathbench_host::tun::{Tun, TunError};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::time::{Duration, Instant};

tests!(
    packets_pass_between_namespaces,
    a_name_is_unique_within_a_namespace,
    settings_are_read_as_set,
    a_pair_is_removed_with_either_end,
    carrier_follows_the_peer,
    bytes_are_counted,
    errors_name_the_request_and_the_reason,
    tun_devices_have_names_that_the_kernel_takes_as_they_are,
    a_namespace_is_removed_with_its_handles,
    a_lab_starts_in_less_than_100_ms,
);

fn packets_pass_between_namespaces() -> TrialOutcome {
    let lab = Lab::new(&[None, None])?;
    for path in [0, 1] {
        ensure!(
            message_arrives(&lab.client, v4(path, 1), &lab.server, v4(path, 2))?,
            "IPv4 over path {path}"
        );
        ensure!(
            message_arrives(&lab.server, v6(path, 2), &lab.client, v6(path, 1))?,
            "IPv6 over path {path}"
        );
    }
    Ok(())
}

fn a_name_is_unique_within_a_namespace() -> TrialOutcome {
    let (left, right) = (Host::new()?, Host::new()?);
    let end = |host| VethEnd { name: "pbt-same", namespace: host, mtu: MTU };
    let pair = VethPair { first: end(&left.namespace), second: end(&right.namespace) };
    let mut elsewhere = RouteSocket::open()?;
    elsewhere.create_veth(&pair)?;
    let refusal = elsewhere.create_veth(&pair).err();
    ensure!(refusal.as_ref().is_some_and(NetlinkError::is_already_there), "{refusal:?}");
    let here = elsewhere.links()?;
    ensure!(here.iter().all(|link| link.name != "pbt-same"), "an end was left behind: {here:?}");
    Ok(())
}

fn settings_are_read_as_set() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    lab.client.socket.set_mtu(index, 1400)?;
    lab.client.socket.set_gso(index, 32_768, 17)?;
    let link = lab.client.socket.link_by_index(index)?;
    ensure!(link.name == wire_name(0) && link.mtu == 1400, "{link:?}");
    ensure!((link.gso_max_size, link.gso_max_segs) == (Some(32_768), Some(17)), "{link:?}");
    ensure!(link.kind.as_deref() == Some("veth") && link.mac.is_some() && link.up, "{link:?}");
    let port = lab.fabric.socket.link(&format!("{}.1", wire_name(0)))?;
    let bridge = lab.fabric.socket.link(&format!("{}-b", wire_name(0)))?;
    ensure!(port.master == Some(bridge.index), "{port:?}");
    ensure!(bridge.kind.as_deref() == Some("bridge"), "{bridge:?}");
    let all = lab.fabric.socket.links()?;
    ensure!(all.contains(&port) && all.contains(&bridge) && all.len() == 4, "{all:?}");
    ensure!(all.iter().filter(|link| link.loopback).count() == 1, "{all:?}");
    Ok(())
}

fn a_pair_is_removed_with_either_end() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    lab.client.socket.delete_link(index)?;
    let peer = lab.fabric.socket.link(&format!("{}.1", wire_name(0)));
    ensure!(matches!(peer, Err(NetlinkError::NoSuchInterface { .. })), "{peer:?}");
    let gone = lab.client.socket.delete_link(index).err();
    ensure!(gone.as_ref().is_some_and(NetlinkError::is_absent), "{gone:?}");
    Ok(())
}

fn carrier_follows_the_peer() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let port = lab.port(0, 1)?;
    let index = lab.client.index(&wire_name(0))?;
    for up in [false, true] {
        if up {
            lab.fabric.socket.set_up(port)?;
        } else {
            lab.fabric.socket.set_down(port)?;
        }
        let follows = wait_until(Duration::from_secs(2), || {
            let link = lab.client.socket.link_by_index(index)?;
            Ok(link.up && link.carrier == up)
        })?;
        ensure!(follows, "the carrier does not become {up}");
    }
    Ok(())
}

fn bytes_are_counted() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    let before = lab.client.socket.statistics(index)?;
    ensure!(message_arrives(&lab.client, v4(0, 1), &lab.server, v4(0, 2))?, "nothing arrives");
    let after = lab.client.socket.statistics(index)?;
    // An Ethernet, an IPv4 and a UDP header with 13 bytes, and possibly an ARP request.
    ensure!(after.tx_bytes >= before.tx_bytes + 14 + 20 + 8 + 13, "{before:?} {after:?}");
    ensure!(after.tx_packets > before.tx_packets, "{before:?} {after:?}");
    Ok(())
}

fn errors_name_the_request_and_the_reason() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    let error = lab.client.socket.set_mtu(index, 10).err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error.starts_with(&format!("cannot set the MTU of interface {index} to 10: ")), "{error}");
    ensure!(error.contains("the kernel reports \"mtu less than device minimum\""), "{error}");
    let error = lab.client.socket.link("pbt-none").err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error.contains("no interface pbt-none"), "{error}");
    Ok(())
}

fn tun_devices_have_names_that_the_kernel_takes_as_they_are() -> TrialOutcome {
    let host = Host::new()?;
    for name in ["", "sixteen-bytes-xx", "a/b", "a b", "a:1", "..", "tun%d"] {
        let made = Tun::create(&host.namespace, name, 1500);
        let invalid = matches!(made, Err(TunError::Netlink(NetlinkError::InvalidName { .. })));
        ensure!(invalid, "{name}: {made:?}");
    }
    let made = Tun::create(&host.namespace, "fifteen-bytes-x", 1500);
    ensure!(made.is_ok(), "{made:?}");
    Ok(())
}

fn a_namespace_is_removed_with_its_handles() -> TrialOutcome {
    let mut kept = Host::new()?;
    let gone = NetNamespace::create()?;
    kept.socket.create_veth(&VethPair {
        first: VethEnd { name: "pbt-kept", namespace: &kept.namespace, mtu: MTU },
        second: VethEnd { name: "pbt-gone", namespace: &gone, mtu: MTU },
    })?;
    kept.socket.link("pbt-kept")?;
    drop(gone);
    // The kernel removes namespaces asynchronously.
    let torn_down = wait_until(Duration::from_secs(10), || Ok(kept.socket.link("pbt-kept").is_err()))?;
    ensure!(torn_down, "the wire into the namespace is still there");
    Ok(())
}

fn a_lab_starts_in_less_than_100_ms() -> TrialOutcome {
    use pathbench_host::qdisc::Shaper;
    let shaper = Some(Shaper::new(1_000_000_000, MTU, 1_000_000));
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let lab = Lab::new(&[shaper.clone(), shaper.clone()])?;
        best = best.min(start.elapsed());
        ensure!(message_arrives(&lab.client, v4(1, 1), &lab.server, v4(1, 2))?, "the lab does not work");
    }
    eprintln!("three namespaces, two shaped paths, addresses, routes and rules: {best:?}");
    ensure!(best < Duration::from_millis(100), "{best:?}");
    Ok(())
}
