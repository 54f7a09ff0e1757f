//! `lab run` on the real kernel: the figures have the values that their definitions require.
//!
//! Assertions are on physics: bytes are conserved, a link never carries more than its rate, causes precede effects.
//! The links are slow, so that a busy machine does not limit them.

use crate::support::measured::{Measured, goodput, path, phase};
use crate::support::{TWO_PATHS, Workplace};
use pathbench_record::direction::Direction;
use pathbench_record::document::{Phase, RunRecord};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::statistics::median;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Rate of each path of [`TWO_PATHS`].
const RATE_MBPS: f64 = 20.0;
/// TCP over IPv4 with timestamps carries 1448 bytes in a full Ethernet frame of 1514 bytes.
const PAYLOAD: f64 = 1448.0 / 1514.0;
/// Tolerance of a rate measured over one or two seconds.
const SLACK: f64 = 1.02;

fn scenario(rest: &str) -> String {
    format!("{TWO_PATHS}\n{rest}")
}

/// The result of a run over two paths; the directory is removed after reading.
fn measure(name: &str, rest: &str, options: &[&str]) -> Measured {
    Workplace::new().lab_run(name, &scenario(rest), options)
}

/// tcp and mptcp with upload, download and both directions at once; links measured.
static DIRECTIONS: LazyLock<Measured> = LazyLock::new(|| {
    let rest = r#"
        [run]
        transports = ["tcp", "mptcp"]
        duration = "2s"
        [matrix]
        "run.throughput.direction" = ["upload", "download", "both"]
    "#;
    measure("directions", rest, &[])
});

fn directions_of(run: &RunRecord) -> &'static [Direction] {
    match run.variant["run.throughput.direction"].as_str().unwrap() {
        "upload" => &[Direction::Upload],
        "download" => &[Direction::Download],
        _ => &Direction::BOTH,
    }
}

fn of_directions(label: &str, direction: &str) -> &'static RunRecord {
    let found = DIRECTIONS
        .document
        .runs
        .iter()
        .find(|run| run.label == label && run.variant["run.throughput.direction"] == direction);
    found.unwrap()
}

#[test]
fn the_directions_of_tcp_and_mptcp() {
    every_direction_of_tcp_and_mptcp_completes_over_links_as_asked_for();
    bytes_are_conserved();
    links_deliver_the_payload_and_headers_and_little_more();
    goodput_is_never_above_the_rate_of_the_links();
    tcp_fills_its_path_and_mptcp_is_worth_more();
    multipath_is_proven_not_assumed();
    nothing_arrives_before_it_was_sent();
}

fn every_direction_of_tcp_and_mptcp_completes_over_links_as_asked_for() {
    assert_eq!(DIRECTIONS.finished.code, Some(0), "{:#?}", DIRECTIONS.finished);
    assert_eq!(DIRECTIONS.document.runs.len(), 6);
    for run in &DIRECTIONS.document.runs {
        assert!(run.valid && run.completed && run.error.is_none(), "{run:#?}");
        assert_eq!(run.links.len(), 2);
        for link in &run.links {
            assert!(link.within_tolerance, "{link:?}");
            let measured = link.measured.as_ref().unwrap();
            for bps in [measured.forward_bps, measured.reverse_bps] {
                let ratio = bps.unwrap() as f64 / (RATE_MBPS * 1e6);
                assert!((0.95..=1.05).contains(&ratio), "{link:?}");
            }
            assert_eq!((measured.forward_mtu_bytes, measured.reverse_mtu_bytes), (1500, 1500));
        }
    }
}

