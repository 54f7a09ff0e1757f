//! Addresses, routes and rules.

use crate::fixture::{Lab, message_arrives, v4, v6, wire_name};
use pathbench_host::netlink::{MAIN_TABLE, NetlinkError, Route, RoutingRule};
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::time::{Duration, Instant};

tests!(
    addresses_are_added_and_removed,
    routes_are_added_changed_and_removed,
    rules_select_tables,
    table_numbers_above_255_are_supported
);

fn addresses_are_added_and_removed() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    for (network, peer) in [("10.0.0.9/24", v4(0, 2)), ("fd00::9/64", v6(0, 2))] {
        let network: IpNet = network.parse()?;
        ensure!(!lab.client.socket.delivers(network.addr())?, "{network} is delivered before it is there");
        lab.client.socket.add_address(index, network)?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !lab.client.socket.delivers(network.addr())? {
            ensure!(network.addr().is_ipv6() && Instant::now() < deadline, "{network} is not delivered");
            std::thread::sleep(Duration::from_millis(1));
        }
        let addresses = lab.client.socket.addresses()?;
        let added = addresses.iter().find(|address| address.network == network);
        let Some(added) = added else { return Err(format!("{network} is not among {addresses:?}").into()) };
        ensure!(added.index == index && added.permanent && !added.tentative, "{added:?}");
        ensure!(message_arrives(&lab.client, network.addr(), &lab.server, peer)?, "{network} cannot be used");
        let again = lab.client.socket.add_address(index, network).err();
        ensure!(again.as_ref().is_some_and(NetlinkError::is_already_there), "{again:?}");
        lab.client.socket.remove_address(index, network)?;
        let left = lab.client.socket.addresses()?;
        ensure!(left.iter().all(|address| address.network != network), "{left:?}");
        let again = lab.client.socket.remove_address(index, network).err();
        ensure!(again.as_ref().is_some_and(NetlinkError::is_absent), "{again:?}");
    }
    Ok(())
}

fn routes_are_added_changed_and_removed() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    let socket = &mut lab.client.socket;
    for (everywhere, gateway, source) in [(DEFAULT_V4, v4(0, 2), v4(0, 1)), (DEFAULT_V6, v6(0, 2), v6(0, 1))]
    {
        let route = Route {
            gateway: Some(gateway),
            interface: Some(index),
            source: Some(source),
            mtu: Some(1400),
            mtu_locked: true,
            metric: Some(50),
            ..Route::new(everywhere)
        };
        socket.add_route(&route)?;
        ensure!(socket.routes()?.contains(&route), "{route} is not among {:?}", socket.routes()?);
        let again = socket.add_route(&route).err();
        ensure!(again.as_ref().is_some_and(NetlinkError::is_already_there), "{again:?}");
        let wider = Route { mtu: Some(1300), mtu_locked: false, ..route };
        socket.replace_route(&wider)?;
        let routes = socket.routes()?;
        ensure!(routes.contains(&wider) && !routes.contains(&route), "{routes:?}");
        // The MTU does not identify a route.
        socket.remove_route(&route)?;
        let left = socket.routes()?;
        ensure!(left.iter().all(|left| left.destination != everywhere), "{left:?}");
        let again = socket.remove_route(&route).err();
        ensure!(again.as_ref().is_some_and(NetlinkError::is_absent), "{again:?}");
    }
    let on_link = socket
        .routes()?
        .into_iter()
        .find(|route| route.table == MAIN_TABLE && route.destination.to_string() == "10.0.0.0/24");
    ensure!(
        on_link.is_some_and(|route| route.gateway.is_none() && route.interface == Some(index)),
        "{on_link:?}"
    );
    Ok(())
}

fn rules_select_tables() -> TrialOutcome {
    let mut lab = Lab::new(&[None, None])?;
    // Only the table of path 1 has a route to this address, which the server has on no path.
    let remote: IpNet = "192.0.2.1/32".parse()?;
    let loopback = lab.server.index("lo")?;
    lab.server.socket.add_address(loopback, remote)?;
    let index = lab.client.index(&wire_name(1))?;
    let route =
        Route { gateway: Some(v4(1, 2)), interface: Some(index), table: 101, ..Route::new(DEFAULT_V4) };
    lab.client.socket.add_route(&route)?;
    ensure!(
        message_arrives(&lab.client, v4(1, 1), &lab.server, remote.addr())?,
        "the rule does not lead there"
    );
    ensure!(
        !message_arrives(&lab.client, v4(0, 1), &lab.server, remote.addr())?,
        "path 0 should have no route"
    );
    for address in [v4(1, 1), v6(1, 1)] {
        let rule = RoutingRule { from: IpNet::from(address), table: 101, priority: 101 };
        ensure!(lab.client.socket.rules()?.contains(&rule), "{rule}");
        lab.client.socket.remove_rule(&rule)?;
        ensure!(!lab.client.socket.rules()?.contains(&rule), "{rule}");
        let again = lab.client.socket.remove_rule(&rule).err();
        ensure!(again.as_ref().is_some_and(NetlinkError::is_absent), "{again:?}");
    }
    ensure!(
        !message_arrives(&lab.client, v4(1, 1), &lab.server, remote.addr())?,
        "the rule is still in force"
    );
    Ok(())
}

fn table_numbers_above_255_are_supported() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    let socket = &mut lab.client.socket;
    let route = Route { interface: Some(index), table: 100_000, ..Route::new("198.51.100.0/24".parse()?) };
    let rule = RoutingRule { from: "10.0.0.0/24".parse()?, table: 100_000, priority: 7 };
    socket.add_route(&route)?;
    socket.add_rule(&rule)?;
    ensure!(socket.routes()?.contains(&route), "{:?}", socket.routes()?);
    ensure!(socket.rules()?.contains(&rule), "{:?}", socket.rules()?);
    socket.remove_rule(&rule)?;
    socket.remove_route(&route)?;
    Ok(())
}
