//! Synthetic results, identical on every machine, with every part of a report.

#![allow(dead_code, unused_imports, reason = "every test file uses its own part of this module")]

mod carriage;
mod examination;
mod path_mtu;
mod suite;
mod trace;
mod walk;

pub(crate) use carriage::{Course, carry};
pub(crate) use examination::{examination, examined};
pub(crate) use path_mtu::{probing, shrink};
pub(crate) use suite::{handover, silence, suite};
pub(crate) use trace::{hostile_trace, sequences, traced};
pub(crate) use walk::walk;

use pathbench_record::direction::Direction;
use pathbench_record::document::Expectation;
use pathbench_record::document::{
    DiagnosisKind, DirectionFigures, DirectionRecord, HostRecord, Impact, LinkFigures, LinkMeasurement,
    LinkRecord, MtuChange, MtuRecord, MtuStep, MultipathRecord, Parameters, PathDiagnosis, PathMtu,
    PathRecord, Phase, ResultDocument, RouterRecord, RunLink, RunRecord, SCHEMA, ScenarioRecord, Variant,
};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::{PathState, Side};
use pathbench_record::summary::summarise;
use pathbench_record::transport::Transport;
use pathbench_report::{LineSource, ResultSet, figures};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The figure with this name, as drawn by the report.
pub(crate) fn drawn(set: &ResultSet, name: &str) -> Option<String> {
    let mut figures = figures(std::slice::from_ref(set)).into_iter().flatten();
    figures.find(|one| one.name == name).map(|one| one.svg.to_string())
}

/// A result without runs.
pub(crate) fn nothing(name: &str, description: &str) -> ResultSet {
    let scenario = ScenarioRecord {
        name: name.to_owned(),
        description: description.to_owned(),
        origin: "builtin".to_owned(),
        text: format!("name = \"{name}\"\n"),
        overrides: Map::new(),
    };
    let host = HostRecord {
        kernel: "6.18.5".to_owned(),
        machine: "x86_64".to_owned(),
        cpus: 2,
        memory_bytes: 8_200_000_000,
        pathbench: "0.1.0".to_owned(),
        privilege: "user-namespace".to_owned(),
        started: "2026-11-21T20:14:00Z".to_owned(),
        default_congestion: "cubic".to_owned(),
        processors_awake: true,
    };
    let document =
        ResultDocument { schema: SCHEMA.to_owned(), scenario, seed: 1, host, ..ResultDocument::default() };
    ResultSet { document, lines: LineSource::default(), directory: None }
}

/// A link whose measured rate is its configured rate.
pub(crate) fn link(name: &str, rate_bps: u64) -> LinkRecord {
    let direction = DirectionFigures {
        rate_bps: Some(rate_bps),
        delay_ms: Some(1.0),
        queue_bytes: Some(rate_bps / 80),
        loss: None,
        ..DirectionFigures::default()
    };
    LinkRecord {
        name: name.to_owned(),
        ends: ["client".to_owned(), "server".to_owned()],
        engine: "kernel".to_owned(),
        variant: Variant::new(),
        requested: LinkFigures { mtu_bytes: 1500, forward: direction.clone(), reverse: direction },
        measured: Some(measurement(rate_bps)),
        tolerance: 0.05,
    }
}

fn measurement(rate_bps: u64) -> LinkMeasurement {
    LinkMeasurement {
        forward_bps: Some(rate_bps - rate_bps / 400),
        reverse_bps: Some(rate_bps - rate_bps / 300),
        rtt_ms: 2.08,
        min_rtt_ms: 2.03,
        forward_mtu_bytes: 1500,
        reverse_mtu_bytes: 1500,
        ..LinkMeasurement::default()
    }
}

