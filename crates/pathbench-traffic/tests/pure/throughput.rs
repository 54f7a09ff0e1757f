//! The pattern's cores against a simulated socket and clock.

use pathbench_record::pattern::Amount;
use pathbench_record::time::Timestamp;
use pathbench_traffic::protocol::{ControlFrame, Decoder};
use pathbench_traffic::throughput::{
    DataBlock, ReceiveCore, ReceiveFault, ReceiverStep, SendCore, SendPlan, SenderStep,
};
use proptest::prelude::*;
use std::time::Duration;

fn plan(amount: Amount) -> SendPlan {
    SendPlan {
        amount,
        omit: Duration::ZERO,
        rate_bps: None,
        block_bytes: 131_072,
        ceiling_bytes: None,
        patience: Duration::from_secs(5),
        largest_frame_bytes: 0,
    }
}

fn at_us(micros: u64) -> Timestamp {
    Timestamp::from_nanos(micros * 1000)
}

/// Runs `core` with a socket of `socket_bps` that accepts `parts` of a write; returns the accepted bytes and the end.
fn run(core: &mut SendCore, socket_bps: u64, parts: &[usize]) -> (Vec<u8>, Timestamp) {
    let mut now = at_us(0);
    let mut wire = Vec::new();
    let mut turn = 0;
    loop {
        match core.next(now) {
            SenderStep::Finished => return (wire, now),
            SenderStep::WaitUntil(until) => {
                assert!(until > now, "waits for the past");
                now = until;
            }
            SenderStep::Write { header, from, until, .. } => {
                let count = (until - from).min(parts[turn % parts.len()]);
                turn += 1;
                wire.extend((from..from + count).map(|at| header.get(at).copied().unwrap_or(1)));
                now = now + Duration::from_nanos(count as u64 * 8_000_000_000 / socket_bps);
                core.accepted(now, count);
            }
        }
    }
}

fn is_complete(core: &ReceiveCore) -> bool {
    core.end.is_some_and(|end| end.is_complete(core.meter.received_bytes))
}

fn received(wire: &[u8], end: &ControlFrame, piece: usize) -> ReceiveCore {
    let mut wire = wire.to_vec();
    wire.extend(end.encode().unwrap());
    let mut core = ReceiveCore::new(at_us(0), Duration::from_secs(5), None, None);
    let mut decoder = Decoder::new(0);
    decoder.set_body_limit(1024);
    for (index, bytes) in wire.chunks(piece).enumerate() {
        core.take(at_us(index as u64), &mut decoder, bytes).unwrap();
    }
    core
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn bytes_are_exact_however_the_socket_splits_them(
        bytes in 1_u64..300_000,
        block in 64_u32..140_000,
        parts in prop::collection::vec(1_usize..200_000, 1..8),
        piece in 1_usize..300_000,
    ) {
        let mut core = SendCore::new(SendPlan { block_bytes: block, ..plan(Amount::Bytes(bytes)) }, at_us(0));
        let parts: Vec<usize> = parts.iter().map(|part| part.max(&50) * 3).collect();
        let (wire, _) = run(&mut core, 1_000_000_000, &parts);
        prop_assert_eq!(core.meter.sent_bytes, bytes);
        prop_assert_eq!(core.meter.offered.total_bytes(), bytes);
        prop_assert_eq!(core.end().bytes, bytes);
        let receiver = received(&wire, &ControlFrame::End(core.end()), piece);
        prop_assert!(is_complete(&receiver));
        prop_assert_eq!(receiver.meter.deliveries.total_bytes(), bytes);
    }
}

/// Receives `wire` as a kernel socket offers it, in pieces of at most `piece` bytes, with discarded payload.
fn discard(wire: &[u8], piece: usize, ceiling: Option<u64>) -> Result<ReceiveCore, ReceiveFault> {
    let mut core = ReceiveCore::with_discard(at_us(0), Duration::from_secs(5), ceiling);
    let mut decoder = Decoder::new(1024);
    let mut rest = wire;
    while !rest.is_empty() {
        let step = core.next(&decoder, usize::MAX);
        match step {
            ReceiverStep::Discard { most } => {
                let count = most.min(piece).min(rest.len());
                core.discarded(at_us(0), &mut decoder, count)?;
                rest = &rest[count..];
            }
            ReceiverStep::Receive { most } => {
                let count = most.min(piece).min(rest.len());
                let taken = core.take(at_us(0), &mut decoder, &rest[..count])?;
                assert_eq!(taken.consumed, count);
                rest = &rest[count..];
            }
        }
    }
    Ok(core)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A header is received exactly, and only payload is discarded: a wrong byte of either would be an unknown frame.
    #[test]
    fn discarded_bytes_are_exact(
        bytes in 1_u64..5_000_000,
        block in 64_u32..140_000,
        growth in 0_u32..1_100_000,
        parts in prop::collection::vec(50_usize..600_000, 1..8),
        piece in 1_usize..300_000,
    ) {
        let plan = SendPlan { block_bytes: block, largest_frame_bytes: growth, ..plan(Amount::Bytes(bytes)) };
        let mut core = SendCore::new(plan, at_us(0));
        let (mut wire, _) = run(&mut core, 1_000_000_000_000, &parts);
        prop_assert_eq!(core.meter.sent_bytes, bytes);
        wire.extend(ControlFrame::End(core.end()).encode().unwrap());
        let receiver = discard(&wire, piece, Some(bytes)).unwrap();
        prop_assert!(is_complete(&receiver));
        prop_assert_eq!(receiver.meter.deliveries.total_bytes(), bytes);
    }

    #[test]
    fn a_frame_longer_than_the_block_repeats_its_payload(payload in 1_usize..500, frame in 1_usize..3000, part in 1_usize..700) {
        let block = DataBlock::new(payload);
        let mut at = 0;
        while at < frame {
            let piece = block.piece(at, frame.min(at + part));
            prop_assert!(!piece.is_empty() && piece.len() <= part.min(frame - at));
            for (index, byte) in (at..).zip(piece) {
                let source = if index < 8 { index } else { 8 + (index - 8) % payload };
                prop_assert_eq!(*byte, block.bytes[source]);
            }
            at += piece.len();
        }
    }
}

