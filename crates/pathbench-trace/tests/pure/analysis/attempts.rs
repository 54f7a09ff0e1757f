//! Connections and joins that failed or were not tried, zero windows, keep-alives, and what the capture lacks.

use crate::wire::{ACK, CLIENT, Capture, FIN, RST, SECOND, SERVER, SYN, Segment, Subflow, capable};
use crate::wire::{SERVER_KEY, dss, initial_data};
use pathbench_record::trace::{TraceDocument, TraceFinding};
use pathbench_trace::mptcp::keys;

fn begun(capture: &mut Capture) -> Subflow {
    let flow = Subflow::new(CLIENT, [77, 5_000]);
    capture.segment(&flow.from(0, SYN, 0, 0)).wait(10.0);
    capture.segment(&flow.from(1, SYN | ACK, 0, 1)).segment(&flow.from(0, ACK, 1, 1));
    flow
}

fn found<'a>(document: &'a TraceDocument, id: &str) -> &'a TraceFinding {
    let finding = document.findings.iter().find(|finding| finding.id == id);
    finding.unwrap_or_else(|| panic!("no finding {id}: {:#?}", document.findings))
}

fn ids(document: &TraceDocument) -> Vec<&str> {
    document.findings.iter().map(|finding| finding.id.as_str()).collect()
}

