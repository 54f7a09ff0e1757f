//! The load core of `responsiveness`: phases, probes between blocks, and peers that break the rules.

use pathbench_record::direction::DataDirection;
use pathbench_record::end::TestId;
use pathbench_record::response::{LAST_ANSWERS, LoadPhase, ResponsivenessParameters};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_traffic::messages::MessageFault;
use pathbench_traffic::protocol::{ControlFrame, Decoder, EndFrame, MessageFrame};
use pathbench_traffic::responsiveness::{LoadCore, LoadPlan, LoadStep};
use pathbench_traffic::throughput::{DataBlock, ReceiveFault};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const TEST: TestId = TestId([9; 16]);

fn parameters() -> ResponsivenessParameters {
    ResponsivenessParameters {
        idle: 300 * MS,
        load: 500 * MS,
        settle: 100 * MS,
        pause: 100 * MS,
        interval: 20 * MS,
        block_bytes: 1024,
        ..ResponsivenessParameters::default()
    }
}

fn core(side: Side, stream: u32, parameters: &ResponsivenessParameters) -> LoadCore {
    let plan = LoadPlan {
        side,
        test: TEST,
        stream,
        parameters: parameters.clone(),
        block_bytes: parameters.block_bytes,
        ceiling_bytes: None,
        patience: 1000 * MS,
    };
    LoadCore::new(plan, at(0))
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1 << 40) + Duration::from_millis(ms)
}

/// One direction of a link: a rate, a delay, and the bytes on it.
struct Pipe {
    bytes_per_ms: usize,
    delay_ms: u64,
    /// Bytes that the socket holds.
    held: VecDeque<u8>,
    most: usize,
    flying: VecDeque<(u64, Vec<u8>)>,
    decoder: Decoder,
}

impl Pipe {
    fn new(bytes_per_ms: usize, delay_ms: u64, most: usize) -> Self {
        let decoder = Decoder::new(64 * 1024);
        Self { bytes_per_ms, delay_ms, held: VecDeque::new(), most, flying: VecDeque::new(), decoder }
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.most - self.held.len());
        self.held.extend(&bytes[..count]);
        count
    }

    fn turn(&mut self, ms: u64) {
        let count = self.held.len().min(self.bytes_per_ms);
        let sent: Vec<u8> = self.held.drain(..count).collect();
        if count > 0 {
            self.flying.push_back((ms + self.delay_ms, sent));
        }
    }

    fn arrived(&mut self, ms: u64) -> Option<Vec<u8>> {
        self.flying.front().filter(|(due, _)| *due <= ms)?;
        self.flying.pop_front().map(|(_, bytes)| bytes)
    }
}

/// Whether the end has finished.
fn write_all_due(core: &mut LoadCore, pipe: &mut Pipe, ms: u64, has_ended: &mut bool) {
    let mut block = DataBlock::new(core.payload_per_block);
    while !*has_ended {
        let bytes = match core.next(at(ms)).unwrap() {
            LoadStep::Finished => {
                let end = ControlFrame::End(core.own_end()).encode().unwrap();
                assert_eq!(pipe.write(&end), end.len());
                *has_ended = true;
                return;
            }
            LoadStep::WaitUntil(due) => {
                assert!(due > at(ms), "a wait ends later");
                return;
            }
            LoadStep::Frame(bytes) => bytes,
            LoadStep::Data { header, from, until } => {
                block.set_header(header);
                block.bytes[from..until].to_vec()
            }
        };
        // Space for END remains.
        let count = bytes.len().min((pipe.most - pipe.held.len()).saturating_sub(64));
        let count = pipe.write(&bytes[..count]);
        core.accepted(at(ms), count);
        if count == 0 {
            return;
        }
    }
}

fn read_all_arrived(core: &mut LoadCore, pipe: &mut Pipe, ms: u64) {
    while let Some(bytes) = pipe.arrived(ms) {
        core.take(at(ms), &mut pipe.decoder, &bytes).unwrap();
    }
}

