//! The payloads of frames, as an admitted peer may make them: records, requests, refusals, tokens. The first byte says
//! which. No panic, nothing accepted that its reader could not bear, and what is accepted can be written and read again.

use super::honest::{Course, end, in_both_directions};
use super::input::Input;
use super::input::changed;
use pathbench_analysis::metrics::{self, Disturbance, Measurement};
use pathbench_api::name::Name;
use pathbench_record::datagram::DatagramsParameters;
use pathbench_record::delivery::{BIN, MAX_BINS};
use pathbench_record::direction::Direction;
use pathbench_record::end::EndRecord;
use pathbench_record::event::PathEffect;
use pathbench_record::pattern::{BulkParameters, InteractiveParameters, PatternParameters, PingParameters};
use pathbench_record::response::ResponsivenessParameters;
use pathbench_record::sample::Side;
use pathbench_record::text::is_deceptive;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::protocol::{ControlFrame, DecodedEvent, Decoder, TestRequest};
use pathbench_traffic::record::check_peer;
use pathbench_traffic::server::ServerLimits;
use pathbench_traffic::token::{Audience, TokenKey};
use serde_json::Value;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.byte() % 8 {
        0 => records(input.rest(), input.rest()),
        1 => changed_records(&mut input, 1),
        2 => changed_records(&mut input, 4),
        3 => request(input.rest()),
        4 => {
            let honest = honest_request(input.below(6));
            request(changed(&mut input, honest).to_string().as_bytes());
        }
        5 => refusal(input.rest()),
        6 => token(&mut input),
        _ => frames(input.rest()),
    }
}

/// The record of honest ends of the first `streams` streams.
fn honest(side: Side, streams: u32) -> EndRecord {
    let (up, down): (Course, Course) = (vec![(3, 1000), (5000, 70)], vec![(2, 9), (400, 8), (9000, 7)]);
    let (sent, received) = if side == Side::Client { (&up, &down) } else { (&down, &up) };
    let started = Timestamp::from_nanos(if side == Side::Client { 5_000_000_000 } else { 77_000_000_000 });
    let parts = (0..streams).map(|stream| end(side, started, stream, sent, received, stream != 3)).collect();
    EndRecord::of_streams(parts).expect("streams that begin together")
}

/// An honest record, changed in some fields.
fn changed_records(input: &mut Input<'_>, streams: u32) {
    let record = serde_json::to_value(honest(Side::Server, streams)).expect("JSON");
    let one = changed(input, record.clone()).to_string();
    let other = changed(input, record).to_string();
    records(one.as_bytes(), other.as_bytes());
}

/// Two records of the server, as the client reads them.
fn records(one: &[u8], other: &[u8]) {
    let read = |json: &[u8]| serde_json::from_slice::<EndRecord>(json).ok();
    let (Some(one), Some(other)) = (read(one), read(other)) else { return };
    for streams in [1, 4] {
        let client = honest(Side::Client, streams);
        let now = client.started + 11 * SECOND;
        let accepted: Vec<&EndRecord> =
            [&one, &other].into_iter().filter(|record| check_peer(&client, record, now).is_ok()).collect();
        for record in &accepted {
            bearable(record, &client, now);
            let Ok(json) = (*record).clone().fit(40_000) else { continue };
            assert_eq!(check_peer(&client, &read(&json).expect("what was written"), now), Ok(()));
        }
        if let [one, other] = accepted.as_slice() {
            let streams: Vec<u32> =
                [one, other].iter().flat_map(|end| &end.streams).map(|one| one.stream).collect();
            if let Some(both) = EndRecord::of_streams(vec![(*one).clone(), (*other).clone()]) {
                assert!(both.deliveries.bytes.len() <= MAX_BINS);
                assert_eq!(both.streams.len(), streams.len());
                analyse(&both);
            } else {
                assert_ne!(one.started, other.started);
            }
        }
    }
    // Also what no reader should see is added up and measured without harm.
    let _ = EndRecord::of_streams(vec![one.clone(), other]).inspect(analyse);
    analyse(&one);
}

/// An accepted record is within bounds.
fn bearable(record: &EndRecord, client: &EndRecord, now: Timestamp) {
    let most = 2 * now.duration_since(client.started) + 130 * SECOND;
    for series in [&record.deliveries, &record.offered] {
        assert!(BIN * u32::try_from(series.bytes.len()).expect("few bins") <= most);
        assert!(series.bytes.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes)).is_some());
        assert!(series.gaps.len() <= series.bytes.len() * 2 + 10_000);
        for at in [series.first, series.last].into_iter().flatten() {
            assert!(at.duration_since(record.started) <= most && record.started.duration_since(at) <= most);
        }
    }
    let sent: u64 = client.streams.iter().map(|stream| stream.sent_bytes).sum();
    assert!(record.deliveries.total_bytes() <= sent);
    let texts = record.errors.iter().chain(record.streams.iter().filter_map(|stream| stream.error.as_ref()));
    assert!(texts.into_iter().all(|text| !text.contains(is_deceptive) && text.len() <= 4000));
    assert!(record.samples.iter().all(|sample| sample.at.duration_since(record.started) <= most));
    analyse(record);
}

