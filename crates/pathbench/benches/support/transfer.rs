//! One transfer of ours between the two hosts of a benchmark's lab.

use super::{children_cpu, launcher};
use pathbench_lab::agent::{AgentNotice, AgentRequest, ServePlan};
use pathbench_lab::environment::Environment;
use pathbench_lab::scenario::VariantPlan;
use pathbench_record::direction::DataDirection;
use pathbench_record::end::TestId;
use pathbench_record::network::AddressFamily;
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientOutcome, ClientPlan};
use pathbench_transport::{QuicOptions, Security, SocketOptions, Trust};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Goodput and cost of one transfer.
pub(crate) struct Figures {
    pub(crate) gbps: f64,
    pub(crate) cpu_seconds_per_gb: f64,
}

impl Figures {
    pub(crate) fn of(bytes: f64, seconds: f64, cpu: Duration) -> Self {
        Self { gbps: bytes * 8.0 / seconds / 1e9, cpu_seconds_per_gb: cpu.as_secs_f64() / (bytes / 1e9) }
    }
}

/// A lab of its own.
pub(crate) fn build(plan: &VariantPlan) -> Result<Environment, String> {
    Environment::build(&plan.topology, &plan.run.server, &launcher(), &super::emulation())
        .map_err(|error| error.to_string())
}

/// Addresses of client and server on the first link.
pub(crate) fn addresses(plan: &VariantPlan) -> Result<(IpAddr, IpAddr), String> {
    let link = plan.topology.links.first().ok_or("no link")?;
    let of_end = |end: usize| link.ends[end].address(AddressFamily::Ipv4).ok_or("no address");
    Ok((of_end(0)?, of_end(1)?))
}

/// Moves data for some seconds in a lab of its own, with cubic.
pub(crate) fn pathbench(
    plan: &VariantPlan,
    transport: Transport,
    direction: DataDirection,
    seconds: u64,
) -> Result<(Figures, ClientOutcome), String> {
    let parameters = ThroughputParameters { direction, ..lasting(seconds) };
    pathbench_with(plan, transport, parameters)
}

/// Throughput by time, with the default options.
pub(crate) fn lasting(seconds: u64) -> ThroughputParameters {
    ThroughputParameters {
        amount: Amount::Duration(Duration::from_secs(seconds)),
        ..ThroughputParameters::default()
    }
}

/// As [`pathbench`], with other options of throughput, which lasts a time.
pub(crate) fn pathbench_with(
    plan: &VariantPlan,
    transport: Transport,
    parameters: ThroughputParameters,
) -> Result<(Figures, ClientOutcome), String> {
    let direction = parameters.direction;
    let time = match parameters.amount {
        Amount::Duration(time) => time,
        Amount::Bytes(_) => return Err("a transfer by bytes has no time".to_owned()),
    };
    let environment = build(plan)?;
    let (local, remote) = addresses(plan)?;
    let socket = SocketOptions { congestion: Some("cubic".to_owned()), ..SocketOptions::default() };
    let before = children_cpu();
    let serve = ServePlan {
        transport,
        address: SocketAddr::new(remote, 0),
        socket: socket.clone(),
        quic: QuicOptions::default(),
        encrypted: matches!(transport, Transport::Quic | Transport::Mpquic),
        answers_probes: false,
        sample_interval: Duration::from_millis(100),
    };
    let (address, fingerprint) = environment
        .ask("server", &AgentRequest::Serve(serve), Duration::from_secs(5), |notice| match notice {
            AgentNotice::Serving { addresses, fingerprint } => {
                Some((addresses.first().copied()?, fingerprint))
            }
            _ => None,
        })
        .map_err(|error| error.to_string())?;
    let client = environment.node("client").map_err(|error| error.to_string())?.agent();
    let transfer = ClientPlan {
        local: Some(local),
        socket,
        security: fingerprint.map_or(Security::Clear, |print| Security::Tls(Trust::Fingerprint(print))),
        patience: Duration::from_secs(10),
        ..ClientPlan::new(transport, address, TestId([7; 16]), parameters.into())
    };
    client.send(&AgentRequest::Transfer(Box::new(transfer))).map_err(|error| error.to_string())?;
    let outcome = loop {
        match client.next(time + Duration::from_secs(20)).map_err(|error| error.to_string())? {
            Some(AgentNotice::Finished(outcome)) => break *outcome,
            Some(AgentNotice::Failed(message)) => return Err(message),
            Some(_) => {}
            None => return Err("the transfer did not end".to_owned()),
        }
    };
    // The agents are children: their time counts once they have been waited for.
    drop(environment);
    if let Some(error) = &outcome.error {
        return Err(error.to_string());
    }
    let server = outcome.server.as_ref().ok_or("no record of the server")?;
    let received = match direction {
        DataDirection::Download => &outcome.client.deliveries,
        DataDirection::Upload | DataDirection::Both => &server.deliveries,
    };
    let (first, last) = received.first.zip(received.last).ok_or("nothing was received")?;
    let cpu = children_cpu().saturating_sub(before);
    Ok((Figures::of(received.total_bytes() as f64, last.duration_since(first).as_secs_f64(), cpu), outcome))
}
