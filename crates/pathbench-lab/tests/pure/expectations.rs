//! Expectations against results: when they hold, when not, and in what words.

use pathbench_lab::scenario::{
    ExpectationPlan, ExpectationTarget, Overrides, ScenarioSource, known_fields, plan,
};
use pathbench_record::datagram::{DatagramFigures, DatagramRecord, FrameFigures};
use pathbench_record::direction::Direction;
use pathbench_record::document::{
    CpuRecord, DelayRecord, DirectionRecord, EmulationRecord, HandoverReason, HandoverRecord, Impact,
    LimitKind, LimitRecord, OneWayDelay, Phase, PingRecord, ResponsivenessRecord, RunLink, UnexaminedLimit,
};
use pathbench_record::document::{
    Expectation, LinkMeasurement, MultipathRecord, Parameters, PathRecord, ResultDocument, RunRecord, Variant,
};
use pathbench_record::sample::Side;
use pathbench_record::transport::TransportLabel;
use serde_json::json;
use std::collections::BTreeMap;

const SCENARIO: &str = "name = \"x\"\n[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\n[run]\n\
                        transports = [\"tcp\", \"mptcp\", \"tcp@wlan\"]\n[matrix]\n\
                        run.throughput.direction = [\"upload\", \"download\"]\n[expect]\n";

fn expectations(lines: &str) -> Vec<ExpectationPlan> {
    let source = ScenarioSource::from_text("mine.toml", format!("{SCENARIO}{lines}\n"));
    plan(&source, &Overrides::default()).unwrap_or_else(|mistakes| panic!("{mistakes}")).expectations
}

fn measured(link: &str) -> RunLink {
    let measured = LinkMeasurement {
        forward_bps: Some(1),
        reverse_bps: Some(1),
        forward_delay: Some(OneWayDelay::default()),
        reverse_delay: Some(OneWayDelay::default()),
        forward_loss: Some(0.0),
        reverse_loss: Some(0.0),
        ..LinkMeasurement::default()
    };
    let mut emulation = EmulationRecord::default();
    emulation.forward.dropped_packets.insert("loss".to_owned(), 7);
    RunLink {
        name: link.to_owned(),
        measured: Some(measured),
        within_tolerance: true,
        deviations: Vec::new(),
        forward_bytes: Some(1),
        reverse_bytes: Some(1),
        emulation: Some(emulation),
        ..RunLink::default()
    }
}

fn handover() -> HandoverRecord {
    HandoverRecord {
        from: "wlan".to_owned(),
        to: "eth".to_owned(),
        began_ms: 4030.0,
        duration_sent_ms: Some(2900.0),
        duration_received_ms: Some(-280.0),
        reason: HandoverReason::UnderRto,
        srtt_ms: 21.0,
        rto_ms: 444.0,
        backoff: 1,
        remark: None,
    }
}

fn ping() -> PingRecord {
    PingRecord { median_ms: Some(1.0), min_ms: Some(1.0), max_ms: Some(1.0), ..PingRecord::default() }
}

fn limit() -> LimitRecord {
    LimitRecord {
        direction: Direction::Upload,
        kind: LimitKind::ReceiveWindow,
        side: Some(Side::Server),
        path: Some("wlan".to_owned()),
        share: 0.5,
        named: true,
        because: "a reason".to_owned(),
        remedy: Some("a command".to_owned()),
    }
}

fn datagrams() -> DatagramRecord {
    let all = DatagramFigures {
        sent: 1,
        loss: Some(0.0),
        reordered_share: Some(0.0),
        jitter_ms: Some(1.0),
        max_jitter_ms: Some(1.0),
        late: Some(0),
        late_share: Some(0.0),
        longest_gap_ms: Some(1.0),
        delay: Some(OneWayDelay::default()),
        frames: Some(FrameFigures { late: Some(0), late_share: Some(0.0), ..FrameFigures::default() }),
        ..DatagramFigures::default()
    };
    let paths = ["eth", "wlan"].map(|path| (path.to_owned(), all.clone())).into();
    DatagramRecord { all, paths, ..DatagramRecord::default() }
}

