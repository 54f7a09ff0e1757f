//! The command line of an execution: what an experiment asks for, and what the owner permits.

use crate::limits::OwnerLimits;
use crate::networks::{HostNetworks, NetworkState};
use crate::target::TestTarget;
use pathbench_api::experiment::{Experiment, ExperimentKind, Family};
use pathbench_record::network::MOST_TEST_PATHS;
use pathbench_record::transport::Transport;
use std::net::IpAddr;

/// The interfaces and the transports of an execution, or why there are none.
pub(crate) fn select_interfaces(
    experiment: &Experiment,
    address: IpAddr,
    host: &dyn HostNetworks,
    networks: &NetworkState,
    limits: &OwnerLimits,
) -> Result<(Vec<String>, Vec<Transport>), String> {
    let all = host.interfaces_to(address)?;
    if all.is_empty() {
        return Err(format!("no route to host {address}"));
    }
    let mut forbidden = Vec::new();
    let mut names = Vec::new();
    let mut reason = String::new();
    for name in all {
        match networks.objection(&name, experiment.metered, limits) {
            Some(why) => {
                reason = why;
                forbidden.push(name);
            }
            None if names.contains(&name) => {}
            None => names.push(name),
        }
    }
    if names.is_empty() {
        return Err(reason);
    }
    let mut transports = experiment.transports.clone();
    if transports.is_empty() {
        transports = Transport::ALL.to_vec();
    }
    // The kernel opens subflows over all interfaces with an endpoint.
    if !forbidden.is_empty() && host.has_mptcp_endpoint(&forbidden) {
        transports.retain(|transport| *transport != Transport::Mptcp);
    }
    if transports.is_empty() {
        return Err(format!("{reason}, and mptcp would use it"));
    }
    // Those that do not work are left out, unless all are named.
    let is_all = Transport::ALL.iter().all(|transport| transports.contains(transport));
    if is_all && experiment.transports.is_empty() {
        transports.clear();
    }
    Ok((names, transports))
}

pub(crate) fn server_arguments(kind: ExperimentKind, target: &TestTarget, address: IpAddr) -> Vec<String> {
    let command: &'static str = kind.into();
    let mut arguments = vec![command.to_owned()];
    arguments.extend(target.arguments(address));
    for port in &target.quic_ports {
        arguments.extend(["--quic-port".to_owned(), port.to_string()]);
    }
    arguments
}

/// The command line of one test of an experiment: fixed words, and values that were parsed.
pub fn test_arguments(
    experiment: &Experiment,
    target: &TestTarget,
    address: IpAddr,
    family: Option<Family>,
    interfaces: &[String],
    transports: &[Transport],
) -> Vec<String> {
    let mut arguments = server_arguments(experiment.kind, target, address);
    let most = if experiment.kind == ExperimentKind::Test { MOST_TEST_PATHS } else { usize::MAX };
    for name in interfaces.iter().take(most) {
        arguments.extend(["--path".to_owned(), name.clone()]);
    }
    if !transports.is_empty() {
        let names: Vec<&str> = transports.iter().map(|transport| transport.name()).collect();
        arguments.extend(["--transports".to_owned(), names.join(",")]);
    }
    match family {
        Some(Family::Ipv4) => arguments.push("--ipv4".to_owned()),
        Some(Family::Ipv6) => arguments.push("--ipv6".to_owned()),
        None => {}
    }
    arguments.extend(["--duration".to_owned(), format!("{}s", experiment.duration_s)]);
    if experiment.kind == ExperimentKind::Test {
        arguments.extend(["--repeat".to_owned(), experiment.repeat.to_string()]);
        arguments.extend(["--bulk-bytes".to_owned(), format!("{}B", experiment.bulk_bytes)]);
        if !experiment.patterns.is_empty() {
            let names: Vec<&'static str> =
                experiment.patterns.iter().map(|&pattern| pattern.into()).collect();
            arguments.extend(["--patterns".to_owned(), names.join(",")]);
        }
    }
    arguments
}
