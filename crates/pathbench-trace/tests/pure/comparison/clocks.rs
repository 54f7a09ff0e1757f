//! All flows of two captures share one pair of clocks: lost SYNs, drift, offsets of hours, asymmetry.

use crate::comparison::path::timestamps;
use crate::wire::{ACK, Capture, End, FIN, SERVER, SYN, Segment, document};
use pathbench_record::trace::{SubflowComparison, TraceDocument};
use proptest::prelude::*;

/// A packet, in true time, at each point: the client's, then the server's; `None` where it was lost.
struct Packet {
    at_ms: [Option<f64>; 2],
    segment: Segment,
    identification: u16,
}

/// How a flow tells copies of its SYN apart.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Marks {
    Stamps,
    Identification,
    Neither,
}

#[derive(Debug, Clone)]
struct Plan {
    begin_ms: f64,
    /// SYNs and SYN/ACKs that are lost before one arrives.
    lost: [u32; 2],
    marks: Marks,
    /// Time after the previous one, queue, lost.
    uploads: Vec<(f64, f64, bool)>,
    downloads: Vec<(f64, f64, bool)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let marks =
        prop_oneof![3 => Just(Marks::Stamps), 1 => Just(Marks::Identification), 1 => Just(Marks::Neither)];
    let data = || proptest::collection::vec((0.1..400.0, 0.0..25.0, proptest::bool::weighted(0.1)), 1..12);
    let lost = prop_oneof![2 => Just(0_u32), 1 => 1..4_u32];
    (0.0..20_000.0, [lost.clone(), lost], marks, data(), data()).prop_map(
        |(begin_ms, lost, marks, uploads, downloads)| Plan { begin_ms, lost, marks, uploads, downloads },
    )
}

const PAYLOAD: usize = 500;

/// The packets of a flow whose delays are at least `delays`; bytes lost in upload and download.
fn run(plan: &Plan, number: u16, delays: [f64; 2], packets: &mut Vec<Packet>) -> [u64; 2] {
    let client: End = ([192, 0, 2, 1], 40_000 + number);
    let initial = [1_000 * u32::from(number), 7_000_000 + u32::from(number)];
    let mut identification = 100 * number;
    let mut send =
        |side: usize, at_ms: f64, delay: Option<f64>, flags: u8, start: u32, other: u32, payload: usize| {
            let ends = if side == 0 { [client, SERVER] } else { [SERVER, client] };
            let (sequence, acknowledgment) = (initial[side] + start, initial[1 - side] + other);
            let mut segment =
                Segment::new(ends[0], ends[1], flags, sequence, acknowledgment).payload(payload);
            if plan.marks == Marks::Stamps {
                segment = segment.option(&timestamps(at_ms as u32));
            }
            identification += 1;
            let mut at = [Some(at_ms), delay.map(|delay| at_ms + delay)];
            if side == 1 {
                at.swap(0, 1);
            }
            let identification = if plan.marks == Marks::Neither { 0 } else { identification };
            packets.push(Packet { at_ms: at, segment, identification });
        };
    let mut at_ms = plan.begin_ms;
    for lost in 0..plan.lost[0] {
        send(0, at_ms, None, SYN, 0, 0, 0);
        at_ms += 1_000.0 * f64::from(1 << lost);
    }
    send(0, at_ms, Some(delays[0]), SYN, 0, 0, 0);
    at_ms += delays[0];
    for lost in 0..plan.lost[1] {
        send(1, at_ms, None, SYN | ACK, 0, 1, 0);
        at_ms += 1_000.0 * f64::from(1 << lost);
    }
    send(1, at_ms, Some(delays[1]), SYN | ACK, 0, 1, 0);
    at_ms += delays[1];
    send(0, at_ms, Some(delays[0]), ACK, 1, 1, 0);
    let mut lost_bytes = [0; 2];
    for (side, data) in [&plan.uploads, &plan.downloads].into_iter().enumerate() {
        let (mut now, mut start) = (at_ms + delays[0] + 1.0, 1);
        for &(gap_ms, queue_ms, lost) in data {
            now += gap_ms;
            send(side, now, (!lost).then_some(delays[side] + queue_ms), ACK, start, 1, PAYLOAD);
            if lost {
                lost_bytes[side] += PAYLOAD as u64;
                send(side, now + 300.0, Some(delays[side] + queue_ms), ACK, start, 1, PAYLOAD);
            }
            start += PAYLOAD as u32;
        }
        // All has arrived before the end of both captures.
        send(side, now + 3_000.0, Some(delays[side]), ACK | FIN, start, 1, 0);
    }
    lost_bytes
}