fn bytes_are_conserved() {
    /// Upper bound of the size of an end's record of a run of a few seconds.
    const LONGEST_RECORD_BYTES: u64 = 256 * 1024;

    for run in &DIRECTIONS.document.runs {
        let directions = directions_of(run);
        assert_eq!(run.directions.len(), directions.len());
        let mut total = 0;
        for (record, &direction) in run.directions.iter().zip(directions) {
            assert_eq!(record.direction, direction);
            assert_eq!(record.delivered_bytes, DIRECTIONS.delivered(run, direction), "{}", run.id);
            total += record.delivered_bytes;
        }
        assert_eq!(run.delivered_bytes, total, "{}", run.id);
        let share: f64 = run.paths.iter().map(|path| path.share).sum();
        assert!((share - 1.0).abs() < 1e-9, "{}: shares add up to {share}", run.id);
        // The application receives only bytes that a path delivered, and a path delivers only bytes that were sent.
        let arrived: u64 = run.paths.iter().map(|path| path.bytes_delivered).sum();
        assert!(arrived >= total, "{}: {total} bytes out of {arrived}", run.id);
        for path in &run.paths {
            // The sender's record contains its last figures, and is sent over the same paths afterwards.
            let sent = path.bytes_sent + LONGEST_RECORD_BYTES;
            assert!(sent >= path.bytes_delivered, "{}: {path:?}", run.id);
        }
    }
}

fn links_deliver_the_payload_and_headers_and_little_more() {
    for run in &DIRECTIONS.document.runs {
        for link in &run.links {
            let frames = link.forward_bytes.unwrap() + link.reverse_bytes.unwrap();
            let Some(path) = run.paths.iter().find(|path| path.name == link.name) else {
                assert!(frames < 100_000, "{}: {frames} bytes over {}, which is unused", run.id, link.name);
                continue;
            };
            let ratio = frames as f64 / path.bytes_delivered as f64;
            assert!((1.0..=1.15).contains(&ratio), "{}: {ratio:.3} on {}", run.id, link.name);
        }
    }
}

fn goodput_is_never_above_the_rate_of_the_links() {
    for run in &DIRECTIONS.document.runs {
        let paths = if run.transport.is_multipath() { 2.0 } else { 1.0 };
        let limit = RATE_MBPS * PAYLOAD * paths * SLACK;
        for direction in &run.directions {
            let goodput = direction.goodput_mbps.unwrap();
            assert!(goodput <= limit, "{}: {goodput} Mbit/s of {limit}", run.id);
        }
        assert!(goodput(run) <= limit * run.directions.len() as f64, "{}", run.id);
    }
}

fn tcp_fills_its_path_and_mptcp_is_worth_more() {
    let of_both_ways =
        |label| goodput(of_directions(label, "upload")) + goodput(of_directions(label, "download"));
    let (tcp, mptcp) = (of_both_ways("tcp"), of_both_ways("mptcp"));
    let of_one_path = 2.0 * RATE_MBPS * PAYLOAD;
    assert!(tcp > of_one_path * 0.6, "tcp {tcp}");
    assert!(mptcp > of_one_path * SLACK, "mptcp {mptcp}, no more than one path can carry");
}

fn multipath_is_proven_not_assumed() {
    for run in &DIRECTIONS.document.runs {
        let multipath = &run.multipath;
        let asked = run.label == "mptcp";
        let seen = (multipath.requested, multipath.negotiated, multipath.used);
        assert_eq!(seen, (asked, asked, asked), "{}: {multipath:?}", run.id);
        assert!(!multipath.reason.is_empty(), "{}", run.id);
        assert_eq!(multipath.paths_used, if asked { 2 } else { 1 }, "{}: {multipath:?}", run.id);
        let joins = DIRECTIONS
            .events_of(run, EventSource::Mptcp)
            .into_iter()
            .filter(|event| event.kind.name() == "SUB_ESTABLISHED" && event.host == "client")
            .map(|event| event.path.clone().unwrap())
            .collect::<Vec<_>>();
        assert_eq!(joins, if asked { vec!["wlan"] } else { vec![] }, "{}", run.id);
    }
}

