//! The labels of a suite, each path alone and all together, and the data that its runs are expected to move.

use super::plan::SuitePlan;
use pathbench_lab::study::ScheduledRun;
use pathbench_record::network::{ClientPath, MOST_TEST_PATHS};
use pathbench_record::text::{plain, scaled};
use pathbench_record::transport::{Transport, TransportLabel};

/// The labels of a suite: transports over several paths, and the others on each of `paths` alone.
pub(super) fn labels_of<'a>(
    transports: impl IntoIterator<Item = &'a Transport>,
    paths: &[ClientPath],
) -> Vec<TransportLabel> {
    let label = |transport, path: Option<&ClientPath>| TransportLabel {
        transport,
        path: path.map(|path| path.name.clone()),
    };
    let mut labels = Vec::new();
    for &transport in transports {
        match paths {
            // Udp has a flow on each path at once.
            [_, _, ..] if !transport.is_multipath() && transport != Transport::Udp => {
                labels.extend(paths.iter().take(MOST_TEST_PATHS).map(|path| label(transport, Some(path))));
            }
            _ => labels.push(label(transport, None)),
        }
    }
    labels
}

/// Puts the path `own` first; a path that is gone has its name only, so that the connection fails.
pub(super) fn put_first(paths: &mut Vec<ClientPath>, own: &str) {
    if !paths.iter().any(|path| path.name == own) {
        paths.push(ClientPath { name: own.to_owned(), interface: own.to_owned(), ..ClientPath::default() });
    }
    paths.sort_by_key(|path| path.name != own);
}

/// The bytes of `runs`: those of bulk data, and those of throughput at two rates of a path, because no rate is known yet.
pub(super) fn expected_data<'a>(
    plan: &SuitePlan,
    paths: usize,
    runs: impl Iterator<Item = &'a ScheduledRun>,
) -> String {
    let (mut bulk_bytes, mut seconds_of_paths) = (0_u64, 0.0);
    for run in runs {
        let (time, bytes) = plan.patterns[run.pattern].volume();
        let filled = if run.label.transport.is_multipath() { paths.clamp(1, MOST_TEST_PATHS) } else { 1 };
        // Each path of udp has a flow of its own.
        let flows = if run.label.transport == Transport::Udp { paths.clamp(1, MOST_TEST_PATHS) } else { 1 };
        bulk_bytes = bulk_bytes.saturating_add(bytes.saturating_mul(flows as u64));
        seconds_of_paths += time.as_secs_f64() * filled as f64;
    }
    let size = |bytes: f64| plain(&scaled(bytes, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")]));
    let at_rate = |mbps: f64| size(bulk_bytes as f64 + seconds_of_paths * mbps * 1e6 / 8.0);
    match (bulk_bytes, seconds_of_paths > 0.0) {
        (0, false) => "expected data: some kilobytes a run".to_owned(),
        (_, false) => format!("expected data: {}", size(bulk_bytes as f64)),
        (_, true) => format!(
            "expected data: {} if each path has 10 Mbit/s, {} if it has 100 Mbit/s",
            at_rate(10.0),
            at_rate(100.0)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::TransportChoice;
    use crate::command::test::plan::SuitePattern;
    use pathbench_record::connection::Scheduler;
    use pathbench_record::pattern::{Amount, BulkParameters, PatternParameters, ThroughputParameters};
    use std::time::Duration;

    fn path(name: &str) -> ClientPath {
        ClientPath { name: name.to_owned(), interface: name.to_owned(), ..ClientPath::default() }
    }

    fn labels(paths: &[&str]) -> Vec<String> {
        let paths: Vec<ClientPath> = paths.iter().copied().map(path).collect();
        labels_of(&Transport::ALL, &paths).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_path_is_measured_alone_and_all_together() {
        let expected = ["tcp@wlan", "tcp@lte", "mptcp", "quic@wlan", "quic@lte", "mpquic"];
        assert_eq!(labels(&["wlan", "lte"]), expected);
        assert_eq!(labels(&["wlan"]), ["tcp", "mptcp", "quic", "mpquic"]);
        assert_eq!(labels(&[]), ["tcp", "mptcp", "quic", "mpquic"]);
        assert_eq!(labels(&["a", "b", "c", "d", "e"]).len(), 2 * MOST_TEST_PATHS + 2);
    }

    #[test]
    fn a_path_that_is_gone_stays_the_first_without_an_address() {
        let mut paths = vec![path("wlan"), path("lte")];
        put_first(&mut paths, "lte");
        assert_eq!(paths, [path("lte"), path("wlan")]);
        put_first(&mut paths, "usb");
        assert_eq!(paths, [path("usb"), path("lte"), path("wlan")]);
    }

    #[test]
    fn the_expected_data_is_that_of_every_path_in_use() {
        let seconds = |seconds| Amount::Duration(Duration::from_secs(seconds));
        let throughput = ThroughputParameters { amount: seconds(4), ..ThroughputParameters::default() };
        let bulk = BulkParameters { bytes: 5_000_000, ..BulkParameters::default() };
        let plan = SuitePlan {
            patterns: vec![
                SuitePattern { name: "throughput-upload", parameters: throughput.into() },
                SuitePattern { name: "bulk", parameters: PatternParameters::Bulk(bulk) },
            ],
            choice: TransportChoice::new(&[], &Transport::ALL),
            repeat: 1,
            warm_up: 0,
            scheduler: Scheduler::default(),
        };
        let run = |label: &str, pattern| ScheduledRun {
            variant: 0,
            label: label.parse().unwrap(),
            pattern,
            repetition: 1,
            number: 1,
            warm_up: false,
        };
        let of_runs = |runs: &[ScheduledRun]| expected_data(&plan, 2, runs.iter());
        // 4 s × 10 Mbit/s on one path, on two paths, and 5 MB.
        let all = [run("tcp@wlan", 0), run("mptcp", 0), run("mptcp", 1)];
        let text = "expected data: 20 MB if each path has 10 Mbit/s, 155 MB if it has 100 Mbit/s";
        assert_eq!(of_runs(&all), text);
        assert_eq!(of_runs(&all[2..]), "expected data: 5 MB");
    }
}
