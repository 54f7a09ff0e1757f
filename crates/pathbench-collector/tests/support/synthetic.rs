//! Submissions as a campaign with volunteers would make them: agents with networks, operators and servers of their own,
//! busy in the evening, from plausible distributions. The same seed gives the same submissions.

use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::submission::{Checked, SCHEMA, Submission, new_id};
use pathbench_api::summary::{
    DelayPair, FamilyPair, GroupSummary, HandoverSummary, Mode, Network, NetworkKind, ReachabilitySummary,
    Summary,
};
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverReason, UnreachableBecause};
use pathbench_record::network::AddressFamily;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;

/// `SplitMix64` (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to 1.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn chance(&mut self, part: f64) -> bool {
        self.part() < part
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.part().max(1e-12).ln()).sqrt() * (std::f64::consts::TAU * self.part()).cos()
    }

    /// Log-normal with this median; `spread` is the standard deviation of the logarithm.
    pub fn around(&mut self, median: f64, spread: f64) -> f64 {
        (median * (spread * self.normal()).exp()).clamp(1e-3, 1e9)
    }
}

const SERVERS: [(&str, f64); 3] =
    [("europe.example", 22.0), ("america.example", 95.0), ("asia.example", 190.0)];
const OPERATORS: [&str; 8] = [
    "Nordnet",
    "Telia Lab",
    "Proxifone",
    "CityFibre",
    "Alpen Mobil",
    "Unilan",
    "O'Hara Wireless",
    "Blue & Co",
];
const KERNELS: [&str; 4] = ["6.1.0-32-amd64", "6.12.9", "6.14.0-rc2", "5.15.0-130-generic"];
const DAY_MS: u64 = 86_400_000;

/// 2026-10-01.
pub const FIRST_MS: u64 = 1_790_812_800_000;

#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    pub seed: u64,
    pub agents: u64,
    pub days: u64,
    /// Part of the results that everybody may see.
    pub public: f64,
}

impl Default for Campaign {
    fn default() -> Self {
        Self { seed: 1, agents: 40, days: 50, public: 0.8 }
    }
}

struct Agent {
    id: Uuid,
    mobile: bool,
    operators: [usize; 2],
    rates_mbps: [f64; 2],
    kernel: usize,
    home: u64,
    has_ipv6: bool,
}

fn name(text: &str) -> Name {
    Name::nearest(text)
}

impl Campaign {
    fn agent(&self, number: u64) -> Agent {
        let mut random = Random(self.seed ^ number.wrapping_mul(0x1234_5678_9abc_def1));
        let mut bytes = [0; 10];
        bytes.fill_with(|| random.next() as u8);
        let mobile = random.chance(0.7);
        Agent {
            id: new_id(FIRST_MS, &bytes),
            mobile,
            operators: [random.below(8) as usize, random.below(8) as usize],
            rates_mbps: [
                random.around(if mobile { 60.0 } else { 400.0 }, 0.7),
                random.around(if mobile { 25.0 } else { 80.0 }, 0.8),
            ],
            kernel: random.below(4) as usize,
            home: random.below(200),
            has_ipv6: random.chance(0.55),
        }
    }

    /// The `index`th submission of the campaign.
    pub fn submission(&self, index: u64) -> Submission {
        let mut random = Random(self.seed.wrapping_add(index.wrapping_mul(0x5851_f42d_4c95_7f2d)));
        random.next();
        // Few agents make most of the results.
        let skewed = (random.part().powi(2) * self.agents as f64) as u64;
        let agent = self.agent(skewed.min(self.agents.saturating_sub(1)));
        let started_ms = self.time(&mut random);
        let mut bytes = [0; 10];
        bytes.fill_with(|| random.next() as u8);
        let consent = if random.chance(self.public) { Consent::Public } else { Consent::Private };
        Submission {
            schema: SCHEMA.to_owned(),
            id: new_id(started_ms + 60_000, &bytes),
            agent: agent.id,
            consent,
            deletion_sha256: Digest::compute(agent.id.as_bytes()),
            summary: summary(&agent, started_ms, &mut random),
            raw: None,
        }
    }

    pub fn checked(&self, index: u64) -> Checked {
        let submission = self.submission(index);
        let line = serde_json::to_vec(&submission).unwrap();
        Checked { digest: Digest::compute(&line), raw: Vec::new(), submission }
    }