fn nothing_arrives_before_it_was_sent() {
    for run in &DIRECTIONS.document.runs {
        let seen = DIRECTIONS.events_of(run, EventSource::Observer);
        let first = seen.iter().find(|event| event.kind.name() == "first-byte").unwrap();
        assert!((0.0..1000.0).contains(&first.t_ms), "{}: the first byte came at {} ms", run.id, first.t_ms);
        let samples: Vec<_> = DIRECTIONS.samples.iter().filter(|sample| sample.run == run.id).collect();
        // Two ends, one sample per 100 ms, for two seconds.
        assert!(samples.len() >= 30, "{}: {} samples", run.id, samples.len());
        assert!(samples.iter().all(|sample| sample.path == "eth" || sample.path == "wlan"));
    }
}

#[test]
fn a_subflow_limit_of_zero_is_diagnosed() {
    let rest = "[run]\ntransports = [\"mptcp\"]\nduration = \"500ms\"\n[host.client.mptcp]\nsubflows = 0\n";
    let measured = measure("one-subflow", rest, &["--no-calibration"]).expect(6);
    let run = measured.run("mptcp");
    assert!(run.completed && run.multipath.negotiated && !run.multipath.used, "{run:#?}");
    assert!(run.multipath.reason.contains("limit of additional subflows is 0"), "{:?}", run.multipath);
    assert!(run.multipath.reason.contains("ip mptcp limits set"), "{:?}", run.multipath);
    let summary = measured.finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(summary.contains("limit of additional subflows is 0"), "{summary}");
}

/// Regression: an expectation about one transport applied to the others as well.
#[test]
fn one_path_is_accepted_only_where_the_scenario_expects_it() {
    let run = |expected: &str| {
        let rest = format!(
            "[run]\ntransports = [\"mptcp\", \"mptcp@wlan\"]\nduration = \"300ms\"\n\
             [host.client.mptcp]\nsubflows = 0\n[expect]\n{expected}"
        );
        measure("expected", &rest, &["--no-calibration"])
    };
    let one = "\"mptcp.multipath.used\" = false\n";
    run(one).expect(6);
    run(&format!("{one}\"mptcp@wlan.multipath.used\" = false\n")).expect(0);
}

#[test]
fn hosts_without_mptcp_are_named_and_never_measured_as_if_they_had_it() {
    let without = |host: &str| {
        let rest = "[run]\ntransports = [\"mptcp\"]\nduration = \"500ms\"\n";
        let rest = format!("{rest}[host.{host}.sysctl]\n\"net.mptcp.enabled\" = 0\n");
        let work = Workplace::new();
        let file = work.scenario("without", &scenario(&rest));
        work.run(&["lab", "run", &file, "--no-calibration", "--out", "out"]).expect(6)
    };
    without("client").reports(&["MPTCP is switched off", "sysctl net.mptcp.enabled=1"]);
    // The server serves tcp, as `pathbench serve` does without MPTCP: the connection falls back.
    let summary = without("server").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in ["mptcp: not used: fell back to plain TCP", "net.mptcp.enabled=0", "did not use multipath"] {
        assert!(summary.contains(text), "`{text}`: {summary}");
    }
}

#[test]
fn an_expectation_that_does_not_hold_ends_with_five_and_shows_the_value() {
    let rest = "[run]\ntransports = [\"tcp\"]\nduration = \"500ms\"\n\
                [expect]\n\"tcp.completed\" = true\n\"tcp.goodput_mbps\" = \"> 100\"\n";
    let measured = measure("too-much", rest, &["--no-calibration"]).expect(5);
    let [completed, fast] = measured.document.summary.expectations.as_slice() else { panic!("not two") };
    assert!(completed.held && !fast.held, "{completed:?} {fast:?}");
    assert!(fast.found.contains(&measured.run("tcp").id), "{fast:?}");
    assert!(measured.finished.stdout.contains("tcp.goodput_mbps"), "{}", measured.finished.stdout);
}

