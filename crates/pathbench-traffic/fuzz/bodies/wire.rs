//! Bytes as they come off the wire, to one of four readers: the frames of the test protocol, the messages of `ping` and
//! `interactive`, the probes of networks, the packets of a path MTU's examination. The first byte chooses.

use pathbench_record::datagram::DatagramsParameters;
use pathbench_record::direction::Direction;
use pathbench_record::end::TestId;
use pathbench_record::network::AddressFamily;
use pathbench_record::pattern::{InteractiveParameters, PatternParameters, PingParameters};
use pathbench_record::response::ResponsivenessParameters;
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_traffic::datagram::{
    DatagramClient as _, DatagramKind, DatagramMessage, DatagramResponder, MAGIC, PathJoin, Unsent,
};
use pathbench_traffic::flow::{FlowReceiver, ReceiverPlan};
use pathbench_traffic::messages::{self, InteractiveCore, PingCore, RequesterStep, ResponderPlan};
use pathbench_traffic::meter::Meter;
use pathbench_traffic::path_mtu::{Finder, MtuBounds, SessionParameters, Watch, WatchPace};
use pathbench_traffic::probe::NetworkProber;
use pathbench_traffic::protocol::{DecodeError, DecodedEvent, Decoder};
use pathbench_traffic::responsiveness::{LoadCore, LoadPlan, LoadStep};
use pathbench_traffic::server::Access;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const TEST: TestId = TestId([0; 16]);
const PATIENCE: Duration = Duration::from_secs(5);
const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    match choice % 4 {
        0 => decoder(bytes),
        1 => messages(bytes),
        2 => probes(bytes),
        _ => sizes(bytes),
    }
}

fn decode(pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<DecodedEvent>, Option<DecodeError>) {
    let mut decoder = Decoder::new(64 * 1024);
    let mut events: Vec<DecodedEvent> = Vec::new();
    for mut rest in pieces {
        while !rest.is_empty() {
            match decoder.decode(rest) {
                Err(error) => return (events, Some(error)),
                Ok((consumed, event)) => {
                    rest = &rest[consumed..];
                    match (event, events.last_mut()) {
                        (None, _) => {}
                        (Some(DecodedEvent::Payload(more)), Some(DecodedEvent::Payload(run))) => *run += more,
                        (Some(event), _) => {
                            if let DecodedEvent::Frame(frame) = &event {
                                assert!(frame.encode().is_ok(), "decoded what cannot be encoded");
                            }
                            events.push(event);
                        }
                    }
                }
            }
        }
    }
    (events, None)
}

/// The decoder on arbitrary bytes: no panic, and the same events in one piece as byte by byte.
fn decoder(bytes: &[u8]) {
    let whole = decode(&mut std::iter::once(bytes));
    let single = decode(&mut bytes.chunks(1));
    assert_eq!(whole, single);
}

/// For any messages of a peer: no panic, nothing is acknowledged that was not sent, and no answer to what
/// was not asked.
fn messages(bytes: &[u8]) {
    let at = Timestamp::from_nanos;
    let parameters = InteractiveParameters { request_bytes: 4, response_bytes: 4, ..Default::default() };
    let pattern = PatternParameters::Interactive(parameters.clone());
    let plan = ResponderPlan::new(&pattern, TEST, 0).expect("a pattern of messages");
    let mut responder = messages::MessageResponder::new(plan, at(0), PATIENCE);
    let mut requester = InteractiveCore::new(Direction::Upload, parameters, TEST, 0, at(0), PATIENCE);
    let short = PingParameters { request_bytes: 4, response_bytes: 4, ..Default::default() };
    let mut ping = PingCore::new(short, TEST, at(0), PATIENCE);
    let (events, _) = decode(&mut std::iter::once(bytes));
    let frames = events
        .into_iter()
        .filter_map(|event| if let DecodedEvent::Frame(frame) = event { Some(frame) } else { None });
    loads(bytes);
    for (frame, step) in frames.zip(0_u64..) {
        let now = at(step * 50_000_000);
        if let Ok(RequesterStep::Write(request)) = requester.next(now) {
            requester.accepted(now, request.len());
        }
        if let Ok(RequesterStep::Write(request)) = ping.next(now) {
            ping.accepted(now, request.len());
        }
        let _ = requester.take(now, frame.clone());
        let _ = ping.take(now, frame.clone());
        let _ = responder.take(now, frame);
        for message in requester.messages(now) {
            assert!(message.acknowledged.is_none() || message.sent.is_some());
            assert!(message.answered.is_none() || message.acknowledged.is_some());
        }
        assert!(ping.messages().iter().all(|message| message.answered.is_none() || message.sent.is_some()));
    }
}