fn captures(packets: &[Packet], clock: impl Fn(f64) -> f64) -> [Vec<u8>; 2] {
    [0, 1].map(|point: usize| {
        let mut seen: Vec<(f64, &Packet)> =
            packets.iter().filter_map(|packet| Some((packet.at_ms[point]?, packet))).collect();
        seen.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut capture = Capture::new();
        for (at_ms, packet) in seen {
            capture.now_ms = 20_000_000.0 + if point == 0 { at_ms } else { clock(at_ms) };
            let mut bytes = packet.segment.packet();
            bytes[4..6].copy_from_slice(&packet.identification.to_be_bytes());
            capture.packet(&bytes);
        }
        capture.into_bytes()
    })
}

fn comparisons(document: &TraceDocument) -> Vec<(u16, &SubflowComparison)> {
    let subflows = document.connections.iter().flat_map(|connection| &connection.subflows);
    subflows
        .map(|subflow| (subflow.client.unwrap().port() - 40_000, subflow.comparison.as_ref().unwrap()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_offset_is_within_the_bounds_of_causality(
        plans in proptest::collection::vec(plan(), 1..6),
        delays in [0.05..60.0, 0.05..60.0],
        offset_ms in prop_oneof![-1_000.0..1_000.0, -18_000_000.0..18_000_000.0],
        drift in -100e-6..100e-6,
        client_first in any::<bool>(),
    ) {
        let mut packets = Vec::new();
        let lost: Vec<[u64; 2]> =
            plans.iter().zip(0..).map(|(plan, number)| run(plan, number, delays, &mut packets)).collect();
        let clock = |at_ms: f64| at_ms + offset_ms + drift * at_ms;
        let [client, server] = captures(&packets, clock);
        let files: [&[u8]; 2] = if client_first { [&client, &server] } else { [&server, &client] };
        let document = document(&files, 100);
        let found = comparisons(&document);
        prop_assert_eq!(found.len(), plans.len());
        for (number, found) in found {
            let plan = &plans[usize::from(number)];
            let times = || packets.iter().filter(|packet| {
                [packet.segment.from.1, packet.segment.to.1].contains(&(40_000 + number))
            }).filter_map(|packet| packet.at_ms[0].or(packet.at_ms[1]));
            let ends = [times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max)];
            let truths = ends.map(|at_ms| clock(at_ms) - at_ms);
            let Some((offset, uncertainty)) = found.clock_offset_ms.zip(found.clock_offset_uncertainty_ms) else {
                // No packet of one direction is known at both points if all are copies of a SYN that look alike, or lost.
                prop_assert!(plans.iter().all(|plan| plan.marks == Marks::Neither), "{plans:?}");
                continue;
            };
            let uncertainty = uncertainty + 0.002;
            // The stated offset is that in the middle of the flow.
            let (least, greatest) = (truths[0].min(truths[1]), truths[0].max(truths[1]));
            prop_assert!(
                least - uncertainty <= offset && offset <= greatest + uncertainty,
                "{} ± {}, {:?}", offset, uncertainty, truths
            );
            if plan.marks == Marks::Stamps {
                let lost = lost[usize::from(number)];
                prop_assert_eq!([found.upload.lost_bytes, found.download.lost_bytes], lost);
                let delay = found.upload.delay_ms.as_ref().unwrap();
                prop_assert!((delay.min - delays[0]).abs() <= uncertainty + 8.0, "{:?}", delay);
            }
        }
    }
}

/// Equal clocks, 50 ms in each direction; the first SYN was lost.
#[test]
fn a_lost_syn_is_no_offset_and_its_flow_has_no_loss() {
    for marks in [Marks::Stamps, Marks::Identification, Marks::Neither] {
        for lost in [[1, 0], [0, 1], [2, 2]] {
            let data = vec![(10.0, 0.0, false); 11];
            let plan = Plan { begin_ms: 0.0, lost, marks, uploads: data.clone(), downloads: data };
            for offset_ms in [0.0, -700.0, 2_500.0] {
                let mut packets = Vec::new();
                run(&plan, 3, [50.0, 50.0], &mut packets);
                let [client, server] = captures(&packets, |at_ms| at_ms + offset_ms);
                for files in [[&client[..], &server], [&server[..], &client]] {
                    let document = document(&files, 10);
                    let [(_, found)] = comparisons(&document)[..] else { panic!("{document:#?}") };
                    let offset = found.clock_offset_ms.unwrap() - offset_ms;
                    assert!(offset.abs() < 0.01, "{marks:?} {lost:?}: {offset}");
                    assert_eq!((found.upload.lost_bytes, found.download.lost_bytes), (0, 0));
                    let median = found.upload.delay_ms.as_ref().unwrap().median;
                    assert!((median - 50.0).abs() < 0.1, "{marks:?} {lost:?}: {median}");
                    assert_eq!(found.middlebox, [""; 0]);
                }
            }
        }
    }
}

/// Flows that carry data in one direction only, the shortest delays of each direction in another flow.
#[test]
fn each_flow_has_the_offset_of_all() {
    let one = |begin_ms: f64, up: Vec<(f64, f64, bool)>, down: Vec<(f64, f64, bool)>| Plan {
        begin_ms,
        lost: [0, 0],
        marks: Marks::Stamps,
        uploads: up,
        downloads: down,
    };
    let quick = vec![(5.0, 0.0, false); 3];
    let plans = [one(0.0, quick.clone(), quick.clone()), one(3_000.0, quick, vec![(5.0, 20.0, false)])];
    let mut packets = Vec::new();
    // The second flow takes a longer route.
    for (number, delays) in [[10.0, 10.0], [40.0, 60.0]].into_iter().enumerate() {
        run(&plans[number], number as u16, delays, &mut packets);
    }
    let [client, server] = captures(&packets, |at_ms| at_ms + 7_200_000.0);
    let document = document(&[&client, &server], 10);
    for (number, found) in comparisons(&document) {
        assert!((found.clock_offset_ms.unwrap() - 7_200_000.0).abs() < 0.01, "{number}: {found:#?}");
        assert!(found.clock_offset_uncertainty_ms.unwrap() < 12.0, "{number}: {found:#?}");
    }
    let delays = comparisons(&document)
        .iter()
        .map(|(_, found)| found.upload.delay_ms.as_ref().unwrap().min)
        .collect::<Vec<_>>();
    assert!((delays[0] - 10.0).abs() < 0.01 && (delays[1] - 40.0).abs() < 0.01, "{delays:?}");
}

#[test]
fn the_maximum_segment_sizes_of_both_ends_are_shown_with_two_files() {
    let plan = Plan {
        begin_ms: 0.0,
        lost: [0, 0],
        marks: Marks::Stamps,
        uploads: vec![(1.0, 0.0, false)],
        downloads: vec![(1.0, 0.0, false)],
    };
    let mut packets = Vec::new();
    run(&plan, 0, [5.0, 5.0], &mut packets);
    for packet in packets.iter_mut().filter(|packet| packet.segment.flags & SYN != 0) {
        let low = if packet.segment.from == SERVER { 100 } else { 180 };
        packet.segment = packet.segment.clone().option(&[2, 4, 5, low]);
    }
    let [client, server] = captures(&packets, |at_ms| at_ms);
    for files in
        [vec![&client[..], &server], vec![&server[..], &client], vec![&client[..]], vec![&server[..]]]
    {
        let document = document(&files, 10);
        let subflow = &document.connections[0].subflows[0];
        assert_eq!((subflow.client_mss, subflow.server_mss), (Some(1_460), Some(1_380)), "{}", files.len());
    }
}