#[test]
fn a_link_that_is_not_as_asked_for_makes_a_run_invalid() {
    // No measurement is that accurate.
    let text = scenario("[run]\ntransports = [\"tcp\"]\nduration = \"500ms\"\n")
        .replace("queue", "tolerance = \"0.000001%\"\nqueue");
    let measured = Workplace::new().lab_run("strict", &text, &[]).expect(1);
    // A cause that does not pass: the run and its two retries.
    let [run, again, last] = measured.document.runs.as_slice() else { panic!("not three runs") };
    assert_eq!([run.attempt, again.attempt, last.attempt], [None, Some(2), Some(3)]);
    assert!(!run.valid && run.completed && !last.valid, "{run:#?}");
    let reasons = run.invalid_because.join("\n");
    assert!(reasons.contains("20 Mbit/s asked for") && reasons.contains("tolerance"), "{reasons}");
    assert!(run.links.iter().any(|link| !link.within_tolerance));
    let [group] = measured.document.summary.groups.as_slice() else { panic!("not one group") };
    assert_eq!((group.runs, group.valid), (3, 0));
    assert!(group.figures.is_empty(), "an invalid run entered the statistics: {group:?}");
    assert!(measured.finished.stderr.contains("not valid"), "{}", measured.finished.stderr);
}

#[test]
fn ipv6_carries_both_transports() {
    let rest = "[run]\ntransports = [\"tcp\", \"mptcp\"]\nduration = \"1500ms\"\nfamily = \"ipv6\"\n";
    let measured = measure("six", rest, &[]).expect(0);
    for label in ["tcp", "mptcp"] {
        let run = measured.run(label);
        assert!(run.completed, "{run:#?}");
        for path in &run.paths {
            assert!(path.local.parse::<std::net::Ipv6Addr>().is_ok(), "{path:?}");
            assert_eq!(path.mss_bytes, 1428, "20 bytes less than over IPv4: {path:?}");
        }
    }
    assert!(measured.run("mptcp").multipath.used);
}

#[test]
fn parallel_streams_share_one_rate_limit_each_and_the_warm_up_is_left_out() {
    let rest = r#"
        [run]
        transports = ["tcp"]
        duration = "2s"
        [run.throughput]
        streams = 3
        rate = "4mbit"
        omit = "500ms"
        congestion = "reno"
    "#;
    let measured = measure("limited", rest, &["--no-calibration"]).expect(0);
    let run = measured.run("tcp");
    // More than two streams could send, and at most what three can; including the warm-up it would be 5/4 of that.
    assert!((8.1..=12.0 * SLACK).contains(&goodput(run)), "{}", goodput(run));
    let in_two_seconds = 12e6 / 8.0 * 2.0;
    let ratio = run.delivered_bytes as f64 / in_two_seconds;
    assert!((0.68..=1.05).contains(&ratio), "the warm-up counts as delivered: {}", run.delivered_bytes);
    assert_eq!(path(run, "eth").subflows, 3);
    let streams: BTreeSet<u32> = measured.samples.iter().map(|sample| sample.stream).collect();
    assert_eq!(streams, BTreeSet::from([0, 1, 2]));
    assert_eq!(run.parameters.asked["streams"], 3);
    assert_eq!(run.parameters.in_force["client.congestion"], "reno");
    // The application itself is idle most of the time, which is no stall.
    assert!(run.stall_ms.unwrap() < 1000.0, "{:?}", run.stall_ms);
}

#[test]
fn a_transfer_by_bytes_delivers_them_exactly() {
    let rest = r#"
        [run]
        transports = ["tcp", "mptcp"]
        [run.throughput]
        bytes = 1234567
        streams = 2
        direction = "download"
    "#;
    let measured = measure("bytes", rest, &["--no-calibration"]).expect(0);
    for label in ["tcp", "mptcp"] {
        assert_eq!(measured.run(label).delivered_bytes, 2 * 1_234_567);
        assert_eq!(measured.delivered(measured.run(label), Direction::Download), 2 * 1_234_567);
    }
}

