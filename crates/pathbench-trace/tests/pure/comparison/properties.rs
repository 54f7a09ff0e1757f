//! Any path.

use crate::comparison::path::{Data, Flow, only, segment};
use crate::wire::{ACK, RST, SYN};
use pathbench_record::trace::{DirectionComparison, SubflowComparison};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Send {
    side: usize,
    gap_ms: f64,
    segments: u64,
    queue_ms: f64,
    lost: u32,
    gro: bool,
}

fn send() -> impl Strategy<Value = Send> {
    let loss = prop_oneof![3 => Just(0_u32), 1 => any::<u32>()];
    (0..2_usize, 0.01..5.0, 1..20_u64, 0.0..30.0, loss, any::<bool>()).prop_map(
        |(side, gap_ms, segments, queue_ms, lost, gro)| Send { side, gap_ms, segments, queue_ms, lost, gro },
    )
}

/// What is true of one direction.
#[derive(Debug, Default)]
struct Truth {
    sent: u64,
    lost: u64,
    reordered: u64,
    least_ms: Option<f64>,
    greatest_ms: f64,
}

impl Truth {
    fn data(&mut self, data: &Data) {
        self.sent += data.end() - data.start;
        self.lost += data.lost_bytes();
        let all = (1_u32 << data.segments) - 1;
        if data.lost & all != all {
            self.delay(data.delay_ms, data.delay_ms + 0.02);
        }
    }

    fn delay(&mut self, least: f64, greatest: f64) {
        self.least_ms = Some(self.least_ms.map_or(least, |before| before.min(least)));
        self.greatest_ms = self.greatest_ms.max(greatest);
    }

    fn check(&self, found: &DirectionComparison, uncertainty_ms: f64) {
        assert_eq!((found.sent_bytes, found.lost_bytes), (self.sent, self.lost));
        assert_eq!(found.reordered_bytes, self.reordered);
        assert_eq!(found.received_bytes, self.sent - self.lost);
        let delay = found.delay_ms.as_ref().unwrap();
        let near = uncertainty_ms + 0.001;
        assert!((delay.min - self.least_ms.unwrap()).abs() <= near, "{delay:?} {self:?}");
        assert!(delay.max <= self.greatest_ms + near, "{delay:?} {self:?}");
        assert!(delay.min <= delay.median && delay.median <= delay.p95 && delay.p95 <= delay.max);
    }
}

fn run(sends: &[Send], delays: [f64; 2], offset_ms: f64, stamps: bool) -> (SubflowComparison, [Truth; 2]) {
    let mut flow = Flow::default();
    let mut truth = [Truth::default(), Truth::default()];
    let mut at_ms = flow.handshake(delays, stamps) + 1.0;
    truth[0].delay(delays[0], delays[0]);
    truth[1].delay(delays[1], delays[1]);
    let mut next = [1_u64; 2];
    for send in sends {
        at_ms += send.gap_ms;
        let data = Data {
            side: send.side,
            at_ms,
            start: next[send.side],
            segments: send.segments,
            delay_ms: delays[send.side] + send.queue_ms,
            lost: send.lost,
            stamp: stamps.then_some(at_ms as u32),
            gro: send.gro,
        };
        next[send.side] = data.end();
        data.run(&mut flow);
        truth[send.side].data(&data);
        // All of it again, later, if something was lost; the second copy arrives.
        if data.lost_bytes() > 0 {
            let again = at_ms + 200.0 + send.queue_ms;
            let data = Data { at_ms: again, lost: 0, stamp: stamps.then_some(again as u32), ..data };
            data.run(&mut flow);
            truth[send.side].data(&data);
        }
    }
    // Both captures run until all has arrived.
    let last = segment(0, ACK, next[0], next[1], stamps.then_some(at_ms as u32 + 900));
    flow.carry(0, at_ms + 900.0, delays[0], &last);
    for (side, truth) in truth.iter_mut().enumerate().filter(|_| stamps) {
        truth.reordered = flow.reordered_bytes(side);
    }
    (flow.comparison(offset_ms), truth)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_exact_and_the_offset_is_within_its_interval(
        sends in proptest::collection::vec(send(), 1..40),
        up in 0.05..80.0,
        down in 0.05..80.0,
        offset_ms in -900.0..900.0,
        stamps in any::<bool>(),
    ) {
        let (found, truth) = run(&sends, [up, down], offset_ms, stamps);
        let (offset, uncertainty) = (found.clock_offset_ms.unwrap(), found.clock_offset_uncertainty_ms.unwrap());
        prop_assert!((offset - offset_ms).abs() <= uncertainty + 0.001, "{} ± {}", offset, uncertainty);
        // No worse than half of the least round trip, and what a drift of 200 ppm may add in this time.
        let duration_ms = 1_000.0 + up + down + sends.iter().map(|send| send.gap_ms + 230.0).sum::<f64>();
        prop_assert!(uncertainty <= f64::midpoint(up, down) + 0.001 + 200e-6 * duration_ms);
        if stamps {
            truth[0].check(&found.upload, uncertainty);
            truth[1].check(&found.download, uncertainty);
        } else {
            for (truth, found) in truth.iter().zip([&found.upload, &found.download]) {
                prop_assert_eq!((found.sent_bytes, found.lost_bytes), (truth.sent, truth.lost));
            }
        }
        prop_assert_eq!(found.middlebox, ["hop-limit"]);
    }

    #[test]
    fn unrelated_packets_of_the_same_ends_give_no_impossible_counts(
        packets in proptest::collection::vec(
            (0..2_usize, 0..2_usize, 0.0..300.0, any::<u8>(), 0..20_000_u64, 0..3_000_usize, 0..4_u32),
            2..200,
        ),
    ) {
        let mut flow = Flow::default();
        for (point, side, at_ms, flags, start, payload, stamp) in packets {
            // A reset or another SYN would end the flow.
            let segment = segment(side, flags & !(RST | SYN), start, 1, (stamp > 0).then_some(stamp));
            flow.see(point, at_ms, segment.payload(payload));
        }
        prop_assume!(flow.points.iter().all(|seen| !seen.is_empty()));
        // Captures that overlap in time.
        for point in [0, 1] {
            flow.see(point, 0.0, segment(0, ACK, 1, 1, None));
            flow.see(point, 301.0, segment(0, ACK, 1, 1, None));
        }
        let found = only(&flow.document(0.0));
        for direction in [&found.upload, &found.download] {
            prop_assert!(direction.lost_bytes <= direction.sent_bytes);
            prop_assert!(direction.reordered_bytes <= direction.received_bytes);
        }
    }
}