/// All metrics of a record's series.
fn analyse(record: &EndRecord) {
    let event = Disturbance {
        at: record.started + SECOND,
        kind: "down".into(),
        path: None,
        disruptive: true,
        effect: PathEffect::Worse,
    };
    let analysis = metrics::analyse(&Measurement {
        origin: record.started,
        omit: Duration::ZERO,
        duration: None,
        direction: Direction::Upload,
        deliveries: &record.deliveries,
        offered: Some(&record.offered),
        gave_up: Some(record.ended),
        disturbances: &[event],
        paths: &metrics::PathCurves::empty(),
    });
    assert!(analysis.goodput_mbps.is_none_or(f64::is_finite));
}

/// The JSON of HELLO.
fn request(json: &[u8]) {
    let Ok(request) = TestRequest::from_json(json) else { return };
    assert_eq!(TestRequest::from_json(&request.to_json()).ok().as_ref(), Some(&request));
    let limits = ServerLimits { max_bytes: Some(1 << 30), ..ServerLimits::default() };
    let objection = limits.objection(&request.parameters, request.patience);
    if objection.is_none() {
        assert!(request.parameters.streams() <= limits.max_streams);
        assert!(request.parameters.nominal_duration().is_none_or(|time| time <= limits.max_duration));
        assert!(request.parameters.nominal_bytes().is_none_or(|bytes| bytes <= 1 << 30));
        let _ = limits.stream_ceiling(&request.parameters);
    }
}

/// A request of each pattern.
fn honest_request(pattern: usize) -> Value {
    let parameters = match pattern {
        0 => PatternParameters::Ping(PingParameters::default()),
        1 => PatternParameters::Bulk(BulkParameters::default()),
        2 => PatternParameters::Interactive(InteractiveParameters::default()),
        4 => PatternParameters::Responsiveness(ResponsivenessParameters::default()),
        5 => PatternParameters::Datagrams(DatagramsParameters::voice()),
        _ => in_both_directions(),
    };
    let request = TestRequest {
        transport: Transport::Tcp,
        patience: SECOND,
        parameters,
        token: Some("t".to_owned()),
        sample_interval: SECOND,
    };
    serde_json::from_slice(&request.to_json()).expect("JSON")
}

fn refusal(json: &[u8]) {
    let mut bytes = vec![3, 0, 0, 0];
    bytes.extend((json.len() as u32).to_be_bytes());
    bytes.extend(json);
    frames(&bytes);
}

fn frames(bytes: &[u8]) {
    let mut decoder = Decoder::new(64 * 1024);
    let mut rest = bytes;
    while !rest.is_empty() {
        let Ok((consumed, event)) = decoder.decode(rest) else { return };
        rest = &rest[consumed..];
        let Some(DecodedEvent::Frame(frame)) = event else { continue };
        if let ControlFrame::Refuse(refusal) = &frame {
            assert!(!refusal.message.contains(is_deceptive) && refusal.message.chars().count() <= 500);
            assert!(refusal.to_string().len() <= 2100);
        }
        let again = frame.encode().expect("a frame that was decoded");
        assert_eq!(
            Decoder::new(64 * 1024).decode(&again),
            Ok((again.len(), Some(DecodedEvent::Frame(frame))))
        );
    }
}

/// No token is valid but the one that was made, for as long as it was made for.
fn token(input: &mut Input<'_>) {
    let key = TokenKey::from_text(&"k".repeat(32)).expect("a key");
    let made = key.mint(Audience::Test, &Name::nearest("alice"), [7; 8], 1000, SECOND * 60).expect("a token");
    let now = input.number();
    let mut text = made.clone().into_bytes();
    for _ in 0..input.below(4) {
        let at = input.below(text.len());
        match input.byte() % 3 {
            0 => text[at] = input.byte(),
            1 => text.truncate(at + 1),
            _ => text.insert(at, input.byte()),
        }
    }
    for text in [text.as_slice(), input.rest()] {
        let Ok(text) = std::str::from_utf8(text) else { continue };
        let expected = text.trim() == made && now < 1060;
        assert_eq!(key.check(Audience::Test, text, now).is_ok(), expected, "{text}");
    }
}
