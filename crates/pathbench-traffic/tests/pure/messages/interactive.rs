//! The interactive pattern against a simulated network.

use super::{MS, PATIENCE, TEST, frames, short, timestamp};
use pathbench_analysis::metrics;
use pathbench_record::direction::Direction;
use pathbench_record::document::DelayRecord;
use pathbench_record::end::MessageRecord;
use pathbench_record::pattern::{InteractiveParameters, PatternParameters};
use pathbench_record::time::Timestamp;
use pathbench_traffic::messages::{InteractiveCore, MessageResponder, RequesterStep, ResponderPlan};
use pathbench_traffic::protocol::{ControlFrame, Decoder};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

/// One direction of a network with stalls: bytes arrive in order, `delay` after sending, and none during a stall. The
/// sender's unread bytes are limited, as by a socket's buffer.
struct Pipe {
    delay: Duration,
    /// Start and end of each stall.
    standstills: Vec<(Timestamp, Timestamp)>,
    buffer_bytes: usize,
    in_flight: VecDeque<(Timestamp, Vec<u8>)>,
}

impl Pipe {
    fn new(delay: Duration, standstills: &[(u64, u64)], buffer_bytes: usize) -> Self {
        let standstills =
            standstills.iter().map(|(from, until)| (timestamp(*from), timestamp(*until))).collect();
        Self { delay, standstills, buffer_bytes, in_flight: VecDeque::new() }
    }

    /// Number of `bytes` accepted.
    fn take(&mut self, now: Timestamp, bytes: &[u8]) -> usize {
        let held: usize = self.in_flight.iter().map(|(_, bytes)| bytes.len()).sum();
        let count = bytes.len().min(self.buffer_bytes.saturating_sub(held));
        if count > 0 {
            self.in_flight.push_back((now + self.delay, bytes[..count].to_vec()));
        }
        count
    }

    fn stands_still(&self, now: Timestamp) -> bool {
        self.standstills.iter().any(|(from, until)| (*from..*until).contains(&now))
    }

    fn give(&mut self, now: Timestamp) -> Vec<u8> {
        let mut out = Vec::new();
        while !self.stands_still(now)
            && let Some((due, _)) = self.in_flight.front()
            && *due <= now
        {
            out.extend(self.in_flight.pop_front().unwrap().1);
        }
        out
    }
}

/// Requester and responder of the interactive pattern at the two ends of a network, in steps of 1 ms.
struct Interactive {
    requester: InteractiveCore,
    responder: MessageResponder,
    there: Pipe,
    back: Pipe,
    decoder_there: Decoder,
    decoder_back: Decoder,
    replies: VecDeque<u8>,
}

impl Interactive {
    fn new(parameters: &InteractiveParameters, there: Pipe, back: Pipe) -> Self {
        let pattern = PatternParameters::Interactive(parameters.clone());
        let plan = ResponderPlan::new(&pattern, TEST, 0).unwrap();
        let mut responder = MessageResponder::new(plan, timestamp(0), PATIENCE);
        responder.meter.progressed(timestamp(0));
        Self {
            requester: InteractiveCore::new(
                Direction::Upload,
                parameters.clone(),
                TEST,
                0,
                timestamp(0),
                PATIENCE,
            ),
            responder,
            there,
            back,
            decoder_there: Decoder::new(65_536),
            decoder_back: Decoder::new(65_536),
            replies: VecDeque::new(),
        }
    }

    fn step(&mut self, now: Timestamp) {
        loop {
            match self.requester.next(now).unwrap() {
                RequesterStep::Write(bytes) => match self.there.take(now, &bytes) {
                    0 => break,
                    count => self.requester.accepted(now, count),
                },
                RequesterStep::WaitUntil(due) => {
                    assert!(due > now, "waits for the past");
                    break;
                }
                RequesterStep::Await(_) => panic!("it waits for no answer"),
                RequesterStep::Finished => break,
            }
        }
        for frame in frames(&mut self.decoder_there, &self.there.give(now)) {
            let reply = self.responder.take(now, frame).unwrap().unwrap();
            self.replies.extend(reply.acknowledgement.unwrap());
            self.responder.acknowledged(now);
            self.replies.extend(reply.answer);
            self.responder.answered(now);
        }
        let waiting: Vec<u8> = self.replies.iter().copied().collect();
        let taken = self.back.take(now, &waiting);
        self.replies.drain(..taken);
        for frame in frames(&mut self.decoder_back, &self.back.give(now)) {
            self.requester.take(now, frame).unwrap();
        }
    }

