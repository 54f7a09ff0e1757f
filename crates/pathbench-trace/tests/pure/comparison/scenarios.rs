//! Reordering, captures that cover a part, sequence numbers that wrap.

use crate::comparison::path::{Data, Flow, segment};
use crate::wire::ACK;

const NONE: Data =
    Data { side: 0, at_ms: 0.0, start: 1, segments: 1, delay_ms: 20.0, lost: 0, stamp: None, gro: false };

#[test]
fn bytes_that_arrive_after_later_ones_are_reordered() {
    for offset_ms in [-500.0, -1.0, 0.0, 15.0, 400.0] {
        let mut flow = Flow::default();
        let begin = flow.handshake([20.0, 30.0], true) + 5.0;
        let data = |number: u64, delay_ms: f64| Data {
            at_ms: begin + number as f64,
            start: 1 + 3_000 * number,
            segments: 3,
            delay_ms,
            stamp: Some(100 + number as u32),
            ..NONE
        };
        // The second arrives after the fourth.
        for (number, delay_ms) in [(0, 20.0), (1, 24.0), (2, 20.0), (3, 20.0), (4, 25.0), (5, 25.0)] {
            data(number, delay_ms).run(&mut flow);
        }
        let found = flow.comparison(offset_ms);
        assert_eq!((found.upload.reordered_bytes, found.upload.lost_bytes), (3_000, 0), "{offset_ms}");
        assert_eq!(found.download.reordered_bytes, 0);
    }
}

#[test]
fn the_copy_that_arrived_gives_the_delay_and_no_reordering() {
    let mut flow = Flow::default();
    let begin = flow.handshake([20.0, 20.0], true) + 5.0;
    for number in 0..10 {
        let at_ms = begin + number as f64;
        let lost = u32::from(number == 3);
        let stamp = Some(at_ms as u32);
        Data { at_ms, start: 1 + 1_000 * number, lost, stamp, ..NONE }.run(&mut flow);
    }
    let at_ms = begin + 300.0;
    Data { at_ms, start: 3_001, stamp: Some(at_ms as u32), ..NONE }.run(&mut flow);
    let found = flow.comparison(7.0);
    assert_eq!((found.upload.lost_bytes, found.upload.reordered_bytes), (1_000, 0));
    assert_eq!((found.upload.sent_bytes, found.upload.received_bytes), (11_000, 10_000));
    assert!(found.upload.delay_ms.as_ref().unwrap().max < 20.1, "{found:#?}");
    assert!((found.clock_offset_ms.unwrap() - 7.0).abs() < 0.1);
}

#[test]
fn bytes_outside_of_the_common_time_are_not_lost() {
    for offset_ms in [-300.0, 0.0, 300.0] {
        let mut flow = Flow::default();
        for number in 0..200 {
            let at_ms = 10.0 * number as f64;
            let lost = u32::from(number == 100);
            Data { at_ms, start: 1 + 1_000 * number, lost, stamp: Some(number as u32), ..NONE }
                .run(&mut flow);
            let ack = segment(1, ACK, 1, 1 + 1_000 * number, Some(number as u32));
            flow.carry(1, at_ms + 20.0, 20.0, &ack);
        }
        // The receiver's capture began later and ended earlier than the sender's, without the handshake.
        flow.points[1].retain(|seen| seen.at_ms > 505.0 && seen.at_ms < 1_505.0);
        let found = flow.comparison(offset_ms);
        assert_eq!(found.upload.sent_bytes, 200_000);
        assert_eq!(found.upload.lost_bytes, 1_000, "{offset_ms}: {found:#?}");
        // And the other way round.
        flow.points[1].retain(|seen| seen.at_ms > 600.0);
        flow.points[0].retain(|seen| seen.at_ms > 805.0 && seen.at_ms < 1_200.0);
        let found = flow.comparison(offset_ms);
        assert_eq!(found.upload.lost_bytes, 1_000, "{offset_ms}: {found:#?}");
    }
}

