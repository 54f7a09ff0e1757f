//! What the assembly of a run has to know of its plan.

use crate::scenario::{Family, PatternPlan, Topology, VariantPlan};
use pathbench_analysis::assembly::{ClientPath, RunSetting};
use pathbench_analysis::verdict::LocalSetup;
use pathbench_record::pattern::PatternParameters;
use serde_json::{Map, Value};
use std::net::IpAddr;

/// The setting of a run of `pattern`, which is asked of the client as `parameters`.
pub(super) fn of_plan(
    plan: &VariantPlan,
    pattern: &PatternPlan,
    parameters: PatternParameters,
) -> RunSetting {
    let (topology, run) = (&plan.topology, &plan.run);
    let paths = topology.links_of(&run.client).map(|(link, end)| ClientPath {
        name: link.name.clone(),
        interface: link.ends[end].interface.clone(),
        addresses: link.ends[end].addresses.iter().map(|(address, _)| *address).collect(),
        backup: Some(link.backup),
        mtu_bytes: Some(link.mtu_bytes()),
    });
    let ends = topology.links.iter().flat_map(|link| link.ends.iter().map(move |end| (link, end)));
    RunSetting {
        variant: plan.variant.clone(),
        client: run.client.clone(),
        server: run.server.clone(),
        server_address: None,
        pattern: pattern.name().to_owned(),
        parameters,
        asked: asked(pattern),
        paths: paths.collect(),
        other_interfaces: Vec::new(),
        far_interfaces: ends
            .filter(|(_, end)| end.node != run.client)
            .map(|(link, end)| {
                let path = topology.path_of(&link.name).to_owned();
                [end.node.clone(), end.interface.clone(), path]
            })
            .collect(),
        mptcp: mptcp(topology, &run.client, &run.server, run.family),
        scheduler: run.quic.scheduler.clone(),
    }
}

fn mptcp(topology: &Topology, client: &str, server: &str, family: Family) -> Option<LocalSetup> {
    let node = topology.node(client)?;
    let addresses: Vec<IpAddr> =
        topology.links_of(client).filter_map(|(link, end)| link.ends[end].address(family)).collect();
    let endpoints = node.mptcp.endpoints.iter();
    Some(LocalSetup {
        subflow_limit: node.mptcp.subflows,
        add_addr_accepted_limit: node.mptcp.add_addr_accepted,
        endpoints: endpoints
            .filter(|endpoint| endpoint.subflow || endpoint.fullmesh)
            .map(|endpoint| endpoint.address)
            .collect(),
        addresses,
        initial: None,
        peer_subflow_limit: topology.node(server).map(|server| server.mptcp.subflows),
    })
}

fn asked(pattern: &PatternPlan) -> Map<String, Value> {
    let value = match pattern {
        PatternPlan::Ping(ping) => serde_json::to_value(ping),
        PatternPlan::Bulk(bulk) => serde_json::to_value(bulk),
        PatternPlan::Iperf(iperf) => serde_json::to_value(iperf),
        PatternPlan::Interactive(interactive) => serde_json::to_value(interactive),
    };
    match value {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}
