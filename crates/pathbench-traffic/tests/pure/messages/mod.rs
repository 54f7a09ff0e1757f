//! The patterns of messages in virtual time.

mod interactive;

use pathbench_record::direction::Direction;
use pathbench_record::end::{MessageRecord, TestId};
use pathbench_record::pattern::{InteractiveParameters, PatternParameters, PingParameters};
use pathbench_record::time::Timestamp;
use pathbench_traffic::messages::{
    InteractiveCore, MessageFault, MessageResponder, PingCore, RequesterStep, ResponderPlan,
};
use pathbench_traffic::protocol::{self, ControlFrame, DecodedEvent, Decoder, FrameKind, HEADER_BYTES};
use std::time::Duration;

const TEST: TestId = TestId([7; 16]);
const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);

/// The received bytes as frames.
fn frames(decoder: &mut Decoder, bytes: &[u8]) -> Vec<ControlFrame> {
    let mut frames = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (consumed, event) = decoder.decode(rest).unwrap();
        rest = &rest[consumed..];
        match event {
            Some(DecodedEvent::Frame(frame)) => frames.push(frame),
            Some(DecodedEvent::Payload(_)) => panic!("data among messages"),
            None => {}
        }
    }
    frames
}

fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn short() -> InteractiveParameters {
    InteractiveParameters { duration: 1000 * MS, linger: 500 * MS, ..InteractiveParameters::default() }
}

fn ping(parameters: PingParameters) -> PingCore {
    PingCore::new(parameters, TEST, timestamp(0), PATIENCE)
}

/// Writes the due request and returns its number.
fn send_request(core: &mut PingCore, now: Timestamp) -> u32 {
    let RequesterStep::Write(bytes) = core.next(now).unwrap() else { panic!("nothing to write") };
    core.accepted(now, bytes.len());
    let frames = frames(&mut Decoder::new(65_536), &bytes);
    let [ControlFrame::Message(message)] = &frames[..] else { panic!("{frames:?}") };
    message.sequence
}

/// The correct answer to a request.
fn answer(parameters: &PingParameters, sequence: u32) -> ControlFrame {
    let plan = ResponderPlan::new(&PatternParameters::Ping(parameters.clone()), TEST, 0).unwrap();
    let mut responder = MessageResponder::new(plan, timestamp(0), PATIENCE);
    let mut requester = ping(PingParameters {
        count: sequence + 1,
        warm_up: 0,
        interval: Duration::ZERO,
        timeout: MS,
        ..parameters.clone()
    });
    let mut last = None;
    for number in 0..=sequence {
        let RequesterStep::Write(bytes) = requester.next(timestamp(u64::from(number))).unwrap() else {
            panic!("no request")
        };
        requester.accepted(timestamp(u64::from(number)), bytes.len());
        let request = frames(&mut Decoder::new(65_536), &bytes).remove(0);
        last = responder.take(timestamp(0), request).unwrap();
    }
    let reply = last.unwrap();
    assert_eq!(reply.acknowledgement, None);
    frames(&mut Decoder::new(65_536), &reply.answer).remove(0)
}

#[test]
fn a_ping_waits_for_its_interval_and_for_its_answer() {
    let parameters = PingParameters { count: 2, ..PingParameters::default() };
    let mut core = ping(parameters.clone());
    assert_eq!(send_request(&mut core, timestamp(0)), 0);
    assert_eq!(core.next(timestamp(1)).unwrap(), RequesterStep::Await(timestamp(3000)));
    core.take(timestamp(7), answer(&parameters, 0)).unwrap();
    // The warm-up takes its time but is not in the record.
    assert_eq!(core.next(timestamp(7)).unwrap(), RequesterStep::WaitUntil(timestamp(100)));
    assert_eq!(core.messages(), []);
    assert_eq!(send_request(&mut core, timestamp(100)), 1);
    // An answer later than the interval: the next request follows at once.
    core.take(timestamp(350), answer(&parameters, 1)).unwrap();
    assert_eq!(send_request(&mut core, timestamp(351)), 2);
    core.take(timestamp(360), answer(&parameters, 2)).unwrap();
    assert_eq!(core.next(timestamp(360)).unwrap(), RequesterStep::Finished);
    let messages = core.messages();
    let times: Vec<_> = messages.iter().map(|message| (message.sequence, message.round_trip())).collect();
    assert_eq!(times, [(0, Some(250 * MS)), (1, Some(9 * MS))]);
    assert_eq!((core.meter.end(false).bytes, core.meter.deliveries.total_bytes()), (30, 30));
}

