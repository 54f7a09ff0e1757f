//! `lab run` with quic and mpquic on the real kernel: bytes on each path, and the reaction to a path that goes down
//! or drops all packets silently.
//!
//! The bounds have tolerance for a busy machine: they distinguish a transport that recovers from one that does not.
//! docs/performance.md has the values of an idle machine.

use crate::support::measured::{Measured, goodput, path, phase};
use crate::support::{TWO_PATHS, Workplace};
use pathbench_record::document::RunRecord;
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::Side;
use std::sync::LazyLock;

/// Rate of each path of [`TWO_PATHS`].
const RATE_MBPS: f64 = 20.0;
/// Ethernet, IPv4 and UDP headers of a QUIC datagram.
const HEADERS_BYTES: f64 = 14.0 + 20.0 + 8.0;
/// Overhead in a datagram with stream data: short header with connection ID, frame header, authentication tag.
const QUIC_HEADERS_BYTES: f64 = 11.0 + 6.0 + 16.0;
/// Tolerance of a rate measured over a few seconds.
const SLACK: f64 = 1.02;

fn measure(name: &str, rest: &str, options: &[&str]) -> Measured {
    Workplace::new().lab_run(name, &format!("{TWO_PATHS}\n{rest}"), options)
}

/// The four transports over the same two links, which are measured before each run.
static ALL_FOUR: LazyLock<Measured> = LazyLock::new(|| {
    let rest = r#"
        [run]
        transports = ["tcp", "mptcp", "quic", "mpquic"]
        duration = "4s"
        congestion = "cubic"
    "#;
    // This test does not cover calibration on a busy machine.
    let tolerant = ["--set", "path.eth.tolerance=20%", "--set", "path.wlan.tolerance=20%"];
    measure("all-four", rest, &tolerant)
});

/// The second path goes down at 2 s and comes back at 4 s, with the given event kinds.
fn outage(name: &str, gone: &str, back: &str) -> Measured {
    let rest = format!(
        "[[event]]\nat = \"2s\"\npath = \"wlan\"\naction = \"{gone}\"\n\
         [[event]]\nat = \"4s\"\npath = \"wlan\"\naction = \"{back}\"\n\
         [run]\ntransports = [\"mpquic\"]\nduration = \"9s\"\n"
    );
    measure(name, &rest, &["--no-calibration"])
}

fn path_events<'a>(measured: &'a Measured, run: &RunRecord, host: &str, kind: &str) -> Vec<&'a Event> {
    let seen = measured.events_of(run, EventSource::Quic).into_iter();
    seen.filter(|event| event.host == host && event.kind.name() == kind).collect()
}

#[test]
fn all_four_transports_over_two_paths() {
    all_four_complete_over_links_as_asked_for_and_none_carries_more_than_its_links();
    quic_fills_its_path_and_the_second_path_is_worth_much_to_both_multipath_transports();
    mpquic_reports_both_paths_as_used_and_quic_one();
    path_counters_and_link_counters_agree_after_headers();
    encryption_is_in_the_result();
}

fn all_four_complete_over_links_as_asked_for_and_none_carries_more_than_its_links() {
    assert_eq!(ALL_FOUR.finished.code, Some(0), "{:#?}", ALL_FOUR.finished);
    for run in &ALL_FOUR.document.runs {
        assert!(run.valid && run.completed && run.error.is_none(), "{run:#?}");
        let paths = if run.transport.is_multipath() { 2.0 } else { 1.0 };
        let limit = RATE_MBPS * paths * SLACK;
        assert!(goodput(run) <= limit, "{}: {} Mbit/s of {limit}", run.id, goodput(run));
        assert!(run.handshake_ms.is_some_and(|ms| ms > 0.0), "{}: {:?}", run.id, run.handshake_ms);
    }
}

