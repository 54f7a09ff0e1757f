//! What middleboxes change between the points.

use crate::comparison::path::{Data, Flow, only, timestamps};
use crate::wire::{CLIENT, SYN, capable, document, dss};
use pathbench_record::trace::TraceDocument;

const ALL: Data =
    Data { side: 0, at_ms: 50.0, start: 1, segments: 3, delay_ms: 20.0, lost: 0, stamp: Some(9), gro: true };

fn transfer() -> Flow {
    let mut flow = Flow::default();
    flow.handshake([20.0, 20.0], true);
    for number in 0..5 {
        let at_ms = ALL.at_ms + number as f64;
        Data { at_ms, start: 1 + 3_000 * number, stamp: Some(at_ms as u32), ..ALL }.run(&mut flow);
    }
    flow
}

/// With either capture first in the command and in time.
fn both(flow: &Flow) -> impl Iterator<Item = (f64, TraceDocument)> + '_ {
    [33.0, -33.0].into_iter().flat_map(|offset_ms| {
        let [client, server] = flow.captures(offset_ms);
        let documents = [document(&[&client, &server], 10), document(&[&server, &client], 10)];
        documents.map(|document| (offset_ms, document))
    })
}

/// Names of what was found, and ids of the findings.
fn check(flow: &Flow, middlebox: &[&str], findings: &[&str]) {
    for (offset_ms, document) in both(flow) {
        let ids: Vec<&str> = document.findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, findings, "{document:#?}");
        assert!(document.findings.iter().all(|finding| finding.filter.contains("tcp.port == 443")));
        let found = only(&document);
        assert_eq!(found.middlebox, middlebox);
        assert_eq!((found.upload.received_bytes, found.upload.lost_bytes), (15_000, 0));
        assert!((found.clock_offset_ms.unwrap() - offset_ms).abs() < 0.1);
        assert_eq!(found.upload.delay_ms.unwrap().count, 7);
    }
}

#[test]
fn routers_are_no_finding() {
    check(&transfer(), &["hop-limit"], &[]);
    let mut flow = transfer();
    for seen in flow.points.iter_mut().flatten() {
        seen.hop_limit = 64;
    }
    check(&flow, &[], &[]);
}

#[test]
fn sequence_numbers_are_rewritten() {
    let mut flow = transfer();
    for seen in &mut flow.points[1] {
        let up = seen.segment.from == CLIENT;
        let field = if up { &mut seen.segment.sequence } else { &mut seen.segment.acknowledgment };
        *field = field.wrapping_add(0x7234_5678);
    }
    check(&flow, &["sequence-rewritten", "hop-limit"], &["sequence-rewritten"]);
}

#[test]
fn payload_is_rewritten() {
    let mut flow = transfer();
    flow.points[1].last_mut().unwrap().fill = 0xcd;
    check(&flow, &["payload-rewritten", "hop-limit"], &["payload-rewritten"]);
}

#[test]
fn options_of_the_syn_are_removed() {
    let mut flow = transfer();
    let syn = &mut flow.points[0][0];
    syn.segment = syn.segment.clone().option(&capable(&[]));
    for (_, document) in both(&flow) {
        let found: Vec<&str> = document.findings.iter().map(|finding| finding.id.as_str()).collect();
        assert!(found.contains(&"option-removed"), "{found:?}");
        assert_eq!(only(&document).middlebox, ["options-removed", "hop-limit"]);
    }
}

#[test]
fn options_of_data_are_removed() {
    let mut flow = transfer();
    for point in [0, 1] {
        for seen in flow.points[point].iter_mut().filter(|seen| seen.segment.flags & SYN != 0) {
            let option = capable(if seen.segment.from == CLIENT { &[] } else { &[crate::wire::SERVER_KEY] });
            seen.segment = seen.segment.clone().option(&option);
        }
    }
    for seen in flow.points[0].iter_mut().filter(|seen| seen.segment.payload > 0) {
        seen.segment = seen.segment.clone().option(&dss(5, None, false));
    }
    for (_, document) in both(&flow) {
        assert_eq!(only(&document).middlebox, ["options-removed", "hop-limit"]);
    }
}

#[test]
fn the_maximum_segment_size_is_clamped() {
    let mut flow = transfer();
    for point in [0, 1] {
        for seen in flow.points[point].iter_mut().filter(|seen| seen.segment.flags & SYN != 0) {
            let mss = if (seen.segment.from == CLIENT) == (point == 0) { 1_460_u16 } else { 1_380 };
            let [high, low] = mss.to_be_bytes();
            seen.segment = seen.segment.clone().option(&[2, 4, high, low]);
        }
    }
    check(&flow, &["mss-clamped", "hop-limit"], &["mss-clamped"]);
}

#[test]
fn a_nat_changes_addresses_and_ports() {
    let public = ([198, 51, 100, 77], 61_234);
    let mut flow = transfer();
    for seen in &mut flow.points[1] {
        for end in [&mut seen.segment.from, &mut seen.segment.to] {
            if *end == CLIENT {
                *end = public;
            }
        }
    }
    check(&flow, &["hop-limit"], &[]);
    // A second NAT, on the other side, and timestamps that a middlebox shifts.
    for seen in &mut flow.points[1] {
        for end in [&mut seen.segment.from, &mut seen.segment.to] {
            if *end != public {
                *end = ([10, 0, 0, 1], 443);
            }
        }
    }
    check(&flow, &["hop-limit"], &[]);
}

#[test]
fn shifted_timestamps_still_match() {
    let mut flow = transfer();
    for seen in &mut flow.points[1] {
        let options = &mut seen.segment.options;
        let value = u32::from_be_bytes([options[4], options[5], options[6], options[7]]);
        *options = timestamps(value.wrapping_add(if seen.segment.from == CLIENT { 5_000 } else { 0 }));
    }
    check(&flow, &["hop-limit"], &[]);
}
