//! The figures of datagrams: the example of docs/metrics.md, tables, and properties.

use pathbench_analysis::metrics::{DatagramLogs, datagram_fates, datagrams};
use pathbench_record::datagram::{DatagramRecord, DatagramsParameters, LoggedDatagram};
use pathbench_record::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

fn at(ms: f64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000) + Duration::from_secs_f64(ms / 1e3)
}

fn logged(sequence: u32, ms: f64, path: u32) -> LoggedDatagram {
    LoggedDatagram { sequence, at: at(ms), path }
}

fn figures(
    parameters: &DatagramsParameters,
    sent: &[LoggedDatagram],
    received: &[LoggedDatagram],
    is_flow_per_path: bool,
) -> DatagramRecord {
    let logs = DatagramLogs { parameters, sent, received, has_delays: true, is_flow_per_path };
    datagrams(&logs, &datagram_fates(&logs), |path| format!("p{path}"))
}

fn every_20_ms(count: u32, path: u32) -> Vec<LoggedDatagram> {
    (0..count).map(|sequence| logged(sequence, 20.0 * f64::from(sequence), path)).collect()
}

#[test]
fn the_example_of_the_definitions() {
    let sent = every_20_ms(6, 0);
    let received: Vec<_> = [(0, 30.0), (1, 50.0), (3, 90.0), (2, 91.0), (2, 92.0), (5, 130.0)]
        .map(|(sequence, ms)| logged(sequence, ms, 0))
        .into();
    let all = figures(&DatagramsParameters::voice(), &sent, &received, false).all;
    assert_eq!((all.sent, all.lost, all.reordered, all.duplicates), (6, 1, 1, 1));
    assert_eq!((all.loss, all.reordered_share), (Some(1.0 / 6.0), Some(0.2)));
    let delay = all.delay.unwrap();
    assert_eq!((delay.packets, delay.min_ms, delay.max_ms), (5, 30.0, 51.0));
    assert_eq!(all.longest_gap_ms, Some(40.0));
    assert_eq!(all.frames, None);
}

#[test]
fn a_datagram_is_late_from_the_deadline_on() {
    let parameters =
        DatagramsParameters { deadline: Duration::from_millis(50), ..DatagramsParameters::voice() };
    let sent = every_20_ms(4, 0);
    let delays = [49.0, 50.0, 50.001, 51.0];
    let received: Vec<_> = (0..4)
        .zip(delays)
        .map(|(sequence, delay)| logged(sequence, 20.0 * f64::from(sequence) + delay, 0))
        .collect();
    let all = figures(&parameters, &sent, &received, false).all;
    assert_eq!((all.late, all.late_share), (Some(2), Some(0.5)));
}

/// RFC 3550, section 6.4.1: J += (|D| − J) / 16.
#[test]
fn jitter_is_the_running_value_of_the_rfc() {
    let sent = every_20_ms(3, 0);
    let received = [logged(0, 10.0, 0), logged(1, 46.0, 0), logged(2, 66.0, 0)];
    let all = figures(&DatagramsParameters::voice(), &sent, &received, false).all;
    let (first, second) = (1.0, 1.0 - 1.0 / 16.0);
    assert!((all.jitter_ms.unwrap() - f64::midpoint(first, second)).abs() < 1e-9, "{:?}", all.jitter_ms);
    assert!((all.max_jitter_ms.unwrap() - first).abs() < 1e-9);
}

#[test]
fn of_copies_the_first_arrival_counts_and_their_cost_is_reported() {
    let sent: Vec<_> = every_20_ms(4, 0).into_iter().chain(every_20_ms(4, 1)).collect();
    // 0 on both paths, 1 on the second only, 2 on the first only, 3 on none.
    let received = [logged(0, 30.0, 1), logged(0, 40.0, 0), logged(1, 50.0, 1), logged(2, 80.0, 0)];
    let record = figures(&DatagramsParameters::voice(), &sent, &received, false);
    assert_eq!((record.all.sent, record.all.lost, record.all.duplicates), (4, 1, 0));
    assert_eq!((record.sent_bytes, record.delivered_bytes, record.redundant_bytes), (1_280, 480, 640));
    assert_eq!((record.paths["p0"].sent, record.paths["p0"].lost), (4, 2));
    assert_eq!((record.paths["p1"].sent, record.paths["p1"].lost), (4, 2));
    assert!((record.all.delay.unwrap().min_ms - 30.0).abs() < 1e-9);
    // As flows of their own, nothing is a copy.
    let apart = figures(&DatagramsParameters::voice(), &sent, &received, true);
    assert_eq!((apart.all.sent, apart.all.lost, apart.redundant_bytes), (8, 4, 0));
    assert_eq!(apart.delivered_bytes, 640);
}

#[test]
fn a_frame_needs_all_its_packets_in_time() {
    let parameters = DatagramsParameters {
        frame_bytes: 300,
        packet_bytes: 100,
        deadline: Duration::from_millis(20),
        ..DatagramsParameters::voice()
    };
    let sent: Vec<_> = (0..9).map(|sequence| logged(sequence, 20.0 * f64::from(sequence / 3), 0)).collect();
    // The second frame lacks a packet, the last packet of the third is late.
    let received: Vec<_> = (0..9)
        .filter(|sequence| *sequence != 4)
        .map(|sequence| {
            let delay = if sequence == 8 { 21.0 } else { 10.0 };
            logged(sequence, 20.0 * f64::from(sequence / 3) + delay, 0)
        })
        .collect();
    let frames = figures(&parameters, &sent, &received, false).all.frames.unwrap();
    assert_eq!((frames.sent, frames.incomplete, frames.late), (3, 1, Some(1)));
}

#[test]
fn an_outage_at_the_end_is_a_gap() {
    let sent = every_20_ms(10, 0);
    let all = figures(&DatagramsParameters::voice(), &sent, &[logged(0, 10.0, 0)], false).all;
    assert_eq!(all.longest_gap_ms, Some(170.0));
    let none = figures(&DatagramsParameters::voice(), &sent, &[], false).all;
    assert_eq!((none.loss, none.longest_gap_ms, none.jitter_ms), (Some(1.0), None, None));
}

proptest! {
    /// Any logs, as a peer may send them: no panic, and shares between 0 and 1.
    #[test]
    fn any_logs_have_consistent_figures(
        sent in prop::collection::vec((0_u32..40, 0_u64..5_000_000_000, 0_u32..3), 0..80),
        received in prop::collection::vec((0_u32..60, 0_u64..5_000_000_000, 0_u32..4), 0..160),
        is_flow_per_path: bool,
        frame_bytes in 40_u32..400,
    ) {
        let parameters = DatagramsParameters { frame_bytes, packet_bytes: 100, ..DatagramsParameters::voice() };
        let of = |(sequence, nanos, path): (u32, u64, u32)| LoggedDatagram { sequence, at: Timestamp::from_nanos(nanos), path };
        let sent: Vec<_> = sent.into_iter().map(of).collect();
        let received: Vec<_> = received.into_iter().map(of).collect();
        let record = figures(&parameters, &sent, &received, is_flow_per_path);
        for one in record.paths.values().chain([&record.all]) {
            prop_assert!(one.lost <= one.sent);
            let shares = [one.loss, one.reordered_share, one.late_share];
            prop_assert!(shares.into_iter().flatten().all(|share| (0.0..=1.0).contains(&share)));
            prop_assert!(one.longest_gap_ms.is_none_or(|gap| gap >= 0.0));
        }
        prop_assert!(record.delivered_bytes <= record.sent_bytes);
        prop_assert!(record.redundant_bytes <= record.sent_bytes);
    }
}