/// A run in a valid environment, without traffic so far.
pub(crate) fn run(id: &str, label: &str, repetition: u32) -> RunRecord {
    let transport = if label.starts_with("mptcp") { Transport::Mptcp } else { Transport::Tcp };
    let asked = json!({ "direction": "upload", "duration": "10s", "streams": 1 });
    let in_force = json!({ "client.congestion": "cubic", "server.receive_buffer_bytes": 131_072 });
    let map = |value: Value| value.as_object().cloned().unwrap_or_default();
    RunRecord {
        id: id.to_owned(),
        variant: Variant::new(),
        transport,
        label: label.to_owned(),
        pattern: "throughput".to_owned(),
        repetition,
        valid: true,
        completed: true,
        multipath: MultipathRecord { requested: transport.is_multipath(), ..MultipathRecord::default() },
        parameters: Parameters { asked: map(asked), in_force: map(in_force) },
        ..RunRecord::default()
    }
}

/// An event of the scenario.
pub(crate) fn event(run: &str, t_ms: f64, kind: &str, path: &str) -> Event {
    Event {
        run: run.to_owned(),
        t_ms,
        source: EventSource::Scenario,
        host: "client".to_owned(),
        kind: kind.into(),
        path: Some(path.to_owned()),
        due_ms: Some(t_ms.floor()),
        detail: Map::new(),
    }
}

fn subflow_event(run: &str, t_ms: f64, kind: &str, path: &str) -> Event {
    let detail = json!({ "backup": false, "local": "10.0.1.1:40112" });
    Event {
        source: EventSource::Mptcp,
        due_ms: None,
        detail: detail.as_object().cloned().unwrap_or_default(),
        ..event(run, t_ms, kind, path)
    }
}

/// Adds the traffic of the paths: deliveries, samples, and the resulting figures of the run.
pub(crate) fn add_carried(
    set: &mut ResultSet,
    run: &mut RunRecord,
    direction: Direction,
    courses: &[Course],
) {
    let carried = carry(&run.id, direction, courses);
    let delivered: u64 = carried.deliveries.iter().map(|line| line.bytes).sum();
    let end_ms = carried.deliveries.last().map_or(0.0, |line| line.t_ms + 10.0);
    let goodput = if end_ms > 0.0 { Some(delivered as f64 * 8e-3 / end_ms) } else { None };
    run.directions.push(DirectionRecord {
        direction,
        goodput_mbps: goodput,
        delivered_bytes: delivered,
        stall_ms: run.stall_ms,
        delay_ms: None,
    });
    run.goodput_mbps = goodput.map(|own| own + run.goodput_mbps.unwrap_or(0.0));
    run.delivered_bytes += delivered;
    run.duration_ms = run.duration_ms.max(end_ms);
    for (index, (name, bytes)) in carried.totals.iter().enumerate() {
        let closed = courses.iter().any(|course| course.path == *name && course.state == PathState::Closed);
        if !run.paths.iter().any(|path| path.name == *name) {
            run.paths.push(PathRecord {
                name: name.clone(),
                local: format!("10.0.{index}.1"),
                remote: format!("10.0.{index}.2"),
                mss_bytes: 1428,
                pmtu_bytes: 1500,
                rtt_ms: 18.4 + index as f64,
                state: if closed { "closed" } else { "open" }.to_owned(),
                backup: run.multipath.requested.then_some(false),
                subflows: 1,
                ..PathRecord::default()
            });
        }
        for path in run.paths.iter_mut().filter(|path| path.name == *name) {
            path.bytes_sent += bytes + bytes / 700;
            path.bytes_delivered += bytes;
            path.retransmitted_bytes += bytes / 700;
        }
    }
    let total: u64 = run.paths.iter().map(|path| path.bytes_delivered).sum();
    for path in &mut run.paths {
        path.share = path.bytes_delivered as f64 / total.max(1) as f64;
    }
    if run.multipath.requested {
        let used = run.paths.iter().filter(|path| path.share >= 0.01).count() as u32;
        run.multipath = MultipathRecord {
            requested: true,
            negotiated: true,
            used: used > 1,
            reason: "the kernel reports MPTCP in force at both ends, and no fallback".to_owned(),
            paths_used: used,
            subflows_total: Some(2),
            subflows_attempted: None,
        };
    }
    set.lines.held.samples.extend(carried.samples);
    set.lines.held.deliveries.extend(carried.deliveries);
}