/// A run of which every field has a value.
#[allow(clippy::too_many_lines, reason = "a list of fields")]
fn run(label: &str, direction: &str, repetition: u32) -> RunRecord {
    let parsed: TransportLabel = label.parse().expect("a label");
    let path = |name: &str, share: f64| PathRecord {
        name: name.to_owned(),
        state: "open".to_owned(),
        share,
        lost_bytes: Some(0),
        control_bytes: Some(0),
        backup: Some(false),
        ..PathRecord::default()
    };
    let directions = Direction::BOTH;
    let shares = BTreeMap::from([("eth".to_owned(), 0.5), ("wlan".to_owned(), 0.5)]);
    RunRecord {
        id: format!("{label}-{direction}-r{repetition}"),
        variant: Variant::from([("run.throughput.direction".to_owned(), json!(direction))]),
        transport: parsed.transport,
        label: label.to_owned(),
        pattern: "throughput".to_owned(),
        repetition,
        valid: true,
        completed: true,
        error: Some("none".to_owned()),
        goodput_mbps: Some(90.0),
        delivered_bytes: 1,
        duration_ms: 1.0,
        hung_ms: Some(1.0),
        stall_ms: Some(100.0),
        recovery_ms: Some(1.0),
        dip: Some(0.5),
        multipath: MultipathRecord { used: true, subflows_total: Some(2), ..MultipathRecord::default() },
        paths: vec![path("eth", 0.6), path("wlan", 0.4)],
        directions: directions
            .map(|direction| DirectionRecord {
                direction,
                goodput_mbps: Some(45.0),
                delivered_bytes: 1,
                stall_ms: Some(1.0),
                delay_ms: Some(DelayRecord::default()),
            })
            .into(),
        encryption: Some("TLS 1.3".to_owned()),
        failback_ms: Some(812.5),
        connect_ms: Some(21.5),
        opening: Some(pathbench_record::document::OpeningRecord {
            path: Some("eth".to_owned()),
            outcome: pathbench_record::document::OpeningOutcome::Opened,
            after_ms: 21.5,
        }),
        failbacks: vec![pathbench_record::document::FailbackRecord {
            direction: Direction::Upload,
            kind: "up".into(),
            path: "wlan".to_owned(),
            at_ms: 7000.0,
            share_before: Some(0.5),
            failback_ms: Some(812.5),
            reason: Some(pathbench_record::document::FailbackAbsence::NotNeeded),
            because: Some("a reason".to_owned()),
        }],
        handshake_ms: Some(1.0),
        fct_ms: Some(1.0),
        ping: Some(ping()),
        delay_ms: Some(DelayRecord::default()),
        impacts: vec![Impact {
            direction: Direction::Upload,
            kind: "down".into(),
            path: Some("wlan".to_owned()),
            at_ms: 1.0,
            before_mbps: Some(1.0),
            settled_mbps: Some(1.0),
            dip: Some(0.5),
            recovery_ms: Some(1.0),
            stall_ms: Some(1.0),
        }],
        phases: vec![Phase {
            direction: Direction::Upload,
            name: "start".to_owned(),
            from_ms: 0.0,
            to_ms: 1.0,
            goodput_mbps: 1.0,
            shares,
        }],
        links: ["eth", "wlan"].map(measured).into(),
        handover: Some(handover()),
        parameters: Parameters::default(),
        limited_by: Some(LimitKind::ReceiveWindow.words().to_owned()),
        limits: vec![limit()],
        not_examined: vec![UnexaminedLimit {
            direction: Direction::Download,
            kind: LimitKind::Qdisc,
            side: Some(Side::Server),
            because: "a reason".to_owned(),
        }],
        cpu: [Side::Client, Side::Server]
            .map(|side| {
                (
                    side,
                    CpuRecord { seconds_per_gb: Some(1.0), stolen_percent: Some(1), ..CpuRecord::default() },
                )
            })
            .into(),
        datagrams: Direction::BOTH.map(|direction| (direction, datagrams())).into(),
        counters: BTreeMap::from([
            (Side::Client, BTreeMap::from([("MPTcpExt.MPJoinSynTx".to_owned(), 3)])),
            (Side::Server, BTreeMap::from([("TcpExt.TCPTimeouts".to_owned(), 1)])),
        ]),
        ..RunRecord::default()
    }
}