/// Both ends over a link until both have the other's END.
fn simulate(parameters: &ResponsivenessParameters, stream: u32, socket_bytes: usize) -> [LoadCore; 2] {
    let mut client = core(Side::Client, stream, parameters);
    let mut server = core(Side::Server, stream, parameters);
    // 8 Mbit/s, 5 ms in each direction.
    let mut up = Pipe::new(1000, 5, socket_bytes);
    let mut down = Pipe::new(1000, 5, socket_bytes);
    let mut ended = [false, false];
    for ms in 0..20_000 {
        write_all_due(&mut client, &mut up, ms, &mut ended[0]);
        write_all_due(&mut server, &mut down, ms, &mut ended[1]);
        up.turn(ms);
        down.turn(ms);
        read_all_arrived(&mut server, &mut up, ms);
        read_all_arrived(&mut client, &mut down, ms);
        assert_eq!(client.hung_receiving(at(ms)), None, "at {ms} ms");
        assert_eq!(server.hung_receiving(at(ms)), None, "at {ms} ms");
        if client.receiving.end.is_some() && server.receiving.end.is_some() {
            return [client, server];
        }
    }
    panic!("the test did not end: {client:#?}");
}

#[test]
fn the_phases_follow_each_other_with_pauses_before_those_of_load() {
    let windows = parameters().windows();
    let phases: Vec<LoadPhase> = windows.iter().map(|window| window.phase).collect();
    assert_eq!(phases, [LoadPhase::Idle, LoadPhase::Download, LoadPhase::Upload, LoadPhase::Both]);
    assert_eq!(windows[0].until, 300 * MS);
    let [from, measured, until] = [400, 500, 900].map(|ms| ms * MS);
    assert_eq!((windows[1].from, windows[1].measured_from, windows[1].until), (from, measured, until));
    assert_eq!(parameters().duration(), windows[3].until);
}

#[test]
fn each_end_loads_in_its_phases_only_and_every_probe_is_answered() {
    let [client, server] = simulate(&parameters(), 0, 32 * 1024);
    assert_eq!(client.sending.sent_bytes, server.receiving.meter.received_bytes);
    assert_eq!(server.sending.sent_bytes, client.receiving.meter.received_bytes);
    let response = client.response().unwrap();
    assert_eq!(response.probes.len(), parameters().probes() as usize);
    let bins = |core: &LoadCore, from: usize, until: usize| -> u64 {
        core.sending.offered.bytes.iter().take(until / 10).skip(from / 10).sum()
    };
    // Idle; download; upload; both.
    for (from, until, loads) in [
        (0, 400, [false, false]),
        (400, 900, [false, true]),
        (1000, 1500, [true, false]),
        (1600, 2100, [true, true]),
    ] {
        let sent = [bins(&client, from, until), bins(&server, from, until)].map(|bytes| bytes > 0);
        assert_eq!(sent, loads, "{from} to {until} ms");
    }
    let delay = |from: u64, until: u64| -> Vec<Duration> {
        let within = response.probes.iter().filter(|one| one.due >= at(from) && one.due < at(until));
        within.map(|one| one.round_trip().unwrap()).collect()
    };
    assert!(
        delay(0, 300).iter().all(|delay| (10 * MS..=12 * MS).contains(delay)),
        "idle: {:?}",
        delay(0, 300)
    );
    // The answer waits behind 32 KiB in the server's socket, 32 ms at 1000 bytes per ms.
    let loaded = delay(600, 850);
    assert!(loaded.iter().all(|delay| (38 * MS..=48 * MS).contains(delay)), "download: {loaded:?}");
}

#[test]
fn a_stream_without_probes_is_silent_in_the_idle_phase_without_counting_as_hung() {
    let slow = ResponsivenessParameters { idle: 3000 * MS, ..parameters() };
    let [client, _] = simulate(&slow, 1, 32 * 1024);
    assert_eq!(client.response(), None);
}