/// Adds the run to the result, with links within their tolerance.
pub(crate) fn finish_run(set: &mut ResultSet, mut run: RunRecord) {
    run.links = set
        .document
        .links
        .iter()
        .map(|link| RunLink {
            name: link.name.clone(),
            measured: link.measured.clone(),
            within_tolerance: true,
            deviations: Vec::new(),
            forward_bytes: Some(run.delivered_bytes),
            reverse_bytes: Some(run.delivered_bytes / 60),
            ..RunLink::default()
        })
        .collect();
    set.document.runs.push(run);
    set.document.summary.groups = summarise(&set.document.runs);
}

/// The failover scenario: `wlan` goes down at 3 s and comes up at 7 s; three labels, three repetitions.
pub(crate) fn failover() -> ResultSet {
    let mut set = nothing("failover", "one of two paths goes away in mid-transfer and comes back");
    set.document.links = vec![link("eth", 1_000_000_000), link("wlan", 1_000_000_000)];
    for repetition in 1..=3_u32 {
        for (label, index) in [("mptcp", 0), ("tcp@eth", 1), ("tcp@wlan", 2)] {
            let number = (repetition - 1) * 3 + index + 1;
            let id = format!("{number:02}-{}-r{repetition}", label.replace('@', "-"));
            let run = run(&id, label, repetition);
            failover_run(&mut set, run);
        }
    }
    let expected = |key: &str, expected: &str, found: &str, held: bool| Expectation {
        key: key.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
        held,
        not_judged: false,
    };
    set.document.summary.expectations = vec![
        expected("mptcp.completed", "true", "true in all 3 runs", true),
        expected("mptcp.stall_ms", "< 200", "230 in 07-mptcp-r3", false),
    ];
    set.document.summary.notes = vec!["Each run had a lab of its own.".to_owned()];
    set
}

fn failover_run(set: &mut ResultSet, mut run: RunRecord) {
    let (late, id) = (f64::from(run.repetition) * 1.3, run.id.clone());
    let (down_ms, up_ms) = (3000.0 + late, 7000.0 + late);
    set.lines.held.events.push(event(&id, down_ms, "down", "wlan"));
    let seed = u64::from(run.repetition);
    match run.label.as_str() {
        "mptcp" => {
            set.lines.held.events.push(subflow_event(&id, 4.0, "SUB_ESTABLISHED", "wlan"));
            let stall_ms = 190.0 + 20.0 * (f64::from(run.repetition) - 1.0);
            // The third repetition ends before the subflow's next retransmission.
            let back_ms = [9400.0, 9100.0, 20_000.0][(run.repetition - 1) as usize];
            let eth = Course::new("eth", 940.0, seed).silent(down_ms, down_ms + stall_ms);
            let mut wlan = Course::new("wlan", 940.0, seed + 9).silent(down_ms, back_ms);
            if back_ms > 10_000.0 {
                wlan = wlan.in_back_off(3400.0);
            }
            run.stall_ms = Some(stall_ms);
            run.dip = Some(1.0);
            run.recovery_ms = Some(stall_ms + 40.0);
            run.impacts = vec![impact(&run, down_ms)];
            run.counters.insert(Side::Client, BTreeMap::from([("MPTcpExt.MPJoinSynTx".to_owned(), 1)]));
            add_carried(set, &mut run, Direction::Upload, &[eth, wlan]);
            run.phases = vec![phase("start", 0.0, down_ms, 1.0), phase("down wlan", down_ms, up_ms, 0.0)];
        }
        "tcp@eth" => {
            run.stall_ms = Some(2.0);
            run.dip = Some(0.01);
            run.recovery_ms = Some(0.0);
            run.impacts = vec![impact(&run, down_ms)];
            add_carried(set, &mut run, Direction::Upload, &[Course::new("eth", 941.0, seed)]);
        }
        _ => {
            let wlan = Course::new("wlan", 941.0, seed).silent(down_ms, 20_000.0).in_back_off(3400.0);
            run.completed = false;
            run.hung_ms = Some(6900.0 + late);
            run.error =
                Some("no byte was acknowledged for 6.9 s after the end of the test was due".to_owned());
            run.impacts = vec![Impact { recovery_ms: None, ..impact(&run, down_ms) }];
            add_carried(set, &mut run, Direction::Upload, &[wlan]);
            run.goodput_mbps = None;
        }
    }
    set.lines.held.events.push(event(&id, up_ms, "up", "wlan"));
    finish_run(set, run);
}

