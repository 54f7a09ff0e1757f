//! Whatever a peer sends among messages: no panic, nothing is acknowledged that was not sent, and no answer to what
//! was not asked.

use pathbench_record::direction::Direction;
use pathbench_record::pattern::{InteractiveParameters, PatternParameters, PingParameters};
use pathbench_record::test_id::TestId;
use pathbench_record::time::Timestamp;
use pathbench_traffic::messages::{
    InteractiveCore, InteractiveStep, PingCore, PingStep, Responder, ResponderPlan,
};
use pathbench_traffic::protocol::{Decoder, Event, Frame};
use std::time::Duration;

const TEST: TestId = TestId([0; 16]);
const PATIENCE: Duration = Duration::from_secs(5);

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Decoder::new(64 * 1024);
    let mut frames = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Ok((consumed, event)) = decoder.decode(rest) else { break };
        rest = &rest[consumed..];
        if let Some(Event::Frame(frame)) = event {
            frames.push(frame);
        }
    }
    frames
}

pub(crate) fn run(bytes: &[u8]) {
    let at = Timestamp::from_nanos;
    let parameters = InteractiveParameters { request_bytes: 4, response_bytes: 4, ..Default::default() };
    let pattern = PatternParameters::Interactive(parameters.clone());
    let plan = ResponderPlan::of(&pattern, TEST, 0).expect("a pattern of messages");
    let mut responder = Responder::new(plan, at(0), PATIENCE);
    let mut asker = InteractiveCore::new(Direction::Upload, parameters, TEST, 0, at(0), PATIENCE);
    let short = PingParameters { request_bytes: 4, response_bytes: 4, ..Default::default() };
    let mut ping = PingCore::new(short, TEST, at(0), PATIENCE);
    for (frame, step) in frames(bytes).into_iter().zip(0_u64..) {
        let now = at(step * 50_000_000);
        if let Ok(InteractiveStep::Write(request)) = asker.next(now) {
            asker.accepted(now, request.len());
        }
        if let Ok(PingStep::Write(request)) = ping.next(now) {
            ping.accepted(now, request.len());
        }
        let _ = asker.take(now, frame.clone());
        let _ = ping.take(now, frame.clone());
        let _ = responder.take(now, frame);
        for message in asker.messages(now) {
            assert!(message.acknowledged.is_none() || message.sent.is_some());
            assert!(message.answered.is_none() || message.acknowledged.is_some());
        }
        assert!(ping.messages().iter().all(|message| message.answered.is_none() || message.sent.is_some()));
    }
}
