//! `lab run` with every pattern on the real kernel; every message is counted.

use crate::support::measured::{Measured, goodput, measure_in_parallel};
use crate::support::{TWO_PATHS, Workplace};
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use pathbench_record::end::MessageLine;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The suite over all four transports; throughput and interactive for a second each.
static SUITE: LazyLock<Measured> = LazyLock::new(|| {
    let rest = r#"
        [run]
        transports = ["tcp", "mptcp", "quic", "mpquic"]
        pattern = "suite"
        duration = "1s"
        [run.ping]
        count = 8
        interval = "20ms"
        [run.bulk]
        bytes = "1MB"
        [expect]
        "mpquic.interactive.delay_ms.unacknowledged" = 0
        "tcp.bulk.completed" = true
        "quic.ping.sent" = 8
    "#;
    Workplace::new().lab_run("suite", &format!("{TWO_PATHS}\n{rest}"), &["--no-calibration"])
});

const LABELS: [&str; 4] = ["tcp", "mptcp", "quic", "mpquic"];

fn messages<'a>(measured: &'a Measured, run: &RunRecord, direction: Direction) -> Vec<&'a MessageLine> {
    measured.messages.iter().filter(|line| line.run == run.id && line.direction == direction).collect()
}

#[test]
fn every_pattern_over_every_transport() {
    the_suite_runs_every_pattern_over_every_transport();
    a_ping_counts_its_requests_without_the_warm_up();
    a_bulk_download_takes_at_least_what_its_links_need();
    both_throughput_patterns_of_the_suite_have_their_direction();
    interactive_has_a_delay_for_every_message_of_both_directions();
}

fn the_suite_runs_every_pattern_over_every_transport() {
    assert_eq!(SUITE.finished.code, Some(0), "{:#?}", SUITE.finished);
    let runs = &SUITE.document.runs;
    assert_eq!(runs.len(), 20);
    assert!(runs.iter().all(|run| run.valid && run.completed), "{runs:#?}");
    let kinds: BTreeSet<_> = runs.iter().map(|run| (run.label.as_str(), run.pattern.as_str())).collect();
    assert_eq!(kinds.len(), 20);
    assert_eq!(SUITE.document.summary.groups.len(), 20);
    // The order is random, not that of the file.
    let labels: Vec<_> = runs.iter().map(|run| run.label.as_str()).collect();
    assert!(!labels.is_sorted_by_key(|label| LABELS.iter().position(|known| known == label)), "{labels:?}");
    assert!(runs.iter().all(|run| run.id.contains(&format!("-{}-{}-r1", run.label, run.pattern))));
}

fn a_ping_counts_its_requests_without_the_warm_up() {
    for label in LABELS {
        let run = SUITE.run_of(label, "ping");
        let ping = run.ping.as_ref().unwrap();
        assert_eq!((ping.sent, ping.lost, ping.rtts_ms.len()), (8, 0, 8), "{label}");
        let (least, middle, most) = (ping.min_ms.unwrap(), ping.median_ms.unwrap(), ping.max_ms.unwrap());
        assert!(0.0 < least && least <= middle && middle <= most && most < 3_000.0, "{ping:?}");
        assert!(run.goodput_mbps.is_none() && run.delay_ms.is_none() && run.fct_ms.is_none());
        assert_eq!(messages(&SUITE, run, Direction::Upload).len(), 8, "{label}");
    }
}

fn a_bulk_download_takes_at_least_what_its_links_need() {
    for label in LABELS {
        let run = SUITE.run_of(label, "bulk");
        assert_eq!(run.delivered_bytes, 1_000_000, "{label}");
        let paths = if run.transport.is_multipath() { 2.0 } else { 1.0 };
        let least_ms = 8_000_000.0 / (paths * 20e6) * 1e3 * 0.9;
        let fct_ms = run.fct_ms.unwrap();
        assert!(fct_ms > least_ms, "{label}: {fct_ms} ms");
        assert!(fct_ms >= run.handshake_ms.unwrap(), "{label}");
        assert_eq!(run.directions.len(), 1);
        assert_eq!(run.directions[0].direction, Direction::Download);
    }
}

fn both_throughput_patterns_of_the_suite_have_their_direction() {
    for label in LABELS {
        for (pattern, direction) in
            [("throughput-upload", Direction::Upload), ("throughput-download", Direction::Download)]
        {
            let run = SUITE.run_of(label, pattern);
            assert!(goodput(run) > 5.0, "{}: {}", run.id, goodput(run));
            assert_eq!(run.directions.iter().map(|record| record.direction).collect::<Vec<_>>(), [direction]);
            assert_eq!(SUITE.delivered(run, direction), run.delivered_bytes, "{}", run.id);
        }
    }
}