fn impact(run: &RunRecord, at_ms: f64) -> Impact {
    Impact {
        direction: Direction::Upload,
        kind: "down".into(),
        path: Some("wlan".to_owned()),
        at_ms,
        before_mbps: Some(if run.label == "mptcp" { 1880.0 } else { 940.0 }),
        settled_mbps: run.recovery_ms.map(|_| 940.0),
        dip: run.dip,
        recovery_ms: run.recovery_ms,
        stall_ms: run.stall_ms,
    }
}

fn phase(name: &str, from_ms: f64, to_ms: f64, wlan: f64) -> Phase {
    let shares = BTreeMap::from([("eth".to_owned(), 1.0 - wlan / 2.0), ("wlan".to_owned(), wlan / 2.0)]);
    let goodput_mbps = 940.0 * (1.0 + wlan);
    Phase { direction: Direction::Upload, name: name.to_owned(), from_ms, to_ms, goodput_mbps, shares }
}

/// Two 10 Gbit/s links without events; `repetitions` of tcp and mptcp, upload or both directions.
pub(crate) fn aggregate(repetitions: u32, both_directions: bool) -> ResultSet {
    let mut set = nothing("aggregate-2x10g", "what two 10 Gbit/s links give together");
    set.document.links = vec![link("a", 10_000_000_000), link("b", 10_000_000_000)];
    for repetition in 1..=repetitions {
        for label in ["tcp", "mptcp"] {
            let mut run = run(&format!("{label}-r{repetition}"), label, repetition);
            let seed = u64::from(repetition);
            let directions: &[Direction] =
                if both_directions { &Direction::BOTH } else { &[Direction::Upload] };
            for (index, direction) in directions.iter().enumerate() {
                let rate = 9400.0 - 900.0 * index as f64;
                let mut courses = vec![Course::new("a", rate, seed)];
                if label == "mptcp" {
                    courses.push(Course::new("b", rate * 0.96, seed + 5));
                }
                run.stall_ms = Some(1.5);
                add_carried(&mut set, &mut run, *direction, &courses);
            }
            finish_run(&mut set, run);
        }
    }
    set
}

/// A study: 20 variants × 2 labels, 6 repetitions each, one second long.
pub(crate) fn study() -> ResultSet {
    let mut set = nothing("mtu-study", "every setting of probing against every size, with and without ICMP");
    set.document.links = vec![link("fast", 30_000_000), link("narrow", 30_000_000)];
    for size in 0..10_u32 {
        for icmp in ["on", "off"] {
            for label in ["mptcp", "tcp@narrow"] {
                for repetition in 1..=6_u32 {
                    let id = format!("{size}-{icmp}-{}-r{repetition}", label.replace('@', "-"));
                    let mut run = run(&id, label, repetition);
                    run.variant.insert("path.narrow.icmp".to_owned(), json!(icmp));
                    run.variant.insert(
                        "host.client.sysctl.net.ipv4.tcp_base_mss".to_owned(),
                        json!(500 + 100 * size),
                    );
                    let seed = u64::from(repetition * 7 + size);
                    let mut courses =
                        vec![Course::new("narrow", if icmp == "on" { 29.0 } else { 11.0 }, seed)];
                    if label == "mptcp" {
                        courses.push(Course::new("fast", 29.0, seed));
                    }
                    let courses: Vec<Course> = courses.into_iter().map(|one| one.until(1000.0)).collect();
                    run.stall_ms = Some(10.0 * f64::from(size));
                    add_carried(&mut set, &mut run, Direction::Upload, &courses);
                    finish_run(&mut set, run);
                }
            }
        }
    }
    set
}