#[test]
fn frames_grow_only_while_the_stream_is_fast() {
    let amount = Amount::Duration(Duration::from_millis(100));
    for (socket_bps, largest_frame_bytes, expected) in [
        (100_000_000_000, 1 << 20, 1 << 20),
        (100_000_000_000, 0, 131_072),
        // A block takes 1.05 ms.
        (1_000_000_000, 1 << 20, 131_072),
    ] {
        let mut core = SendCore::new(SendPlan { largest_frame_bytes, ..plan(amount) }, at_us(0));
        let (mut now, mut largest) = (at_us(0), 0);
        while let SenderStep::Write { from, until, .. } = core.next(now) {
            largest = largest.max(until);
            now = now + Duration::from_nanos((until - from) as u64 * 8_000_000_000 / socket_bps);
            core.accepted(now, until - from);
        }
        assert_eq!(largest, expected, "{socket_bps} bit/s, {largest_frame_bytes}");
        // The last frame outlasts the test by little.
        assert!(now < at_us(101_500), "{now:?}");
    }
}

#[test]
fn a_receiver_that_discards_is_bounded() {
    // A frame of 16 MiB is announced.
    let header = pathbench_traffic::protocol::data_header(16 << 20);
    let mut decoder = Decoder::new(1024);
    let mut core = ReceiveCore::with_discard(at_us(0), Duration::from_secs(5), Some(1000));
    assert_eq!(core.next(&decoder, usize::MAX), ReceiverStep::Receive { most: 8 });
    core.take(at_us(0), &mut decoder, &header).unwrap();
    // One byte more than the limit, which shows the excess.
    assert_eq!(core.next(&decoder, usize::MAX), ReceiverStep::Discard { most: 1001 });
    assert_eq!(core.next(&decoder, 10), ReceiverStep::Discard { most: 10 });
    core.discarded(at_us(0), &mut decoder, 1000).unwrap();
    let excess = core.discarded(at_us(0), &mut decoder, 1);
    assert_eq!(excess, Err(ReceiveFault::Excess { limit: 1000 }));

    let mut decoder = Decoder::new(1024);
    let mut core = ReceiveCore::with_discard(at_us(0), Duration::from_secs(5), None);
    core.take(at_us(0), &mut decoder, &header).unwrap();
    assert_eq!(core.next(&decoder, usize::MAX), ReceiverStep::Discard { most: 1 << 20 });
    // More than the frame has is not counted.
    core.discarded(at_us(0), &mut decoder, usize::MAX).unwrap();
    assert_eq!(core.meter.received_bytes, 16 << 20);
    assert!(decoder.at_frame_boundary());
}

#[test]
fn a_test_by_time_lasts_its_time_and_the_warm_up() {
    let amount = Amount::Duration(Duration::from_secs(2));
    let mut core = SendCore::new(SendPlan { omit: Duration::from_secs(1), ..plan(amount) }, at_us(0));
    let (_, ended) = run(&mut core, 100_000_000, &[usize::MAX]);
    // One block of 128 KiB takes 10.5 ms at this rate.
    assert!((3_000_000..3_011_000).contains(&(ended.as_nanos() / 1000)), "{ended:?}");
    let expected = 100_000_000 / 8 * 3;
    assert!(core.meter.sent_bytes.abs_diff(expected) < 140_000, "{}", core.meter.sent_bytes);
}

#[test]
fn the_rate_limit_holds_and_leaves_no_drift() {
    let amount = Amount::Duration(Duration::from_secs(20));
    let mut core = SendCore::new(SendPlan { rate_bps: Some(10_000_000), ..plan(amount) }, at_us(0));
    assert_eq!(core.payload_per_block, 12_500);
    run(&mut core, 10_000_000_000, &[usize::MAX]);
    assert!(core.meter.sent_bytes.abs_diff(25_000_000) <= 12_500, "{}", core.meter.sent_bytes);
}