    /// More results in the evening, and more from week to week.
    fn time(&self, random: &mut Random) -> u64 {
        let day = (self.days as f64 * random.part().sqrt()) as u64;
        loop {
            let hour = random.part() * 24.0;
            let busy = 0.55 - 0.45 * ((hour - 8.0) / 24.0 * std::f64::consts::TAU).cos();
            if random.chance(busy) {
                return FIRST_MS + day * DAY_MS + (hour * 3_600_000.0) as u64;
            }
        }
    }
}

fn summary(agent: &Agent, started_ms: u64, random: &mut Random) -> Summary {
    let (server, rtt_ms) = SERVERS[[0, 0, 0, 0, 1, 2][random.below(6) as usize]];
    let mode = match random.below(100) {
        0..4 => Mode::Lab,
        4..45 if agent.mobile => Mode::Mobile,
        _ => Mode::Stable,
    };
    let scenario = match mode {
        Mode::Lab => ["failover", "bufferbloat", "mtu-black-hole"][random.below(3) as usize],
        Mode::Mobile => "roam",
        _ => "test",
    };
    let mut summary = Summary {
        mode,
        scenario: name(scenario),
        started_ms,
        version: name("0.1.0"),
        kernel: name(KERNELS[agent.kernel]),
        machine: name(if agent.mobile { "aarch64" } else { "x86_64" }),
        server: (mode != Mode::Lab).then(|| name(server)),
        experiment: random.chance(0.8).then(|| name(if mode == Mode::Mobile { "commute" } else { "hourly" })),
        networks: networks(agent, mode),
        groups: Vec::new(),
        reachability: Vec::new(),
        handovers: Vec::new(),
        delay_pairs: Vec::new(),
        family_pairs: Vec::new(),
    };
    if mode == Mode::Mobile {
        add_mobile(&mut summary, random);
    } else {
        add_stable(&mut summary, agent, rtt_ms, random);
    }
    summary
}

fn networks(agent: &Agent, mode: Mode) -> Vec<Network> {
    let kinds = match (mode, agent.mobile) {
        (Mode::Lab, _) => [NetworkKind::Emulated; 2],
        (_, true) => [NetworkKind::Wifi, NetworkKind::Cellular],
        (_, false) => [NetworkKind::Ethernet, NetworkKind::Wifi],
    };
    let of = |index: usize| Network {
        path: name(["path0", "path1"][index]),
        kind: kinds[index],
        operator: (mode != Mode::Lab).then(|| name(OPERATORS[agent.operators[index]])),
        prefix: (mode != Mode::Lab)
            .then(|| name(&format!("203.0.{}.0/24", (agent.home + index as u64 * 7) % 250))),
    };
    vec![of(0), of(1)]
}

fn group(label: &str, pattern: &str, multipath_used: bool, figures: &[(&str, f64)]) -> GroupSummary {
    GroupSummary {
        label: name(label),
        pattern: name(pattern),
        variant: None,
        runs: 3,
        valid: 3,
        completed: 3,
        multipath_used: if multipath_used { 3 } else { 0 },
        figures: figures.iter().map(|(figure, value)| (name(figure), *value)).collect(),
        shares: match label.split_once('@') {
            Some((_, path)) => BTreeMap::from([(name(path), 1.0)]),
            None => BTreeMap::from([(name("path0"), 0.7), (name("path1"), 0.3)]),
        },
    }
}