/// Names as chosen by an attacker.
pub(crate) fn hostile() -> ResultSet {
    let evil = "<script>alert(\"x\")</script>&amp;'\u{1b}[31m\u{202e}";
    let mut set = nothing(evil, &format!("description {evil}"));
    evil.clone_into(&mut set.document.scenario.origin);
    set.document.scenario.text = format!("# {evil} </pre></style></svg>");
    set.document.scenario.overrides.insert(evil.to_owned(), json!(evil));
    evil.clone_into(&mut set.document.host.kernel);
    set.document.links = vec![link(evil, 1_000_000)];
    let mut run = run(evil, evil, 1);
    evil.clone_into(&mut run.pattern);
    run.variant.insert(evil.to_owned(), json!({ evil: evil }));
    run.notes = vec![evil.to_owned()];
    run.error = Some(evil.to_owned());
    run.multipath.requested = true;
    run.parameters.asked.insert(evil.to_owned(), json!(evil));
    run.counters.insert(Side::Server, BTreeMap::from([(evil.to_owned(), -3)]));
    let courses = [Course::new(evil, 1.0, 1), Course::new("b&b", 0.4, 2)];
    add_carried(&mut set, &mut run, Direction::Download, &courses);
    run.multipath.used = false;
    evil.clone_into(&mut run.multipath.reason);
    let mut happened = event(evil, 400.0, evil, evil);
    happened.detail.insert(evil.to_owned(), json!(evil));
    set.lines.held.events.push(happened);
    run.diagnoses = vec![PathDiagnosis {
        path: evil.to_owned(),
        side: Side::Client,
        kind: DiagnosisKind::MtuBlackHole,
        from_ms: None,
        to_ms: None,
        because: evil.to_owned(),
        remedy: format!("`{evil}`"),
    }];
    run.routers =
        vec![RouterRecord { name: evil.to_owned(), icmp: evil.to_owned(), ..RouterRecord::default() }];
    // A second pattern, so that the summary has a column for each.
    let other = RunRecord { pattern: format!("other {evil}"), ..run.clone() };
    finish_run(&mut set, run);
    finish_run(&mut set, other);
    set.document.mtu = Some(MtuRecord {
        server: evil.to_owned(),
        paths: vec![PathMtu { name: evil.to_owned(), advice: vec![evil.to_owned()], ..PathMtu::default() }],
        steps: vec![MtuStep { command: evil.to_owned(), undo: evil.to_owned(), ..MtuStep::default() }],
        changes: vec![MtuChange { path: evil.to_owned(), ..MtuChange::default() }],
        notes: vec![evil.to_owned()],
    });
    set.document.summary.notes = vec![evil.to_owned()];
    set.document.summary.expectations = vec![Expectation {
        key: evil.to_owned(),
        expected: evil.to_owned(),
        found: evil.to_owned(),
        ..Expectation::default()
    }];
    set
}

/// The failover result with every link out of tolerance.
pub(crate) fn all_invalid() -> ResultSet {
    let mut set = failover();
    for run in &mut set.document.runs {
        run.valid = false;
        run.invalid_because = vec!["link `wlan` gave 412 Mbit/s of 1 Gbit/s".to_owned()];
        for link in run.links.iter_mut().filter(|link| link.name == "wlan") {
            link.within_tolerance = false;
            link.deviations = vec!["rate 412 Mbit/s of 1 Gbit/s forward (-59 %, allowed ±5 %)".to_owned()];
        }
    }
    set.document.summary.groups = summarise(&set.document.runs);
    set
}

/// Forty labels with one run each.
pub(crate) fn forty_labels() -> ResultSet {
    let mut set = nothing("many", "forty paths, each with a connection of its own");
    for index in 0..40_u64 {
        let path = format!("path{index}");
        set.document.links.push(link(&path, 100_000_000));
        let mut run = run(&format!("{index:02}"), &format!("tcp@{path}"), 1);
        let course = Course::new(&path, 20.0 + 2.0 * index as f64, index).until(3000.0);
        run.stall_ms = Some(index as f64);
        add_carried(&mut set, &mut run, Direction::Upload, &[course]);
        finish_run(&mut set, run);
    }
    set
}
