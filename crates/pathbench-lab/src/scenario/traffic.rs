//! `[run]`: transports, patterns, duration and repetitions.

use super::datagrams;
use super::keypath::pattern_name;
use super::mistake::{Fault, choices, nearest};
use super::plan::{NodeRole, PatternPlan, QuicPlan, RunPlan, SocketPlan, ThroughputPlan, TopologyPlan};
use super::section::ScenarioSection;
use super::topology::reaches;
use pathbench_record::connection::Scheduler;
use pathbench_record::direction::DataDirection;
use pathbench_record::network::AddressFamily;
use pathbench_record::pattern::{
    BulkParameters, CopyOptionError, InteractiveParameters, MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_PROCESSOR,
    MIN_MESSAGE_BYTES, PingParameters, SHORTEST_PROBE_INTERVAL, ThroughputParameters,
};
use pathbench_record::response::ResponsivenessParameters;
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_transport::{QLOG_AVAILABLE, QuicOptions};
use std::fmt::{self, Display};
use std::time::Duration;

const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);
pub(super) const LONGEST_RUN: Duration = Duration::from_secs(24 * 3_600);
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// The largest value of `SO_SNDBUF` that does not overflow when the kernel doubles it.
const LARGEST_BUFFER_BYTES: u64 = 1 << 30;
/// Congestion controls of the QUIC transport.
const CONGESTION: [(&str, &str); 3] = [("cubic", "cubic"), ("newreno", "newreno"), ("bbr3", "bbr3")];

/// The keys of `[run]` that are required to read the topology.
pub(super) struct Ends {
    pub(super) client: String,
    pub(super) server: String,
    pub(super) family: AddressFamily,
}

pub(super) fn ends(run: &ScenarioSection<'_>) -> Ends {
    let families = [("ipv4", AddressFamily::Ipv4), ("ipv6", AddressFamily::Ipv6)];
    Ends {
        client: run.text("client", "client").unwrap_or("client").to_owned(),
        server: run.text("server", "server").unwrap_or("server").to_owned(),
        family: run.choice("family", &families).unwrap_or(AddressFamily::Ipv4),
    }
}

/// Reads `[run]` in full.
pub(super) fn read(run: &ScenarioSection<'_>, ends: Ends, topology: &TopologyPlan) -> RunPlan {
    check_ends(run, &ends, topology);
    let socket =
        SocketPlan { congestion: congestion(run), patience: patience(run).unwrap_or(DEFAULT_PATIENCE) };
    let labels = labels(run, &ends.client, ends.family, topology);
    let patterns = patterns(run, &socket);
    check_copying(run, &labels, &patterns);
    datagrams::check_fit(run, &labels, &patterns);
    RunPlan {
        labels,
        patterns,
        client: ends.client,
        server: ends.server,
        family: ends.family,
        packet_sizes: run.flag("packet_sizes").unwrap_or(false),
        tls: run.flag("tls").unwrap_or(false),
        quic: quic(&run.section("quic")),
        socket,
    }
}

fn check_ends(run: &ScenarioSection<'_>, ends: &Ends, topology: &TopologyPlan) {
    let hosts: Vec<_> = topology
        .nodes
        .iter()
        .filter(|node| node.role == NodeRole::Host)
        .map(|node| node.name.as_str())
        .collect();
    // Without links there are no hosts, which is reported elsewhere.
    if topology.links.is_empty() {
        return;
    }
    let mut all_known = true;
    for (key, host) in [("client", &ends.client), ("server", &ends.server)] {
        if !hosts.contains(&host.as_str()) {
            all_known = false;
            let remedy = match nearest(host, &hosts).first() {
                Some(guess) => format!("did you mean `{guess}`? the hosts are {}", hosts.join(", ")),
                None => format!("name one of the hosts as run.{key}: {}", hosts.join(", ")),
            };
            run.wrong(key, format!("there is no host `{host}`"), remedy);
        }
    }
    if !all_known {
        return;
    }
    if ends.client == ends.server {
        run.wrong("server", "client and server are the same host", "name two hosts");
    } else if !reaches(topology, &ends.client, &ends.server) {
        let problem = format!("nothing links `{}` with `{}`", ends.client, ends.server);
        let remedy = "link them, directly or over routers (hosts do not forward)";
        run.wrong("server", problem, remedy);
    }
    for host in [&ends.client, &ends.server] {
        let mut own = topology.links_of(host);
        if !own.any(|(link, end)| link.ends[end].address(ends.family).is_some()) {
            let problem = format!("`{host}` has no {} address", ends.family.name());
            run.wrong("family", problem, "give one of its links such an address");
        }
    }
}

