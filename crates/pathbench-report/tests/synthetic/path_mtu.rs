//! Paths whose MTU is smaller than that of the hosts' interfaces: as a study, and as a change during a transfer.

use super::{Course, add_carried, event, finish_run, link, nothing, run};
use pathbench_record::direction::Direction;
use pathbench_record::document::{
    DiagnosisKind, LinkRecord, PacketSizes, PathDiagnosis, RouterRecord, RunRecord,
};
use pathbench_record::sample::{Sample, Side};
use pathbench_record::summary::summarise;
use pathbench_record::transport::Transport;
use pathbench_report::ResultSet;
use serde_json::json;
use std::collections::BTreeMap;

/// A link with this MTU.
fn sized(name: &str, ends: [&str; 2], rate_bps: u64, mtu_bytes: u32) -> LinkRecord {
    let mut link = link(name, rate_bps);
    link.ends = ends.map(str::to_owned);
    link.requested.mtu_bytes = mtu_bytes;
    if let Some(measured) = &mut link.measured {
        (measured.forward_mtu_bytes, measured.reverse_mtu_bytes) = (mtu_bytes, mtu_bytes);
    }
    link
}

/// A link behind the first link of a path, with an MTU as its only parameter.
fn inner(name: &str, ends: [&str; 2], mtu_bytes: u32) -> LinkRecord {
    let mut link = sized(name, ends, 1_000_000, mtu_bytes);
    (link.requested.forward, link.requested.reverse) = Default::default();
    if let Some(measured) = &mut link.measured {
        (measured.forward_bps, measured.reverse_bps) = (None, None);
    }
    link
}

fn links() -> Vec<LinkRecord> {
    vec![
        sized("eth", ["client", "server"], 30_000_000, 9000),
        sized("wlan", ["client", "wlan.near"], 30_000_000, 9000),
        inner("wlan.hop", ["wlan.near", "wlan.beyond"], 1500),
        inner("wlan.far", ["wlan.beyond", "server"], 9000),
    ]
}

/// The traffic of one path of a run: `mbps` from `from_ms` on, with packet sizes before and after that time.
#[derive(Debug, Clone, Copy)]
struct Plan {
    path: &'static str,
    mbps: f64,
    from_ms: f64,
    /// Whether the path carries nothing before `from_ms`.
    stuck: bool,
    /// MSS and path MTU before and after `from_ms`.
    before: (u32, u32),
    after: (u32, u32),
}

impl Plan {
    fn steady(path: &'static str, mss: u32, pmtu: u32) -> Self {
        Self { path, mbps: 29.0, from_ms: 0.0, stuck: false, before: (mss, pmtu), after: (mss, pmtu) }
    }

    fn stuck(self) -> Self {
        Self { stuck: true, ..self }
    }

    fn from(self, from_ms: f64, before: (u32, u32)) -> Self {
        Self { from_ms, before, ..self }
    }
}

const NEVER: f64 = 1e6;

/// `mtu-probing`: `tcp_mtu_probing` 0, 1, 2 × ICMP on and off × four transports, three repetitions of 8 s.
pub(crate) fn probing() -> ResultSet {
    let mut set = nothing("mtu-probing", "two paths of 30 Mbit/s at 9000; one hop of wlan takes 1500");
    set.document.links = links();
    for icmp in ["on", "off"] {
        for probing in 0..=2_u32 {
            for label in ["tcp@wlan", "mptcp", "quic@wlan", "mpquic"] {
                for repetition in 1..=3_u32 {
                    probing_run(&mut set, icmp, probing, label, repetition);
                }
            }
        }
    }
    set.document.summary.groups = summarise(&set.document.runs);
    set
}