#[test]
fn a_request_that_is_not_answered_in_time_is_lost_and_its_late_answer_ignored() {
    let parameters = PingParameters { count: 3, warm_up: 0, timeout: 500 * MS, ..PingParameters::default() };
    let mut core = ping(parameters.clone());
    assert_eq!(send_request(&mut core, timestamp(0)), 0);
    assert_eq!(core.next(timestamp(499)).unwrap(), RequesterStep::Await(timestamp(500)));
    // The timeout is over: the next request is due at once, and the late answer is not assigned to it.
    assert_eq!(send_request(&mut core, timestamp(500)), 1);
    core.take(timestamp(510), answer(&parameters, 0)).unwrap();
    core.take(timestamp(520), answer(&parameters, 1)).unwrap();
    assert_eq!(send_request(&mut core, timestamp(600)), 2);
    // An answer exactly at the timeout is also too late.
    core.take(timestamp(1100), answer(&parameters, 2)).unwrap();
    assert_eq!(core.next(timestamp(1100)).unwrap(), RequesterStep::Finished);
    let answered: Vec<_> = core.messages().iter().map(MessageRecord::round_trip).collect();
    assert_eq!(answered, [None, Some(20 * MS), None]);
    assert_eq!(core.hung(timestamp(1_000_000)), None);
}

#[test]
fn a_request_that_the_socket_takes_in_pieces_is_one_request() {
    let mut core = ping(PingParameters { request_bytes: 1000, ..PingParameters::default() });
    let mut wire = Vec::new();
    let mut now = 0;
    while let RequesterStep::Write(bytes) = core.next(timestamp(now)).unwrap() {
        wire.extend(&bytes[..bytes.len().min(300)]);
        core.accepted(timestamp(now), bytes.len().min(300));
        now += 10;
    }
    assert_eq!(wire.len(), HEADER_BYTES + 1000);
    assert_eq!(frames(&mut Decoder::new(65_536), &wire).len(), 1);
    assert_eq!((core.meter.offered.total_bytes(), core.meter.offered.first), (1000, Some(timestamp(0))));
    // A socket that accepts nothing.
    let mut core = ping(PingParameters::default());
    assert!(matches!(core.next(timestamp(0)).unwrap(), RequesterStep::Write(_)));
    assert!(matches!(core.next(timestamp(29_000)).unwrap(), RequesterStep::Write(_)));
    assert_eq!(core.hung(timestamp(30_000)), Some(PATIENCE));
}

fn responder(parameters: &InteractiveParameters) -> MessageResponder {
    let pattern = PatternParameters::Interactive(parameters.clone());
    MessageResponder::new(ResponderPlan::new(&pattern, TEST, 0).unwrap(), timestamp(0), PATIENCE)
}

fn request(parameters: &InteractiveParameters, test: TestId) -> protocol::MessageFrame {
    let mut requester =
        InteractiveCore::new(Direction::Upload, parameters.clone(), test, 0, timestamp(0), PATIENCE);
    let RequesterStep::Write(bytes) = requester.next(timestamp(0)).unwrap() else { panic!("no request") };
    match frames(&mut Decoder::new(65_536), &bytes).remove(0) {
        ControlFrame::Message(message) => message,
        frame => panic!("{frame:?}"),
    }
}