fn patience(section: &ScenarioSection<'_>) -> Option<Duration> {
    section.duration("patience", Duration::from_millis(100)..=LONGEST_RUN)
}

/// The name of a congestion control: below `TCP_CA_NAME_MAX` (include/net/tcp.h).
fn congestion(section: &ScenarioSection<'_>) -> Option<String> {
    let name = section.text("congestion", "cubic")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fault = || {
        let remedy = "give a name as in net.ipv4.tcp_available_congestion_control, \"cubic\" for example";
        (format!("`{name}` names no congestion control"), remedy.to_owned())
    };
    let is_name = (1..=15).contains(&name.len()) && name.chars().all(legal);
    section.read("congestion", is_name.then(|| name.to_owned()).ok_or_else(fault))
}

/// The transports, each with the path to which it is bound, if any.
pub(super) fn labels(
    run: &ScenarioSection<'_>,
    client: &str,
    family: AddressFamily,
    topology: &TopologyPlan,
) -> Vec<TransportLabel> {
    let paths: Vec<_> = topology.links_of(client).map(|(link, _)| link.name.as_str()).collect();
    let lacking: Vec<_> = topology
        .links_of(client)
        .filter(|(link, end)| link.ends[*end].address(family).is_none())
        .map(|(link, _)| link.name.as_str())
        .collect();
    let labels = run.set("transports", ["mptcp", "tcp"], |text, at| {
        let labels = label(text, &paths)?;
        for label in &labels {
            let start = label.path.as_deref().or(paths.first().copied());
            if let Some(path) = start.filter(|path| lacking.contains(path)) {
                let problem = format!("`{label}`: `{path}` has no {} address", family.name());
                run.ledger.wrong(at, problem, "give the path one, or leave this transport out");
            }
        }
        Ok(labels)
    });
    let unbound = |transport| TransportLabel { transport, path: None };
    labels.unwrap_or_else(|| [Transport::Tcp, Transport::Mptcp].map(unbound).into())
}

