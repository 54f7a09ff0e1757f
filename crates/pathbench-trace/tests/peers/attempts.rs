//! Captures of attempts that failed, of zero windows, and of one direction; each with the frames of its finding.

use crate::wire::{ACK, CLIENT, Capture, RST, SECOND, SERVER_KEY, SYN, Segment, Subflow};
use pathbench_trace::mptcp::keys;

type Shown = (Capture, &'static [u64]);

/// A segment that advertises a window of zero.
fn closed(segment: &Segment) -> Vec<u8> {
    let mut packet = segment.packet();
    packet[34..36].fill(0);
    packet
}

fn begun(capture: &mut Capture) -> Subflow {
    let flow = Subflow::new(CLIENT, [77, 900]);
    capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, SYN | ACK, 0, 1));
    capture.segment(&flow.from(0, ACK, 1, 1));
    flow
}

/// The client reads nothing for half a second.
pub(crate) fn zero_window() -> Shown {
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    capture.segment(&flow.from(1, ACK, 1, 1).payload(1_000)).packet(&closed(&flow.from(0, ACK, 1, 1_001)));
    capture
        .wait(500.0)
        .segment(&flow.from(0, ACK, 1, 1_001))
        .segment(&flow.from(1, ACK, 1_001, 1).payload(10));
    (capture, &[5])
}

pub(crate) fn one_direction() -> Shown {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [77, 900]);
    for number in 0..4 {
        capture.segment(&flow.from(1, ACK, 1 + 1_000 * number, 1).payload(1_000));
    }
    (capture, &[1, 2, 3, 4])
}

pub(crate) fn connect_unanswered() -> Shown {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [77, 0]);
    for wait_ms in [1_000.0, 2_000.0, 4_000.0] {
        capture.segment(&flow.from(0, SYN, 0, 0)).wait(wait_ms);
    }
    (capture, &[1, 2, 3])
}

pub(crate) fn connect_unacknowledged() -> Shown {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [77, 900]);
    capture.segment(&flow.from(0, SYN, 0, 0));
    for wait_ms in [1_000.0, 2_000.0] {
        capture.segment(&flow.from(1, SYN | ACK, 0, 1)).wait(wait_ms);
    }
    (capture, &[1, 2, 3])
}

pub(crate) fn connect_refused() -> Shown {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [77, 0]);
    capture.segment(&flow.from(0, SYN, 0, 0)).segment(&flow.from(1, RST | ACK, 0, 1));
    (capture, &[2])
}

/// The SYN of a join with the server's token.
fn join_syn(flow: &Subflow) -> Segment {
    let mut option = vec![30, 12, 0x10, 2];
    option.extend(keys::token(1, SERVER_KEY).to_be_bytes());
    option.extend(7_u32.to_be_bytes());
    flow.from(0, SYN, 0, 0).option(&option)
}

/// A connection, frames 1 to 3, and frames from 4 on of a join.
fn joined(fate: impl Fn(&mut Capture, &Subflow)) -> Capture {
    let mut capture = Capture::new();
    let (first, second) = (Subflow::new(CLIENT, [5, 6]), Subflow::new(SECOND, [7, 8]));
    first.handshake(&mut capture);
    fate(&mut capture, &second);
    capture.wait(2_000.0).segment(&first.upload(1, 1, 500));
    capture
}

pub(crate) fn join_unanswered() -> Shown {
    let capture = joined(|capture, second| {
        for wait_ms in [1_000.0, 2_000.0] {
            capture.segment(&join_syn(second)).wait(wait_ms);
        }
    });
    (capture, &[4, 5])
}

pub(crate) fn join_unacknowledged() -> Shown {
    let capture = joined(|capture, second| {
        capture.segment(&join_syn(second)).segment(&second.from(1, SYN | ACK, 0, 1)).wait(1_000.0);
        capture.segment(&second.from(1, SYN | ACK, 0, 1));
    });
    (capture, &[4, 5, 6])
}

pub(crate) fn join_refused() -> Shown {
    let capture = joined(|capture, second| {
        capture.segment(&join_syn(second)).segment(&second.from(1, RST | ACK, 0, 1));
    });
    (capture, &[5])
}

const ADD_ADDR: [u8; 16] = [30, 16, 0x30, 5, 10, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8];
const ECHO: [u8; 8] = [30, 8, 0x31, 5, 10, 9, 9, 9];

fn announced(times: usize, is_confirmed: bool) -> Capture {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [5, 6]);
    flow.handshake(&mut capture);
    for _ in 0..times {
        capture.segment(&flow.from(1, ACK, 1, 1).option(&ADD_ADDR)).wait(50.0);
    }
    if is_confirmed {
        capture.segment(&flow.from(0, ACK, 1, 1).option(&ECHO));
    }
    capture.wait(3_000.0).segment(&flow.upload(1, 1, 500));
    capture
}

pub(crate) fn announced_in_vain() -> Shown {
    (announced(1, true), &[4, 5])
}

pub(crate) fn announced_again() -> Shown {
    (announced(3, false), &[4, 5, 6])
}