#[test]
fn an_interface_that_goes_down_leaves_a_stall_and_half_of_the_capacity() {
    let rest = r#"
        [[event]]
        at = "1500ms"
        path = "wlan"
        action = "down"
        [[event]]
        at = "6500ms"
        path = "wlan"
        action = "up"
        [run]
        transports = ["mptcp", "tcp@wlan"]
        duration = "8s"
        [run.throughput]
        patience = "4s"
    "#;
    let measured = measure("failing", rest, &["--no-calibration"]).expect(0);
    let run = measured.run("mptcp");
    assert!(run.completed && run.multipath.used, "{run:#?}");
    assert!(run.stall_ms.is_some(), "{run:#?}");
    // Data sent on the path that is gone holds back what follows it, until it is sent again. Where that takes as long as
    // the path is down, nothing recovers.
    let dip = run.dip.unwrap();
    assert!(run.recovery_ms.is_none_or(|ms| ms < 5000.0 && (dip > 0.1) == (ms > 0.0)), "{run:#?}");
    let (start, down) = (phase(run, "start"), phase(run, "down wlan"));
    // Half of the capacity is lost.
    assert!(start.shares["wlan"] > 0.25 && down.shares["eth"] > 0.95, "{start:?} {down:?}");
    // What was held back at the event is delivered later: only the sum has a limit.
    let megabits = |phase: &Phase| phase.goodput_mbps * (phase.to_ms - phase.from_ms) / 1e3;
    let most = RATE_MBPS * PAYLOAD * SLACK * (start.to_ms + down.to_ms) / 1e3;
    assert!(megabits(start) + megabits(down) < most, "{start:?} {down:?}");
    // The impact belongs to the first event; `up` has none.
    let [impact] = run.impacts.as_slice() else { panic!("{:?}", run.impacts) };
    assert_eq!((impact.kind.name(), impact.path.as_deref()), ("down", Some("wlan")));
    assert!((impact.at_ms - 1500.0).abs() < 400.0, "{impact:?}");
    assert!(impact.before_mbps.unwrap() > 0.0 && down.goodput_mbps > 0.0, "{impact:?} {down:?}");

    let alone = measured.run("tcp@wlan");
    assert!(!alone.completed && alone.error.is_some(), "{alone:#?}");
    let hung = alone.hung_ms.unwrap();
    assert!((3900.0..5500.0).contains(&hung), "patience is 4 s, hung {hung} ms");
    assert!(alone.delivered_bytes > 0);
    // While an interface is down, the kernel reports an MSS of 36.
    let wlan = path(alone, "wlan");
    assert!((1400..1500).contains(&wlan.mss_bytes) && wlan.pmtu_bytes == 1500, "{wlan:?}");
}

#[test]
fn an_address_that_is_removed_closes_its_subflow_and_opens_one_when_it_returns() {
    let rest = r#"
        [[event]]
        at = "1s"
        path = "wlan"
        action = "remove-address"
        [[event]]
        at = "2s"
        path = "wlan"
        action = "add-address"
        [run]
        transports = ["mptcp"]
        duration = "4s"
    "#;
    let measured = measure("addresses", rest, &["--no-calibration"]).expect(0);
    let run = measured.run("mptcp");
    let seen = measured.events_of(run, EventSource::Mptcp);
    let at_client = |kind: &str| -> Vec<f64> {
        let of_wlan = |event: &&&Event| event.host == "client" && event.path.as_deref() == Some("wlan");
        seen.iter()
            .filter(of_wlan)
            .filter(|event| event.kind.name() == kind)
            .map(|event| event.t_ms)
            .collect()
    };
    let (opened, closed) = (at_client("SUB_ESTABLISHED"), at_client("SUB_CLOSED"));
    assert_eq!((opened.len(), closed.len()), (2, 1), "{seen:#?}");
    assert!(opened[0] < closed[0] && closed[0] < opened[1], "opened {opened:?}, closed {closed:?}");
    assert!(
        (closed[0] - 1000.0).abs() < 400.0 && (opened[1] - 2000.0).abs() < 400.0,
        "{opened:?} {closed:?}"
    );
    let wlan = path(run, "wlan");
    assert_eq!((wlan.subflows, wlan.state.as_str()), (2, "open"), "{wlan:?}");
    assert!(phase(run, "add-address wlan").shares["wlan"] > 0.1, "{:?}", run.phases);
    assert_eq!(run.multipath.subflows_total, Some(3));
}