fn frame(core: &mut LoadCore, ms: u64, frame: &ControlFrame) -> Result<(), ReceiveFault> {
    let mut decoder = Decoder::new(64 * 1024);
    core.take(at(ms), &mut decoder, &frame.encode().unwrap()).map(drop)
}

/// The answers of an honest server to the first `count` requests.
fn answers(client: &mut LoadCore, count: u32) -> Vec<ControlFrame> {
    let mut server = core(Side::Server, 0, &parameters());
    server.begin(at(0));
    let mut made = Vec::new();
    for ms in 0.. {
        while let LoadStep::Frame(request) = client.next(at(ms)).unwrap() {
            client.accepted(at(ms), request.len());
            server.take(at(ms), &mut Decoder::new(64 * 1024), &request).unwrap();
            let LoadStep::Frame(answer) = server.next(at(ms)).unwrap() else { panic!("no answer") };
            server.accepted(at(ms), answer.len());
            let (_, event) = Decoder::new(64 * 1024).decode(&answer).unwrap();
            let Some(pathbench_traffic::protocol::DecodedEvent::Frame(answer)) = event else { panic!() };
            made.push(answer);
            if made.len() == count as usize {
                return made;
            }
        }
    }
    unreachable!()
}

#[test]
fn a_server_that_answers_unasked_or_twice_ends_the_test() {
    let mut client = core(Side::Client, 0, &parameters());
    let two = answers(&mut client, 2);
    assert_eq!(frame(&mut client, 30, &two[0]), Ok(()));
    let twice = frame(&mut client, 31, &two[0]);
    assert!(
        matches!(twice, Err(ReceiveFault::Message(MessageFault::OutOfTurn { sequence: 0, .. }))),
        "{twice:?}"
    );
    // Request 2 was not made yet.
    let mut client = core(Side::Client, 0, &parameters());
    let three = answers(&mut core(Side::Client, 0, &parameters()), 3);
    answers(&mut client, 2);
    three[..2].iter().for_each(|answer| frame(&mut client, 30, answer).unwrap());
    let unasked = frame(&mut client, 31, &three[2]);
    assert!(matches!(unasked, Err(ReceiveFault::Message(MessageFault::OutOfTurn { .. }))), "{unasked:?}");
}

#[test]
fn an_answer_of_wrong_content_or_on_another_stream_ends_the_test() {
    let mut client = core(Side::Client, 0, &parameters());
    let ControlFrame::Answer(answer) = answers(&mut client, 1).remove(0) else { panic!() };
    let altered = MessageFrame { content: vec![0; answer.content.len()], ..answer.clone() };
    let fault = frame(&mut client, 5, &ControlFrame::Answer(altered)).unwrap_err();
    assert!(matches!(fault, ReceiveFault::Message(MessageFault::Content { .. })), "{fault:?}");
    let mut other = core(Side::Client, 1, &parameters());
    other.begin(at(0));
    let fault = frame(&mut other, 5, &ControlFrame::Answer(answer)).unwrap_err();
    assert!(matches!(fault, ReceiveFault::Unexpected { .. }), "{fault:?}");
}

#[test]
fn a_server_that_never_answers_costs_the_probes_and_at_most_the_patience() {
    let mut client = core(Side::Client, 0, &parameters());
    let over = parameters().duration() + LAST_ANSWERS;
    let mut hung = None;
    for ms in 0..10_000 {
        match client.next(at(ms)).unwrap() {
            LoadStep::Frame(bytes) => client.accepted(at(ms), bytes.len()),
            LoadStep::Data { from, until, .. } => client.accepted(at(ms), until - from),
            LoadStep::WaitUntil(_) => {}
            LoadStep::Finished => {
                assert!(at(ms) >= at(0) + over && at(ms) <= at(1) + over, "finished at {ms} ms");
                break;
            }
        }
        hung = hung.or_else(|| client.hung_receiving(at(ms)).map(|_| ms));
    }
    assert_eq!(hung, Some(1000), "the patience of 1 s, from the first request on");
    assert!(client.response().unwrap().probes.iter().all(|probe| probe.answered.is_none()));
}

