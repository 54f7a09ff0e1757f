//! The pattern `datagrams` over emulated links: its figures against the fates of packets at the links.
//!
//! The bounds have tolerance for a busy machine: packets that a late sender skips are not sent, and none is lost.

use crate::support::Workplace;
use crate::support::measured::Measured;
use pathbench_record::datagram::{DatagramFigures, DatagramRecord};
use pathbench_record::direction::Direction;
use pathbench_record::document::{EmulatedDirection, RunRecord};

/// The lateness of links does not matter here, beside that of delays.
const TOLERANCE: &str = "run.lateness_tolerance=1s";

fn measure(name: &str, scenario: &str, options: &[&str]) -> Measured {
    Workplace::new().lab_run(name, scenario, options)
}

fn of(run: &RunRecord, direction: Direction) -> &DatagramRecord {
    run.datagrams.get(&direction).unwrap_or_else(|| panic!("{run:#?}"))
}

fn on_path<'a>(record: &'a DatagramRecord, path: &str) -> &'a DatagramFigures {
    record.paths.get(path).unwrap_or_else(|| panic!("{record:#?}"))
}

fn forward<'a>(run: &'a RunRecord, link: &str) -> &'a EmulatedDirection {
    let link = run.links.iter().find(|one| one.name == link).unwrap();
    &link.emulation.as_ref().unwrap().forward
}

/// 500 packets a second for 8 s from the client, over a path with one of each impairment. The control connection uses the
/// first path, so that the second one carries the datagrams and one request a second.
#[test]
fn losses_duplicates_and_delays_are_those_of_the_link() {
    let scenario = r#"
        description = "datagrams and the fates of packets"
        [[path]]
        name = "eth"
        rate = "50mbit"
        delay = "10ms"
        [[path]]
        name = "lte"
        rate = "50mbit"
        delay = "40ms"
        loss = "1%"
        duplicate = "2%"
        [run]
        transports = ["udp"]
        pattern = "datagrams"
        duration = "8s"
        [run.datagrams]
        direction = "upload"
        per_second = 500
        size = 200
        deadline = "39ms"
    "#;
    let measured = measure("fates", scenario, &["--no-calibration", "--set", TOLERANCE]);
    assert_eq!(measured.finished.code, Some(0), "{:#?}", measured.finished);
    let run = measured.run("udp");
    let record = of(run, Direction::Upload);
    let (eth, lte) = (on_path(record, "eth"), on_path(record, "lte"));
    assert!(lte.sent > 2_000 && lte.sent + eth.sent + record.unsent == 8_000, "{record:#?}");
    assert_eq!((eth.lost, eth.duplicates), (0, 0), "{eth:#?}");
    // Binomial: 99.9 % of all flows are within 3.3 standard deviations.
    let (mean, deviation) = (lte.sent as f64 * 0.01, (lte.sent as f64 * 0.01 * 0.99).sqrt());
    assert!((lte.lost as f64 - mean).abs() < 3.3 * deviation + 1.0, "{lte:#?}");
    let link = forward(run, "lte");
    let dropped: u64 = link.dropped_packets.values().sum();
    // Beside the datagrams the link carries one request a second.
    assert!(lte.lost <= dropped && dropped <= lte.lost + 4, "{lte:#?} {link:#?}");
    let duplicated = link.duplicated_packets;
    assert!(lte.duplicates <= duplicated && duplicated <= lte.duplicates + 4, "{lte:#?} {link:#?}");
    for (figures, delay_ms) in [(eth, 10.0), (lte, 40.0)] {
        let delay = figures.delay.unwrap();
        assert!(delay.min_ms >= delay_ms && delay.min_ms < delay_ms + 1.0, "{delay:?}");
    }
    assert_eq!(lte.late_share, Some(1.0), "a deadline of 1 ms less than the delay");
    assert!(eth.late_share < Some(0.5), "{eth:#?}");
    let lines = &measured.datagrams;
    assert_eq!(lines.len() as u64, eth.sent + lte.sent);
    assert_eq!(lines.iter().filter(|line| line.received_ms.is_none()).count() as u64, lte.lost);
}

#[test]
fn a_redundant_scheduler_loses_the_product_of_the_losses_and_reports_its_cost() {
    let included = include_str!("../../../../../scenarios/datagrams.toml");
    let scenario = included.replace("name = \"datagrams\"\n", "");
    let options = ["--no-calibration", "--set", TOLERANCE, "--duration", "12s", "--transports", "mpquic"];
    let measured = measure("datagrams", &scenario, &options);
    let redundant = |run: &&RunRecord| run.variant.values().any(|value| value == "redundant");
    let runs = &measured.document.runs;
    for direction in Direction::BOTH {
        let record = of(runs.iter().find(redundant).unwrap(), direction);
        let all = &record.all;
        assert!(all.sent > 400, "{record:#?}");
        // 1 %, with a probability of less than 1 in 10,000 above this bound.
        assert!(
            (all.lost as f64) < all.sent as f64 * 0.01 + 4.0 * (all.sent as f64 * 0.01).sqrt() + 1.0,
            "{record:#?}"
        );
        let copies = record.sent_bytes as f64 / (all.sent as f64 * 160.0);
        assert!(copies > 1.8 && copies <= 2.0, "{copies} copies of each datagram");
        assert_eq!(record.redundant_bytes, record.sent_bytes - 160 * all.sent);
        let single = of(runs.iter().find(|run| !redundant(run)).unwrap(), direction);
        assert_eq!(single.redundant_bytes, 0);
        assert!(single.all.loss > Some(0.05), "{single:#?}");
    }
}

#[test]
fn tcp_is_refused_before_anything_starts() {
    let scenario = "description = \"\"\n[[path]]\nname = \"eth\"\n\
                    [run]\ntransports = [\"udp\", \"tcp\"]\npattern = \"datagrams\"\n";
    let workplace = Workplace::new();
    workplace.scenario("refused", scenario);
    let finished = workplace.run(&["lab", "check", "refused.toml"]);
    assert_eq!(finished.code, Some(2), "{finished:#?}");
    assert!(finished.stderr.contains("needs a transport without retransmission"), "{finished:#?}");
}