    /// Runs until all requests are settled; returns that time.
    fn run(&mut self, first: u64) -> Timestamp {
        for ms in first.. {
            self.step(timestamp(ms));
            if self.requester.is_settled(timestamp(ms)) {
                return timestamp(ms);
            }
            assert!(ms < 1_000_000, "never settled");
        }
        unreachable!("there is no last number")
    }
}

/// The delays in the record of a test that ended at `end`.
fn delay_of(messages: &[MessageRecord], end: Timestamp) -> DelayRecord {
    metrics::delay(messages, end).unwrap()
}

#[test]
fn delays_on_an_idle_network_equal_its_round_trip_time() {
    let pipe = || Pipe::new(20 * MS, &[], 1 << 20);
    let mut test = Interactive::new(&short(), pipe(), pipe());
    let ended = test.run(0);
    // The last request is due at 900 ms; the test does not wait for the linger after its answer.
    assert_eq!(ended, timestamp(940));
    let messages = test.requester.messages(ended);
    assert_eq!(messages.len(), 10);
    for (message, sequence) in messages.iter().zip(0_u32..) {
        assert_eq!(message.due, timestamp(u64::from(sequence) * 100));
        assert_eq!(message.delay(), Some(40 * MS));
        assert_eq!(message.round_trip(), Some(40 * MS));
    }
    assert_eq!(test.requester.meter.offered.total_bytes(), 10 * 2000);
    assert_eq!(test.requester.meter.end(false).bytes, test.responder.meter.deliveries.total_bytes());
    assert_eq!(test.requester.meter.deliveries.total_bytes(), test.responder.meter.offered.total_bytes());
}

#[test]
fn delays_of_requests_due_in_a_stall_count_from_their_due_times() {
    // No byte arrives for 0.5 s; the socket's buffer is full after one request.
    let there = Pipe::new(Duration::ZERO, &[(150, 650)], 2100);
    let mut test = Interactive::new(&short(), there, Pipe::new(Duration::ZERO, &[], 1 << 20));
    let ended = test.run(0);
    let messages = test.requester.messages(ended);
    assert_eq!(messages.len(), 10);
    let delays: Vec<u128> = messages.iter().map(|message| message.delay().unwrap().as_millis()).collect();
    // Requests 2 to 6 were due in the stall, at 200 to 600 ms. All arrive directly after it, as fast as the socket
    // accepts them (one per step), and the due times do not change.
    for (delay, waited) in delays[2..7].iter().zip([450, 350, 250, 150, 50]) {
        assert!((waited..waited + 10).contains(delay), "{delays:?}");
    }
    assert!(delays[..2].iter().chain(&delays[7..]).all(|delay| *delay <= 1), "{delays:?}");
    assert!(messages[3].sent.unwrap() >= timestamp(650), "was not written before the socket took it");
    assert_eq!(messages[3].due, timestamp(300));
}

#[test]
fn an_unacknowledged_request_stays_in_the_record() {
    let there = Pipe::new(Duration::ZERO, &[(450, u64::MAX / 2_000_000)], 3000);
    let mut test = Interactive::new(&short(), there, Pipe::new(Duration::ZERO, &[], 1 << 20));
    // The socket accepts half of a request, which must be completed before END: the test is not settled.
    let end = timestamp(2000);
    for ms in 0..2000 {
        test.step(timestamp(ms));
    }
    let messages = test.requester.messages(end);
    assert_eq!(messages.len(), 10);
    assert_eq!(messages.iter().filter(|message| message.acknowledged.is_none()).count(), 5);
    assert!(messages[..5].iter().all(|message| message.delay() == Some(Duration::ZERO)));
    // Request 5 was accepted by the socket and never acknowledged; later ones were not accepted.
    assert!(messages[5].sent.is_some());
    assert!(messages[6..].iter().all(|message| message.sent.is_none()));
    assert!(!test.requester.is_settled(end), "half a request cannot be left behind");
    // Unacknowledged requests count as slow, not as absent: request 5 had waited since 500 ms.
    let delay = delay_of(&messages, end);
    assert_eq!((delay.messages, delay.unacknowledged), (10, 5));
    assert_eq!((delay.p50, delay.p95, delay.max), (0.0, 1500.0, 1500.0));
    assert_eq!(test.requester.hung(timestamp(29_000)), None);
    // Counted from the due time of request 5.
    assert_eq!(test.requester.hung(timestamp(30_500)), Some(PATIENCE));
}

