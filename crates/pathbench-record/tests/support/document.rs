//! A document in which every field has a value, shared by tests and by the writer of the golden result.

#[path = "emulated.rs"]
pub(crate) mod emulated;
#[path = "path_mtu.rs"]
pub(crate) mod path_mtu;

use pathbench_record::direction::Direction;
use pathbench_record::document::{
    ComparedRuns, Comparison, CpuRecord, DelayRecord, DirectionFigures, DirectionRecord, Distribution,
    Expectation, FailbackAbsence, FailbackRecord, Failover, Gain, Group, Headline, HostRecord, Impact,
    JoinedShard, LimitKind, LimitRecord, LinkFigures, LinkMeasurement, LinkRecord, MachineLoad,
    MultipathRecord, OpeningOutcome, OpeningRecord, Parameters, PathRecord, Phase, PhaseResponse, PingRecord,
    Reachability, ResponseDelay, ResponsivenessRecord, ResultDocument, ResultSummary, RunLink, RunRecord,
    SCHEMA, ScenarioRecord, ServerRecord, Shard, StopReason, StudyRecord, UnexaminedLimit,
    UnreachableBecause, Verdict,
};
use pathbench_record::network::AddressFamily;
use pathbench_record::response::{LoadPhase, ProbeAbsence, ProbeKind};
use pathbench_record::sample::Side;
use pathbench_record::transport::Transport;
use serde_json::json;
use std::collections::BTreeMap;

fn map<V: Clone>(entries: &[(&str, V)]) -> BTreeMap<String, V> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn responsiveness() -> ResponsivenessRecord {
    let delay = ResponseDelay {
        sent: 50,
        lost: 1,
        p50_ms: Some(275.5),
        p95_ms: Some(319.0),
        p99_ms: Some(320.1),
        increase_p50_ms: Some(255.1),
        increase_p95_ms: Some(298.4),
    };
    let phase = PhaseResponse {
        from_ms: 4000.0,
        measured_from_ms: 7000.0,
        to_ms: 12_000.0,
        upload_mbps: Some(19.1),
        download_mbps: Some(19.0),
        path_upload_mbps: map(&[("wlan", 19.1)]),
        path_download_mbps: map(&[("wlan", 19.0)]),
        foreign_setup_ms: Some(230.5),
        rpm: Some(172.5),
    };
    let of_phase = || BTreeMap::from([(LoadPhase::Both, delay.clone())]);
    ResponsivenessRecord {
        phases: BTreeMap::from([(LoadPhase::Both, phase)]),
        own: of_phase(),
        foreign: of_phase(),
        path: map(&[("wlan", of_phase())]),
        not_examined: vec![ProbeAbsence {
            probe: ProbeKind::Foreign,
            reason: "its limit per client".to_owned(),
        }],
    }
}

fn object(entries: &[(&str, serde_json::Value)]) -> serde_json::Map<String, serde_json::Value> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn measurement() -> LinkMeasurement {
    LinkMeasurement {
        forward_bps: Some(998_412_000),
        reverse_bps: Some(997_955_000),
        rtt_ms: 0.061,
        min_rtt_ms: 0.044,
        forward_mtu_bytes: 1500,
        reverse_mtu_bytes: 1500,
        forward_delay: Some(emulated::one_way_delay()),
        reverse_delay: Some(emulated::one_way_delay()),
        forward_loss: Some(0.01),
        reverse_loss: Some(0.0),
    }
}

fn link() -> LinkRecord {
    LinkRecord {
        name: "wlan".to_owned(),
        ends: ["client".to_owned(), "server".to_owned()],
        engine: "kernel".to_owned(),
        variant: map(&[("path.wlan.rate", json!("1gbit"))]),
        requested: LinkFigures {
            mtu_bytes: 1500,
            forward: DirectionFigures {
                rate_bps: Some(1_000_000_000),
                delay_ms: Some(0.0),
                queue_bytes: Some(256_000),
                loss: Some(0.0),
                given: serde_json::Map::from_iter([("queue_discipline".to_owned(), json!("codel"))]),
            },
            reverse: DirectionFigures {
                rate_bps: Some(200_000_000),
                delay_ms: Some(5.0),
                queue_bytes: Some(64_000),
                loss: Some(0.01),
                given: serde_json::Map::from_iter([("queue_discipline".to_owned(), json!("codel"))]),
            },
        },
        measured: Some(measurement()),
        tolerance: 0.05,
    }
}