#[test]
fn a_server_accepts_no_more_requests_than_the_test_has() {
    let few = ResponsivenessParameters { interval: 1000 * MS, ..parameters() };
    let mut server = core(Side::Server, 0, &few);
    server.begin(at(0));
    let requests: Vec<Vec<u8>> = {
        let mut client = core(Side::Client, 0, &parameters());
        let mut made = Vec::new();
        for ms in 0..200 {
            while let LoadStep::Frame(bytes) = client.next(at(ms)).unwrap() {
                client.accepted(at(ms), bytes.len());
                made.push(bytes);
            }
        }
        made
    };
    let most = few.probes() as usize;
    let mut decoder = Decoder::new(64 * 1024);
    for request in &requests[..most] {
        server.take(at(1), &mut decoder, request).unwrap();
    }
    let excess = server.take(at(1), &mut decoder, &requests[most]);
    assert!(matches!(excess, Err(ReceiveFault::Message(MessageFault::Excess { .. }))), "{excess:?}");
}

#[test]
fn load_outside_its_phase_is_counted_and_bounded_by_the_ceiling() {
    let plan = LoadPlan {
        side: Side::Client,
        test: TEST,
        stream: 0,
        parameters: parameters(),
        block_bytes: 1024,
        ceiling_bytes: Some(2000),
        patience: 1000 * MS,
    };
    let mut client = LoadCore::new(plan, at(0));
    client.begin(at(0));
    let mut block = DataBlock::new(1000);
    block.set_header(pathbench_traffic::protocol::data_header(1000));
    let mut decoder = Decoder::new(64 * 1024);
    for _ in 0..2 {
        client.take(at(5), &mut decoder, &block.bytes).unwrap();
    }
    assert_eq!(client.receiving.meter.received_bytes, 2000);
    let excess = client.take(at(6), &mut decoder, &block.bytes);
    assert_eq!(excess, Err(ReceiveFault::Excess { limit: 2000 }));
}

#[test]
fn a_client_that_ends_early_gets_no_further_load() {
    let mut server = core(Side::Server, 0, &parameters());
    server.begin(at(0));
    // In the download phase.
    assert!(matches!(server.next(at(450)).unwrap(), LoadStep::Data { .. }));
    let LoadStep::Data { from, until, .. } = server.next(at(450)).unwrap() else { panic!() };
    server.accepted(at(450), until - from);
    frame(&mut server, 451, &ControlFrame::End(EndFrame::default())).unwrap();
    assert_eq!(server.next(at(452)).unwrap(), LoadStep::Finished);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any sizes the test ends with equal counts, all probes answered, in order.
    #[test]
    fn every_test_over_a_working_link_completes(
        idle in 20_u64..200,
        load in 50_u64..300,
        interval in 20_u64..90,
        block in 64_u32..9000,
        socket in 2_000_usize..60_000,
        phases in proptest::sample::subsequence(DataDirection::ALL.to_vec(), 1..=3),
    ) {
        let parameters = ResponsivenessParameters {
            idle: Duration::from_millis(idle),
            load: Duration::from_millis(load),
            settle: Duration::ZERO,
            pause: 20 * MS,
            interval: Duration::from_millis(interval),
            block_bytes: block,
            phases,
            ..parameters()
        };
        let [client, server] = simulate(&parameters, 0, socket);
        prop_assert_eq!(client.own_end().bytes, server.receiving.meter.received_bytes);
        prop_assert_eq!(server.own_end().bytes, client.receiving.meter.received_bytes);
        let probes = client.response().unwrap().probes;
        prop_assert_eq!(probes.len(), parameters.probes() as usize);
        prop_assert!(probes.iter().all(|probe| probe.answered.is_some()));
    }
}