#[test]
fn missing_acknowledgements_are_waited_for_as_long_as_the_linger_and_no_longer() {
    let there = || Pipe::new(Duration::ZERO, &[], 1 << 20);
    let lost_for_good = Pipe::new(Duration::ZERO, &[(850, 100_000)], 1 << 20);
    let mut test = Interactive::new(&short(), there(), lost_for_good);
    assert_eq!(test.run(0), timestamp(1500));
    let marked =
        test.requester.messages(timestamp(1500)).iter().filter(|message| message.delay().is_none()).count();
    assert_eq!(marked, 1);
    // The acknowledgement arrives within the linger.
    let mut test = Interactive::new(&short(), there(), Pipe::new(Duration::ZERO, &[(850, 1300)], 1 << 20));
    assert_eq!(test.run(0), timestamp(1300));
    assert_eq!(test.requester.messages(timestamp(1300))[9].delay(), Some(400 * MS));
}

#[test]
fn requests_that_could_not_be_written_by_the_end_of_the_linger_are_given_up() {
    let mut requester = InteractiveCore::new(Direction::Download, short(), TEST, 1, timestamp(0), PATIENCE);
    assert!(matches!(requester.next(timestamp(0)).unwrap(), RequesterStep::Write(_)));
    requester.accepted(timestamp(0), 2008);
    // The thread did not run for two seconds: the remaining requests are not sent in a burst.
    assert_eq!(requester.next(timestamp(2000)).unwrap(), RequesterStep::Finished);
    assert!(requester.is_settled(timestamp(2000)));
    let messages = requester.messages(timestamp(2000));
    assert_eq!(messages.len(), 10);
    assert!(messages.iter().all(|message| message.flow == Direction::Download));
    assert_eq!(messages.iter().filter(|message| message.sent.is_some()).count(), 1);
}

#[test]
fn a_stop_cancels_only_requests_that_are_not_due_yet() {
    // The stop occurs in a stall of 0.5 s.
    let there = Pipe::new(20 * MS, &[(150, 650)], 1 << 20);
    let mut test = Interactive::new(&short(), there, Pipe::new(20 * MS, &[], 1 << 20));
    for ms in 0..420 {
        test.step(timestamp(ms));
    }
    let answered = |one: &&MessageRecord| one.answered.is_some();
    assert_eq!(test.requester.messages(timestamp(419)).iter().filter(answered).count(), 2);
    test.requester.take(timestamp(420), ControlFrame::Stop).unwrap();
    test.requester.stop(timestamp(440));
    let ended = test.run(421);
    assert!(ended < timestamp(700), "{ended:?}");
    let messages = test.requester.messages(ended);
    // Due at 0, 100, …, 400 ms: all were acknowledged, those of the stall after it.
    assert_eq!(messages.len(), 5);
    assert!(messages[2].delay().unwrap() > 450 * MS, "{messages:?}");
    assert!(messages.iter().all(|message| message.answered.is_some()));
    assert_eq!(test.requester.messages_from(3, ended), messages[3..]);
    assert_eq!(test.requester.meter.end(false).bytes, test.responder.meter.deliveries.total_bytes());
}

/// The thread that reports may lose the CPU after it has read the clock.
#[test]
fn a_request_answered_after_the_time_of_an_update_is_in_the_next_update() {
    let pipe = || Pipe::new(20 * MS, &[], 1 << 20);
    let mut test = Interactive::new(&short(), pipe(), pipe());
    for ms in 0..350 {
        test.step(timestamp(ms));
    }
    // Due at 0, 100, 200 and 300 ms, and answered 40 ms later.
    let mut reported = 0;
    let mut report = |ms| test.requester.messages_since(&mut reported, timestamp(ms));
    let updates = [report(150), report(250), report(349), report(349)];
    assert_eq!(updates.each_ref().map(Vec::len), [2, 1, 1, 0]);
    assert_eq!(updates.concat(), test.requester.messages(timestamp(349)));
}