/// For any bytes of a peer to either end of loaded streams, while they send: no more payload than arrived, no answer to a
/// probe that was not sent, and none of more probes than the time allows.
fn loads(bytes: &[u8]) {
    let parameters = ResponsivenessParameters { probe_bytes: 4, ..super::conversation::short_load() };
    for (side, stream) in [(Side::Client, 0), (Side::Server, 0), (Side::Server, 1)] {
        let (parameters, mut now) = (parameters.clone(), Timestamp::from_nanos(1_000_000_000));
        let most = parameters.probes() as usize;
        let plan = LoadPlan {
            side,
            test: TEST,
            stream,
            block_bytes: parameters.block_bytes,
            parameters,
            ceiling_bytes: Some(20_000),
            patience: PATIENCE,
        };
        let mut core = LoadCore::new(plan, now);
        let mut decoder = Decoder::new(64 * 1024);
        for piece in bytes.chunks(24) {
            match core.next(now) {
                Ok(LoadStep::Data { from, until, .. }) => core.accepted(now, until - from),
                Ok(LoadStep::Frame(frame)) => core.accepted(now, frame.len()),
                Ok(LoadStep::WaitUntil(at)) => now = now.max(at),
                Ok(LoadStep::Finished) | Err(_) => break,
            }
            now = now + Duration::from_millis(1);
            match core.take(now, &mut decoder, piece) {
                Ok(taken) if !taken.ended => {}
                _ => break,
            }
        }
        assert!(core.sending.sent_bytes <= 20_000);
        assert!(core.receiving.meter.received_bytes <= bytes.len() as u64);
        let response = core.response();
        assert_eq!(response.is_some(), side == Side::Client && !bytes.is_empty());
        let probes = response.map(|response| response.probes).unwrap_or_default();
        assert!(
            probes.len() <= most
                && probes.iter().all(|probe| probe.answered.is_none_or(|at| at >= probe.due))
        );
    }
}

/// Any datagrams to a responder or a prober: no panic, no answer longer than its question, none but to a hello without a
/// cookie, and no round trip for what was not sent.
fn probes(bytes: &[u8]) {
    let now = Timestamp::from_nanos(1_000_000_000);
    let mut responder = DatagramResponder::new(Access::Open, 2, now);
    let mut prober = NetworkProber::new(0, now, Duration::from_millis(100), 1, None);
    let _ = prober.poll(now);
    let mut join = PathJoin::new(TestId([7; 16]), 0, 1, None);
    let parameters =
        DatagramsParameters { duration: Duration::from_millis(100), ..DatagramsParameters::voice() };
    let plan = ReceiverPlan { parameters, is_flow_per_path: bytes.len().is_multiple_of(2) };
    let mut flow = FlowReceiver::new(plan, Meter::new(now, Duration::from_secs(1)));
    for piece in bytes.chunks(64) {
        let datagram = [&MAGIC[..], piece].concat();
        for datagram in [piece, &datagram] {
            if let Some(answer) = responder.answer(now, ([192, 0, 2, 1], 9).into(), datagram, || None) {
                assert!(answer.len() <= datagram.len(), "amplified");
                assert_eq!(
                    DatagramMessage::decode(datagram).map(|message| message.kind),
                    Some(DatagramKind::Hello)
                );
            }
            prober.received(now + Duration::from_millis(5), datagram);
            if let Some(message) = DatagramMessage::decode(datagram) {
                join.receive(now, &message);
                let length = usize::try_from(message.value % 2_000).unwrap_or_default();
                flow.receive(now, message.cookie as u32, message.sequence, length);
            }
            assert!(join.poll(now).is_none_or(|request| request.len() < 400));
        }
    }
    assert!(flow.meter.received_bytes <= 5 * 160 && flow.log.len() <= 5 + 64);
    prober.finish();
    assert_eq!(prober.take_settled().len(), 1);
}

/// Any datagrams to a search for a path MTU, to its watch, or to the responder: no panic, no size without its answer, and
/// no packet of a size for an address without a cookie.
fn sizes(bytes: &[u8]) {
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let parameters = SessionParameters { session: 1, token: None, family: AddressFamily::Ipv4 };
    let client = ([192, 0, 2, 1], 9).into();
    let mut responder = DatagramResponder::new(Access::Open, 2, now);
    let mut finder = Finder::new(now, parameters.clone(), MtuBounds::default());
    let mut watch = Watch::new(now, parameters, MtuBounds::default(), WatchPace::default());
    let mut largest = 0;
    for piece in bytes.chunks(36) {
        let (choice, rest) = piece.split_first().map_or((0, piece), |(first, rest)| (*first, rest));
        now = now + Duration::from_millis(u64::from(choice));
        let datagram = [&MAGIC[..], rest].concat();
        let kind = DatagramMessage::decode(&datagram).map(|message| message.kind);
        let answer = responder.answer(now, client, &datagram, || None);
        assert!(kind == Some(DatagramKind::Hello) || answer.is_none());
        finder.received(now, &datagram);
        watch.received(now, &datagram);
        finder.icmp(now, ROUTER, u32::from(choice) * 40, rest);
        watch.icmp(now, ROUTER, u32::from(choice) * 40, rest);
        for _ in 0..16 {
            let Some(outgoing) = finder.poll(now) else { break };
            // By the input: lost, too long, not sent, or answered.
            match choice % 4 {
                0 => finder.not_sent(now, outgoing.sequence, Unsent::TooLong { limit_bytes: Some(1500) }),
                1 => finder.not_sent(now, outgoing.sequence, Unsent::Full),
                2 => {}
                _ => {
                    if let Some(answer) = responder.answer(now, client, &outgoing.payload, || None) {
                        largest = largest.max(answer.len()).max(outgoing.payload.len());
                        finder.received(now, &answer);
                    }
                }
            }
        }
        let _ = watch.poll(now);
        let _ = (finder.due(), watch.due(), watch.take_event());
    }
    let found = finder.result(now);
    for found in [found.upload.found, found.download.found].into_iter().flatten() {
        assert!(found.mtu_bytes as usize <= largest + 28, "a size that nothing had");
    }
}