fn quic_fills_its_path_and_the_second_path_is_worth_much_to_both_multipath_transports() {
    let of = |label: &str| goodput(ALL_FOUR.run(label));
    for (single, multipath) in [("quic", "mpquic"), ("tcp", "mptcp")] {
        assert!(of(single) > 0.6 * RATE_MBPS, "{single} {}", of(single));
        let both = of(multipath);
        assert!(both > RATE_MBPS * SLACK, "{multipath} {both}, no more than one path can carry");
    }
}

fn mpquic_reports_both_paths_as_used_and_quic_one() {
    let (quic, mpquic) = (ALL_FOUR.run("quic"), ALL_FOUR.run("mpquic"));
    let used = |run: &RunRecord| {
        let multipath = &run.multipath;
        (multipath.requested, multipath.negotiated, multipath.used, multipath.paths_used)
    };
    assert_eq!(used(mpquic), (true, true, true, 2), "{:?}", mpquic.multipath);
    assert_eq!(used(quic), (false, false, false, 1), "{:?}", quic.multipath);
    assert!(mpquic.multipath.reason.starts_with("2 paths carried"), "{:?}", mpquic.multipath);
    for name in ["eth", "wlan"] {
        let path = path(mpquic, name);
        assert!(path.share > 0.2 && path.state == "open", "{path:?}");
    }
    for run in [quic, mpquic] {
        let samples: Vec<_> = ALL_FOUR.samples.iter().filter(|sample| sample.run == run.id).collect();
        for side in [Side::Client, Side::Server] {
            let of_side = samples.iter().filter(|sample| sample.side == side).count();
            // One sample per 100 ms for 4 s; a busy machine misses some.
            assert!(of_side >= 20, "{}: {of_side} samples of the {side:?}", run.id);
        }
        // The streams share one connection; its paths count once.
        assert!(samples.iter().all(|sample| sample.stream == 0), "{}", run.id);
        assert_eq!(run.parameters.in_force["streams"], 4, "{:?}", run.parameters);
    }
}

fn path_counters_and_link_counters_agree_after_headers() {
    for label in ["quic", "mpquic"] {
        let run = ALL_FOUR.run(label);
        for link in &run.links {
            let frames = link.forward_bytes.unwrap() as f64;
            let Some(path) = run.paths.iter().find(|path| path.name == link.name) else {
                assert!(frames < 100_000.0, "{}: {frames} bytes over {}, unused", run.id, link.name);
                continue;
            };
            // The packets in this direction are almost only full packets of stream data.
            let packet = f64::from(path.mss_bytes);
            let with_headers =
                path.bytes_delivered as f64 * (packet + HEADERS_BYTES) / (packet - QUIC_HEADERS_BYTES);
            let ratio = frames / with_headers;
            // The frame counters include the test's records, which are sent after the last sample of the path
            // counters.
            assert!((0.98..=1.03).contains(&ratio), "{}: {ratio:.4} on {}", run.id, link.name);
        }
    }
}

fn encryption_is_in_the_result() {
    for (label, encrypted) in [("tcp", false), ("mptcp", false), ("quic", true), ("mpquic", true)] {
        let run = ALL_FOUR.run(label);
        assert_eq!(run.encrypted, encrypted, "{label}: {:?}", run.encryption);
        assert_eq!(
            run.encryption.as_ref().is_some_and(|words| words.contains("TLS 1.3")),
            encrypted,
            "{label}"
        );
    }
    let rest = "[run]\ntransports = [\"tcp\", \"mptcp\"]\nduration = \"1s\"\ntls = true\n";
    let measured = measure("encrypted", rest, &["--no-calibration"]);
    for label in ["tcp", "mptcp"] {
        let run = measured.run(label);
        assert!(run.completed && run.encrypted && run.delivered_bytes > 0, "{run:#?}");
        assert!(run.encryption.as_ref().unwrap().starts_with("TLS 1.3"), "{:?}", run.encryption);
    }
}