fn stamped(segment: Segment, value: u32, echo: u32) -> Segment {
    segment.option(&[&[8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat())
}

/// The SYN of a join with the server's token.
fn join_syn(flow: &Subflow) -> Segment {
    let mut option = vec![30, 12, 0x10, 2];
    option.extend(keys::token(1, SERVER_KEY).to_be_bytes());
    option.extend(7_u32.to_be_bytes());
    flow.from(0, SYN, 0, 0).option(&option)
}

const RESET_ADMINISTRATIVE: [u8; 4] = [30, 4, 0x80, 3];

#[test]
fn a_syn_without_an_answer_is_no_captured_handshake() {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [77, 0]);
    for wait_ms in [1_000.0, 2_000.0, 0.0] {
        capture.segment(&flow.from(0, SYN, 0, 0)).wait(wait_ms);
    }
    let document = capture.document();
    let subflow = &document.connections[0].subflows[0];
    assert_eq!((subflow.opening.as_deref(), subflow.syns), (Some("unanswered"), Some(3)));
    let finding = found(&document, "connect-unanswered");
    assert!(finding.text.contains("3 SYNs"), "{}", finding.text);
    // The capture ends before an answer could come.
    let mut capture = Capture::new();
    capture.segment(&flow.from(0, SYN, 0, 0));
    assert_eq!(capture.document().findings, []);
}

#[test]
fn a_refused_connection_has_the_reason_of_its_reset() {
    for (reset, expected) in
        [(&[][..], None), (&RESET_ADMINISTRATIVE[..], Some("administratively prohibited"))]
    {
        let mut capture = Capture::new();
        let flow = Subflow::new(CLIENT, [77, 0]);
        capture.segment(&flow.from(0, SYN, 0, 0).option(&capable(&[]))).wait(10.0);
        capture.segment(&flow.from(1, RST | ACK, 0, 1).option(reset));
        let document = capture.document();
        let subflow = &document.connections[0].subflows[0];
        assert_eq!(
            (subflow.opening.as_deref(), subflow.refused_by.as_deref()),
            (Some("refused"), Some("server"))
        );
        assert_eq!(subflow.reset_reason.as_deref(), expected);
        let finding = found(&document, "connect-refused");
        assert!(finding.filter.ends_with("tcp.flags.reset == 1"));
        assert_eq!(finding.text.contains("administratively prohibited"), expected.is_some());
    }
}

#[test]
fn joins_that_are_not_answered_or_refused() {
    let joined = |fate: fn(&mut Capture, &Subflow)| {
        let mut capture = Capture::new();
        let (first, second) = (Subflow::new(CLIENT, [9, 8]), Subflow::new(SECOND, [7, 6]));
        first.handshake(&mut capture);
        fate(&mut capture, &second);
        capture.wait(2_000.0).segment(&first.upload(1, 1, 500)).segment(&first.acknowledge(501, 501));
        capture.document()
    };
    let unanswered = joined(|capture, second| {
        for wait_ms in [1_000.0, 2_000.0, 0.0] {
            capture.segment(&join_syn(second)).wait(wait_ms);
        }
    });
    assert_eq!(ids(&unanswered), ["join-unanswered"]);
    assert_eq!(unanswered.findings[0].subflow, Some(1));
    assert_eq!(unanswered.connections[0].subflows[1].syns, Some(3));
    let refused = joined(|capture, second| {
        capture.segment(&join_syn(second)).wait(5.0);
        capture.segment(&second.from(1, RST | ACK, 0, 1).option(&RESET_ADMINISTRATIVE));
    });
    assert!(found(&refused, "join-refused").text.contains("administratively prohibited"));
    assert!(refused.connections[0].signals.iter().any(|signal| signal.kind == "mp-tcprst"));
    // The SYN/ACK came without MP_JOIN: the client resets the subflow.
    let stripped = joined(|capture, second| {
        capture.segment(&join_syn(second)).wait(5.0);
        capture.segment(&second.from(1, SYN | ACK, 0, 1)).segment(&second.from(0, RST, 1, 0));
    });
    assert!(found(&stripped, "join-refused").text.contains("the client refused the SYN/ACK"));
    let unacknowledged = joined(|capture, second| {
        capture.segment(&join_syn(second)).wait(5.0);
        capture.segment(&second.from(1, SYN | ACK, 0, 1)).wait(1_000.0).segment(&second.from(
            1,
            SYN | ACK,
            0,
            1,
        ));
    });
    assert!(found(&unacknowledged, "join-unacknowledged").text.contains("not acknowledged"));
    let opened = joined(|capture, second| second.join(capture));
    assert_eq!(opened.findings, []);
}

#[test]
fn an_announced_address_that_nobody_joins() {
    const ADD: [u8; 16] = [30, 16, 0x30, 5, 10, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8];
    const ECHO: [u8; 8] = [30, 8, 0x31, 5, 10, 9, 9, 9];
    let run = |repeats: usize, echo: bool, removed: bool, end_ms: f64| {
        let mut capture = Capture::new();
        let first = Subflow::new(CLIENT, [9, 8]);
        first.handshake(&mut capture);
        for _ in 0..repeats {
            capture.segment(&first.from(1, ACK, 1, 1).option(&ADD)).wait(50.0);
        }
        if echo {
            capture.segment(&first.from(0, ACK, 1, 1).option(&ECHO));
        }
        if removed {
            capture.segment(&first.from(1, ACK, 1, 1).option(&[30, 4, 0x40, 5]));
        }
        capture.wait(end_ms).segment(&first.upload(1, 1, 500)).segment(&first.acknowledge(501, 501));
        capture.document()
    };
    assert_eq!(ids(&run(1, true, false, 3_000.0)), ["never-joined"]);
    assert!(run(1, true, false, 3_000.0).findings[0].text.contains("10.9.9.9"));
    assert_eq!(ids(&run(1, true, true, 3_000.0)), Vec::<&str>::new());
    assert_eq!(ids(&run(1, true, false, 100.0)), Vec::<&str>::new());
    let repeated = run(4, false, false, 3_000.0);
    assert_eq!(ids(&repeated), ["add-addr-unconfirmed", "never-joined"]);
    assert_eq!(repeated.connections[0].signals[0].repeats, 3);
    assert!(repeated.findings[0].text.contains("4 times"));
}

/// Of several SYNs, the round trip is that of the one that was answered: its time stamp is echoed.
#[test]
fn the_handshake_round_trip_is_that_of_the_answered_syn() {
    let flow = Subflow::new(CLIENT, [9, 8]);
    // By time stamps, either SYN.
    for (echo, expected_ms) in [(100, 1_030.0), (1_100, 30.0)] {
        let mut capture = Capture::new();
        let begin = capture.now_ms;
        let mut at = |ms: f64, segment: Segment| {
            capture.now_ms = begin + ms;
            capture.segment(&segment);
        };
        at(0.0, stamped(flow.from(0, SYN, 0, 0), 100, 0));
        at(1_000.0, stamped(flow.from(0, SYN, 0, 0), 1_100, 0));
        at(1_020.0, stamped(flow.from(1, SYN | ACK, 0, 1), 7, echo));
        at(1_030.0, stamped(flow.from(0, ACK, 1, 1), 1_130, 7));
        let rtt = capture.connection().subflows[0].handshake_rtt_ms.unwrap();
        assert!((rtt - expected_ms).abs() < 0.1, "{rtt}");
    }
    // Without, the last one before the answer.
    let mut capture = Capture::new();
    for wait_ms in [1_000.0, 2_000.0, 20.0] {
        capture.segment(&flow.from(0, SYN, 0, 0)).wait(wait_ms);
    }
    capture.segment(&flow.from(1, SYN | ACK, 0, 1)).wait(10.0).segment(&flow.from(0, ACK, 1, 1));
    let rtt = capture.connection().subflows[0].handshake_rtt_ms.unwrap();
    assert!((rtt - 30.0).abs() < 0.1, "{rtt}");
    // The SYN/ACK was lost after the point of capture: the time until it was sent again is no round trip.
    let mut capture = Capture::new();
    capture.segment(&stamped(flow.from(0, SYN, 0, 0), 100, 0)).wait(1.0);
    capture.segment(&stamped(flow.from(1, SYN | ACK, 0, 1), 7, 100)).wait(1_000.0);
    capture.segment(&stamped(flow.from(1, SYN | ACK, 0, 1), 1_007, 100)).wait(30.0);
    capture.segment(&stamped(flow.from(0, ACK, 1, 1), 1_130, 1_007));
    let rtt = capture.connection().subflows[0].handshake_rtt_ms.unwrap();
    assert!((rtt - 31.0).abs() < 0.1, "{rtt}");
}

fn window(segment: &Segment, window: u16) -> Vec<u8> {
    let mut packet = segment.packet();
    packet[34..36].copy_from_slice(&window.to_be_bytes());
    packet
}

#[test]
fn a_zero_window_is_the_reason_of_a_stall() {
    let run = |probe: usize, reopens: bool| {
        let mut capture = Capture::new();
        let flow = begun(&mut capture);
        let data = |at: u32| flow.from(1, ACK, at, 1).payload(1_000);
        capture.segment(&data(1)).wait(5.0).packet(&window(&flow.from(0, ACK, 1, 1_001), 0));
        for _ in 0..4 {
            capture.wait(1_000.0).segment(&flow.from(1, ACK, 1_000, 1).payload(probe));
            capture.packet(&window(&flow.from(0, ACK, 1, 1_001), 0));
        }
        if reopens {
            capture.packet(&window(&flow.from(0, ACK, 1, 1_001), 9_000));
            capture.segment(&data(1_001)).wait(5.0).segment(&flow.from(0, ACK, 1, 2_001));
        }
        capture.document()
    };
    for (probe, reopens) in [(0, true), (1, true), (0, false), (1, false)] {
        let document = run(probe, reopens);
        let connection = &document.connections[0];
        let subflow = &connection.subflows[0];
        assert_eq!(ids(&document), ["zero-window"]);
        assert!(document.findings[0].text.contains("the client's receive window was zero for 4.0"));
        assert_eq!(connection.download.stall_reason.as_deref(), reopens.then_some("zero-window"));
        assert_eq!(connection.upload.stall_reason, None);
        assert!(subflow.upload.zero_window_ms.is_some_and(|ms| (4_000.0..4_100.0).contains(&ms)));
        assert_eq!((subflow.download.retransmitted_bytes, subflow.download.keep_alives), (0, 4));
        assert_eq!(connection.download.data_bytes, if reopens { 2_000 } else { 1_000 });
    }
    // A stall without one has no such reason.
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    for at in [1, 1_001] {
        capture.segment(&flow.from(1, ACK, at, 1).payload(1_000)).wait(4_000.0);
    }
    let document = capture.document();
    assert_eq!((document.connections[0].download.stall_reason.clone(), ids(&document)), (None, vec![]));
}

#[test]
fn a_zero_window_of_a_subflow_stalls_the_data_level() {
    let mut capture = Capture::new();
    let first = Subflow::new(CLIENT, [9, 8]);
    first.handshake(&mut capture);
    capture.segment(&first.upload(1, 1, 500)).packet(&window(&first.acknowledge(501, 501), 0));
    capture.wait(3_000.0).packet(&window(&first.acknowledge(501, 501), 9_000));
    capture.segment(&first.upload(501, 501, 500)).segment(&first.acknowledge(1_001, 1_001));
    let connection = capture.connection();
    assert_eq!(connection.upload.stall_reason.as_deref(), Some("zero-window"));
}

#[test]
fn keep_alives_are_no_retransmissions() {
    for bytes in [0, 1] {
        let mut capture = Capture::new();
        let flow = begun(&mut capture);
        capture.segment(&flow.from(0, ACK, 1, 1).payload(100)).wait(5.0).segment(&flow.from(1, ACK, 1, 101));
        for _ in 0..5 {
            capture.wait(10_000.0).segment(&flow.from(0, ACK, 100, 1).payload(bytes)).wait(5.0);
            capture.segment(&flow.from(1, ACK, 1, 101));
        }
        capture.segment(&flow.from(0, FIN | ACK, 101, 1)).segment(&flow.from(1, FIN | ACK, 1, 102));
        let document = capture.document();
        let upload = &document.connections[0].subflows[0].upload;
        assert_eq!((upload.keep_alives, upload.payload_bytes, upload.retransmitted_bytes), (5, 100, 0));
        assert_eq!(document.findings, []);
    }
    // A byte that was not acknowledged is sent again.
    let mut capture = Capture::new();
    let flow = begun(&mut capture);
    for _ in 0..3 {
        capture.segment(&flow.from(0, ACK, 1, 1).payload(1)).wait(300.0);
    }
    let upload = capture.connection().subflows[0].upload.clone();
    assert_eq!((upload.keep_alives, upload.retransmitted_bytes), (0, 2));
}

#[test]
fn a_direction_that_was_not_captured_is_named() {
    for side in [0, 1] {
        let mut whole = Capture::new();
        let flow = Subflow::new(CLIENT, [9, 8]);
        let segments = [
            flow.from(0, SYN, 0, 0),
            flow.from(1, SYN | ACK, 0, 1),
            flow.from(0, ACK, 1, 1),
            flow.from(0, ACK, 1, 1).payload(100),
            flow.from(1, ACK, 1, 101),
            flow.from(1, ACK, 1, 101).payload(700),
            flow.from(0, ACK, 101, 701),
        ];
        for segment in segments.iter().filter(|segment| (segment.from == SERVER) == (side == 1)) {
            whole.segment(segment).wait(1_500.0);
        }
        let document = whole.document();
        assert_eq!(ids(&document), ["one-direction"], "{document:#?}");
        let absent = if side == 0 { "the server" } else { "the client" };
        assert!(document.findings[0].text.contains(absent), "{}", document.findings[0].text);
        let subflow = &document.connections[0].subflows[0];
        assert_eq!((subflow.upload.missing_bytes, subflow.download.missing_bytes), (0, 0));
    }
}

#[test]
fn packets_of_offload_are_counted() {
    let mut capture = Capture::new();
    let flow = Subflow::new(CLIENT, [9, 8]);
    let mss = [2, 4, 5, 180];
    capture
        .segment(&flow.from(0, SYN, 0, 0).option(&mss))
        .segment(&flow.from(1, SYN | ACK, 0, 1).option(&mss));
    capture
        .segment(&flow.from(0, ACK, 1, 1).payload(1_460))
        .segment(&flow.from(0, ACK, 1_461, 1).payload(14_600));
    capture.segment(&flow.from(0, ACK, 16_061, 1).payload(2_920));
    assert_eq!(capture.document().totals.offload_packets, 2);
}

#[test]
fn a_reset_of_a_subflow_shows_its_reason() {
    let mut capture = Capture::new();
    let first = Subflow::new(CLIENT, [9, 8]);
    first.handshake(&mut capture);
    capture.segment(&first.upload(1, 1, 500)).segment(&first.acknowledge(501, 501));
    let option = dss(initial_data(SERVER_KEY), None, false);
    capture.segment(&first.from(1, RST | ACK, 1, 501).option(&option).option(&RESET_ADMINISTRATIVE));
    let document = capture.document();
    let signal = document.connections[0].signals.last().unwrap();
    assert_eq!((signal.kind.as_str(), signal.sender.as_str()), ("mp-tcprst", "server"));
    assert!(found(&document, "reset").text.contains("administratively prohibited"));
}