#[test]
fn goodput_follows_the_rate_and_the_mtu_of_the_link() {
    let rest = r#"
        [[event]]
        at = "1500ms"
        path = "eth"
        action = "set"
        rate = "5mbit"
        [[event]]
        at = "3s"
        path = "eth"
        action = "set"
        rate = "20mbit"
        mtu = 1300
        [run]
        transports = ["tcp"]
        duration = "4500ms"
    "#;
    let measured = measure("changing", rest, &["--no-calibration"]).expect(0);
    let run = measured.run("tcp");
    // Queued packets leave at the new rate as well.
    let [start, slow, small] = run.phases.as_slice() else { panic!("{:?}", run.phases) };
    // The rates differ by a factor of four: the tolerance covers a stall of the machine.
    for (phase, rate_mbps) in [(start, 20.0), (slow, 5.0), (small, 20.0)] {
        let ratio = phase.goodput_mbps / (rate_mbps * PAYLOAD);
        assert!((0.5..=1.5).contains(&ratio), "{ratio:.2} of {rate_mbps} Mbit/s: {phase:?}");
    }
    let eth = path(run, "eth");
    assert_eq!((eth.pmtu_bytes, eth.mss_bytes), (1300, 1248), "{eth:?}");
    let set = measured.events_of(run, EventSource::Scenario);
    assert_eq!(set[0].detail["rate_bps"], 5_000_000);
    assert_eq!(set[1].detail["mtu_bytes"], 1300);
}

#[test]
fn a_black_hole_affects_only_the_traffic() {
    let rest = r#"
        [[event]]
        at = "1s"
        path = "eth"
        action = "blackhole"
        [[event]]
        at = "2s"
        path = "eth"
        action = "restore"
        [run]
        transports = ["tcp"]
        duration = "4s"
    "#;
    let measured = measure("hole", rest, &["--no-calibration"]).expect(0);
    let run = measured.run("tcp");
    assert!(run.completed, "{run:#?}");
    // TCP's waiting time after the black hole varies: a retransmission that is lost again, in the overflowing queue
    // of the restored path, waits for a timeout that has doubled three times.
    let stall = run.stall_ms.unwrap();
    let times = || measured.deliveries.iter().map(|line| line.t_ms);
    let longest = times().zip(times().skip(1)).map(|(before, after)| after - before).fold(0.0, f64::max);
    assert!(
        stall >= 600.0 && (stall - longest).abs() < 30.0,
        "{stall} ms without a byte, {longest} between deliveries"
    );
    assert!((run.dip.unwrap() - 1.0).abs() < 1e-9, "{run:#?}");
    let events = measured.events_of(run, EventSource::Scenario);
    let [hole, restored] = events.as_slice() else { panic!("{events:?}") };
    // No byte enters the link. The 50 ms of data in the queue behind the black hole still arrive, and the receiver
    // reads them when the machine schedules it.
    let inside = |t_ms: f64| t_ms > hole.t_ms + 50.0 + 250.0 && t_ms + 10.0 < restored.t_ms;
    let leaked: Vec<_> = measured.deliveries.iter().filter(|line| inside(line.t_ms)).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    assert!(times().fold(0.0, f64::max) > restored.t_ms, "nothing arrived after {restored:?}");
}