fn path(name: &str, host: u8, bytes: u64, share: f64) -> PathRecord {
    PathRecord {
        name: name.to_owned(),
        local: format!("10.0.{host}.1"),
        remote: format!("10.0.{host}.2"),
        bytes_sent: bytes + 14_480,
        bytes_delivered: bytes,
        share,
        retransmitted_bytes: 14_480,
        lost_bytes: Some(0),
        control_bytes: Some(52_000),
        mss_bytes: 1448,
        pmtu_bytes: 1500,
        rtt_ms: 2.25,
        state: if name == "wlan" { "closed" } else { "open" }.to_owned(),
        backup: Some(false),
        subflows: 1,
    }
}

fn phase(name: &str, from_ms: f64, to_ms: f64, goodput_mbps: f64, wlan: f64) -> Phase {
    Phase {
        direction: Direction::Upload,
        name: name.to_owned(),
        from_ms,
        to_ms,
        goodput_mbps,
        shares: map(&[("eth", 1.0 - wlan), ("wlan", wlan)]),
    }
}

fn delay() -> DelayRecord {
    DelayRecord { messages: 100, unacknowledged: 1, p50: 22.5, p95: 231.0, p99: 900.25, max: 5000.0 }
}

fn ping() -> PingRecord {
    PingRecord {
        sent: 3,
        lost: 1,
        median_ms: Some(21.0),
        min_ms: Some(20.5),
        max_ms: Some(21.5),
        rtts_ms: vec![21.5, 20.5],
    }
}