#[test]
fn a_long_transfer_with_a_clock_far_ahead_is_exact() {
    let mut flow = Flow::default();
    let begin = flow.handshake([5.0, 5.0], true) + 5.0;
    let (mut lost, mut start) = (0, 1);
    // 100 ms are 5,000 packets, more than are kept as reordered, and 15,000 at the receiver.
    for number in 0..6_000_u64 {
        let at_ms = begin + 0.02 * number as f64;
        let data = Data {
            at_ms,
            start,
            segments: 3,
            delay_ms: 5.0,
            lost: if number % 97 == 5 { 0b010 } else { 0 },
            stamp: Some(at_ms as u32),
            ..NONE
        };
        data.run(&mut flow);
        start = data.end();
        lost += data.lost_bytes();
    }
    flow.carry(0, begin + 1_000.0, 5.0, &segment(0, ACK, start, 1, Some(5_000)));
    for offset_ms in [0.0, -100.0, 100.0] {
        let found = flow.comparison(offset_ms);
        assert_eq!((found.upload.lost_bytes, found.upload.reordered_bytes), (lost, 0));
        assert!((found.clock_offset_ms.unwrap() - offset_ms).abs() < 0.1);
    }
}

#[test]
fn a_direction_without_data_has_the_delays_of_its_acknowledgments() {
    let mut flow = Flow::default();
    let begin = flow.handshake([20.0, 90.0], true) + 5.0;
    for number in 0..50 {
        let at_ms = begin + number as f64;
        let ack = segment(1, ACK, 1, 1 + 1_000 * number, Some(at_ms as u32));
        Data { at_ms, start: 1 + 1_000 * number, stamp: Some(at_ms as u32), ..NONE }.run(&mut flow);
        flow.carry(1, at_ms + 20.0, 30.0, &ack);
    }
    let found = flow.comparison(-250.0);
    // The delays of 20 ms and 30 ms: the offset is 5 ms from the middle, the SYN/ACK's delay is no bound.
    assert!((found.clock_offset_ms.unwrap() + 255.0).abs() < 0.1, "{found:#?}");
    assert!((found.clock_offset_uncertainty_ms.unwrap() - 25.0).abs() < 0.1);
    assert_eq!(found.download.delay_ms.unwrap().count, 51);
}

#[test]
fn a_drift_of_the_clocks_is_no_delay() {
    let mut flow = Flow::default();
    let begin = flow.handshake([0.2, 0.3], true) + 5.0;
    for number in 0..6_000 {
        let at_ms = begin + 10.0 * number as f64;
        let queue_ms = [0.0, 0.4, 1.7][number as usize % 3];
        let stamp = Some(at_ms as u32);
        Data { at_ms, start: 1 + 1_000 * number, delay_ms: 0.2 + queue_ms, stamp, ..NONE }.run(&mut flow);
        let acknowledged = 1 + 1_000 * number;
        flow.carry(1, at_ms + 4.0, 0.3 + queue_ms, &segment(1, ACK, 1, acknowledged, stamp));
    }
    for drift in [50e-6, -50e-6] {
        let mut flow = flow.clone();
        for seen in &mut flow.points[1] {
            seen.at_ms += seen.at_ms * drift;
        }
        // 3 ms in a minute.
        let found = flow.comparison(7.0);
        let middle_ms = 7.0 + 30_000.0 * drift;
        let (offset, uncertainty) =
            (found.clock_offset_ms.unwrap(), found.clock_offset_uncertainty_ms.unwrap());
        assert!((offset - middle_ms).abs() < uncertainty && uncertainty < 0.3, "{offset} ± {uncertainty}");
        for direction in [found.upload, found.download] {
            let delay = direction.delay_ms.unwrap();
            assert!((delay.min - 0.25).abs() < 0.06 && (delay.max - 1.95).abs() < 0.1, "{delay:?}");
        }
    }
}