/// Regression: the smoothed RTT of sparse traffic contained the acknowledgement delay of up to 25 ms.
#[test]
fn the_rtt_of_sparse_traffic_is_that_of_the_links_probes_at_both_ends() {
    const PATHS: &str = r#"
        [[path]]
        name = "eth"
        rate = "20mbit"
        delay = "10ms"
        tolerance = "50%"
        [[path]]
        name = "wlan"
        rate = "20mbit"
        delay = "10ms"
        tolerance = "50%"
        [run]
        transports = ["tcp", "quic", "mpquic"]
        pattern = "interactive"
        duration = "3s"
        lateness_tolerance = "1s"
        [run.interactive]
        interval = "200ms"
        request = "100B"
        response = 100
        linger = "500ms"
    "#;
    let measured = Workplace::new().lab_run("sparse", PATHS, &[]);
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    // A machine that runs late delays all transports alike.
    let rtt_ms = |label: &str, side: Side| {
        let run = &measured.run(label).id;
        let of_side = measured.samples.iter().filter(|sample| sample.run == *run && sample.side == side);
        median(of_side.map(|sample| sample.figures.srtt_ms).collect()).expect("a sample")
    };
    for side in [Side::Client, Side::Server] {
        let tcp_ms = rtt_ms("tcp", side);
        for label in ["quic", "mpquic"] {
            let excess_ms = rtt_ms(label, side) - tcp_ms;
            assert!(excess_ms < 8.0, "{label}, {side:?}: {excess_ms:.1} ms above the {tcp_ms:.1} ms of tcp");
        }
    }
}

#[test]
fn traffic_leaves_an_interface_that_goes_down_and_returns_when_it_is_up() {
    let measured = outage("failing", "down", "up").expect(0);
    let run = measured.run("mpquic");
    assert!(run.completed && run.multipath.used, "{run:#?}");
    // 0.25 s on an idle machine; a transport that waits for its timers takes several seconds.
    assert!(run.stall_ms.unwrap() < 1_500.0, "{run:#?}");
    assert!(phase(run, "down wlan").shares["eth"] > 0.9, "{:?}", run.phases);
    let after = phase(run, "up wlan");
    assert!(after.shares["wlan"] > 0.15, "traffic did not return: {after:?}");
    let gone = path_events(&measured, run, "client", "path-abandoned");
    assert!(!gone.is_empty(), "{:#?}", measured.events_of(run, EventSource::Quic));
    let first = gone.first().unwrap();
    assert!((1_990.0..3_500.0).contains(&first.t_ms) && first.path.as_deref() == Some("wlan"), "{gone:?}");
    let opened = path_events(&measured, run, "client", "path-established");
    let again = opened.iter().find(|event| event.t_ms > 4_000.0);
    assert!(again.is_some_and(|event| event.path.as_deref() == Some("wlan")), "{opened:?}");
    // The server received PATH_ABANDON over the other path.
    assert!(!path_events(&measured, run, "server", "path-abandoned").is_empty());
}

#[test]
fn a_silent_black_hole_is_noticed_by_heartbeats_and_traffic_returns() {
    let measured = outage("swallowing", "blackhole", "restore").expect(0);
    let run = measured.run("mpquic");
    assert!(run.completed && run.multipath.used, "{run:#?}");
    // Below 1 s on an idle machine.
    assert!(run.stall_ms.unwrap() < 3_000.0, "{run:#?}");
    let during = phase(run, "blackhole wlan");
    assert!(during.shares["eth"] > 0.8 && during.goodput_mbps > 0.3 * RATE_MBPS, "{during:?}");
    let after = phase(run, "restore wlan");
    assert!(after.shares["wlan"] > 0.1, "traffic did not return: {after:?}");
}

#[test]
fn the_server_leaves_a_path_that_fails_during_a_download() {
    let rest = "[[event]]\nat = \"2s\"\npath = \"eth\"\naction = \"blackhole\"\n\
                [run]\ntransports = [\"mpquic\"]\nduration = \"6s\"\n[run.throughput]\ndirection = \"download\"\n";
    let measured = measure("downward", rest, &["--no-calibration"]).expect(0);
    let run = measured.run("mpquic");
    assert!(run.completed && run.multipath.used, "{run:#?}");
    assert!(run.stall_ms.unwrap() < 3_000.0, "{run:#?}");
    let during = phase(run, "blackhole eth");
    assert!(during.shares["wlan"] > 0.8 && during.goodput_mbps > 0.3 * RATE_MBPS, "{during:?}");
}

