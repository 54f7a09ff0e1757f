//! The facts that `pathbench check` reads: rules of a firewall, routes by source address, properties of interfaces.

use crate::fixture::{Host, Lab, v4, v6, wire_name};
use libtest_mimic::Failed;
use pathbench_host::device::{self, DeviceFeatures, DeviceSocket};
use pathbench_host::firewall::rules::{FirewallRules, MptcpAction, MptcpRule};
use pathbench_host::firewall::{Firewall, FirewallError, Middlebox, RouterRules, Treatment};
use pathbench_host::kernel;
use pathbench_host::managers::Managers;
use pathbench_host::netlink::{Lookup, MAIN_TABLE, Route, RoutingRule};
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use rustix::io::Errno;
use std::net::IpAddr;

tests!(
    rules_that_concern_mptcp_are_found,
    rules_are_not_read_without_privilege,
    routes_follow_the_source_address,
    a_required_interface_without_a_route_is_unreachable,
    a_bound_socket_ignores_the_metric_of_other_interfaces,
    interfaces_report_speed_and_offloads,
    another_namespace_has_no_managers,
    udp_sockets_segment
);

/// The expected reading of a middlebox's rules; `None` if it does not concern MPTCP.
fn expected(middlebox: Middlebox) -> Option<(MptcpAction, Option<u8>)> {
    let Middlebox::Mptcp { option, treatment, .. } = middlebox else { return None };
    let action = match treatment {
        Treatment::Strip => MptcpAction::Strip,
        Treatment::Drop => MptcpAction::Drop,
        Treatment::Reset => MptcpAction::Reject,
    };
    Some((action, Some(option as u8)))
}

fn rules_that_concern_mptcp_are_found() -> TrialOutcome {
    let host = Host::new()?;
    let read = || -> Result<FirewallRules, Failed> { Ok(host.namespace.run_in(FirewallRules::read)??) };
    ensure!(read()? == FirewallRules::default(), "a new namespace has rules");
    let mut firewall = Firewall::open_in(&host.namespace)?;
    for (name, middlebox) in Middlebox::ALL {
        firewall.apply(&RouterRules { middlebox: vec![middlebox], ..RouterRules::default() })?;
        let found = read()?;
        ensure!(found.rules > 0 && found.dropping_chains.is_empty(), "{name}: {found:?}");
        let concerned = |rule: &MptcpRule| (rule.action, rule.subtype);
        let all: Vec<_> = found.mptcp.iter().map(concerned).collect();
        match expected(middlebox) {
            // Some treatments take a rule per direction or per verdict.
            Some(expected) => ensure!(
                all.contains(&expected) && all.iter().all(|one| one.1 == expected.1),
                "{name}: {found:?}"
            ),
            None => ensure!(all.is_empty(), "{name}: {found:?}"),
        }
        ensure!(
            found.mptcp.iter().all(|rule| rule.is_forwarding
                && rule.chain.starts_with("inet pathbench ")
                && rule.handle > 0),
            "{found:?}"
        );
    }
    Ok(())
}

fn rules_are_not_read_without_privilege() -> TrialOutcome {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let host = Host::new()?;
    // In a temporary thread, because it drops capabilities.
    let read = host.namespace.run_in(|| -> Result<_, Failed> {
        let mut held = capabilities(None)?;
        held.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, held)?;
        Ok(FirewallRules::read())
    })??;
    let is_refused =
        matches!(&read, Err(FirewallError::Netlink(error)) if error.errno() == Some(Errno::PERM));
    ensure!(is_refused, "{read:?}");
    Ok(())
}

