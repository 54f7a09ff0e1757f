//! `[run]`: transports, patterns, how long and how often.

mod labels;
mod pattern;
mod quic;

pub(super) use labels::labels;

use super::keys;
use super::mistake::MistakeKind;
use super::plan::{Family, Role, RunPlan, SocketPlan, Topology};
use super::section::{Section, did_you_mean};
use super::topology::reaches;
use std::time::Duration;

const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);
/// Past this a link's delays are not what the scenario says, on the scale of what is measured over it.
const DEFAULT_LATENESS_TOLERANCE: Duration = Duration::from_millis(10);
const DEFAULT_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const DEFAULT_SEED: u64 = 1;
pub(super) const LONGEST_RUN: Duration = Duration::from_secs(24 * 3_600);

/// What the rest of the scenario must know of `[run]` before it can be read.
pub(super) struct Ends {
    pub(super) client: String,
    pub(super) server: String,
    pub(super) family: Family,
}

pub(super) fn ends(run: &Section<'_>) -> Ends {
    let families = [("ipv4", Family::Ipv4), ("ipv6", Family::Ipv6)];
    Ends {
        client: run.text("client", "client").unwrap_or("client").to_owned(),
        server: run.text("server", "server").unwrap_or("server").to_owned(),
        family: run.choice("family", &families).unwrap_or(Family::Ipv4),
    }
}

/// What `[run]` says about the whole rather than about one run.
pub(super) struct Course {
    pub(super) seed: u64,
    pub(super) repeat: u32,
    pub(super) sample_interval: Duration,
    pub(super) lateness_tolerance: Duration,
}

pub(super) fn course(run: &Section<'_>) -> Course {
    let intervals = Duration::from_millis(10)..=Duration::from_secs(10);
    Course {
        seed: run.integer("seed", 0..=u64::MAX).unwrap_or(DEFAULT_SEED),
        repeat: run.integer("repeat", 1..=10_000).unwrap_or(1) as u32,
        sample_interval: run.duration("sample_interval", intervals).unwrap_or(DEFAULT_SAMPLE_INTERVAL),
        lateness_tolerance: run
            .duration("lateness_tolerance", Duration::ZERO..=Duration::from_secs(10))
            .unwrap_or(DEFAULT_LATENESS_TOLERANCE),
    }
}

/// Reads `[run]` in full.
pub(super) fn read(run: &Section<'_>, ends: Ends, topology: &Topology) -> RunPlan {
    run.only("run", &keys::RUN);
    check_ends(run, &ends, topology);
    let socket =
        SocketPlan { congestion: congestion(run), patience: patience(run).unwrap_or(DEFAULT_PATIENCE) };
    RunPlan {
        labels: labels(run, &ends.client, ends.family, topology),
        patterns: pattern::read(run, &socket),
        client: ends.client,
        server: ends.server,
        family: ends.family,
        packet_sizes: run.flag("packet_sizes").unwrap_or(false),
        tls: run.flag("tls").unwrap_or(false),
        quic: quic::read(&run.section("quic")),
        socket,
    }
}

fn check_ends(run: &Section<'_>, ends: &Ends, topology: &Topology) {
    let hosts: Vec<_> =
        topology.nodes.iter().filter(|node| node.role == Role::Host).map(|node| node.name.as_str()).collect();
    // Without any link there is no host either, and that has been said.
    if topology.links.is_empty() {
        return;
    }
    let mut all_known = true;
    for (key, host) in [("client", &ends.client), ("server", &ends.server)] {
        if !hosts.contains(&host.as_str()) {
            all_known = false;
            let remedy = match did_you_mean(host, &hosts) {
                Some(guess) => format!("{guess} the hosts are {}", hosts.join(", ")),
                None => format!("name one of the hosts as run.{key}: {}", hosts.join(", ")),
            };
            run.wrong(MistakeKind::Reference, key, format!("there is no host `{host}`"), remedy);
        }
    }
    if !all_known {
        return;
    }
    if ends.client == ends.server {
        run.wrong(MistakeKind::Conflict, "server", "client and server are the same host", "name two hosts");
    } else if !reaches(topology, &ends.client, &ends.server) {
        let problem = format!("nothing links `{}` with `{}`", ends.client, ends.server);
        let remedy = "link them, directly or over routers (hosts do not forward)";
        run.wrong(MistakeKind::Conflict, "server", problem, remedy);
    }
    for host in [&ends.client, &ends.server] {
        let mut own = topology.links_of(host);
        if !own.any(|(link, end)| link.ends[end].address(ends.family).is_some()) {
            let problem = format!("`{host}` has no {} address", ends.family.title());
            run.wrong(MistakeKind::Conflict, "family", problem, "give one of its links such an address");
        }
    }
}

fn patience(section: &Section<'_>) -> Option<Duration> {
    section.duration("patience", Duration::from_millis(100)..=LONGEST_RUN)
}

/// The name of a congestion control: below `TCP_CA_NAME_MAX` (include/net/tcp.h).
fn congestion(section: &Section<'_>) -> Option<String> {
    let name = section.text("congestion", "cubic")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 15 || !name.chars().all(legal) {
        let remedy = "give a name as in net.ipv4.tcp_available_congestion_control, \"cubic\" for example";
        section.wrong(
            MistakeKind::Value,
            "congestion",
            format!("`{name}` names no congestion control"),
            remedy,
        );
        return None;
    }
    Some(name.to_owned())
}
