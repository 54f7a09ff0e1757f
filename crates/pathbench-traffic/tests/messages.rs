//! The patterns of messages against a simulated network and clock.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod network;

use network::{Way, at};
use pathbench_analysis::metrics;
use pathbench_record::direction::Direction;
use pathbench_record::document::DelayRecord;
use pathbench_record::end::MessageRecord;
use pathbench_record::message::Message;
use pathbench_record::pattern::{InteractiveParameters, PatternParameters, PingParameters};
use pathbench_record::test_id::TestId;
use pathbench_record::time::Timestamp;
use pathbench_traffic::messages::{
    InteractiveCore, InteractiveStep, MessageFault, PingCore, PingStep, Responder, ResponderPlan,
};
use pathbench_traffic::protocol::{self, Decoder, Event, Frame, FrameKind, HEADER_BYTES};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

pathbench_kerneltest::privilege_independent!();

const TEST: TestId = TestId([7; 16]);
const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);

/// Whatever is received, as frames.
fn frames(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (consumed, event) = decoder.decode(rest).unwrap();
        rest = &rest[consumed..];
        match event {
            Some(Event::Frame(frame)) => frames.push(frame),
            Some(Event::Payload(_)) => panic!("data among messages"),
            None => {}
        }
    }
    frames
}

/// Asker and responder of the interactive pattern on the two ends of a network, in steps of a millisecond.
struct Interactive {
    asker: InteractiveCore,
    responder: Responder,
    there: Way,
    back: Way,
    heard_there: Decoder,
    heard_back: Decoder,
    replies: VecDeque<u8>,
}

impl Interactive {
    fn new(parameters: &InteractiveParameters, there: Way, back: Way) -> Self {
        let pattern = PatternParameters::Interactive(parameters.clone());
        let plan = ResponderPlan::of(&pattern, TEST, 0).unwrap();
        let mut responder = Responder::new(plan, at(0), PATIENCE);
        responder.begin(at(0));
        Self {
            asker: InteractiveCore::new(Direction::Upload, parameters.clone(), TEST, 0, at(0), PATIENCE),
            responder,
            there,
            back,
            heard_there: Decoder::new(65_536),
            heard_back: Decoder::new(65_536),
            replies: VecDeque::new(),
        }
    }

    fn step(&mut self, now: Timestamp) {
        loop {
            match self.asker.next(now).unwrap() {
                InteractiveStep::Write(bytes) => match self.there.take(now, &bytes) {
                    0 => break,
                    count => self.asker.accepted(now, count),
                },
                InteractiveStep::WaitUntil(due) => {
                    assert!(due > now, "waits for the past");
                    break;
                }
                InteractiveStep::Finished => break,
            }
        }
        for frame in frames(&mut self.heard_there, &self.there.give(now)) {
            let reply = self.responder.take(now, frame).unwrap().unwrap();
            self.replies.extend(reply.acknowledgement.unwrap());
            self.responder.acknowledged(now);
            self.replies.extend(reply.answer);
            self.responder.answered(now);
        }
        let waiting: Vec<u8> = self.replies.iter().copied().collect();
        let taken = self.back.take(now, &waiting);
        self.replies.drain(..taken);
        for frame in frames(&mut self.heard_back, &self.back.give(now)) {
            self.asker.take(now, frame).unwrap();
        }
    }

    /// Runs until everything is settled; returns when that was.
    fn run(&mut self, first: u64) -> Timestamp {
        for ms in first.. {
            self.step(at(ms));
            if self.asker.is_settled(at(ms)) {
                return at(ms);
            }
            assert!(ms < 1_000_000, "never settled");
        }
        unreachable!("there is no last number")
    }
}

/// What the record says of the delays of a test that ended at `end`.
fn delay_of(messages: &[MessageRecord], end: Timestamp) -> DelayRecord {
    let of_record = |message: &MessageRecord| {
        let MessageRecord { flow, sequence, due, sent, acknowledged, answered } = *message;
        Message { direction: flow, sequence, due, sent, acknowledged, answered }
    };
    let messages: Vec<Message> = messages.iter().map(of_record).collect();
    metrics::delay(&messages, end).unwrap()
}

fn short() -> InteractiveParameters {
    InteractiveParameters { duration: 1000 * MS, linger: 500 * MS, ..InteractiveParameters::default() }
}