#[test]
fn the_ceiling_cuts_a_test_short_and_is_reported() {
    let amount = Amount::Duration(Duration::from_secs(20));
    let mut core = SendCore::new(SendPlan { ceiling_bytes: Some(1_000_000), ..plan(amount) }, at_us(0));
    let (wire, _) = run(&mut core, 10_000_000_000, &[usize::MAX]);
    assert_eq!(core.meter.sent_bytes, 1_000_000);
    assert!(core.end().cut_short);
    let receiver = received(&wire, &ControlFrame::End(core.end()), 65_536);
    assert_eq!(receiver.meter.received_bytes, 1_000_000);
    assert!(!is_complete(&receiver));
}

#[test]
fn a_sender_is_hung_after_its_patience_and_not_while_it_is_paced() {
    let mut core = SendCore::new(plan(Amount::Bytes(1_000_000)), at_us(0));
    assert!(matches!(core.next(at_us(0)), SenderStep::Write { .. }));
    assert_eq!(core.meter.hung(at_us(4_900_000)), None);
    assert_eq!(core.meter.hung(at_us(5_000_000)), Some(Duration::from_secs(5)));
    core.meter.progressed(at_us(5_000_000));
    assert_eq!(core.meter.hung(at_us(9_000_000)), None);

    let slow = SendPlan {
        rate_bps: Some(8_000),
        patience: Duration::from_millis(100),
        ..plan(Amount::Bytes(1_000_000))
    };
    let mut core = SendCore::new(slow, at_us(0));
    let SenderStep::Write { until, .. } = core.next(at_us(0)) else { panic!("no write") };
    core.accepted(at_us(1), until);
    let SenderStep::WaitUntil(due) = core.next(at_us(1)) else { panic!("no wait") };
    assert_eq!(due, at_us(256_000));
    assert!(matches!(core.next(due), SenderStep::Write { .. }));
    assert_eq!(core.meter.hung(due), None);
}

#[test]
fn a_receiver_is_hung_until_end_and_never_after() {
    let mut core = ReceiveCore::new(at_us(0), Duration::from_secs(1), None, None);
    assert_eq!(core.hung(at_us(9_000_000)), None);
    core.meter.progressed(at_us(0));
    assert_eq!(core.hung(at_us(1_500_000)), Some(Duration::from_millis(1500)));
    let mut sender = SendCore::new(plan(Amount::Bytes(10)), at_us(0));
    let (wire, _) = run(&mut sender, 1_000_000, &[usize::MAX]);
    let done = received(&wire, &ControlFrame::End(sender.end()), 1000);
    assert_eq!(done.hung(at_us(100_000_000)), None);
}

#[test]
fn bytes_after_end_are_not_consumed_and_a_wrong_count_is_detected() {
    let mut sender = SendCore::new(plan(Amount::Bytes(1000)), at_us(0));
    let (mut wire, _) = run(&mut sender, 1_000_000, &[usize::MAX]);
    let mut end = sender.end();
    end.bytes += 1;
    wire.extend(ControlFrame::End(end).encode().unwrap());
    let length = wire.len();
    wire.extend(ControlFrame::Done { bytes: 0 }.encode().unwrap());
    let mut core = ReceiveCore::new(at_us(0), Duration::from_secs(1), None, None);
    let taken = core.take(at_us(1), &mut Decoder::new(1024), &wire).unwrap();
    assert_eq!((taken.consumed, taken.ended), (length, true));
    assert!(!is_complete(&core));
}

#[test]
fn excess_and_foreign_frames_are_faults() {
    let mut sender = SendCore::new(plan(Amount::Bytes(2000)), at_us(0));
    let (wire, _) = run(&mut sender, 1_000_000, &[usize::MAX]);
    let mut core = ReceiveCore::new(at_us(0), Duration::from_secs(1), Some(1999), None);
    let fault = core.take(at_us(1), &mut Decoder::new(1024), &wire).unwrap_err();
    assert_eq!(fault, ReceiveFault::Excess { limit: 1999 });
    let mut core = ReceiveCore::new(at_us(0), Duration::from_secs(1), Some(2000), None);
    assert!(core.take(at_us(1), &mut Decoder::new(1024), &wire).is_ok(), "the limit itself is granted");
    let mut core = ReceiveCore::new(at_us(0), Duration::from_secs(1), None, None);
    let hello = ControlFrame::Start.encode().unwrap();
    let fault = core.take(at_us(1), &mut Decoder::new(1024), &hello).unwrap_err();
    assert!(matches!(fault, ReceiveFault::Unexpected { .. }));
}

#[test]
fn the_first_byte_is_offered_when_its_write_begins() {
    // The receiver can have the first byte long before the write call of a block returns.
    let mut core = SendCore::new(plan(Amount::Bytes(1_000_000)), at_us(0));
    let SenderStep::Write { until, .. } = core.next(at_us(7)) else { panic!("nothing to write") };
    core.accepted(at_us(5000), until);
    assert_eq!((core.meter.offered.first, core.meter.offered.last), (Some(at_us(7)), Some(at_us(5000))));
}
