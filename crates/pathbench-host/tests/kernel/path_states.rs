//! Reads of the kernel's path-MTU state.

use crate::fixture::{Host, Lab, v4, v6, wire_name};
use crate::raw_routes::{RawRoute, attribute, number, octets};
use libtest_mimic::Failed;
use pathbench_host::change::{Applier, ChangePlan, Operation, PlannedStep};
use pathbench_host::netlink::{Route, RoutingRule, VethEnd, VethPair};
use pathbench_host::path_mtu::{HostPath, PathMtuState, PathObserver, PathStateError, plan};
use pathbench_host::sysctl;
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

tests!(
    rule_table_gateway_and_mtu,
    the_route_of_the_interface_is_used_instead_of_the_best_one,
    a_missing_route_is_reported,
    a_route_mtu_replaces_the_mtu_learnt_from_icmp,
);

const FAMILIES: [fn(u8, u8) -> IpAddr; 2] = [v4, v6];

const fn default_for(address: IpAddr) -> IpNet {
    if address.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 }
}

fn path(local: IpAddr, link: u8, server: IpAddr) -> HostPath {
    HostPath { local, interface: wire_name(link), server }
}

fn state(host: &Host, path: &HostPath) -> Result<PathMtuState, Failed> {
    Ok(PathObserver::open_in(&host.namespace)?.state(path)?)
}

fn rule_table_gateway_and_mtu() -> TrialOutcome {
    for address in FAMILIES {
        let mut lab = Lab::new(&[None, None])?;
        let index = lab.client.index(&wire_name(1))?;
        let on_link = state(&lab.client, &path(address(1, 1), 1, address(1, 2)))?;
        ensure!(on_link.table() == 101 && on_link.rule_priority == Some(101), "{on_link:?}");
        ensure!(on_link.gateway().is_none() && on_link.route.mtu_bytes().is_none(), "{on_link:?}");
        ensure!(on_link.interface_mtu_bytes == 1500 && on_link.effective_mtu_bytes() == 1500, "{on_link:?}");
        ensure!(on_link.cached.is_none() && on_link.connections.is_empty(), "{on_link:?}");
        ensure!(on_link.unbound_interface == Some(index), "{on_link:?}");
        ensure!(on_link.interface_index == index, "{on_link:?}");

        let far = address(9, 9);
        let everywhere = default_for(far);
        let gateway = Some(address(1, 2));
        let (interface, table) = (Some(index), 101);
        let route =
            Route { gateway, interface, table, mtu: Some(1400), mtu_locked: true, ..Route::new(everywhere) };
        lab.client.socket.add_route(&route)?;
        let routed = state(&lab.client, &path(address(1, 1), 1, far))?;
        ensure!(routed.gateway() == gateway && routed.table() == 101, "{routed:?}");
        ensure!(routed.route.destination() == everywhere, "{routed:?}");
        ensure!(routed.route.mtu_bytes() == Some(1400) && routed.route.is_mtu_locked(), "{routed:?}");
        ensure!(routed.effective_mtu_bytes() == 1400 && routed.candidates.len() == 1, "{routed:?}");
    }
    Ok(())
}

/// Two interfaces without rules share the main table.
fn the_route_of_the_interface_is_used_instead_of_the_best_one() -> TrialOutcome {
    for address in FAMILIES {
        let mut lab = Lab::new(&[None, None])?;
        for (path, metric) in [(0u8, 100), (1, 200)] {
            let table = 100 + u32::from(path);
            let from = IpNet::from(address(path, 1));
            lab.client.socket.remove_rule(&RoutingRule { from, table, priority: table })?;
            let interface = lab.client.index(&wire_name(path))?;
            let mut route = Route::new(default_for(from.addr()));
            route.gateway = Some(address(path, 2));
            (route.interface, route.metric) = (Some(interface), Some(metric));
            lab.client.socket.add_route(&route)?;
        }
        let seen = state(&lab.client, &path(address(1, 1), 1, address(9, 9)))?;
        let best = lab.client.index(&wire_name(0))?;
        ensure!(seen.gateway() == Some(address(1, 2)) && seen.route.metric() == 200, "{seen:?}");
        ensure!(seen.rule_priority == Some(32_766) && seen.table() == 254, "{seen:?}");
        ensure!(seen.unbound_interface == Some(best), "{seen:?}");
        ensure!(seen.candidates.len() == 2, "{seen:?}");
        let notes = plan(&seen, 1400, &[])?.notes.join(" ");
        ensure!(notes.contains("a rule for that address is missing"), "{notes}");
    }
    Ok(())
}

fn a_missing_route_is_reported() -> TrialOutcome {
    let lab = Lab::new(&[None])?;
    for address in FAMILIES {
        let mut observer = PathObserver::open_in(&lab.client.namespace)?;
        let none = observer.state(&path(address(0, 1), 0, address(9, 9)));
        ensure!(matches!(none, Err(PathStateError::NoRoute { .. })), "{none:?}");
        let absent = observer.state(&path(address(0, 1), 7, address(0, 2)));
        let text = absent.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(text.contains("no interface pbt-7"), "{text}");
    }
    let mixed = state(&lab.client, &path(v4(0, 1), 0, v6(0, 2)));
    ensure!(mixed.is_err(), "{mixed:?}");
    Ok(())
}

