//! More than two captures, and captures of several files.

use crate::comparison::path::{Data, Flow, only, segment};
use crate::wire::{ACK, CLIENT, Capture, SECOND, Segment, Subflow, document};

#[test]
fn each_path_of_a_client_is_compared_with_the_server() {
    let (first, second) = (Subflow::new(CLIENT, [5, 6]), Subflow::new(SECOND, [7, 8]));
    let points = [(Some(0), 0.0, SECOND), (Some(1), 0.0, SECOND), (None, 25.0, ([100, 64, 0, 9], 5_555))];
    // A NAT translates the second path.
    let captures = points.map(|(path, offset_ms, translated)| {
        let mut capture = Capture::new();
        capture.now_ms += offset_ms;
        if path != Some(1) {
            first.handshake(&mut capture);
        }
        capture.now_ms = 1_000_100.0 + offset_ms;
        let second = Subflow { client: translated, ..second.clone() };
        if path != Some(0) {
            second.join(&mut capture);
        }
        capture.now_ms = 1_000_200.0 + offset_ms;
        let mut data = |subflow: &Subflow, segment: &Segment, on: usize| {
            if path.is_none_or(|path| path == on) {
                assert_eq!(segment.from, subflow.client);
                capture.segment(segment);
            }
        };
        data(&first, &first.upload(1, 1, 700), 0);
        data(&second, &second.upload(1, 701, 300), 1);
        capture.wait(10.0);
        if path != Some(1) {
            capture.segment(&first.acknowledge(701, 701));
        }
        if path != Some(0) {
            capture.segment(&second.acknowledge(301, 1_001));
        }
        capture.into_bytes()
    });
    let document = document(&captures.each_ref().map(Vec::as_slice), 10);
    let [connection] = document.connections.as_slice() else { panic!("{document:#?}") };
    assert_eq!((connection.upload.data_bytes, connection.upload.payload_bytes), (1_000, 1_000));
    let [one, other] = connection.subflows.as_slice() else { panic!("{document:#?}") };
    for (subflow, bytes) in [(one, 700), (other, 300)] {
        let comparison = subflow.comparison.as_ref().unwrap();
        let captures = [comparison.client_capture, comparison.server_capture];
        assert!(captures.contains(&2) && captures.contains(&subflow.id), "{comparison:#?}");
        assert_eq!((comparison.upload.sent_bytes, comparison.upload.lost_bytes), (bytes, 0));
    }
}

#[test]
fn a_point_of_capture_may_have_several_files() {
    let mut flow = Flow::default();
    let begin = flow.handshake([20.0, 20.0], true) + 5.0;
    for number in 0..100 {
        let at_ms = begin + 10.0 * number as f64;
        let lost = u32::from(number % 10 == 7);
        Data {
            side: 0,
            at_ms,
            start: 1 + 1_000 * number,
            segments: 1,
            delay_ms: 20.0,
            lost,
            stamp: None,
            gro: false,
        }
        .run(&mut flow);
        flow.carry(1, at_ms + 20.0, 20.0, &segment(1, ACK, 1, 1 + 1_000 * number, None));
    }
    let whole = flow.comparison(0.0);
    assert_eq!((whole.upload.sent_bytes, whole.upload.lost_bytes), (100_000, 10_000));
    // Each point's capture continues in a second file.
    let part = |from_ms: f64, until_ms: f64| {
        let mut part = flow.clone();
        for seen in &mut part.points {
            seen.retain(|seen| seen.at_ms >= from_ms && seen.at_ms < until_ms);
        }
        part.captures(0.0)
    };
    for step in 0..20 {
        let rotated_ms = 500.0 + f64::from(step);
        let [client, server] = part(0.0, rotated_ms);
        let [next_client, next_server] = part(rotated_ms, 5_000.0);
        for captures in
            [[&client, &next_client, &server, &next_server], [&client, &server, &next_client, &next_server]]
        {
            let found = only(&document(&captures.map(Vec::as_slice), 10));
            assert_eq!((found.upload.sent_bytes, found.upload.lost_bytes), (100_000, 10_000), "{found:#?}");
            assert_eq!(found.upload.delay_ms, whole.upload.delay_ms);
        }
    }
}

#[test]
fn a_third_point_of_capture_changes_nothing() {
    let mut flow = Flow::default();
    let begin = flow.handshake([20.0, 20.0], true) + 5.0;
    for number in 0..10 {
        let at_ms = begin + 10.0 * number as f64;
        let stamp = Some(at_ms as u32);
        let data = Data {
            side: 0,
            at_ms,
            start: 1 + 1_000 * number,
            segments: 1,
            delay_ms: 20.0,
            lost: 0,
            stamp,
            gro: false,
        };
        data.run(&mut flow);
    }
    let [client, server] = flow.captures(0.0);
    let two = only(&document(&[&client, &server], 10));
    let three = only(&document(&[&client, &server, &server], 10));
    assert_eq!(two, three);
}