#[test]
fn after_a_stop_missing_answers_are_awaited_for_the_linger() {
    let dead = Pipe::new(Duration::ZERO, &[(150, 100_000)], 1 << 20);
    let mut test = Interactive::new(&short(), Pipe::new(Duration::ZERO, &[], 1 << 20), dead);
    for ms in 0..300 {
        test.step(timestamp(ms));
    }
    test.requester.stop(timestamp(300));
    assert_eq!(test.run(300), timestamp(800));
    // A requester that was stopped before its start sends nothing.
    let mut unbegun = InteractiveCore::new(Direction::Upload, short(), TEST, 0, timestamp(0), PATIENCE);
    unbegun.stop(timestamp(5));
    assert_eq!(unbegun.next(timestamp(10)).unwrap(), RequesterStep::Finished);
    assert!(unbegun.is_settled(timestamp(10)) && unbegun.messages(timestamp(2000)).is_empty());
}

#[test]
fn a_request_acknowledged_before_its_write_returns_was_sent_by_then() {
    let mut requester = InteractiveCore::new(Direction::Upload, short(), TEST, 0, timestamp(0), PATIENCE);
    assert!(matches!(requester.next(timestamp(0)).unwrap(), RequesterStep::Write(_)));
    requester.take(timestamp(3), ControlFrame::Acknowledge { sequence: 0 }).unwrap();
    assert_eq!(requester.messages(timestamp(4))[0].sent, Some(timestamp(3)));
    requester.accepted(timestamp(5), 2008);
    let message = requester.messages(timestamp(6))[0];
    assert_eq!((message.sent, message.acknowledged), (Some(timestamp(3)), Some(timestamp(3))));
}

#[test]
fn a_record_closed_early_contains_all_requests_due_by_then() {
    let mut requester = InteractiveCore::new(Direction::Upload, short(), TEST, 0, timestamp(0), PATIENCE);
    assert_eq!(requester.messages(timestamp(500)), []);
    assert_eq!(requester.hung(timestamp(100_000)), None);
    let _ = requester.next(timestamp(10)).unwrap();
    assert_eq!(requester.messages(timestamp(209)).len(), 2);
    assert_eq!(requester.messages(timestamp(210)).len(), 3);
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
        let there = Pipe::new(MS * delays.0, &spans(&stalls), buffer);
        let back = Pipe::new(MS * delays.1, &spans(&silences), buffer);
        let mut test = Interactive::new(&parameters, there, back);
        let ended = test.run(first);
        let messages = test.requester.messages(ended);
        // All requests, exactly at their due times.
        prop_assert_eq!(messages.len() as u32, parameters.messages());
        for (message, sequence) in messages.iter().zip(0_u32..) {
            prop_assert_eq!(message.sequence, sequence);
            prop_assert_eq!(message.due, timestamp(first) + parameters.interval * sequence);
            let marks = [Some(message.due), message.sent, message.acknowledged, message.answered];
            for pair in marks.windows(2) {
                // Each time requires the previous one and is not before it.
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
        // Acknowledgements are in order: missing ones are at the end.
        let known = messages.iter().take_while(|message| message.acknowledged.is_some()).count();
        prop_assert!(messages[known..].iter().all(|message| message.acknowledged.is_none()));
        // No percentile is censored: the maximum is at least the wait of the first unacknowledged request.
        let delay = delay_of(&messages, ended);
        prop_assert_eq!((delay.messages as usize, delay.unacknowledged as usize), (messages.len(), messages.len() - known));
        if let Some(missing) = messages.get(known) {
            prop_assert!(delay.max >= ended.duration_since(missing.due).as_secs_f64() * 1e3 - 1e-6);
        }
        // All bytes are counted.
        let sent = messages.iter().filter(|message| message.sent.is_some()).count() as u64;
        prop_assert_eq!(test.requester.meter.offered.total_bytes(), sent * u64::from(sizes.0));
        prop_assert!(test.responder.meter.deliveries.total_bytes() <= test.requester.meter.offered.total_bytes());
        if known == messages.len() && messages.iter().all(|message| message.answered.is_some()) {
            let answers = u64::from(parameters.messages()) * u64::from(4 + sizes.1);
            prop_assert_eq!(test.requester.meter.deliveries.total_bytes(), answers);
            prop_assert_eq!(test.requester.meter.end(false).bytes, test.responder.meter.deliveries.total_bytes());
        }
    }
}