#[test]
fn delays_on_a_quiet_network_are_its_round_trip() {
    let way = || Way::new(20 * MS, &[], 1 << 20);
    let mut test = Interactive::new(&short(), way(), way());
    let ended = test.run(0);
    // The last request is due at 900 ms; nobody waits for the linger then.
    assert_eq!(ended, at(940));
    let messages = test.asker.messages(ended);
    assert_eq!(messages.len(), 10);
    for (message, sequence) in messages.iter().zip(0_u32..) {
        assert_eq!(message.due, at(u64::from(sequence) * 100));
        assert_eq!(message.delay(), Some(40 * MS));
        assert_eq!(message.round_trip(), Some(40 * MS));
    }
    assert_eq!(test.asker.series().offered.total_bytes(), 10 * 2000);
    assert_eq!(test.asker.series().end().bytes, test.responder.series().deliveries.total_bytes());
    assert_eq!(test.asker.series().deliveries.total_bytes(), test.responder.series().offered.total_bytes());
}

#[test]
fn a_stall_delays_what_was_due_in_it_from_when_it_was_due() {
    // For half a second nothing comes through; the socket's buffer is full after one request.
    let there = Way::new(Duration::ZERO, &[(150, 650)], 2100);
    let mut test = Interactive::new(&short(), there, Way::new(Duration::ZERO, &[], 1 << 20));
    let ended = test.run(0);
    let messages = test.asker.messages(ended);
    assert_eq!(messages.len(), 10);
    let delays: Vec<u128> = messages.iter().map(|message| message.delay().unwrap().as_millis()).collect();
    // Requests 2 to 6 were due in the stall, at 200 to 600 ms. All come through right after it, as fast as the
    // socket takes them (one a step here), and the grid is where it was.
    for (delay, waited) in delays[2..7].iter().zip([450, 350, 250, 150, 50]) {
        assert!((waited..waited + 10).contains(delay), "{delays:?}");
    }
    assert!(delays[..2].iter().chain(&delays[7..]).all(|delay| *delay <= 1), "{delays:?}");
    assert!(messages[3].sent.unwrap() >= at(650), "was not written before the socket took it");
    assert_eq!(messages[3].due, at(300));
}

#[test]
fn what_is_never_acknowledged_is_marked_and_stays() {
    let there = Way::new(Duration::ZERO, &[(450, u64::MAX / 2_000_000)], 3000);
    let mut test = Interactive::new(&short(), there, Way::new(Duration::ZERO, &[], 1 << 20));
    // The socket still takes half of a request, which has to be finished before END: it is not settled.
    let end = at(2000);
    for ms in 0..2000 {
        test.step(at(ms));
    }
    let messages = test.asker.messages(end);
    assert_eq!(messages.len(), 10);
    assert_eq!(messages.iter().filter(|message| message.acknowledged.is_none()).count(), 5);
    assert!(messages[..5].iter().all(|message| message.delay() == Some(Duration::ZERO)));
    // Taken by the socket, but never heard of again; then not even that.
    assert!(messages[5].sent.is_some());
    assert!(messages[6..].iter().all(|message| message.sent.is_none()));
    assert!(!test.asker.is_settled(end), "half a request cannot be left behind");
    // Those that nobody heard of again are the slow ones, not the absent ones: request 5 had waited since 500 ms.
    let delay = delay_of(&messages, end);
    assert_eq!((delay.messages, delay.late), (10, 5));
    assert_eq!((delay.p50, delay.p95, delay.max), (0.0, 1500.0, 1500.0));
    assert_eq!(test.asker.hung(at(29_000)), None);
    // From when request 5 was due.
    assert_eq!(test.asker.hung(at(30_500)), Some(PATIENCE));
}

#[test]
fn missing_acknowledgements_are_waited_for_as_long_as_the_linger_and_no_longer() {
    let there = || Way::new(Duration::ZERO, &[], 1 << 20);
    let lost_for_good = Way::new(Duration::ZERO, &[(850, 100_000)], 1 << 20);
    let mut test = Interactive::new(&short(), there(), lost_for_good);
    assert_eq!(test.run(0), at(1500));
    let marked = test.asker.messages(at(1500)).iter().filter(|message| message.delay().is_none()).count();
    assert_eq!(marked, 1);
    // It comes back within the linger.
    let mut test = Interactive::new(&short(), there(), Way::new(Duration::ZERO, &[(850, 1300)], 1 << 20));
    assert_eq!(test.run(0), at(1300));
    assert_eq!(test.asker.messages(at(1300))[9].delay(), Some(400 * MS));
}