#[allow(clippy::too_many_lines, reason = "one value, field by field")]
fn run() -> RunRecord {
    RunRecord {
        id: "01-mptcp-r1".to_owned(),
        variant: map(&[("path.wlan.rate", json!("1gbit"))]),
        transport: Transport::Mptcp,
        label: "mptcp".to_owned(),
        pattern: "throughput".to_owned(),
        server: Some("test.example:4433".to_owned()),
        repetition: 1,
        warm_up: false,
        retry_of: None,
        attempt: None,
        encrypted: true,
        encryption: Some("TLS 1.3 TLS13_AES_128_GCM_SHA256".to_owned()),
        valid: false,
        invalid_because: vec!["link `wlan`: 890 Mbit/s forward, 1000 asked, 5 % allowed".to_owned()],
        completed: false,
        error: Some("no byte for 5 s".to_owned()),
        goodput_mbps: Some(1214.5),
        delivered_bytes: 1_518_125_000,
        duration_ms: 10_003.2,
        hung_ms: Some(5000.0),
        stall_ms: Some(231.4),
        recovery_ms: Some(230.9),
        dip: Some(1.0),
        failback_ms: Some(812.5),
        handshake_ms: Some(21.5),
        connect_ms: Some(21.5),
        opening: Some(OpeningRecord {
            path: Some("eth".to_owned()),
            outcome: OpeningOutcome::Opened,
            after_ms: 21.5,
        }),
        fct_ms: Some(812.25),
        ping: Some(ping()),
        delay_ms: Some(delay()),
        responsiveness: Some(responsiveness()),
        datagrams: BTreeMap::new(),
        touched_by: vec!["`wlan` lost its address 10.0.2.1 at 3.0 s".to_owned()],
        multipath: MultipathRecord {
            requested: true,
            negotiated: true,
            used: true,
            reason: "MPTCP_INFO: no fallback; 2 subflows carried data".to_owned(),
            paths_used: 2,
            subflows_total: Some(2),
            subflows_attempted: None,
        },
        paths: vec![path("eth", 1, 1_168_956_250, 0.77), path("wlan", 2, 349_168_750, 0.23)],
        directions: vec![DirectionRecord {
            direction: Direction::Upload,
            goodput_mbps: Some(1214.5),
            delivered_bytes: 1_518_125_000,
            stall_ms: Some(231.4),
            delay_ms: Some(delay()),
        }],
        impacts: vec![Impact {
            direction: Direction::Upload,
            kind: "down".into(),
            path: Some("wlan".to_owned()),
            at_ms: 3000.4,
            before_mbps: Some(1872.5),
            settled_mbps: Some(930.5),
            dip: Some(1.0),
            recovery_ms: Some(230.9),
            stall_ms: Some(230.9),
        }],
        failbacks: vec![FailbackRecord {
            direction: Direction::Upload,
            kind: "up".into(),
            path: "wlan".to_owned(),
            at_ms: 7000.3,
            share_before: Some(0.5),
            failback_ms: Some(812.5),
            reason: Some(FailbackAbsence::NotNeeded),
            because: Some("a reason in words".to_owned()),
        }],
        phases: vec![
            phase("start", 0.1, 3000.4, 1872.5, 0.5),
            phase("down wlan", 3000.4, 10_000.1, 930.25, 0.0),
        ],
        links: vec![RunLink {
            name: "wlan".to_owned(),
            measured: Some(measurement()),
            within_tolerance: false,
            deviations: vec!["890 Mbit/s forward, 1000 asked, 5 % allowed".to_owned()],
            forward_bytes: Some(370_120_992),
            reverse_bytes: Some(6_201_400),
            emulation: Some(emulated::emulation()),
            packet_sizes: Some(path_mtu::packet_sizes()),
        }],
        diagnoses: path_mtu::diagnoses(),
        capture: None,
        routers: path_mtu::routers(),
        parameters: Parameters {
            asked: object(&[("direction", json!("upload")), ("streams", json!(1))]),
            in_force: object(&[("client.congestion", json!("cubic"))]),
        },
        counters: [(Side::Client, map(&[("MPTcpExt.MPJoinSynTx", 1)]))].into(),
        load: Some(MachineLoad {
            measured_ms: 5103.25,
            cpu_pressure_percent: Some(12.5),
            io_pressure_percent: Some(0.25),
            memory_pressure_percent: Some(0.0),
            steal_percent: Some(1.5),
        }),
        handover: Some(emulated::handover()),
        probes: emulated::probes(),
        notes: vec!["the kernel did not open the subflow on `wlan` again".to_owned()],
        limited_by: Some("receive window".to_owned()),
        limits: vec![LimitRecord {
            direction: Direction::Upload,
            kind: LimitKind::ReceiveWindow,
            side: Some(Side::Server),
            path: Some("wlan".to_owned()),
            share: 0.75,
            named: true,
            because: "its signs in words".to_owned(),
            remedy: Some("sysctl -w net.ipv4.tcp_rmem='4096 131072 8388608'".to_owned()),
        }],
        not_examined: vec![UnexaminedLimit {
            direction: Direction::Upload,
            kind: LimitKind::ReceiverCpu,
            side: Some(Side::Server),
            because: "the missing figure in words".to_owned(),
        }],
        cpu: [(
            Side::Client,
            CpuRecord {
                seconds: 0.75,
                seconds_per_gb: Some(0.5),
                busiest_ran: 0.25,
                busiest_waited: 0.125,
                stolen_percent: Some(2),
            },
        )]
        .into(),
    }
}

fn study() -> StudyRecord {
    let started = || vec!["2026-11-21T20:33:54Z".to_owned()];
    StudyRecord {
        identity: "0123456789abcdef0123456789abcdef".to_owned(),
        planned_runs: 12,
        repetitions: 6,
        warm_up: 1,
        labels: vec!["mptcp".to_owned()],
        shard: Some(Shard { number: 1, of: 2 }),
        stopped: Some(StopReason::TimeLimit),
        until_ci_percent: Some(5.0),
        time_limit_ms: Some(600_000.0),
        jobs: Some(2),
        retry_invalid: Some(2),
        uncalibrated: true,
        sessions: started(),
        joined: vec![JoinedShard {
            number: 1,
            host: HostRecord::default(),
            runs: 6,
            stopped: Some(StopReason::Completed),
            sessions: started(),
        }],
    }
}