fn label(text: &str, paths: &[&str]) -> Result<Vec<TransportLabel>, Fault> {
    let (name, path) = text.split_once('@').map_or((text, None), |(name, path)| (name, Some(path)));
    let Ok(transport) = name.parse::<Transport>() else {
        let guess = nearest(name, &["tcp", "mptcp", "quic", "mpquic", "udp"])
            .first()
            .map_or_else(String::new, |guess| format!("did you mean `{guess}`? "));
        let remedy =
            format!("{guess}available are tcp, mptcp, quic, mpquic and udp, each also with @PATH or @*");
        return Err((format!("`{name}` is not a transport"), remedy));
    };
    let bound = |path: &&str| TransportLabel { transport, path: Some((*path).to_owned()) };
    match path {
        None => Ok(vec![TransportLabel { transport, path: None }]),
        Some("*") => Ok(paths.iter().map(bound).collect()),
        Some(path) if paths.contains(&path) => Ok(vec![bound(&path)]),
        Some(path) => Err((format!("`{text}`: the client has no path `{path}`"), choices(path, paths))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Ping,
    Bulk,
    Throughput(Option<DataDirection>),
    Interactive,
    Responsiveness,
    Suite,
    Datagrams,
}

const NAMES: [(&str, Name); 9] = [
    ("throughput", Name::Throughput(None)),
    ("ping", Name::Ping),
    ("bulk", Name::Bulk),
    ("interactive", Name::Interactive),
    ("responsiveness", Name::Responsiveness),
    ("suite", Name::Suite),
    ("throughput-upload", Name::Throughput(Some(DataDirection::Upload))),
    ("throughput-download", Name::Throughput(Some(DataDirection::Download))),
    ("datagrams", Name::Datagrams),
];

impl Name {
    fn parse(text: &str) -> Option<Self> {
        NAMES.iter().find(|(name, _)| *name == pattern_name(text)).map(|(_, name)| *name)
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, name)| name == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// The patterns of `suite`: `MultipathTester`'s test of a stable network.
const SUITE: [Name; 5] = [
    Name::Ping,
    Name::Bulk,
    Name::Throughput(Some(DataDirection::Upload)),
    Name::Throughput(Some(DataDirection::Download)),
    Name::Interactive,
];

/// The patterns in the given order; throughput by default. Checks all tables, even if their pattern does not run.
fn patterns(run: &ScenarioSection<'_>, socket: &SocketPlan) -> Vec<PatternPlan> {
    let names = names(run);
    let duration = duration(run, &names);
    let [ping, bulk, throughput, interactive, responsiveness] =
        ["ping", "bulk", "throughput", "interactive", "responsiveness"].map(|key| run.section(key));
    let (ping, bulk) = (read_ping(&ping), read_bulk(&bulk));
    let interactive = read_interactive(&interactive, duration, names.contains(&Name::Interactive));
    let responsiveness = read_responsiveness(&responsiveness);
    let throughput_plan = read_throughput(&throughput, duration, socket);
    check_omit(&throughput, &throughput_plan, &names);
    let datagrams = datagrams::read(&run.section("datagrams"), duration, names.contains(&Name::Datagrams));
    names
        .into_iter()
        .map(|name| match name {
            Name::Ping => PatternPlan::Ping(ping.clone()),
            Name::Bulk => PatternPlan::Bulk(bulk.clone()),
            Name::Responsiveness => PatternPlan::Responsiveness(responsiveness.clone()),
            Name::Datagrams => PatternPlan::Datagrams(datagrams.clone()),
            Name::Interactive | Name::Suite => PatternPlan::Interactive(interactive.clone()),
            Name::Throughput(None) => PatternPlan::Throughput(throughput_plan.clone()),
            Name::Throughput(Some(direction)) => PatternPlan::Throughput(ThroughputPlan {
                direction,
                named_by_direction: true,
                ..throughput_plan.clone()
            }),
        })
        .collect()
}

fn names(run: &ScenarioSection<'_>) -> Vec<Name> {
    let names = run.set("pattern", ["ping", "throughput"], |text, _| match Name::parse(text) {
        Some(Name::Suite) => Ok(SUITE.into()),
        Some(name) => Ok(vec![name]),
        None => Err((format!("`{text}` is not a pattern"), choices(text, &NAMES.map(|(name, _)| name)))),
    });
    names.unwrap_or_else(|| vec![Name::Throughput(None)])
}

fn duration(run: &ScenarioSection<'_>, names: &[Name]) -> Duration {
    let given = run.duration("duration", Duration::from_millis(100)..=LONGEST_RUN);
    let runs_by_time = names.contains(&Name::Interactive) || names.contains(&Name::Datagrams);
    let throughput = names.iter().any(|name| matches!(name, Name::Throughput(_)));
    if run.has("duration") && run.section("throughput").has("bytes") && throughput && !runs_by_time {
        let problem = "the run ends by time or by run.throughput.bytes, not both";
        run.wrong("duration", problem, "remove one of the two");
    }
    given.unwrap_or(DEFAULT_DURATION)
}

fn message_bytes(section: &ScenarioSection<'_>, key: &str, default: u32) -> u32 {
    let sizes = MIN_MESSAGE_BYTES as u64..=MAX_MESSAGE_BYTES as u64;
    section.bytes(key, sizes).map_or(default, |bytes| bytes as u32)
}

fn read_ping(ping: &ScenarioSection<'_>) -> PingParameters {
    let default = PingParameters::default();
    let times = Duration::from_millis(1)..=Duration::from_secs(60);
    PingParameters {
        count: ping.count("count", 1..=10_000).unwrap_or(default.count),
        warm_up: ping.count("warm_up", 0..=1_000).unwrap_or(default.warm_up),
        interval: ping.duration("interval", times.clone()).unwrap_or(default.interval),
        request_bytes: message_bytes(ping, "request", default.request_bytes),
        response_bytes: message_bytes(ping, "response", default.response_bytes),
        timeout: ping.duration("timeout", times).unwrap_or(default.timeout),
    }
}

fn read_bulk(bulk: &ScenarioSection<'_>) -> BulkParameters {
    let default = BulkParameters::default();
    let plan = BulkParameters {
        bytes: bulk.bytes("bytes", 0..=1 << 40).unwrap_or(default.bytes),
        upload_bytes: bulk.bytes("upload", 0..=1 << 40).unwrap_or(default.upload_bytes),
        streams: bulk.count("streams", 1..=128).unwrap_or(default.streams),
    };
    if plan.bytes == 0 && plan.upload_bytes == 0 {
        let remedy = "give the bytes to download (bytes), those to upload, or both";
        bulk.wrong("bytes", "both sizes are 0", remedy);
    }
    plan
}

/// Only if the pattern `runs`, its interval must match the duration.
fn read_interactive(
    interactive: &ScenarioSection<'_>,
    duration: Duration,
    runs: bool,
) -> InteractiveParameters {
    let default = InteractiveParameters::default();
    let intervals = Duration::from_millis(1)..=Duration::from_secs(60);
    let lingers = Duration::ZERO..=Duration::from_secs(300);
    let plan = InteractiveParameters {
        duration,
        interval: interactive.duration("interval", intervals).unwrap_or(default.interval),
        request_bytes: message_bytes(interactive, "request", default.request_bytes),
        response_bytes: message_bytes(interactive, "response", default.response_bytes),
        linger: interactive.duration("linger", lingers).unwrap_or(default.linger),
    };
    let requests = plan.messages();
    let wrong = |problem: String, remedy| interactive.wrong("interval", problem, remedy);
    if runs && plan.interval > duration {
        let problem = "the run is over before the second request".to_owned();
        wrong(problem, "give less than run.duration");
    } else if runs && requests > MAX_MESSAGES {
        let problem = format!("{requests} requests exceed the limit of {MAX_MESSAGES} per run");
        wrong(problem, "give a longer interval, or a shorter run.duration");
    }
    plan
}

fn read_responsiveness(section: &ScenarioSection<'_>) -> ResponsivenessParameters {
    let default = ResponsivenessParameters::default();
    let times = Duration::from_millis(100)..=Duration::from_secs(3600);
    let intervals = SHORTEST_PROBE_INTERVAL..=Duration::from_secs(60);
    let time = |key: &str, default| section.duration(key, times.clone()).unwrap_or(default);
    let load = time("load", default.load);
    let settle = section.duration("settle", Duration::ZERO..=Duration::from_secs(3600));
    let phases = section.set("phases", ["download", "upload"], |text, _| {
        let known = DataDirection::ALL.iter().find(|direction| direction.name() == text);
        let remedy = || choices(text, &DataDirection::ALL.map(DataDirection::name));
        known
            .map(|direction| vec![*direction])
            .ok_or_else(|| (format!("`{text}` is not a phase of load"), remedy()))
    });
    let plan = ResponsivenessParameters {
        idle: time("idle", default.idle),
        load,
        settle: settle.unwrap_or_else(|| default.settle.min(load / 2)),
        pause: section.duration("pause", Duration::ZERO..=Duration::from_secs(60)).unwrap_or(default.pause),
        phases: phases.unwrap_or(default.phases),
        streams: section.count("streams", 1..=128).unwrap_or(default.streams),
        interval: section.duration("interval", intervals).unwrap_or(default.interval),
        probe_bytes: message_bytes(section, "probe", default.probe_bytes),
        block_bytes: section.bytes("block", 64..=4 << 20).map_or(default.block_bytes, |bytes| bytes as u32),
    };
    if plan.settle >= plan.load {
        section.wrong("settle", "no part of a phase is measured", "give less than run.responsiveness.load");
    }
    let probes = plan.probes();
    if probes > MAX_MESSAGES {
        let problem = format!("{probes} probes exceed the limit of {MAX_MESSAGES} per run");
        section.wrong("interval", problem, "give a longer interval, or shorter phases");
    }
    plan
}

fn read_throughput(
    throughput: &ScenarioSection<'_>,
    duration: Duration,
    socket: &SocketPlan,
) -> ThroughputPlan {
    let directions = [
        ("upload", DataDirection::Upload),
        ("download", DataDirection::Download),
        ("both", DataDirection::Both),
    ];
    let buffers = 1_024..=LARGEST_BUFFER_BYTES;
    ThroughputPlan {
        direction: throughput.choice("direction", &directions).unwrap_or(DataDirection::Upload),
        named_by_direction: false,
        duration: (!throughput.has("bytes")).then_some(duration),
        streams: throughput.count("streams", 1..=128).unwrap_or(1),
        bytes: throughput.bytes("bytes", 1..=1 << 50),
        rate_bps: throughput.rate_bps("rate"),
        omit: throughput.duration("omit", Duration::ZERO..=LONGEST_RUN).unwrap_or_default(),
        congestion: congestion(throughput).or_else(|| socket.congestion.clone()),
        send_buffer_bytes: throughput.bytes("send_buffer", buffers.clone()),
        receive_buffer_bytes: throughput.bytes("receive_buffer", buffers),
        block_bytes: throughput.bytes("block", 1..=16 << 20).map(|bytes| bytes as u32),
        zero_copy: throughput.flag("zero_copy").unwrap_or(false),
        skip_receive_copy: throughput.flag("skip_receive_copy").unwrap_or(false),
        client_processor: throughput.count("client_processor", 0..=u64::from(MAX_PROCESSOR)),
        server_processor: throughput.count("server_processor", 0..=u64::from(MAX_PROCESSOR)),
        patience: patience(throughput).unwrap_or(socket.patience),
    }
}

/// Each transport must fulfil the options of throughput.
fn check_copying(run: &ScenarioSection<'_>, labels: &[TransportLabel], patterns: &[PatternPlan]) {
    let is_encrypted = run.flag("tls").unwrap_or(false);
    let plans = patterns.iter().filter_map(|pattern| match pattern {
        PatternPlan::Throughput(plan) => Some(ThroughputParameters::from(plan)),
        _ => None,
    });
    let error = plans
        .flat_map(|plan| labels.iter().map(move |label| plan.check_copying(label.transport, is_encrypted)))
        .find_map(Result::err);
    if let Some(error) = error {
        let key = match error {
            CopyOptionError::SkipEncrypted { .. } => "skip_receive_copy",
            CopyOptionError::ZeroCopyEncrypted { .. } | CopyOptionError::ZeroCopyMptcp => "zero_copy",
        };
        let remedy = "change run.transports or run.tls, or remove the option";
        run.section("throughput").wrong(key, error.to_string(), remedy);
    }
}

fn check_omit(throughput: &ScenarioSection<'_>, plan: &ThroughputPlan, names: &[Name]) {
    let runs = names.iter().any(|name| matches!(name, Name::Throughput(_)));
    if runs && plan.duration.is_some_and(|duration| plan.omit >= duration) {
        let remedy = "give less than run.duration";
        throughput.wrong("omit", "the warm-up takes all of the run", remedy);
    }
}

/// `[run.quic]`; absent keys have the transport's defaults.
fn quic(quic: &ScenarioSection<'_>) -> QuicPlan {
    let default = QuicOptions::default();
    let times = Duration::from_millis(1)..=Duration::from_secs(60);
    let heartbeat = quic.duration("heartbeat", times.clone()).unwrap_or(default.heartbeat);
    let silence = quic.duration("silence", times).unwrap_or(default.silence);
    if silence <= heartbeat {
        let (key, remedy) = if quic.has("silence") {
            ("silence", "give more than run.quic.heartbeat, several times that to tolerate a loss")
        } else {
            ("heartbeat", "give less than run.quic.silence")
        };
        let problem = "a healthy path is silent between two heartbeats";
        quic.wrong(key, problem, remedy);
    }
    let qlog = quic.flag("qlog").unwrap_or(false);
    if qlog && !QLOG_AVAILABLE {
        let problem = "this pathbench was built without qlog";
        quic.wrong("qlog", problem, "build it with `cargo build --features qlog`, or remove the key");
    }
    QuicPlan {
        scheduler: scheduler(quic),
        heartbeat,
        silence,
        congestion: quic.choice("congestion", &CONGESTION).map(str::to_owned),
        qlog,
    }
}

fn scheduler(quic: &ScenarioSection<'_>) -> Scheduler {
    let known = ["lowest-rtt", "round-robin", "weighted", "backup", "redundant"].map(|name| (name, name));
    let thresholds = Duration::from_millis(1)..=Duration::from_secs(60);
    let above = ["srtt_above", "rto_above"].map(|key| quic.duration(key, thresholds.clone()));
    let name = quic.choice("scheduler", &known).unwrap_or("lowest-rtt");
    if name != "backup" {
        for key in ["srtt_above", "rto_above"].into_iter().filter(|key| quic.has(key)) {
            let problem = format!("the scheduler `{name}` has no threshold");
            quic.wrong(key, problem, "remove it, or make the scheduler \"backup\"");
        }
    }
    match (name, Scheduler::backup()) {
        ("round-robin", _) => Scheduler::RoundRobin,
        ("weighted", _) => Scheduler::Weighted,
        ("redundant", _) => Scheduler::Redundant,
        ("backup", Scheduler::Backup { srtt_above, rto_above }) => {
            let [srtt, rto] = above;
            Scheduler::Backup { srtt_above: srtt.unwrap_or(srtt_above), rto_above: rto.unwrap_or(rto_above) }
        }
        _ => Scheduler::LowestRtt,
    }
}