#[test]
fn events_happen_at_their_time() {
    let event =
        |at: u64, path: &str, what: &str| format!("[[event]]\nat = \"{at}ms\"\npath = \"{path}\"\n{what}\n");
    let rates = (1..=8).map(|turn| {
        let rate = if turn % 2 == 0 { 20 } else { 10 };
        event(turn * 300, "wlan", &format!("action = \"set\"\nrate = \"{rate}mbit\""))
    });
    let outages = ["down", "up", "blackhole", "restore", "down", "up"]
        .iter()
        .zip((400..).step_by(300))
        .map(|(action, at)| event(at, "eth", &format!("action = \"{action}\"")));
    let rest = "[run]\ntransports = [\"mptcp\"]\nduration = \"2600ms\"\n";
    let rest: String = rates.chain(outages).chain([rest.to_owned()]).collect();
    let measured = measure("punctual", &rest, &["--no-calibration"]).expect(0);
    let run = measured.run("mptcp");
    let events = measured.events_of(run, EventSource::Scenario);
    assert_eq!(events.len(), 14);
    let late: Vec<f64> = events.iter().map(|event| event.t_ms - event.due_ms.unwrap()).collect();
    assert!(late.iter().all(|late| *late >= 0.0), "some came too early: {late:?}");
    // A busy machine delays some events; a wrong clock would delay all.
    let most_punctual = late.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(most_punctual < 10.0 && median(&late).unwrap() < 100.0, "{late:?}");
    // The events use the clock of the run.
    let dues: Vec<f64> = events.iter().map(|event| event.due_ms.unwrap()).collect();
    assert!((dues[0] - 300.0).abs() < 200.0, "{dues:?}");
    assert!(dues.is_sorted(), "{dues:?}");
}

#[test]
fn traffic_crosses_a_router() {
    let text = r#"
        [[router]]
        name = "r1"
        [[link]]
        name = "eth"
        ends = ["client:eth", "r1:a"]
        rate = "20mbit"
        [[link]]
        name = "wlan"
        ends = ["client:wlan", "r1:b"]
        rate = "20mbit"
        [[link]]
        name = "core"
        ends = ["r1:c", "server:eth"]
        [run]
        transports = ["tcp@wlan", "mptcp"]
        duration = "1500ms"
    "#;
    let measured = Workplace::new().lab_run("routed", text, &[]).expect(0);
    let (tcp, mptcp) = (measured.run("tcp@wlan"), measured.run("mptcp"));
    assert!(tcp.completed && mptcp.completed && mptcp.multipath.used);
    let carried = |run: &RunRecord, name: &str| {
        run.links.iter().find(|link| link.name == name).unwrap().forward_bytes.unwrap()
    };
    // tcp is bound to wlan; all traffic crosses the core.
    assert!(carried(tcp, "eth") < 100_000 && carried(tcp, "wlan") >= tcp.delivered_bytes);
    for run in [tcp, mptcp] {
        assert!(carried(run, "core") >= run.delivered_bytes);
    }
    assert_eq!(measured.document.links.len(), 3);
}

#[test]
fn repetitions_in_seeded_order_are_compared_by_their_medians() {
    let rest = "[run]\ntransports = [\"tcp@*\"]\nduration = \"300ms\"\nrepeat = 3\n";
    let orders = [1, 1, 2, 3].map(|seed| {
        let measured = measure("order", rest, &["--no-calibration", "--quiet", "--seed", &seed.to_string()]);
        let measured = measured.expect(0);
        let [eth, wlan] = measured.document.summary.groups.as_slice() else { panic!("not two groups") };
        assert_eq!((eth.runs, eth.valid, wlan.runs), (3, 3, 3));
        let median = eth.figures["goodput_mbps"].clone();
        assert!(median.n == 3 && median.min <= median.median && median.median <= median.max, "{median:?}");
        measured.document.runs.iter().map(|run| run.label.clone()).collect::<Vec<_>>()
    });
    assert_eq!(orders[0], orders[1], "the same seed gives the same order");
    assert!(orders[0] != orders[2] || orders[0] != orders[3], "{orders:?}");
}