/// A router whose far link has an MTU of 1400 bytes and which sends ICMP messages.
fn behind_a_narrow_router() -> Result<[Host; 3], Failed> {
    let [mut client, mut router, mut server] = [Host::new()?, Host::new()?, Host::new()?];
    for (host, link, mtu, number) in [(&mut client, 0u8, 1500, 1u8), (&mut server, 1, 1400, 9)] {
        let (name, port) = (wire_name(link), format!("pbt-r{link}"));
        router.socket.create_veth(&VethPair {
            first: VethEnd { name: &port, namespace: &router.namespace, mtu },
            second: VethEnd { name: &name, namespace: &host.namespace, mtu: 1500 },
        })?;
        for (end, name, number) in [(&mut *host, &name, number), (&mut router, &port, 254)] {
            let index = end.index(name)?;
            for (address, prefix) in [(v4(link, number), 24), (v6(link, number), 64)] {
                end.socket.add_address(index, IpNet::new(address, prefix)?)?;
            }
            end.socket.set_up(index)?;
        }
        let index = host.index(&name)?;
        for gateway in [v4(link, 254), v6(link, 254)] {
            let mut route = Route::new(default_for(gateway));
            (route.gateway, route.interface) = (Some(gateway), Some(index));
            host.socket.add_route(&route)?;
        }
    }
    router.namespace.run_in(|| {
        sysctl::write("net.ipv4.ip_forward", "1")?;
        sysctl::write("net.ipv6.conf.all.forwarding", "1")
    })??;
    for host in [&mut client, &mut router, &mut server] {
        host.wait_for_links()?;
    }
    Ok([client, router, server])
}

/// Sends packets larger than the far link's MTU until the kernel has cached the path MTU.
fn learn(client: &Host, from: IpAddr, path: &HostPath) -> Result<PathMtuState, Failed> {
    for _ in 0..50 {
        client.namespace.run_in(|| {
            let socket = UdpSocket::bind(SocketAddr::new(from, 0))?;
            socket.send_to(&[0; 1440], (path.server, 9))
        })??;
        std::thread::sleep(Duration::from_millis(100));
        let state = state(client, path)?;
        if state.cached.is_some() {
            return Ok(state);
        }
    }
    Err("ICMP never came".into())
}

fn a_route_mtu_replaces_the_mtu_learnt_from_icmp() -> TrialOutcome {
    for address in FAMILIES {
        let [client, _router, _server] = behind_a_narrow_router()?;
        let path = path(address(0, 1), 0, address(1, 9));
        let before = state(&client, &path)?;
        ensure!(before.cached.is_none() && before.effective_mtu_bytes() == 1500, "{before:?}");
        let learnt = learn(&client, address(0, 1), &path)?;
        let cached = learnt.cached.ok_or("nothing is cached")?;
        ensure!(cached.mtu_bytes == 1400 && !cached.locked, "{cached:?}");
        ensure!((500..=600).contains(&cached.expires_in.as_secs()), "{cached:?}");
        ensure!(learnt.effective_mtu_bytes() == 1400, "{learnt:?}");
        ensure!(plan(&learnt, 1400, &[])?.steps.is_empty(), "the kernel is right already");

        // A new route for the server alone has no cached MTU.
        let host = RawRoute::new(path.server, IpNet::from(path.server).prefix_len(), 254)
            .set_attribute(&attribute(5, &octets(address(0, 254))))
            .set_attribute(&number(4, learnt.interface_index))
            .set_attribute(&attribute(8, &number(2, 1300)));
        host.add(&client.namespace)?;
        let narrowed = state(&client, &path)?;
        ensure!(narrowed.cached.is_none() && narrowed.effective_mtu_bytes() == 1300, "{narrowed:?}");
        // After the removal of that route the cached MTU applies again, because it belongs to the other route.
        host.remove(&client.namespace)?;
        let again = state(&client, &path)?.cached.map(|cached| cached.mtu_bytes);
        ensure!(again == Some(1400), "{again:?}");
        let journal = tempfile::tempdir()?;
        let before = state(&client, &path)?;
        let (after, command) = (before.route.with_mtu(Some(1350)), Vec::new());
        let operation = Operation::ReplaceRoute { before: before.route, after };
        let step = PlannedStep { operation, commands: command.clone(), undo_commands: command };
        let mut remedy = client.namespace.run_in(|| Applier::open(&journal.path().join("journal")))??;
        remedy.apply(&ChangePlan { steps: vec![step], notes: Vec::new() })?;
        let replaced = state(&client, &path)?;
        ensure!(replaced.cached.is_none() && replaced.effective_mtu_bytes() == 1350, "{replaced:?}");
        ensure!(remedy.undo(false)?.is_complete(), "it is not undone");
    }
    Ok(())
}