/// The interface of the route from `source` to `destination`.
fn leaves_by(
    host: &mut Host,
    source: IpAddr,
    destination: IpAddr,
    interface: Option<u32>,
) -> Result<Option<u32>, Failed> {
    match host.socket.matched_entry(&Lookup { source, destination, interface }) {
        Ok(entry) => Ok(entry.and_then(|entry| entry.next_hops().first().map(|hop| hop.interface))),
        Err(error) if matches!(error.errno(), Some(Errno::NETUNREACH | Errno::HOSTUNREACH)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn routes_follow_the_source_address() -> TrialOutcome {
    let mut lab = Lab::new(&[None, None])?;
    let client = &mut lab.client;
    let (first, second) = (client.index(&wire_name(0))?, client.index(&wire_name(1))?);
    for (number, interface) in [(0, first), (1, second)] {
        let table = 100 + u32::from(number);
        let default = Route {
            gateway: Some(v4(number, 2)),
            interface: Some(interface),
            table,
            ..Route::new(DEFAULT_V4)
        };
        client.socket.add_route(&default)?;
    }
    let main = Route {
        gateway: Some(v4(0, 2)),
        interface: Some(first),
        table: MAIN_TABLE,
        ..Route::new(DEFAULT_V4)
    };
    client.socket.add_route(&main)?;
    let beyond: IpAddr = [192, 0, 2, 1].into();
    ensure!(leaves_by(client, v4(0, 1), beyond, None)? == Some(first), "the first address");
    ensure!(leaves_by(client, v4(1, 1), beyond, None)? == Some(second), "the second address");
    let unbound: IpAddr = [0, 0, 0, 0].into();
    ensure!(leaves_by(client, unbound, beyond, None)? == Some(first), "no address");
    ensure!(leaves_by(client, v6(1, 1), v6(1, 2), None)? == Some(second), "IPv6");
    let rule = RoutingRule { from: IpNet::from(v4(1, 1)), table: 101, priority: 101 };
    client.socket.remove_rule(&rule)?;
    // Without the rule the lookup succeeds, with the other interface.
    ensure!(leaves_by(client, v4(1, 1), beyond, None)? == Some(first), "without its rule");
    Ok(())
}

/// An ordinary lookup invents an on-link route on a required interface.
fn a_required_interface_without_a_route_is_unreachable() -> TrialOutcome {
    let mut lab = Lab::new(&[None, None])?;
    let client = &mut lab.client;
    let (first, second) = (client.index(&wire_name(0))?, client.index(&wire_name(1))?);
    let main = Route {
        gateway: Some(v4(0, 2)),
        interface: Some(first),
        table: MAIN_TABLE,
        ..Route::new(DEFAULT_V4)
    };
    client.socket.add_route(&main)?;
    let beyond: IpAddr = [192, 0, 2, 1].into();
    ensure!(
        leaves_by(client, v4(1, 1), beyond, Some(second))?.is_none(),
        "there is no route by the second interface"
    );
    let default = Route {
        gateway: Some(v4(1, 2)),
        interface: Some(second),
        metric: Some(600),
        ..Route::new(DEFAULT_V4)
    };
    client.socket.add_route(&default)?;
    ensure!(
        leaves_by(client, v4(1, 1), beyond, Some(second))? == Some(second),
        "a route of any metric is enough"
    );
    Ok(())
}

/// Two IPv6 default routes in the main table, and no rule: an unbound socket takes the lower metric whatever its source, a
/// bound one its interface.
fn a_bound_socket_ignores_the_metric_of_other_interfaces() -> TrialOutcome {
    let mut lab = Lab::new(&[None, None])?;
    let client = &mut lab.client;
    let (first, second) = (client.index(&wire_name(0))?, client.index(&wire_name(1))?);
    let default = |number: u8, interface: u32| Route {
        gateway: Some(v6(number, 2)),
        interface: Some(interface),
        metric: Some(100 * (u32::from(number) + 1)),
        ..Route::new(DEFAULT_V6)
    };
    client.socket.add_route(&default(0, first))?;
    let beyond: IpAddr = "2001:db8::1".parse()?;
    for number in [0, 1] {
        let table = 100 + u32::from(number);
        client.socket.remove_rule(&RoutingRule {
            from: IpNet::from(v6(number, 1)),
            table,
            priority: table,
        })?;
    }
    let lookup = Lookup { source: v6(1, 1), destination: beyond, interface: Some(second) };
    let refused = client.socket.bound_entry(&lookup).err().and_then(|error| error.errno());
    ensure!(refused == Some(Errno::NETUNREACH), "without a route: {refused:?}");
    client.socket.add_route(&default(1, second))?;
    ensure!(leaves_by(client, v6(1, 1), beyond, None)? == Some(first), "unbound");
    let entry = client.socket.bound_entry(&lookup)?.ok_or("no route")?;
    ensure!(entry.leaves_only_by(second), "bound: {entry:?}");
    Ok(())
}

fn interfaces_report_speed_and_offloads() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let index = lab.client.index(&wire_name(0))?;
    let link = lab.client.socket.link_by_index(index)?;
    let (features, speed_bps, absent, cellular) =
        lab.client.namespace.run_in(|| -> Result<_, Failed> {
            let Some(mut socket) = DeviceSocket::open()? else {
                return Err("the kernel has no ethtool family".into());
            };
            let features = socket.features(index)?;
            Ok((features, socket.speed_bps(index)?, socket.features(9_999)?, device::is_cellular(&link)))
        })??;
    // A veth segments in software; GRO is off until a program asks for it.
    ensure!(features == Some(DeviceFeatures { gso: true, tso: true, gro: false }), "{features:?}");
    ensure!(speed_bps == Some(10_000_000_000), "{speed_bps:?}");
    ensure!(absent.is_none() && !cellular, "{absent:?}, {cellular}");
    Ok(())
}

/// sysfs belongs to the namespace in which it was mounted: an interface here is none of its interfaces.
fn another_namespace_has_no_managers() -> TrialOutcome {
    let mut lab = Lab::new(&[None])?;
    let links = lab.client.socket.links()?;
    let found = lab.client.namespace.run_in(|| Managers::read(&links, 0))?;
    ensure!(found == Managers::default(), "{found:?}");
    Ok(())
}

fn udp_sockets_segment() -> TrialOutcome {
    ensure!(kernel::udp_segmentation(), "every kernel of these tests has UDP_SEGMENT");
    Ok(())
}