fn document(runs: Vec<RunRecord>) -> ResultDocument {
    ResultDocument { seed: 1, runs, ..ResultDocument::default() }
}

fn verdict(line: &str, runs: &[RunRecord]) -> Expectation {
    let found = expectations(line);
    assert_eq!(found.len(), 1, "{line}");
    found[0].evaluate(&document(runs.to_vec()))
}

/// Asserts whether `line` holds for `runs`, and what was found.
fn assert_found(line: &str, runs: &[RunRecord], held: bool, found: &str) {
    let verdict = verdict(line, runs);
    assert_eq!((verdict.held, verdict.found.as_str()), (held, found), "{line}");
}

fn changed_run(change: impl Fn(&mut RunRecord)) -> RunRecord {
    let mut changed = run("mptcp", "upload", 1);
    change(&mut changed);
    changed
}

#[test]
fn every_documented_field_is_found_in_a_run() {
    let patterns = ["throughput", "ping", "bulk", "interactive", "responsiveness", "datagrams"];
    let scenario = SCENARIO.replace(
        "[matrix]",
        "pattern = [\"throughput\", \"ping\", \"bulk\", \"interactive\", \"responsiveness\"]\n[matrix]",
    );
    // No transport has all patterns.
    let of_datagrams = "name = \"x\"\n[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\n[run]\n\
                        transports = [\"mpquic\"]\npattern = \"datagrams\"\n[expect]\n";
    let delay = json!({"sent": 1, "lost": 0, "p50_ms": 1.0, "p95_ms": 1.0, "p99_ms": 1.0,
        "increase_p50_ms": 1.0, "increase_p95_ms": 1.0});
    let phase = json!({"from_ms": 0.0, "measured_from_ms": 0.0, "to_ms": 1.0, "upload_mbps": 1.0,
        "download_mbps": 1.0, "foreign_setup_ms": 1.0, "rpm": 1.0});
    let response = json!({"phases": {"download": phase}, "self": {"download": delay}, "foreign": {"download": delay},
        "path": {"wlan": {"download": delay}}});
    let responsiveness: Option<ResponsivenessRecord> = serde_json::from_value(response).unwrap();
    let runs = patterns.map(|pattern| RunRecord {
        pattern: pattern.to_owned(),
        responsiveness: responsiveness.clone(),
        ..run(if pattern == "datagrams" { "mpquic" } else { "mptcp" }, "upload", 1)
    });
    for field in known_fields() {
        let (scenario, label) = match field.split('.').next() {
            Some("datagrams") => (of_datagrams, "mpquic"),
            _ => (scenario.as_str(), "mptcp"),
        };
        let field = field
            .replace("PATH", "wlan")
            .replace("PHASE", "download")
            .replace(".N.", ".0.")
            .replace("client.NAME", "client.MPTcpExt.MPJoinSynTx");
        let field = field.replace("server.NAME", "server.TcpExt.TCPTimeouts").replace("NAME", "queue-full");
        // One of these three is right for the field's type.
        let mut lines =
            ["!= nothing", "> -1"].map(|value| format!("\"{label}.{field}\" = \"{value}\"")).to_vec();
        lines.push(format!("\"{label}.{field}\" = true"));
        let sources =
            lines.iter().map(|line| ScenarioSource::from_text("mine.toml", format!("{scenario}{line}\n")));
        let plans: Vec<_> = sources.filter_map(|source| plan(&source, &Overrides::default()).ok()).collect();
        assert_eq!(plans.len(), 1, "{field} takes one type of value");
        let verdict = plans[0].expectations[0].evaluate(&document(runs.to_vec()));
        let found = &verdict.found;
        assert!(!found.contains("absent") && !found.contains("no valid run"), "{field}: {found}");
    }
}