#[test]
fn quic_on_a_black_hole_stalls_and_ends_after_its_patience() {
    let rest = "[[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"blackhole\"\n\
                [run]\ntransports = [\"quic@wlan\"]\nduration = \"3s\"\npatience = \"1500ms\"\n";
    let measured = measure("alone", rest, &["--no-calibration"]).expect(0);
    let run = measured.run("quic@wlan");
    assert!(!run.completed && run.error.is_some() && run.delivered_bytes > 0, "{run:#?}");
    let hung = run.hung_ms.unwrap();
    assert!((1_400.0..6_000.0).contains(&hung), "patience is 1.5 s, hung {hung} ms");
    assert_eq!(run.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>(), ["wlan"]);
    // The result contains the server's samples.
    assert!(measured.samples.iter().any(|sample| sample.side == Side::Server), "{run:#?}");
}

/// When the client's scheduler switched paths, and why.
fn switches(measured: &Measured) -> Vec<&Event> {
    path_events(measured, measured.run("mpquic"), "client", "scheduler")
}

#[test]
fn the_backup_scheduler_switches_only_beyond_its_thresholds() {
    // The queue holds 50 ms, so that the smoothed round-trip time exceeds the second scenario's threshold and never
    // that of the paper.
    let of = |name: &str, thresholds: &str| {
        let rest = format!(
            "[run]\ntransports = [\"mpquic\"]\nduration = \"2s\"\n[run.quic]\nscheduler = \"backup\"\n{thresholds}\n"
        );
        measure(name, &rest, &["--no-calibration"])
    };
    // If the machine stalls, a timer expires and the scheduler correctly uses the other path, but not in all of
    // twelve runs.
    let calm = (0..12)
        .map(|_| of("calm", ""))
        .find(|calm| switches(calm).is_empty())
        .expect("trouble each time")
        .expect(6);
    let run = calm.run("mpquic");
    assert!(run.completed && run.multipath.negotiated && !run.multipath.used, "{run:#?}");
    assert!(
        run.multipath.reason.contains("only while the preferred path is in trouble"),
        "{:?}",
        run.multipath
    );
    assert!(path(run, "eth").share > 0.97, "{:?}", run.paths);

    // The other path carries most of the bytes, on a busy machine nearly all.
    let troubled = of("troubled", "srtt_above = \"30ms\"");
    let is_used = troubled.run("mpquic").multipath.used;
    let troubled = troubled.expect(if is_used { 0 } else { 6 });
    let run = troubled.run("mpquic");
    assert!(run.completed && path(run, "wlan").share > 0.02, "{run:#?}");
    let by_rtt = |event: &&Event| {
        event.detail["reason"].as_str().is_some_and(|it| it.starts_with("smoothed RTT of the preferred path"))
    };
    let reported = switches(&troubled);
    assert!(reported.iter().any(by_rtt), "{reported:#?}");
}

#[test]
fn weights_divide_the_bytes() {
    let text = r#"
        [[path]]
        name = "eth"
        rate = "100mbit"
        weight = 3
        [[path]]
        name = "wlan"
        rate = "100mbit"
        [run]
        transports = ["mpquic"]
        duration = "3s"
        [run.throughput]
        rate = "5mbit"
        streams = 4
        [run.quic]
        scheduler = "weighted"
    "#;
    let measured = Workplace::new().lab_run("weighted", text, &["--no-calibration"]).expect(0);
    let share = path(measured.run("mpquic"), "eth").share;
    assert!((0.6..0.9).contains(&share), "{share} of the bytes over the path of weight 3 of 4");
}