#[test]
fn requests_that_are_not_those_of_the_test_are_faults() {
    let parameters = short();
    let fault = |message: protocol::MessageFrame| {
        responder(&parameters).take(timestamp(1), ControlFrame::Message(message)).unwrap_err()
    };
    let right = request(&parameters, TEST);
    assert!(
        responder(&parameters).take(timestamp(1), ControlFrame::Message(right.clone())).unwrap().is_some()
    );
    let kind = FrameKind::Message;
    assert_eq!(
        fault(protocol::MessageFrame { sequence: 1, ..right.clone() }),
        MessageFault::OutOfTurn { kind, sequence: 1, expected: 0 }
    );
    let mut content = right.content.clone();
    content[1234] ^= 0x10;
    assert_eq!(
        fault(protocol::MessageFrame { content, ..right.clone() }),
        MessageFault::Content { kind, sequence: 0, offset: 1234 }
    );
    // The same request of another test.
    let foreign = fault(request(&parameters, TestId([8; 16])));
    assert!(matches!(foreign, MessageFault::Content { .. }), "{foreign}");
    let mut content = right.content.clone();
    content.pop();
    assert_eq!(
        fault(protocol::MessageFrame { content, ..right }),
        MessageFault::Size { kind, sequence: 0, given: 1999, asked: 2000 }
    );
    let unexpected = responder(&parameters).take(timestamp(1), ControlFrame::Start).unwrap_err();
    assert_eq!(unexpected, MessageFault::Unexpected { kind: FrameKind::Start });
}

#[test]
fn more_requests_than_agreed_on_are_not_answered() {
    let one = InteractiveParameters { duration: 100 * MS, ..short() };
    let two = InteractiveParameters { duration: 200 * MS, ..short() };
    let mut requester = InteractiveCore::new(Direction::Upload, two, TEST, 0, timestamp(0), PATIENCE);
    let mut responder = responder(&one);
    let mut replies = Vec::new();
    for now in [timestamp(0), timestamp(100)] {
        let RequesterStep::Write(bytes) = requester.next(now).unwrap() else { panic!("no request") };
        requester.accepted(now, bytes.len());
        let message = frames(&mut Decoder::new(65_536), &bytes).remove(0);
        replies.push(responder.take(now, message));
    }
    assert!(replies[0].is_ok());
    assert_eq!(replies[1], Err(MessageFault::Excess { most: 1 }));
}

#[test]
fn replies_that_answer_nothing_are_faults() {
    let parameters = short();
    let requester = || {
        let mut requester =
            InteractiveCore::new(Direction::Upload, parameters.clone(), TEST, 0, timestamp(0), PATIENCE);
        let RequesterStep::Write(bytes) = requester.next(timestamp(0)).unwrap() else { panic!("no request") };
        requester.accepted(timestamp(0), bytes.len());
        requester
    };
    let reply = responder(&parameters)
        .take(timestamp(1), ControlFrame::Message(request(&parameters, TEST)))
        .unwrap()
        .unwrap();
    let answer = frames(&mut Decoder::new(65_536), &reply.answer).remove(0);
    // An answer before the acknowledgement, an acknowledgement of an unsent request, and a repeated one.
    assert!(requester().take(timestamp(1), answer.clone()).is_err());
    assert!(requester().take(timestamp(1), ControlFrame::Acknowledge { sequence: 1 }).is_err());
    let mut twice = requester();
    twice.take(timestamp(1), ControlFrame::Acknowledge { sequence: 0 }).unwrap();
    assert!(twice.take(timestamp(1), ControlFrame::Acknowledge { sequence: 0 }).is_err());
    twice.take(timestamp(2), answer).unwrap();
    let mut core = ping(PingParameters::default());
    let never = ControlFrame::Answer(protocol::MessageFrame { sequence: 0, content: vec![0; 6] });
    assert!(matches!(core.take(timestamp(1), never), Err(MessageFault::OutOfTurn { .. })));
}

#[test]
fn a_responder_does_not_time_out_a_requester_that_follows_its_pattern() {
    let slow = InteractiveParameters { interval: 20_000 * MS, ..short() };
    let mut responder = responder(&slow);
    assert_eq!(responder.hung(timestamp(100_000)), None);
    responder.meter.progressed(timestamp(0));
    // Patience, interval and linger.
    assert_eq!(responder.hung(timestamp(50_400)), None);
    assert_eq!(responder.hung(timestamp(50_500)), Some(Duration::from_millis(50_500)));
}