pub(crate) fn document() -> ResultDocument {
    ResultDocument {
        schema: SCHEMA.to_owned(),
        scenario: ScenarioRecord {
            name: "failover".to_owned(),
            description: "one of two paths goes away in mid-transfer and comes back".to_owned(),
            origin: "builtin".to_owned(),
            text: "name = \"failover\"\n".to_owned(),
            overrides: object(&[("run.repeat", json!(6))]),
        },
        seed: 1,
        host: HostRecord {
            kernel: "6.18.5".to_owned(),
            machine: "x86_64".to_owned(),
            cpus: 2,
            memory_bytes: 8_326_565_888,
            pathbench: "0.1.0".to_owned(),
            privilege: "user-namespace".to_owned(),
            started: "2026-11-21T20:33:54Z".to_owned(),
            default_congestion: "cubic".to_owned(),
            processors_awake: true,
        },
        links: vec![link()],
        servers: vec![ServerRecord {
            address: "test.example:4433".to_owned(),
            name: Some("Louvain".to_owned()),
            ping_ms: Some(21.0),
            lost: 1,
            chosen: true,
            error: Some("one of five pings was not answered".to_owned()),
        }],
        reachability: vec![Reachability {
            server: "test.example:4433".to_owned(),
            transport: Transport::Quic,
            family: AddressFamily::Ipv6,
            port: 443,
            reachable: false,
            rtt_ms: Some(22.5),
            error: Some("no answer within 5 s; a firewall may drop UDP to port 443".to_owned()),
            error_kind: Some(UnreachableBecause::Timeout),
        }],
        mtu: Some(path_mtu::examination()),
        study: Some(study()),
        runs: vec![run()],
        summary: ResultSummary {
            headline: Some(headline()),
            groups: vec![group()],
            expectations: vec![Expectation {
                key: "mptcp.stall_ms".to_owned(),
                expected: "< 500".to_owned(),
                found: "231.4 in 01-mptcp-r1".to_owned(),
                held: true,
                not_judged: false,
            }],
            comparisons: vec![comparison()],
            comparisons_omitted: 2,
            mobility: vec![emulated::mobility()],
            notes: vec!["after `up wlan` the kernel does not re-create a closed subflow".to_owned()],
        },
    }
}

fn group() -> Group {
    let goodput =
        Distribution { n: 6, median: 1214.5, min: 1190.0, max: 1233.25, ci95: Some([1190.0, 1233.25]) };
    Group {
        variant: map(&[("path.wlan.rate", json!("1gbit"))]),
        label: "mptcp".to_owned(),
        pattern: "throughput".to_owned(),
        runs: 7,
        valid: 6,
        completed: 6,
        multipath_used: 6,
        figures: map(&[("goodput_mbps", goodput)]),
        shares: map(&[("eth", 0.77), ("wlan", 0.23)]),
        jains_index: Some(0.97),
    }
}

fn headline() -> Headline {
    let gain = Gain {
        variant: map(&[("path.wlan.rate", json!("1gbit"))]),
        pattern: "throughput".to_owned(),
        direction: Direction::Upload,
        label: "mptcp".to_owned(),
        runs: 6,
        multipath_used: 6,
        best_single: Some("tcp@eth".to_owned()),
        not_alone: vec!["wlan".to_owned()],
        pairs: 6,
        ratio: Some(1.07),
        ci95: Some([0.98, 1.16]),
        verdict: Some(Verdict::CannotTell),
        pairs_needed: Some(14),
        limited_by: Some("receive window".to_owned()),
    };
    let failover = Failover {
        variant: map(&[("path.wlan.rate", json!("1gbit"))]),
        pattern: "throughput".to_owned(),
        label: "mptcp".to_owned(),
        runs: 6,
        failed: 1,
        stall_ms: Some(231.4),
    };
    Headline { gains: vec![gain], failovers: vec![failover] }
}

fn comparison() -> Comparison {
    Comparison {
        pattern: "throughput".to_owned(),
        figure: "goodput_mbps".to_owned(),
        baseline: ComparedRuns { label: "tcp@eth".to_owned(), variant: map(&[]), runs: 7 },
        candidate: ComparedRuns { label: "mptcp".to_owned(), variant: map(&[]), runs: 6 },
        pairs: Some(6),
        ratio: Some(1.07),
        difference: None,
        ci95: Some([0.98, 1.16]),
        margin: 0.05,
        verdict: Verdict::CannotTell,
        repetitions_needed: Some(14),
        p: 0.0625,
        family: 1,
        adjusted: false,
        cliffs_delta: Some(0.5),
    }
}