fn response_figures(transport: Transport, rate_mbps: f64, rtt_ms: f64) -> [(&'static str, f64); 2] {
    let increase = 40.0 + 4_000.0 / rate_mbps * if transport.is_quic() { 0.8 } else { 1.0 };
    [("path_increase_p95_ms", increase), ("rpm", 60_000.0 / (rtt_ms + increase))]
}

fn add_stable(summary: &mut Summary, agent: &Agent, rtt_ms: f64, random: &mut Random) {
    let started_ms = summary.started_ms;
    let rates = agent.rates_mbps.map(|rate| random.around(rate, 0.25));
    // Agents of earlier versions measured the first path alone only.
    let all_alone = random.chance(0.85);
    for transport in Transport::ALL {
        let label = transport.name();
        let is_single = !transport.is_multipath();
        let first = format!("{transport}@path0");
        let second = (is_single && all_alone).then(|| format!("{transport}@path1"));
        let filling = if is_single { first.as_str() } else { label };
        let cpu = if transport.is_quic() { 0.92 } else { 1.0 };
        let used = transport.is_multipath() && random.chance(0.88);
        let aggregate = if used {
            rates[0] + rates[1] * random.part().powf(0.4) * if transport.is_quic() { 0.7 } else { 1.0 }
        } else {
            rates[0]
        };
        for pattern in ["throughput-upload", "throughput-download"] {
            let part = if pattern == "throughput-upload" { 0.4 } else { 1.0 };
            let goodput = aggregate * cpu * part * random.around(0.93, 0.06);
            let stall = random.around(if used { 70.0 } else { 120.0 }, 0.8);
            let figures = [("goodput_mbps", goodput), ("stall_ms", stall), ("handshake_ms", rtt_ms * 1.1)];
            summary.groups.push(group(filling, pattern, used, &figures));
            if let Some(second) = &second {
                let goodput = rates[1] * cpu * part * random.around(0.93, 0.06);
                let figures =
                    [("goodput_mbps", goodput), ("stall_ms", stall), ("handshake_ms", rtt_ms * 1.1)];
                summary.groups.push(group(second, pattern, false, &figures));
            }
        }
        let goodput = aggregate * cpu * random.around(0.7, 0.15);
        let fct_ms = 80_000.0 / goodput + 2.0 * rtt_ms;
        let figures = [("goodput_mbps", goodput), ("fct_ms", fct_ms), ("stall_ms", random.around(60.0, 0.7))];
        summary.groups.push(group(filling, "bulk", used, &figures));
        summary.groups.push(group(label, "ping", used, &[("ping_ms", random.around(rtt_ms + 12.0, 0.3))]));
        let delay = random.around(rtt_ms * 1.6 + 30.0, 0.7);
        let figures = [
            ("delay_p50_ms", rtt_ms),
            ("delay_max_ms", delay * 1.2),
            ("delay_max_upload_ms", delay),
            ("delay_max_download_ms", delay * random.around(1.1, 0.2)),
        ];
        summary.groups.push(group(label, "interactive", used, &figures));
        // Only where the experiment names it.
        if started_ms.is_multiple_of(3) {
            let figures = response_figures(transport, rates[0], rtt_ms);
            summary.groups.push(group(filling, "responsiveness", used, &figures));
        }
    }
    for family in AddressFamily::ALL.into_iter().filter(|one| agent.has_ipv6 || *one == AddressFamily::Ipv4) {
        let reachable = random.chance(if family == AddressFamily::Ipv4 { 0.93 } else { 0.7 });
        let kinds = [UnreachableBecause::Timeout, UnreachableBecause::NoRoute, UnreachableBecause::Other];
        summary.reachability.push(ReachabilitySummary {
            transport: Transport::Quic,
            family,
            port: 443,
            reachable,
            rtt_ms: reachable.then(|| random.around(rtt_ms, 0.2)),
            error_kind: (!reachable).then(|| kinds[[0, 0, 0, 1, 1, 2][random.below(6) as usize]]),
        });
    }
    if agent.has_ipv6 && random.chance(0.5) {
        let ipv4_ms = random.around(900.0, 0.6);
        let better = if summary.server.as_ref().is_some_and(|one| one.as_str().starts_with("america")) {
            0.88
        } else {
            1.0
        };
        let ipv6_ms = ipv4_ms * random.around(better, 0.15);
        summary.family_pairs.push(FamilyPair { transport: Transport::Quic, ipv4_ms, ipv6_ms });
    }
}

fn add_mobile(summary: &mut Summary, random: &mut Random) {
    let hard = random.around(2600.0, 1.3);
    for transport in [Transport::Mptcp, Transport::Mpquic] {
        let upload = hard * random.around(0.9, 0.4);
        let download = hard * random.around(1.1, 0.4);
        let figures = [
            ("delay_p50_ms", 40.0),
            ("delay_max_ms", upload.max(download)),
            ("delay_max_upload_ms", upload),
            ("delay_max_download_ms", download),
        ];
        summary.groups.push(group(transport.name(), "interactive", true, &figures));
        let reason = match random.below(1000) {
            0..22 => HandoverReason::RttThreshold,
            22..692 => HandoverReason::UnderRto,
            692..802 => HandoverReason::RtoThreshold,
            _ => HandoverReason::Other,
        };
        let abrupt = random.chance(0.1);
        let duration = if abrupt { -random.around(400.0, 0.8) } else { random.around(11_000.0, 1.0) };
        summary.handovers.push(HandoverSummary {
            transport,
            reason,
            duration_sent_ms: Some(duration),
            duration_received_ms: Some(if abrupt { duration * 1.3 } else { duration * random.part() }),
        });
    }
    for direction in Direction::BOTH {
        let mptcp_ms = hard * random.around(1.0, 0.5);
        summary.delay_pairs.push(DelayPair {
            direction,
            mptcp_ms,
            mpquic_ms: hard * random.around(1.0, 0.5),
        });
    }
}