#[test]
fn a_pattern_narrows_and_a_figure_is_asked_of_the_patterns_that_have_it() {
    let text = |lines: &str| {
        let run = "[run]\ntransports = [\"tcp\"]\npattern = [\"ping\", \"throughput-upload\", \"throughput-download\", \"interactive\"]";
        format!("name = \"x\"\n[[path]]\nname = \"eth\"\n{run}\n[expect]\n{lines}\n")
    };
    let planned = |lines: &str, overrides: &Overrides| {
        plan(&ScenarioSource::from_text("mine.toml", text(lines)), overrides)
            .map_err(|mistakes| crate::in_lines(&mistakes).join("\n"))
    };
    let of = |pattern: &str, goodput_mbps: Option<f64>| RunRecord {
        id: pattern.to_owned(),
        pattern: pattern.to_owned(),
        variant: Variant::new(),
        goodput_mbps,
        ..run("tcp", "upload", 1)
    };
    let runs = document(vec![
        of("ping", None),
        of("throughput-upload", Some(40.0)),
        of("throughput-download", Some(20.0)),
    ]);
    for (line, held, found) in [
        ("\"tcp.goodput_mbps\" = \"> 10\"", true, "20 in throughput-download, the furthest of 2 runs"),
        ("\"tcp.throughput-upload.goodput_mbps\" = \"> 30\"", true, "40 in throughput-upload"),
        ("\"median(tcp.throughput-download.goodput_mbps)\" = \"> 30\"", false, "20"),
        ("\"tcp.completed\" = true", true, "true in all 3 runs"),
        ("\"tcp.ping.median_ms\" = \"< 5\"", true, "1 in ping"),
        ("\"tcp.ping.ping.median_ms\" = \"< 5\"", true, "1 in ping"),
        ("\"tcp.interactive.delay_ms.max\" = \"< 5\"", false, "no valid run of tcp interactive"),
    ] {
        let plan = planned(line, &Overrides::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let verdict = plan.expectations[0].evaluate(&runs);
        assert_eq!((verdict.held, verdict.found.as_str()), (held, found), "{line}");
    }
    let impossible =
        planned("\"tcp.ping.goodput_mbps\" = \"> 1\"\n\"tcp.fct_ms\" = \"> 1\"", &Overrides::default());
    assert_eq!(
        impossible.expect_err("no run can have them"),
        "mine.toml:8: expect.\"tcp.ping.goodput_mbps\": a run of ping has no `goodput_mbps`; bulk, throughput, \
         throughput-upload, throughput-download can have it\n\
         mine.toml:9: expect.\"tcp.fct_ms\": a run of interactive, ping, throughput-download, throughput-upload has no \
         `fct_ms`; bulk can have it"
    );
    let set = vec![("run.pattern".to_owned(), "ping".to_owned())];
    let lines = "\"tcp.goodput_mbps\" = \"> 1\"\n\"tcp.throughput-upload.completed\" = true\n\"tcp.completed\" = true";
    let plan = planned(lines, &Overrides { set, ..Overrides::default() }).expect("valid");
    assert_eq!(plan.expectations.len(), 1);
    assert_eq!(
        plan.left_out,
        [
            "tcp.goodput_mbps: a pattern with `goodput_mbps` does not run",
            "tcp.throughput-upload.completed: `throughput-upload` does not run"
        ]
    );
}

#[test]
fn it_must_hold_in_every_valid_run() {
    let fast = run("mptcp", "upload", 1);
    let slow = RunRecord { stall_ms: Some(800.0), ..run("mptcp", "upload", 2) };
    let line = "\"mptcp.stall_ms\" = \"< 500\"";
    assert_found(line, std::slice::from_ref(&fast), true, "100 in mptcp-upload-r1");
    assert_found(line, &[fast.clone(), slow.clone()], false, "800 in mptcp-upload-r2");
    let invalid = RunRecord { valid: false, ..slow.clone() };
    assert_found(line, &[fast.clone(), invalid.clone()], true, "100 in mptcp-upload-r1");
    assert_found(line, &[invalid], false, "no valid run of mptcp");
    assert_found(line, &[run("tcp", "upload", 1)], false, "no valid run of mptcp");
    assert_found(line, &[RunRecord { stall_ms: None, ..fast.clone() }], false, "absent in mptcp-upload-r1");
    let both = [fast, slow];
    assert_found(
        "\"mptcp.stall_ms\" = \"< 900\"",
        &both,
        true,
        "800 in mptcp-upload-r2, the furthest of 2 runs",
    );
    assert_found(
        "\"mptcp.stall_ms\" = \"> 9\"",
        &both,
        true,
        "100 in mptcp-upload-r1, the furthest of 2 runs",
    );
    assert_found("\"mptcp.completed\" = true", &both, true, "true in all 2 runs");
}

#[test]
fn each_comparison_compares() {
    let runs = [changed_run(|run| run.goodput_mbps = Some(90.5))];
    for (value, held) in [
        ("\"< 90.5\"", false),
        ("\"<= 90.5\"", true),
        ("\"> 90.5\"", false),
        ("\">= 90.5\"", true),
        ("\"== 90.5\"", true),
        ("\"!= 90.5\"", false),
        ("\"< 91\"", true),
        ("\"> 90\"", true),
        ("90.5", true),
        ("90", false),
    ] {
        assert_found(&format!("\"mptcp.goodput_mbps\" = {value}"), &runs, held, "90.5 in mptcp-upload-r1");
    }
    for (line, held, found) in [
        ("\"mptcp.completed\" = false", false, "true in mptcp-upload-r1"),
        ("\"mptcp.completed\" = \"!= false\"", true, "true in mptcp-upload-r1"),
        ("\"mptcp.paths.wlan.state\" = \"open\"", true, "`open` in mptcp-upload-r1"),
        ("\"mptcp.paths.wlan.state\" = \"!= closed\"", true, "`open` in mptcp-upload-r1"),
        ("\"mptcp.paths.wlan.share\" = \"> 0.3\"", true, "0.4 in mptcp-upload-r1"),
        ("\"mptcp.directions.download.goodput_mbps\" = \"> 0.3\"", true, "45 in mptcp-upload-r1"),
        ("mptcp.phases.0.shares.eth = \"> 0.3\"", true, "0.5 in mptcp-upload-r1"),
        ("\"mptcp.phases.1.shares.eth\" = \"> 0.3\"", false, "absent in mptcp-upload-r1"),
        ("\"mptcp.counters.client.MPTcpExt.MPJoinSynTx\" = 3", true, "3 in mptcp-upload-r1"),
        ("\"mptcp.counters.client.MPTcpExt.MPFailTx\" = 0", true, "0 in mptcp-upload-r1"),
        ("\"mptcp.handover.reason\" = \"under-rto\"", true, "`under-rto` in mptcp-upload-r1"),
        ("\"mptcp.handover.duration_received_ms\" = \"< 0\"", true, "-280 in mptcp-upload-r1"),
        ("\"mptcp.links.wlan.emulation.forward.dropped_packets.loss\" = 7", true, "7 in mptcp-upload-r1"),
        ("\"mptcp.links.wlan.emulation.forward.dropped_packets.mtu\" = 0", true, "0 in mptcp-upload-r1"),
        ("\"mptcp.links.wlan.emulation.forward.lateness_ms.p99\" = \"< 1\"", true, "0 in mptcp-upload-r1"),
    ] {
        assert_found(line, &runs, held, found);
    }
    let without_counters = [changed_run(|run| run.counters.clear())];
    let line = "\"mptcp.counters.client.MPTcpExt.MPFailTx\" = 0";
    assert_found(line, &without_counters, false, "absent in mptcp-upload-r1");
    let kernel_link = [changed_run(|run| run.links.iter_mut().for_each(|link| link.emulation = None))];
    let line = "\"mptcp.links.wlan.emulation.forward.dropped_packets.mtu\" = 0";
    assert_found(line, &kernel_link, false, "absent in mptcp-upload-r1");
    assert_found(
        "\"mptcp.error\" = \"x\"",
        &[changed_run(|run| run.error = None)],
        false,
        "absent in mptcp-upload-r1",
    );
}

fn goodputs(label: &str, direction: &str, values: &[f64]) -> Vec<RunRecord> {
    let run = |(index, value): (usize, &f64)| RunRecord {
        goodput_mbps: Some(*value),
        ..run(label, direction, index as u32 + 1)
    };
    values.iter().enumerate().map(run).collect()
}

#[test]
fn medians_and_their_quotients_are_taken_in_each_variant() {
    let mut runs = goodputs("mptcp", "upload", &[100.0, 10.0, 90.0]);
    runs.extend(goodputs("tcp", "upload", &[45.0, 47.0]));
    let median = "\"median(mptcp.goodput_mbps)\" = \">= 90\"";
    let ratio = "\"median(mptcp.goodput_mbps) / median(tcp.goodput_mbps)\" = \">= 1.9\"";
    assert_found(median, &runs, true, "90 with run.throughput.direction = upload");
    assert_found(ratio, &runs, true, "1.957 with run.throughput.direction = upload");
    runs.extend(goodputs("mptcp", "download", &[80.0]));
    assert_found(median, &runs, false, "80 with run.throughput.direction = download");
    assert_found(ratio, &runs, false, "no valid run of tcp with run.throughput.direction = download");
    runs.extend(goodputs("tcp", "download", &[0.0]));
    let found = "the median of tcp.goodput_mbps is 0 with run.throughput.direction = download";
    assert_found(ratio, &runs, false, found);
    assert_found(median, &goodputs("tcp", "upload", &[1.0]), false, "no valid run of mptcp");
    assert_found(ratio, &[], false, "no valid run of mptcp or tcp");
    let absent = [RunRecord { goodput_mbps: None, ..run("mptcp", "upload", 1) }];
    let found = "goodput_mbps is absent in mptcp-upload-r1 with run.throughput.direction = upload";
    assert_found(median, &absent, false, found);
}

#[test]
fn when_restricts_to_variants() {
    let line = "\"mptcp.stall_ms\" = { is = \"< 500\", when = { run.throughput.direction = \"upload\" } }";
    let slow = RunRecord { stall_ms: Some(800.0), ..run("mptcp", "download", 1) };
    assert_found(line, &[run("mptcp", "upload", 1), slow.clone()], true, "100 in mptcp-upload-r1");
    assert_found(line, &[slow], false, "no valid run of mptcp");
    let both = "\"mptcp.stall_ms\" = [{ is = \"< 500\" }, { is = \"< 5\", when = { \"run.throughput.direction\" = \"upload\" } }]";
    let plans = expectations(both);
    let held: Vec<_> =
        plans.iter().map(|plan| plan.evaluate(&document(vec![run("mptcp", "upload", 1)])).held).collect();
    assert_eq!(held, [true, false]);
    let set = vec![("run.throughput.direction".to_owned(), "download".to_owned())];
    let source = ScenarioSource::from_text("mine.toml", format!("{SCENARIO}{both}\n"));
    let plan = plan(&source, &Overrides { set, ..Overrides::default() }).expect("valid");
    assert_eq!((plan.expectations.len(), plan.left_out.len()), (1, 1));
}

/// A value that fails is a failure however many runs are missing; without a value, runs that were planned decide.
#[test]
fn expectations_about_planned_runs_that_were_not_made_are_not_judged() {
    let upload = run("mptcp", "upload", 1);
    let unmade = |label: &str| vec![RunRecord { valid: false, ..run(label, "download", 1) }];
    for (line, unmade, expected) in [
        ("\"tcp.stall_ms\" = \"< 500\"", unmade("tcp"), (false, true)),
        ("\"tcp.stall_ms\" = \"< 500\"", unmade("tcp@wlan"), (false, false)),
        ("\"mptcp.stall_ms\" = \"< 5\"", unmade("mptcp"), (false, false)),
        ("\"mptcp.stall_ms\" = \"< 500\"", unmade("mptcp"), (true, false)),
        ("\"median(tcp.goodput_mbps)\" = \"> 1\"", unmade("tcp"), (false, true)),
        ("\"median(mptcp.goodput_mbps) / median(tcp.goodput_mbps)\" = \"> 1\"", unmade("tcp"), (false, true)),
        (
            "\"tcp.stall_ms\" = { is = \"< 5\", when = { \"run.throughput.direction\" = \"upload\" } }",
            unmade("tcp"),
            (false, false),
        ),
    ] {
        let verdict = expectations(line)[0].judge(&document(vec![upload.clone()]), &unmade);
        assert_eq!((verdict.held, verdict.not_judged), expected, "{line}: {}", verdict.found);
        assert_eq!(verdict.found.contains("were not made"), verdict.not_judged);
    }
}

/// Regression: one such expectation excused every multipath transport in every variant.
#[test]
fn one_path_is_expected_of_the_named_transport_and_variant_only() {
    let expects =
        |line: &str, run: &RunRecord| expectations(line).iter().any(|plan| plan.expects_one_path(run));
    let upload = "when = { run.throughput.direction = \"upload\" }";
    let cases = [
        ("\"mptcp.multipath.used\" = false".to_owned(), [true, true, false]),
        ("\"mptcp.multipath.negotiated\" = false".to_owned(), [true, true, false]),
        ("\"mptcp.multipath.used\" = \"!= true\"".to_owned(), [true, true, false]),
        ("\"mptcp.throughput.multipath.used\" = false".to_owned(), [true, true, false]),
        (format!("\"mptcp.multipath.used\" = {{ is = false, {upload} }}"), [true, false, false]),
        ("\"tcp.multipath.used\" = false".to_owned(), [false, false, true]),
        ("\"tcp@wlan.multipath.used\" = false".to_owned(), [false; 3]),
        ("\"mptcp.multipath.used\" = true".to_owned(), [false; 3]),
        ("\"mptcp.multipath.requested\" = false".to_owned(), [false; 3]),
        ("\"mptcp.paths.wlan.share\" = 0".to_owned(), [false; 3]),
    ];
    for (line, expected) in cases {
        let runs = [run("mptcp", "upload", 1), run("mptcp", "download", 1), run("tcp", "upload", 1)];
        assert_eq!(runs.each_ref().map(|run| expects(&line, run)), expected, "{line}");
    }
}

#[test]
fn the_verdict_repeats_what_was_written() {
    let verdict = verdict("\"mptcp.stall_ms\" = \"<   500\"", &[run("mptcp", "upload", 1)]);
    assert_eq!((verdict.key.as_str(), verdict.expected.as_str()), ("mptcp.stall_ms", "<   500"));
    let plan = &expectations("\"mptcp.completed\" = true")[0];
    assert_eq!(plan.expected, "true");
    assert_eq!(plan.target, ExpectationTarget::Flag(true));
}

#[test]
fn iperf_is_an_alias_of_the_pattern_throughput() {
    let text = "name = \"x\"\n[[path]]\nname = \"eth\"\n[run]\ntransports = [\"tcp\"]\n\
                pattern = [\"throughput-download\", \"throughput\"]\nthroughput.streams = 2\n[matrix]\n\
                \"run.throughput.omit\" = [\"1s\", \"2s\"]\nrun.throughput.rate = [\"1mbit\", \"2mbit\"]\n[expect]\n\
                \"median(tcp.throughput.goodput_mbps)\" = { is = \"> 1\", when = { run.throughput.omit = \"1s\" } }\n\
                tcp.throughput-download.completed = true\n";
    let read = |text: String, key: &str| {
        let set = vec![(format!("run.{key}.block"), "64kB".to_owned())];
        let overrides = Overrides { set, ..Overrides::default() };
        let plan = plan(&ScenarioSource::from_text("mine.toml", text), &overrides);
        let plan = plan.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let figures: Vec<_> =
            plan.expectations.iter().map(|one| (one.subject.clone(), one.when.clone())).collect();
        (plan.variants, figures)
    };
    let own = read(text.to_owned(), "throughput");
    assert_eq!((own.0.len(), own.1.len()), (4, 2));
    assert_eq!(read(text.replace("throughput", "iperf"), "iperf"), own);
    let both = format!("{text}[run.iperf]\nstreams = 3\n");
    let mistakes = plan(&ScenarioSource::from_text("mine.toml", both), &Overrides::default()).unwrap_err();
    assert!(mistakes.to_string().contains("run.throughput: is given twice"), "{mistakes}");
}
