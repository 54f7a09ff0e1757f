//! The pattern `datagrams` over emulated links: its figures against the fates of packets at the links.
//!
//! The bounds have tolerance for a busy machine: packets that a late sender skips are not sent, and none is lost.

use crate::support::Workplace;
use crate::support::measured::{Measured, read_capture};
use pathbench_record::datagram::{DatagramFigures, DatagramLine, DatagramRecord};
use pathbench_record::direction::{Direction, LinkDirection};
use pathbench_record::document::{EmulatedDirection, RunRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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

/// Deadlines for which the late datagrams are counted again, beside the one of the scenario.
const DEADLINES_MS: [f64; 6] = [36.0, 38.0, 39.0, 41.0, 42.0, 44.0];
/// Tolerance of a deadline.
const DEADLINE_TOLERANCE_MS: f64 = 1.0;
/// Error of a delay, beside its spread: the constant in the clock of a capture.
const NEAR_MS: f64 = 0.2;

/// A datagram of the client at a link, on the sender's clock.
struct FlowPacket {
    sequence: u32,
    /// When the application passed it on: the value in the datagram's header.
    sent_ms: f64,
    /// When it entered the link, late by a constant which is less than 0.1 ms on most machines.
    entered_ms: f64,
    left_ms: Option<f64>,
    is_late_at_the_link: bool,
    copies: u64,
}

impl FlowPacket {
    fn delay_ms(&self) -> Option<f64> {
        Some(self.left_ms? - self.sent_ms)
    }
}

/// The datagrams of the client in the capture of a link, in the order in which they entered it.
fn flow_packets(file: &Path) -> Vec<FlowPacket> {
    const UDP_PAYLOAD: usize = 28;
    const FLOW: u8 = 8;
    let packets = read_capture(file).into_iter().filter_map(|packet| {
        let header = packet.ip.get(UDP_PAYLOAD..UDP_PAYLOAD + 40)?;
        let is_flow = header.starts_with(b"\x0bpbprobe") && header[8] == FLOW;
        if packet.direction != LinkDirection::Forward || !is_flow {
            return None;
        }
        let value = u64::from_be_bytes(header[32..].try_into().unwrap());
        let after =
            packet.fate.strip_prefix("delivered after ").map(|fate| fate.split_once(" ms (due ").unwrap());
        let (after_ms, due) = after.unzip();
        let after_ms: Option<f64> = after_ms.map(|ms| ms.parse().unwrap());
        let due_ms: Option<f64> = due.map(|due| due.split_once(')').unwrap().0.parse().unwrap());
        let entered_ms = packet.at_ns as f64 / 1e6;
        Some(FlowPacket {
            sequence: u32::from_be_bytes(header[12..16].try_into().unwrap()),
            sent_ms: value as f64 / 1e6,
            entered_ms,
            left_ms: after_ms.map(|ms| entered_ms + ms),
            is_late_at_the_link: after_ms > due_ms.map(|due| due + DEADLINE_TOLERANCE_MS),
            copies: 1 + u64::from(packet.fate.ends_with("twice")),
        })
    });
    let mut packets: Vec<FlowPacket> = packets.collect();
    // The capture has dates, the datagrams times of the monotonic clock.
    let offset_ms = packets.iter().map(|packet| packet.entered_ms - packet.sent_ms).fold(f64::MAX, f64::min);
    for packet in &mut packets {
        packet.entered_ms -= offset_ms;
        packet.left_ms = packet.left_ms.map(|left| left - offset_ms);
    }
    packets
}

/// RFC 4737: arrivals after one with a larger number. RFC 3550: the mean of the interarrival jitter.
fn reordering_and_jitter(packets: &[FlowPacket]) -> (u64, f64) {
    let left = |packet: &FlowPacket| Some((packet.left_ms?, packet.sent_ms, packet.sequence));
    let mut arrivals: Vec<(f64, f64, u32)> = packets.iter().filter_map(left).collect();
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut largest = 0;
    let mut reordered = 0;
    for (_, _, sequence) in &arrivals {
        reordered += u64::from(*sequence < largest);
        largest = largest.max(*sequence);
    }
    let mut jitter = 0.0;
    let running = arrivals.windows(2).map(|pair| {
        let difference = (pair[1].0 - pair[0].0) - (pair[1].1 - pair[0].1);
        jitter += (difference.abs() - jitter) / 16.0;
        jitter
    });
    let sum: f64 = running.sum();
    (reordered, sum / (arrivals.len() - 1) as f64)
}

fn percentile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

/// Each datagram of a path against its fate at the link.
fn assert_fates(lines: &[DatagramLine], figures: &DatagramFigures, packets: &[FlowPacket], deadline_ms: f64) {
    let mut received: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    // The zero of the run's clock.
    let origin_ms = {
        let first = &packets[0];
        let line = lines.iter().find(|line| line.sequence == first.sequence).unwrap();
        first.sent_ms - line.sent_ms.unwrap()
    };
    for line in lines {
        if let Some(received_ms) = line.received_ms {
            received.insert(line.sequence, (line.sent_ms.unwrap() + origin_ms, received_ms + origin_ms));
        }
    }
    let delivered = packets.iter().filter(|packet| packet.left_ms.is_some());
    let delivered: Vec<u32> =
        delivered.map(|packet| packet.sequence).collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(received.keys().copied().collect::<Vec<_>>(), delivered, "arrived, and delivered by the link");
    let copies = |packet: &FlowPacket| if packet.left_ms.is_some() { packet.copies - 1 } else { 0 };
    assert_eq!(figures.duplicates, packets.iter().map(copies).sum::<u64>());
    // A datagram arrives when it leaves the link: the stamps of the kernel do not contain the wake-up of the receiver.
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for packet in packets {
        let (Some(delay_ms), Some((sent_ms, received_ms))) =
            (packet.delay_ms(), received.get(&packet.sequence))
        else {
            continue;
        };
        assert!((packet.sent_ms - sent_ms).abs() < 0.01, "sent at {sent_ms} and {}", packet.sent_ms);
        pairs.push((received_ms - sent_ms, delay_ms));
    }
    let differences: Vec<f64> = pairs.iter().map(|(measured, at_link)| measured - at_link).collect();
    let (median, p95) = (percentile(differences.clone(), 0.5), percentile(differences, 0.95));
    assert!(median.abs() < 0.5 && p95.abs() < DEADLINE_TOLERANCE_MS, "{median} and {p95} ms");
    for deadline_ms in DEADLINES_MS.into_iter().chain([deadline_ms]) {
        let late = pairs.iter().filter(|(measured, _)| *measured > deadline_ms).count();
        let late_at_link = pairs.iter().filter(|(_, at_link)| *at_link > deadline_ms).count();
        // Those that may be on either side of the deadline, and one in a hundred for a stamp that the machine took later.
        let near = |(_, at_link): &&(f64, f64)| (at_link - deadline_ms).abs() <= p95.abs().max(NEAR_MS);
        let spare = pairs.iter().filter(near).count() + pairs.len() / 100;
        assert!(
            late.abs_diff(late_at_link) <= spare,
            "{late} and {late_at_link} later than {deadline_ms} ms"
        );
    }
    let late = pairs.iter().filter(|(measured, _)| *measured > deadline_ms).count();
    assert_eq!(figures.late, Some(late as u64));
    let (reordered, jitter_ms) = reordering_and_jitter(packets);
    assert!(figures.reordered.abs_diff(reordered) <= 2 + reordered / 100, "{reordered}: {figures:#?}");
    let measured = figures.jitter_ms.unwrap();
    assert!((measured - jitter_ms).abs() < 0.1 + jitter_ms * 0.1, "{measured} and {jitter_ms} ms");
}

/// 500 packets a second for 8 s from the client on each path: one without an impairment, one of constant delay, and one
/// with all impairments.
#[test]
fn each_datagram_has_the_fate_that_its_link_recorded() {
    let scenario = r#"
        description = "datagrams and the fates of packets"
        [[path]]
        name = "eth"
        rate = "50mbit"
        delay = "10ms"
        [[path]]
        name = "dsl"
        rate = "50mbit"
        delay = "40ms"
        [[path]]
        name = "lte"
        rate = "50mbit"
        delay = "40ms"
        jitter = "5ms"
        reorder_share = "1%"
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
        deadline = "41ms"
    "#;
    let workplace = Workplace::new();
    let options = ["--no-calibration", "--capture", "--set", TOLERANCE];
    let measured = workplace.lab_run("fates", scenario, &options).expect(0);
    let run = measured.run("udp");
    let record = of(run, Direction::Upload);
    let [eth, dsl, lte] = ["eth", "dsl", "lte"].map(|path| on_path(record, path));
    assert!(lte.sent > 2_000 && lte.sent + dsl.sent + eth.sent + record.unsent == 12_000, "{record:#?}");
    assert_eq!((eth.lost, eth.duplicates, eth.reordered), (0, 0, 0), "{eth:#?}");
    // Binomial: 99.9 % of all flows are within 3.3 standard deviations.
    let (mean, deviation) = (lte.sent as f64 * 0.01, (lte.sent as f64 * 0.01 * 0.99).sqrt());
    assert!((lte.lost as f64 - mean).abs() < 3.3 * deviation + 1.0, "{lte:#?}");
    let link = forward(run, "lte");
    let dropped: u64 = link.dropped_packets.values().sum();
    // Beside the datagrams the link carries one request a second.
    assert!(lte.lost <= dropped && dropped <= lte.lost + 4, "{lte:#?} {link:#?}");
    for (name, figures, least_ms) in [("eth", eth, 10.0), ("dsl", dsl, 40.0), ("lte", lte, 0.0)] {
        let lines: Vec<DatagramLine> =
            measured.datagrams.iter().filter(|line| line.path == name).cloned().collect();
        assert_eq!(lines.len() as u64, figures.sent);
        let file = workplace.path().join(format!("result-fates/captures/{}-{name}.pcapng", run.id));
        println!("{name}");
        let packets = flow_packets(&file);
        assert_fates(&lines, figures, &packets, 41.0);
        let delay = figures.delay.unwrap();
        assert!(delay.min_ms >= least_ms && delay.min_ms < least_ms + 2.0, "{delay:?}");
        // Of 40 ms, none is later than 41 ms but those that were held up on their way into the link, or left it late.
        let is_held_up = |packet: &&FlowPacket| {
            packet.is_late_at_the_link || packet.entered_ms - packet.sent_ms > DEADLINE_TOLERANCE_MS / 2.0
        };
        let held_up = packets.iter().filter(is_held_up).count() as u64;
        println!("held up {held_up}, later than 41 ms {:?}", figures.late);
        if name != "lte" {
            assert!(figures.late.unwrap() <= held_up + figures.sent / 100, "{held_up} held up: {figures:#?}");
        }
    }
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