#[test]
fn a_backup_path_carries_data_only_after_the_other_fails() {
    let text = r#"
        [[path]]
        name = "eth"
        rate = "20mbit"
        queue = "50ms"
        [[path]]
        name = "lte"
        rate = "20mbit"
        queue = "50ms"
        backup = true
        [[event]]
        at = "2s"
        path = "eth"
        action = "down"
        [run]
        transports = ["mpquic"]
        duration = "5s"
    "#;
    let measured = Workplace::new().lab_run("backup", text, &["--no-calibration"]).expect(0);
    let run = measured.run("mpquic");
    assert!(run.completed && run.multipath.used, "{run:#?}");
    assert!(phase(run, "start").shares["eth"] > 0.95, "{:?}", run.phases);
    assert!(phase(run, "down eth").shares["lte"] > 0.9, "{:?}", run.phases);
    assert_eq!((path(run, "eth").backup, path(run, "lte").backup), (Some(false), Some(true)));
}

/// Regression: heartbeats, MTU probes and acknowledgements counted as delivered: `used: eth 96 %, lte 4 %`.
#[test]
fn a_backup_path_that_carried_no_message_has_no_share() {
    let text = r#"
        [[path]]
        name = "eth"
        rate = "20mbit"
        [[path]]
        name = "lte"
        rate = "20mbit"
        backup = true
        [run]
        transports = ["mpquic", "mptcp"]
        pattern = "interactive"
        duration = "4s"
    "#;
    for label in ["mpquic", "mptcp"] {
        let set = format!("run.transports=[\"{label}\"]");
        // If the machine stalls, the backup path may correctly carry data, but not in all of four runs.
        let calm = (0..4).find_map(|_| {
            let options = ["--no-calibration", "--set", &set];
            let measured = Workplace::new().lab_run("quiet", text, &options).expect(0);
            let run = measured.run(label).clone();
            assert!(run.completed, "{run:#?}");
            (path(&run, "lte").bytes_sent == 0).then_some(run)
        });
        let run = calm.expect("data on the backup path each time");
        assert!(run.multipath.negotiated && !run.multipath.used, "{:?}", run.multipath);
        assert!(run.multipath.reason.contains("backup"), "{:?}", run.multipath);
        let (eth, lte) = (path(&run, "eth"), path(&run, "lte"));
        assert!(eth.share > 0.999 && lte.bytes_delivered == 0, "{:#?}", run.paths);
        // Control frames are still sent on it.
        let control = (label == "mpquic").then_some(true);
        assert_eq!(lte.control_bytes.map(|bytes| bytes > 1000), control, "{lte:?}");
    }
}

#[test]
fn quic_and_mpquic_run_over_ipv6_and_on_hosts_without_mptcp() {
    let rest = "[run]\ntransports = [\"quic\", \"mpquic\", \"mpquic@wlan\"]\nduration = \"2s\"\nfamily = \"ipv6\"\n\
                [host.client.sysctl]\n\"net.mptcp.enabled\" = 0\n[host.server.sysctl]\n\"net.mptcp.enabled\" = 0\n";
    let measured = measure("six", rest, &["--no-calibration"]).expect(0);
    for label in ["quic", "mpquic", "mpquic@wlan"] {
        let run = measured.run(label);
        assert!(run.completed && run.multipath.used == (label != "quic"), "{run:#?}");
        for path in &run.paths {
            assert!(path.local.parse::<std::net::Ipv6Addr>().is_ok(), "{path:?}");
        }
    }
    assert_eq!(
        path_events(&measured, measured.run("mpquic@wlan"), "client", "path-established")[0].path.as_deref(),
        Some("wlan")
    );
}

#[test]
fn congestion_control_is_chosen() {
    let work = Workplace::new();
    let rest = "[run]\ntransports = [\"quic\", \"tcp\"]\nduration = \"500ms\"\ncongestion = \"reno\"\n\
                [run.quic]\ncongestion = \"bbr3\"\n";
    let measured = work.lab_run("logged", &format!("{TWO_PATHS}\n{rest}"), &["--no-calibration"]).expect(0);
    let in_force = |label: &str| measured.run(label).parameters.in_force["client.congestion"].clone();
    assert_eq!((in_force("quic"), in_force("tcp")), ("bbr3".into(), "reno".into()));
}