fn interactive_has_a_delay_for_every_message_of_both_directions() {
    for label in LABELS {
        let run = SUITE.run_of(label, "interactive");
        let all = run.delay_ms.as_ref().unwrap();
        // One message per 100 ms for a second, in each direction.
        assert_eq!((all.messages, all.unacknowledged), (20, 0), "{label}: {all:?}");
        assert!(0.0 < all.p50 && all.p50 <= all.p95 && all.p95 <= all.p99 && all.p99 <= all.max, "{all:?}");
        for record in &run.directions {
            let delay = record.delay_ms.as_ref().unwrap();
            assert_eq!((delay.messages, delay.unacknowledged), (10, 0), "{label}: {delay:?}");
            let lines = messages(&SUITE, run, record.direction);
            let sequences: Vec<u32> = lines.iter().map(|line| line.sequence).collect();
            assert_eq!(sequences, (0..10).collect::<Vec<_>>());
            for (line, next) in lines.iter().zip(&lines[1..]) {
                assert!((next.due_ms - line.due_ms - 100.0).abs() < 0.01, "{line:?} {next:?}");
            }
            for line in lines {
                let acknowledged = line.acknowledged_ms.unwrap();
                assert!(line.due_ms <= line.sent_ms.unwrap() && line.due_ms < acknowledged, "{line:?}");
                assert!(
                    (acknowledged - line.due_ms - line.delay_ms).abs() < 0.01 && !line.unacknowledged,
                    "{line:?}"
                );
                assert!(line.answered_ms.is_some(), "{line:?}");
            }
        }
    }
}

/// The path `wlan` drops all packets silently from 1 s on; messages are sent for 2 s.
#[test]
fn a_message_that_never_arrives_is_marked_and_counted_and_sending_times_do_not_slip() {
    let rest = r#"
        [[event]]
        at = "1s"
        path = "wlan"
        action = "blackhole"
        [run]
        pattern = "interactive"
        duration = "2s"
        patience = "20s"
        [run.interactive]
        linger = "2s"
    "#;
    let labels = ["tcp@wlan", "quic@wlan", "mpquic@wlan"];
    let results = measure_in_parallel(&labels, |&label| {
        let options = ["--no-calibration", "--transports", label];
        Workplace::new().lab_run("outage", &format!("{TWO_PATHS}\n{rest}"), &options)
    });
    let [tcp, quic, mpquic] = &results;
    for (label, measured) in [("tcp@wlan", tcp), ("quic@wlan", quic)] {
        let run = measured.run(label);
        let delay = run.delay_ms.as_ref().unwrap();
        assert_eq!(delay.messages, 40, "{label}: none is dropped: {delay:?}");
        // The messages of the second half; a few of the first half may be queued, and some may have been queued late.
        assert!((16..=26).contains(&delay.unacknowledged), "{label}: {delay:?}");
        // The first lost message waits longest: about one second of sending plus the linger time.
        assert!(delay.max > 2_000.0, "{label}: {delay:?}");
        for direction in Direction::BOTH {
            let lines = messages(measured, run, direction);
            assert_eq!(lines.len(), 20, "{label}");
            for (line, next) in lines.iter().zip(&lines[1..]) {
                assert!(
                    (next.due_ms - line.due_ms - 100.0).abs() < 0.01,
                    "{label}: the grid slipped: {next:?}"
                );
            }
            assert!(lines.iter().all(|line| line.unacknowledged == line.acknowledged_ms.is_none()));
            assert!(
                lines.iter().filter(|line| line.unacknowledged).all(|line| line.due_ms > 500.0),
                "{label}"
            );
        }
    }
    let carried_on = mpquic.run("mpquic@wlan");
    let delay = carried_on.delay_ms.as_ref().unwrap();
    assert!(carried_on.completed && delay.unacknowledged == 0 && delay.messages == 40, "{carried_on:#?}");
    assert!(delay.max < 3_000.0, "{delay:?}");
}

#[test]
fn a_bulk_download_cut_short_by_its_path_is_reported_as_such() {
    let rest = r#"
        [[event]]
        at = "500ms"
        path = "eth"
        action = "down"
        [run]
        transports = ["tcp", "quic"]
        pattern = ["bulk"]
        patience = "1500ms"
        [run.bulk]
        bytes = "5MB"
    "#;
    let measured = Workplace::new().lab_run("cut", &format!("{TWO_PATHS}\n{rest}"), &["--no-calibration"]);
    for label in ["tcp", "quic"] {
        let run = measured.run(label);
        assert!(!run.completed && run.error.is_some() && run.fct_ms.is_none(), "{run:#?}");
        assert!((1..5_000_000).contains(&run.delivered_bytes), "{label}: {}", run.delivered_bytes);
    }
}

/// The bytes are exact without copies, over both transports that can, and both ends are where the scenario puts them.
#[test]
fn throughput_without_copies_delivers_every_byte() {
    let measured = |name: &str, transports: &str, options: &str| {
        let rest = format!(
            "[run]\ntransports = [{transports}]\npattern = \"throughput\"\n[run.throughput]\ndirection = \"both\"\n\
             bytes = \"3MB\"\n{options}\n"
        );
        Workplace::new().lab_run(name, &format!("{TWO_PATHS}\n{rest}"), &["--no-calibration"])
    };
    let both = "zero_copy = true\nskip_receive_copy = true\nclient_processor = 0\nserver_processor = 0";
    for (name, transports, options, runs) in [
        ("zero-copy", "\"tcp\"", both, 1),
        ("discarded", "\"tcp\", \"mptcp\"", "skip_receive_copy = true", 2),
    ] {
        let measured = measured(name, transports, options);
        assert_eq!(measured.finished.code, Some(0), "{:#?}", measured.finished);
        assert_eq!(measured.document.runs.len(), runs);
        for run in &measured.document.runs {
            assert!(run.completed, "{run:#?}");
            assert_eq!(run.delivered_bytes, 6_000_000, "{name} {}", run.label);
        }
    }
}