fn probing_run(set: &mut ResultSet, icmp: &str, probing: u32, label: &str, repetition: u32) {
    let id = format!("{icmp}-{probing}-{}-r{repetition}", label.replace('@', "-"));
    let mut run = run(&id, label, repetition);
    run.transport = match label {
        "mptcp" => Transport::Mptcp,
        "mpquic" => Transport::Mpquic,
        "tcp@wlan" => Transport::Tcp,
        _ => Transport::Quic,
    };
    run.multipath.requested = run.transport.is_multipath();
    run.variant.insert("path.wlan.icmp".to_owned(), json!(icmp));
    run.variant.insert("host.client.sysctl.net.ipv4.tcp_mtu_probing".to_owned(), json!(probing));
    let late = f64::from(repetition) * 40.0;
    let is_quic = label.contains("quic");
    let wlan = match (is_quic, icmp, probing) {
        (true, ..) => Plan::steady("wlan", 1452, 1480).from(300.0, (1200, 1228)),
        (_, "on", _) => Plan::steady("wlan", 1448, 1500).from(100.0, (8948, 9000)),
        (_, _, 0) => Plan::steady("wlan", 8948, 9000).from(NEVER, (8948, 9000)).stuck(),
        (_, _, 1) => Plan::steady("wlan", 1446, 9000).from(6300.0 + late, (8948, 9000)).stuck(),
        _ => Plan::steady("wlan", 1423, 9000).from(200.0, (1024, 9000)),
    };
    let eth = if is_quic {
        Plan::steady("eth", 8972, 9000).from(500.0, (1200, 1228))
    } else {
        Plan::steady("eth", 8948, 9000)
    };
    let plans = if run.transport.is_multipath() { vec![eth, wlan] } else { vec![wlan] };
    if icmp == "off" && probing < 2 && !is_quic {
        run.diagnoses = vec![black_hole(200.0 + late, (probing == 1).then_some(wlan.from_ms))];
    }
    run.routers = routers(icmp, run.diagnoses.len() as u64);
    carry_sized(set, run, &plans, 8000.0);
}

fn black_hole(from_ms: f64, to_ms: Option<f64>) -> PathDiagnosis {
    PathDiagnosis {
        path: "wlan".to_owned(),
        side: Side::Client,
        kind: DiagnosisKind::MtuBlackHole,
        from_ms: Some(from_ms),
        to_ms,
        because: "nothing was acknowledged while 64 kB were outstanding, the retransmission timer backed off to step \
                  5, and the path MTU in force was still the interface's 9000"
            .to_owned(),
        remedy: "`pathbench mtu SERVER --apply` on the client, or net.ipv4.tcp_mtu_probing=2".to_owned(),
    }
}

fn routers(icmp: &str, unused: u64) -> Vec<RouterRecord> {
    let (sent, suppressed) = if icmp == "on" { (3, 0) } else { (0, 9 + 4 * unused) };
    ["wlan.near", "wlan.beyond"]
        .map(|name| RouterRecord {
            name: name.to_owned(),
            icmp: icmp.to_owned(),
            clamp_mss: false,
            too_big_sent: if name == "wlan.near" { sent } else { 0 },
            too_big_suppressed: if name == "wlan.near" { suppressed } else { 0 },
            clamped_syns: 0,
            middlebox: BTreeMap::new(),
        })
        .to_vec()
}

/// Adds the run with the traffic of `plans` to the result, including the packets on its links.
fn carry_sized(set: &mut ResultSet, mut run: RunRecord, plans: &[Plan], until_ms: f64) {
    let seed = u64::from(run.repetition);
    let course = |(index, plan): (usize, &Plan)| {
        let course = Course::new(plan.path, plan.mbps, seed * 7 + index as u64).until(until_ms);
        if plan.stuck { course.silent(0.0, plan.from_ms).in_back_off(6400.0) } else { course }
    };
    let courses: Vec<Course> = plans.iter().enumerate().map(course).collect();
    let before = set.lines.held.samples.len();
    run.stall_ms = Some(12.0);
    add_carried(set, &mut run, Direction::Upload, &courses);
    for sample in &mut set.lines.held.samples[before..] {
        let Some(plan) = plans.iter().find(|plan| plan.path == sample.path) else { continue };
        let early = sample.t_ms < plan.from_ms;
        size_sample(sample, plan, early);
    }
    for path in &mut run.paths {
        let Some(plan) = plans.iter().find(|plan| plan.path == path.name) else { continue };
        let (mss, pmtu) = if plan.from_ms < until_ms { plan.after } else { plan.before };
        (path.mss_bytes, path.pmtu_bytes) = (mss, pmtu);
    }
    let (id, carried) = (run.id.clone(), run.paths.clone());
    finish_run(set, run);
    let Some(run) = set.document.runs.last_mut().filter(|run| run.id == id) else { return };
    for link in &mut run.links {
        let path = link.name.split('.').next().unwrap_or_default().to_owned();
        let Some(record) = carried.iter().find(|one| one.name == path) else { continue };
        let Some(plan) = plans.iter().find(|plan| plan.path == path) else { continue };
        link.packet_sizes = Some(packets(&link.name, plan, record.bytes_delivered));
    }
}