#[test]
fn requests_that_could_not_be_written_by_the_end_of_the_linger_are_given_up() {
    let mut asker = InteractiveCore::new(Direction::Download, short(), TEST, 1, at(0), PATIENCE);
    assert!(matches!(asker.next(at(0)).unwrap(), InteractiveStep::Write(_)));
    asker.accepted(at(0), 2008);
    // Its thread did not run for two seconds: the rest is not sent in a burst behind everybody's back.
    assert_eq!(asker.next(at(2000)).unwrap(), InteractiveStep::Finished);
    assert!(asker.is_settled(at(2000)));
    let messages = asker.messages(at(2000));
    assert_eq!(messages.len(), 10);
    assert!(messages.iter().all(|message| message.flow == Direction::Download));
    assert_eq!(messages.iter().filter(|message| message.sent.is_some()).count(), 1);
}

#[test]
fn a_stop_leaves_out_what_is_not_due_yet_and_nothing_else() {
    // Half a second during which nothing comes through, and the stop falls into it.
    let there = Way::new(20 * MS, &[(150, 650)], 1 << 20);
    let mut test = Interactive::new(&short(), there, Way::new(20 * MS, &[], 1 << 20));
    for ms in 0..420 {
        test.step(at(ms));
    }
    assert_eq!(test.asker.settled(), 2);
    test.asker.take(at(420), Frame::Stop).unwrap();
    test.asker.stop(at(440));
    let ended = test.run(421);
    assert!(ended < at(700), "{ended:?}");
    let messages = test.asker.messages(ended);
    // Due at 0, 100, …, 400 ms: all of them were acknowledged, the late ones late.
    assert_eq!(messages.len(), 5);
    assert!(messages[2].delay().unwrap() > 450 * MS, "{messages:?}");
    assert!(messages.iter().all(|message| message.answered.is_some()));
    assert_eq!(test.asker.messages_from(3, ended), messages[3..]);
    assert_eq!(test.asker.series().end().bytes, test.responder.series().deliveries.total_bytes());
}

#[test]
fn after_a_stop_what_is_missing_is_waited_for_as_long_as_the_linger() {
    let dead = Way::new(Duration::ZERO, &[(150, 100_000)], 1 << 20);
    let mut test = Interactive::new(&short(), Way::new(Duration::ZERO, &[], 1 << 20), dead);
    for ms in 0..300 {
        test.step(at(ms));
    }
    test.asker.stop(at(300));
    assert_eq!(test.run(300), at(800));
    // One that was stopped before it began has nothing to do.
    let mut unbegun = InteractiveCore::new(Direction::Upload, short(), TEST, 0, at(0), PATIENCE);
    unbegun.stop(at(5));
    assert_eq!(unbegun.next(at(10)).unwrap(), InteractiveStep::Finished);
    assert!(unbegun.is_settled(at(10)) && unbegun.messages(at(2000)).is_empty());
}

