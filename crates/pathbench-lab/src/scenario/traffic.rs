//! `[run]`: transports, pattern, how long and how often.

use super::keys;
use super::mistake::MistakeKind;
use super::plan::{DataDirection, Family, IperfPlan, PatternPlan, Role, RunPlan, Topology};
use super::section::{Section, did_you_mean};
use super::suggestion::choices;
use super::topology::reaches;
use super::tree::{Origin, Value};
use pathbench_record::transport::{Transport, TransportLabel};
use std::time::Duration;

const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);
const DEFAULT_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const DEFAULT_SEED: u64 = 1;
pub(super) const LONGEST_RUN: Duration = Duration::from_secs(24 * 3_600);
/// The largest value of `SO_SNDBUF` that does not overflow when the kernel doubles it.
const LARGEST_BUFFER_BYTES: u64 = 1 << 30;

/// What the rest of the scenario must know of `[run]` before it can be read.
pub(super) struct Ends {
    pub(super) client: String,
    pub(super) server: String,
    pub(super) family: Family,
}

/// Hosts and IP version of the run.
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
}

pub(super) fn course(run: &Section<'_>) -> Course {
    let intervals = Duration::from_millis(10)..=Duration::from_secs(10);
    Course {
        seed: run.integer("seed", 0..=u64::MAX).unwrap_or(DEFAULT_SEED),
        repeat: run.integer("repeat", 1..=10_000).unwrap_or(1) as u32,
        sample_interval: run.duration("sample_interval", intervals).unwrap_or(DEFAULT_SAMPLE_INTERVAL),
    }
}

/// Reads `[run]` in full.
pub(super) fn read(run: &Section<'_>, ends: Ends, topology: &Topology) -> RunPlan {
    run.only("run", &keys::RUN);
    run.choice("pattern", &[("iperf", ())]);
    check_ends(run, &ends, topology);
    let iperf = run.section("iperf");
    iperf.only("run.iperf", &keys::IPERF);
    let plan = read_iperf(&iperf);
    let duration = duration(run, &iperf, &plan);
    RunPlan {
        labels: labels(run, &ends.client, topology),
        pattern: PatternPlan::Iperf(plan),
        duration,
        client: ends.client,
        server: ends.server,
        family: ends.family,
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
}

fn duration(run: &Section<'_>, iperf: &Section<'_>, plan: &IperfPlan) -> Option<Duration> {
    let given = run.duration("duration", Duration::from_millis(100)..=LONGEST_RUN);
    if run.has("duration") && iperf.has("bytes") {
        let remedy = "remove one of the two";
        run.wrong(
            MistakeKind::Conflict,
            "duration",
            "the run ends by time or by run.iperf.bytes, not both",
            remedy,
        );
        return given;
    }
    if iperf.has("bytes") {
        return None;
    }
    let duration = given.unwrap_or(DEFAULT_DURATION);
    if plan.omit >= duration {
        let remedy = "give less than run.duration";
        iperf.wrong(MistakeKind::Conflict, "omit", "the warm-up takes all of the run", remedy);
    }
    Some(duration)
}

fn read_iperf(iperf: &Section<'_>) -> IperfPlan {
    let directions = [
        ("upload", DataDirection::Upload),
        ("download", DataDirection::Download),
        ("both", DataDirection::Both),
    ];
    let buffers = 1_024..=LARGEST_BUFFER_BYTES;
    let patience = Duration::from_millis(100)..=LONGEST_RUN;
    IperfPlan {
        direction: iperf.choice("direction", &directions).unwrap_or(DataDirection::Upload),
        streams: iperf.integer("streams", 1..=128).unwrap_or(1) as u32,
        bytes: iperf.bytes("bytes", 1..=1 << 50),
        rate_bps: iperf.rate_bps("rate"),
        omit: iperf.duration("omit", Duration::ZERO..=LONGEST_RUN).unwrap_or_default(),
        congestion: congestion(iperf),
        send_buffer_bytes: iperf.bytes("send_buffer", buffers.clone()),
        receive_buffer_bytes: iperf.bytes("receive_buffer", buffers),
        block_bytes: iperf.bytes("block", 1..=16 << 20).map(|bytes| bytes as u32),
        patience: iperf.duration("patience", patience).unwrap_or(DEFAULT_PATIENCE),
    }
}

/// The name of a congestion control: below `TCP_CA_NAME_MAX` (include/net/tcp.h).
fn congestion(iperf: &Section<'_>) -> Option<String> {
    let name = iperf.text("congestion", "cubic")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 15 || !name.chars().all(legal) {
        let remedy = "give a name as in net.ipv4.tcp_available_congestion_control, \"cubic\" for example";
        iperf.wrong(
            MistakeKind::Value,
            "congestion",
            format!("`{name}` names no congestion control"),
            remedy,
        );
        return None;
    }
    Some(name.to_owned())
}

/// The transports in order, `@*` spread over the client's paths.
pub(super) fn labels(run: &Section<'_>, client: &str, topology: &Topology) -> Vec<TransportLabel> {
    let Some(texts) = run.texts("transports", "mptcp") else {
        return [Transport::Tcp, Transport::Mptcp]
            .map(|transport| TransportLabel { transport, path: None })
            .into();
    };
    let is_empty_list =
        matches!(run.get("transports").map(|item| &item.value), Some(Value::List(items)) if items.is_empty());
    if is_empty_list {
        run.wrong(
            MistakeKind::Value,
            "transports",
            "names no transport",
            "give some, as in [\"mptcp\", \"tcp\"]",
        );
    }
    let paths: Vec<_> = topology.links_of(client).map(|(link, _)| link.name.as_str()).collect();
    let mut labels: Vec<TransportLabel> = Vec::new();
    for (text, origin) in texts {
        for label in label(run, text, &origin, &paths) {
            if labels.contains(&label) {
                let problem = format!("`{label}` is there twice");
                let remedy = "remove one; run.repeat says how often each runs";
                run.ledger.add(MistakeKind::Duplicate, &origin, run.key("transports"), problem, remedy);
            } else {
                labels.push(label);
            }
        }
    }
    labels
}

fn label(run: &Section<'_>, text: &str, origin: &Origin, paths: &[&str]) -> Vec<TransportLabel> {
    let wrong = |kind, problem: String, remedy: String| {
        run.ledger.add(kind, origin, run.key("transports"), problem, remedy);
        Vec::new()
    };
    let (name, path) = text.split_once('@').map_or((text, None), |(name, path)| (name, Some(path)));
    let Ok(transport) = name.parse::<Transport>() else {
        let guess =
            did_you_mean(name, &["tcp", "mptcp"]).map_or_else(String::new, |guess| format!("{guess} "));
        return wrong(
            MistakeKind::Value,
            format!("`{name}` is not a transport"),
            format!("{guess}available are tcp and mptcp, tcp@PATH and tcp@*"),
        );
    };
    if matches!(transport, Transport::Quic | Transport::Mpquic) {
        return wrong(
            MistakeKind::Unavailable,
            format!("`{name}` is not available in this version"),
            "use tcp or mptcp".to_owned(),
        );
    }
    match path {
        None => vec![TransportLabel { transport, path: None }],
        Some("*") => {
            paths.iter().map(|path| TransportLabel { transport, path: Some((*path).to_owned()) }).collect()
        }
        Some(path) if paths.contains(&path) => {
            vec![TransportLabel { transport, path: Some(path.to_owned()) }]
        }
        Some(path) => wrong(
            MistakeKind::Reference,
            format!("`{text}`: the client has no path `{path}`"),
            choices(path, paths),
        ),
    }
}