fn size_sample(sample: &mut Sample, plan: &Plan, early: bool) {
    let figures = &mut sample.figures;
    (figures.mss_bytes, figures.pmtu_bytes) = if early { plan.before } else { plan.after };
    let stuck = early && plan.stuck;
    if stuck {
        figures.backoff = (((sample.t_ms / 300.0).max(1.0)).log2() as u32 + 1).min(9);
    }
    let lost = if plan.before.0 > plan.after.0 { 64_000.0 } else { 3000.0 };
    let resent = if stuck {
        sample.t_ms / 1000.0 * 9000.0
    } else {
        (sample.t_ms - plan.from_ms).clamp(0.0, 200.0) / 200.0 * lost
    };
    if figures.bytes_sent > 40 || stuck {
        figures.retransmitted_bytes = resent as u64;
    }
}

fn packets(link: &str, plan: &Plan, delivered: u64) -> PacketSizes {
    let header = plan.after.1.saturating_sub(plan.after.0).clamp(28, 77);
    let full = plan.after.0 + header;
    let data = if plan.from_ms >= NEVER { 0 } else { delivered / u64::from(plan.after.0) };
    let mut forward = BTreeMap::from([(60, 1), (52, 9), (full - 311, 1 + data / 400)]);
    *forward.entry(full).or_default() += data;
    let too_large = plan.before.0 > plan.after.0 || plan.from_ms >= NEVER;
    if too_large && link == plan.path {
        *forward.entry(9000).or_default() += 9;
    }
    if plan.before.0 == 1024 || plan.before.0 == 1200 {
        *forward.entry(plan.before.0 + header).or_default() += 40;
    }
    let reverse = BTreeMap::from([(60, 1), (52, 3 + data / 2), (64, data / 200)]);
    PacketSizes { forward, reverse, missed_packets: 0 }
}

/// `mtu-shrink`: the MTU of wlan's hop changes from 9000 to 1500 at 3 s and back at 6 s; tcp on wlan, and mptcp.
pub(crate) fn shrink() -> ResultSet {
    let mut set =
        nothing("mtu-shrink", "a hop's MTU shrinks in mid-transfer, from 9000 to 1500, and grows again");
    set.document.links = links();
    for label in ["tcp@wlan", "mptcp"] {
        let mut run = run(&label.replace('@', "-"), label, 1);
        let id = run.id.clone();
        for (at_ms, size) in [(3000.4, 1500), (6000.3, 9000)] {
            let mut change = event(&id, at_ms, "set", "wlan");
            change.detail.insert("path_mtu_bytes".to_owned(), json!(size));
            set.lines.held.events.push(change);
        }
        run.routers = routers("on", 0);
        let wlan = Plan::steady("wlan", 1448, 1500).from(3010.0, (8948, 9000));
        let plans = if label == "mptcp" { vec![Plan::steady("eth", 8948, 9000), wlan] } else { vec![wlan] };
        let before = set.lines.held.samples.len();
        carry_sized(&mut set, run, &plans, 8000.0);
        for sample in set.lines.held.samples[before..].iter_mut().filter(|one| one.path == "wlan") {
            sample.figures.backoff = u32::from((3010.0..3200.0).contains(&sample.t_ms));
        }
    }
    set
}