#[test]
fn a_record_closed_early_has_what_was_due_by_then() {
    let mut asker = InteractiveCore::new(Direction::Upload, short(), TEST, 0, at(0), PATIENCE);
    assert_eq!(asker.messages(at(500)), []);
    assert_eq!(asker.hung(at(100_000)), None);
    let _ = asker.next(at(10)).unwrap();
    assert_eq!(asker.messages(at(209)).len(), 2);
    assert_eq!(asker.messages(at(210)).len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_message_is_lost_and_none_slips_whatever_the_network_does(
        delays in (0_u32..300, 0_u32..300),
        stalls in prop::collection::vec((0_u64..3000, 1_u64..2000), 0..4),
        silences in prop::collection::vec((0_u64..3000, 1_u64..2000), 0..4),
        buffer in 10_usize..20_000,
        interval in 1_u32..200,
        sizes in (4_u32..3000, 4_u32..3000),
        first in 0_u64..1000,
    ) {
        let parameters = InteractiveParameters {
            duration: 1500 * MS,
            interval: MS * interval,
            request_bytes: sizes.0,
            response_bytes: sizes.1,
            linger: 100 * MS,
        };
        let spans = |spans: &[(u64, u64)]| -> Vec<(u64, u64)> {
            spans.iter().map(|(from, length)| (*from, from + length)).collect()
        };
        let there = Way::new(MS * delays.0, &spans(&stalls), buffer);
        let back = Way::new(MS * delays.1, &spans(&silences), buffer);
        let mut test = Interactive::new(&parameters, there, back);
        let ended = test.run(first);
        let messages = test.asker.messages(ended);
        // All of the grid, exactly where it belongs.
        prop_assert_eq!(messages.len() as u32, parameters.messages());
        for (message, sequence) in messages.iter().zip(0_u32..) {
            prop_assert_eq!(message.sequence, sequence);
            prop_assert_eq!(message.due, at(first) + parameters.interval * sequence);
            let marks = [Some(message.due), message.sent, message.acknowledged, message.answered];
            for pair in marks.windows(2) {
                // Each only after, and never without, the one before it.
                match (pair[0], pair[1]) {
                    (Some(before), Some(after)) => prop_assert!(before <= after, "{:?}", message),
                    (None, Some(_)) => prop_assert!(false, "{:?}", message),
                    (_, None) => {}
                }
            }
            if let Some(delay) = message.delay() {
                prop_assert!(delay >= MS * (delays.0 + delays.1), "{:?}", message);
            }
        }
        // Acknowledgements are in order: what is missing is at the end.
        let known = messages.iter().take_while(|message| message.acknowledged.is_some()).count();
        prop_assert!(messages[known..].iter().all(|message| message.acknowledged.is_none()));
        // No percentile is censored: the slowest is at least as slow as the first of the missing has waited.
        let delay = delay_of(&messages, ended);
        prop_assert_eq!((delay.messages as usize, delay.late as usize), (messages.len(), messages.len() - known));
        if let Some(missing) = messages.get(known) {
            prop_assert!(delay.max >= ended.since(missing.due).as_secs_f64() * 1e3 - 1e-6);
        }
        // Every byte is accounted for.
        let sent = messages.iter().filter(|message| message.sent.is_some()).count() as u64;
        prop_assert_eq!(test.asker.series().offered.total_bytes(), sent * u64::from(sizes.0));
        prop_assert!(test.responder.series().deliveries.total_bytes() <= test.asker.series().offered.total_bytes());
        if known == messages.len() && messages.iter().all(|message| message.answered.is_some()) {
            let answers = u64::from(parameters.messages()) * u64::from(4 + sizes.1);
            prop_assert_eq!(test.asker.series().deliveries.total_bytes(), answers);
            prop_assert_eq!(test.asker.series().end().bytes, test.responder.series().deliveries.total_bytes());
        }
    }
}

fn ping(parameters: PingParameters) -> PingCore {
    PingCore::new(parameters, TEST, at(0), PATIENCE)
}

/// Writes the request that is due, and returns its number.
fn ask(core: &mut PingCore, now: Timestamp) -> u32 {
    let PingStep::Write(bytes) = core.next(now).unwrap() else { panic!("nothing to write") };
    core.accepted(now, bytes.len());
    let frames = frames(&mut Decoder::new(65_536), &bytes);
    let [Frame::Message(message)] = &frames[..] else { panic!("{frames:?}") };
    message.sequence
}

/// The right answer to a request.
fn answer(parameters: &PingParameters, sequence: u32) -> Frame {
    let plan = ResponderPlan::of(&PatternParameters::Ping(parameters.clone()), TEST, 0).unwrap();
    let mut responder = Responder::new(plan, at(0), PATIENCE);
    let mut asker = ping(PingParameters {
        count: sequence + 1,
        warm_up: 0,
        interval: Duration::ZERO,
        timeout: MS,
        ..parameters.clone()
    });
    let mut last = None;
    for number in 0..=sequence {
        let PingStep::Write(bytes) = asker.next(at(u64::from(number))).unwrap() else { panic!("no request") };
        asker.accepted(at(u64::from(number)), bytes.len());
        let request = frames(&mut Decoder::new(65_536), &bytes).remove(0);
        last = responder.take(at(0), request).unwrap();
    }
    let reply = last.unwrap();
    assert_eq!(reply.acknowledgement, None);
    frames(&mut Decoder::new(65_536), &reply.answer).remove(0)
}

#[test]
fn a_ping_waits_for_its_turn_and_for_its_answer() {
    let parameters = PingParameters { count: 2, ..PingParameters::default() };
    let mut core = ping(parameters.clone());
    assert_eq!(ask(&mut core, at(0)), 0);
    assert_eq!(core.next(at(1)).unwrap(), PingStep::Await(at(3000)));
    core.take(at(7), answer(&parameters, 0)).unwrap();
    // The warm-up has its place on the clock but not in the record.
    assert_eq!(core.next(at(7)).unwrap(), PingStep::WaitUntil(at(100)));
    assert_eq!(core.messages(), []);
    assert_eq!(ask(&mut core, at(100)), 1);
    // An answer later than the interval: the next request follows at once.
    core.take(at(350), answer(&parameters, 1)).unwrap();
    assert_eq!(ask(&mut core, at(351)), 2);
    core.take(at(360), answer(&parameters, 2)).unwrap();
    assert_eq!(core.next(at(360)).unwrap(), PingStep::Finished);
    let messages = core.messages();
    let times: Vec<_> = messages.iter().map(|message| (message.sequence, message.round_trip())).collect();
    assert_eq!(times, [(0, Some(250 * MS)), (1, Some(9 * MS))]);
    assert_eq!((core.series().end().bytes, core.series().deliveries.total_bytes()), (30, 30));
}

#[test]
fn a_request_that_is_not_answered_in_time_is_lost_and_its_late_answer_ignored() {
    let parameters = PingParameters { count: 3, warm_up: 0, timeout: 500 * MS, ..PingParameters::default() };
    let mut core = ping(parameters.clone());
    assert_eq!(ask(&mut core, at(0)), 0);
    assert_eq!(core.next(at(499)).unwrap(), PingStep::Await(at(500)));
    // The timeout is over: the next one is due at once, and the late answer is not taken for its answer.
    assert_eq!(ask(&mut core, at(500)), 1);
    core.take(at(510), answer(&parameters, 0)).unwrap();
    core.take(at(520), answer(&parameters, 1)).unwrap();
    assert_eq!(ask(&mut core, at(600)), 2);
    // Exactly at the timeout is too late, too.
    core.take(at(1100), answer(&parameters, 2)).unwrap();
    assert_eq!(core.next(at(1100)).unwrap(), PingStep::Finished);
    let answered: Vec<_> = core.messages().iter().map(MessageRecord::round_trip).collect();
    assert_eq!(answered, [None, Some(20 * MS), None]);
    assert_eq!(core.hung(at(1_000_000)), None);
}

#[test]
fn a_request_that_the_socket_takes_in_pieces_is_one_request() {
    let mut core = ping(PingParameters { request_bytes: 1000, ..PingParameters::default() });
    let mut wire = Vec::new();
    let mut now = 0;
    while let PingStep::Write(bytes) = core.next(at(now)).unwrap() {
        wire.extend(&bytes[..bytes.len().min(300)]);
        core.accepted(at(now), bytes.len().min(300));
        now += 10;
    }
    assert_eq!(wire.len(), HEADER_BYTES + 1000);
    assert_eq!(frames(&mut Decoder::new(65_536), &wire).len(), 1);
    assert_eq!((core.series().offered.total_bytes(), core.series().offered.first), (1000, Some(at(0))));
    // A socket that takes nothing at all.
    let mut core = ping(PingParameters::default());
    assert!(matches!(core.next(at(0)).unwrap(), PingStep::Write(_)));
    assert!(matches!(core.next(at(29_000)).unwrap(), PingStep::Write(_)));
    assert_eq!(core.hung(at(30_000)), Some(PATIENCE));
}

fn responder(parameters: &InteractiveParameters) -> Responder {
    let pattern = PatternParameters::Interactive(parameters.clone());
    Responder::new(ResponderPlan::of(&pattern, TEST, 0).unwrap(), at(0), PATIENCE)
}

fn request(parameters: &InteractiveParameters, test: TestId) -> protocol::Message {
    let mut asker = InteractiveCore::new(Direction::Upload, parameters.clone(), test, 0, at(0), PATIENCE);
    let InteractiveStep::Write(bytes) = asker.next(at(0)).unwrap() else { panic!("no request") };
    match frames(&mut Decoder::new(65_536), &bytes).remove(0) {
        Frame::Message(message) => message,
        frame => panic!("{frame:?}"),
    }
}

#[test]
fn requests_that_are_not_those_of_the_test_are_faults() {
    let parameters = short();
    let fault =
        |message: protocol::Message| responder(&parameters).take(at(1), Frame::Message(message)).unwrap_err();
    let right = request(&parameters, TEST);
    assert!(responder(&parameters).take(at(1), Frame::Message(right.clone())).unwrap().is_some());
    let kind = FrameKind::Message;
    assert_eq!(
        fault(protocol::Message { sequence: 1, ..right.clone() }),
        MessageFault::OutOfTurn { kind, sequence: 1, expected: 0 }
    );
    let mut content = right.content.clone();
    content[1234] ^= 0x10;
    assert_eq!(
        fault(protocol::Message { content, ..right.clone() }),
        MessageFault::Content { kind, sequence: 0, offset: 1234 }
    );
    // The same request of another test.
    let foreign = fault(request(&parameters, TestId([8; 16])));
    assert!(matches!(foreign, MessageFault::Content { .. }), "{foreign}");
    let mut content = right.content.clone();
    content.pop();
    assert_eq!(
        fault(protocol::Message { content, ..right }),
        MessageFault::Size { kind, sequence: 0, given: 1999, asked: 2000 }
    );
    let unexpected = responder(&parameters).take(at(1), Frame::Start).unwrap_err();
    assert_eq!(unexpected, MessageFault::Unexpected { kind: FrameKind::Start });
}

#[test]
fn more_requests_than_agreed_on_are_not_answered() {
    let one = InteractiveParameters { duration: 100 * MS, ..short() };
    let two = InteractiveParameters { duration: 200 * MS, ..short() };
    let mut asker = InteractiveCore::new(Direction::Upload, two, TEST, 0, at(0), PATIENCE);
    let mut responder = responder(&one);
    let mut replies = Vec::new();
    for now in [at(0), at(100)] {
        let InteractiveStep::Write(bytes) = asker.next(now).unwrap() else { panic!("no request") };
        asker.accepted(now, bytes.len());
        let message = frames(&mut Decoder::new(65_536), &bytes).remove(0);
        replies.push(responder.take(now, message));
    }
    assert!(replies[0].is_ok());
    assert_eq!(replies[1], Err(MessageFault::Excess { most: 1 }));
}

#[test]
fn replies_that_answer_nothing_are_faults() {
    let parameters = short();
    let asker = || {
        let mut asker = InteractiveCore::new(Direction::Upload, parameters.clone(), TEST, 0, at(0), PATIENCE);
        let InteractiveStep::Write(bytes) = asker.next(at(0)).unwrap() else { panic!("no request") };
        asker.accepted(at(0), bytes.len());
        asker
    };
    let reply =
        responder(&parameters).take(at(1), Frame::Message(request(&parameters, TEST))).unwrap().unwrap();
    let answer = frames(&mut Decoder::new(65_536), &reply.answer).remove(0);
    // An answer before the acknowledgement, an acknowledgement of what was never sent, one twice.
    assert!(asker().take(at(1), answer.clone()).is_err());
    assert!(asker().take(at(1), Frame::Acknowledge { sequence: 1 }).is_err());
    let mut twice = asker();
    twice.take(at(1), Frame::Acknowledge { sequence: 0 }).unwrap();
    assert!(twice.take(at(1), Frame::Acknowledge { sequence: 0 }).is_err());
    twice.take(at(2), answer).unwrap();
    let mut core = ping(PingParameters::default());
    let never = Frame::Answer(protocol::Message { sequence: 0, content: vec![0; 6] });
    assert!(matches!(core.take(at(1), never), Err(MessageFault::OutOfTurn { .. })));
}

#[test]
fn a_responder_is_patient_with_a_requester_that_is_well() {
    let slow = InteractiveParameters { interval: 20_000 * MS, ..short() };
    let mut responder = responder(&slow);
    assert_eq!(responder.hung(at(100_000)), None);
    responder.begin(at(0));
    // Patience, interval and linger.
    assert_eq!(responder.hung(at(50_400)), None);
    assert_eq!(responder.hung(at(50_500)), Some(Duration::from_millis(50_500)));
}
