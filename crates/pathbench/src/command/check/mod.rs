//! `check`: whether this host can use several paths, why not, and the remedy. Nothing is changed.
//!
//! `facts` reads the host, `pathbench-check` derives the findings.

pub(crate) mod facts;
mod server;
mod summary;
mod suspension;

use crate::arguments::ServerArguments;
use crate::command::run::process;
use crate::result::style;
use clap::Args;
use pathbench_check::facts::HostFacts;
use pathbench_check::finding::{Finding, FindingId, Level, order};
use pathbench_host::kernel::MptcpSupport;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::network::AddressFamily;
use pathbench_record::time::SharedClock;
use pathbench_transport::CertificateFingerprint;
use serde::Serialize;
use std::ffi::OsString;
use std::net::IpAddr;

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The server to examine as well: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets)
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    #[command(flatten)]
    connection: ServerArguments,
    /// A further UDP port of the server to examine (repeatable)
    #[arg(long = "quic-port", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    quic_ports: Vec<u16>,
    /// SHA-256 of the server's certificate, as `pathbench serve` prints it: the server proves its identity on each path
    /// before anything is sent over it in clear text
    #[arg(long, value_name = "HEX", requires = "server")]
    fingerprint: Option<CertificateFingerprint>,
    /// Print the findings as one JSON document instead of the summary
    #[arg(long)]
    json: bool,
    /// A program instead of this host: its running processes, which of their TCP sockets are MPTCP, and the ways to make them
    /// so
    #[arg(last = true, value_name = "CMD", conflicts_with = "server")]
    command: Vec<OsString>,
}

/// The document of `--json`; docs/check.md describes it.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    host: Host,
    findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Host {
    kernel: String,
    /// `upstream`, `off`, `out-of-tree`, `none` or `refused`.
    mptcp: &'static str,
    paths: Vec<Path>,
}

#[derive(Debug, Serialize)]
struct Path {
    name: String,
    address: IpAddr,
}

impl Host {
    fn from_facts(facts: &HostFacts) -> Self {
        let mptcp = match facts.support {
            MptcpSupport::Available => "upstream",
            MptcpSupport::Disabled => "off",
            _ if facts.setting("net.mptcp.mptcp_enabled").is_some() => "out-of-tree",
            MptcpSupport::Refused(_) => "refused",
            MptcpSupport::NotBuilt | MptcpSupport::TooOld => "none",
        };
        let families = AddressFamily::ALL.into_iter();
        let paths = families.flat_map(|family| facts.paths(family));
        let paths = paths.map(|path| Path { name: path.link.name.clone(), address: path.address });
        Self { kernel: facts.kernel.text.clone(), mptcp, paths: paths.collect() }
    }
}

pub(crate) fn check(args: &CheckArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    if let Some(program) = args.command.first() {
        return process::show_program(program, args.json);
    }
    let Some(server) = &args.server else {
        let facts = facts::read(&[], clock)?;
        let mut findings = pathbench_check::host::findings(&facts);
        findings.extend(pathbench_check::server::announced::findings(&facts, &server::serving_sockets()));
        return finish(&facts, findings, args.json);
    };
    let target = server::ProbedServer::resolve(server, &args.connection)?;
    // Before the probes: they raise the counters.
    let facts = facts::read(&target.destinations(), clock)?;
    let mut findings = pathbench_check::host::findings(&facts);
    let probed = server::probe(&target, &args.connection, &args.quic_ports, args.fingerprint, &facts, clock)?;
    let of_server = pathbench_check::server::findings(&probed);
    // A measured bandwidth-delay product replaces an assumed one.
    if of_server.iter().any(|finding| finding.id == FindingId::TcpBuffers) {
        findings.retain(|finding| finding.id != FindingId::TcpBuffers);
    }
    // Advice that the probes have proved to be the problem.
    let is_proved = |one: &Finding| {
        let mut problems = of_server.iter().filter(|known| known.level == Level::Problem);
        one.level == Level::Advice && problems.any(|known| known.id == one.id && known.remedy == one.remedy)
    };
    findings.retain(|one| !is_proved(one));
    findings.extend(of_server);
    finish(&facts, findings, args.json)
}

/// Prints the findings, causes first.
fn finish(facts: &HostFacts, mut findings: Vec<Finding>, json: bool) -> Result<Exit, Failure> {
    order(&mut findings);
    let exit = exit(&findings);
    if json {
        let document = Document { schema: "pathbench.check/1", host: Host::from_facts(facts), findings };
        output::print_json(&document)?;
    } else {
        output::print(&summary::summary(&findings, style()))?;
    }
    Ok(exit)
}

fn exit(findings: &[Finding]) -> Exit {
    let mut problems = findings.iter().filter(|finding| finding.level == Level::Problem).peekable();
    if problems.peek().is_none() {
        return Exit::Done;
    }
    if problems.clone().any(|finding| finding.id == FindingId::ServerReach) {
        return Exit::Unreachable;
    }
    let lacks_mptcp = problems.any(|finding| finding.id == FindingId::KernelMptcp);
    if lacks_mptcp { Exit::HostCannot } else { Exit::MultipathNotUsed }
}
