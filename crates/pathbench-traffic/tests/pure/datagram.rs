//! The datagram protocol: its messages, and a server's responder without a socket.

use pathbench_api::name::Name;
use pathbench_record::time::Timestamp;
use pathbench_testkit::FixedClock;
use pathbench_traffic::datagram::{
    DatagramClient as _, DatagramKind, DatagramMessage, DatagramResponder, HEADER_BYTES, MAGIC,
    MAX_TEXT_BYTES,
};
use pathbench_traffic::probe::{NetworkProber, ProbeOutcome};
use pathbench_traffic::server::Access;
use pathbench_traffic::token::{Audience, RevokedTokens, TokenKey};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_nanos(10_000_000_000_000 + ms * 1_000_000)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn message(kind: DatagramKind, cookie: u64) -> DatagramMessage {
    DatagramMessage { kind, sequence: 9, session: 77, cookie, value: 5, text: String::new() }
}

fn open() -> DatagramResponder {
    DatagramResponder::new(Access::Open, 4, timestamp(0))
}

fn every_kind() -> Vec<DatagramKind> {
    let mut bytes = message(DatagramKind::Hello, 0).encode(0);
    (0..=255)
        .filter_map(|code| {
            bytes[8] = code;
            DatagramMessage::decode(&bytes).map(|message| message.kind)
        })
        .collect()
}

#[test]
fn the_encoding_of_a_message_is_fixed() {
    let probe = DatagramMessage {
        kind: DatagramKind::Probe,
        sequence: 0x0102_0304,
        session: 0x1112_1314_1516_1718,
        cookie: 0x2122_2324_2526_2728,
        value: 0x3132_3334_3536_3738,
        text: "hi".to_owned(),
    };
    let common = b"\x01\x02\x03\x04\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x25\x26\x27\x28";
    let ending = b"\x31\x32\x33\x34\x35\x36\x37\x38";
    let expected = [&b"\x0bpbprobe\x04\x01\x00\x02"[..], common, ending, b"hi\0"].concat();
    assert_eq!(probe.encode(43), expected);
    let size =
        DatagramMessage { kind: DatagramKind::ExceedsInterface, value: 0, text: String::new(), ..probe };
    let expected = [&b"\x0bpbprobe\x14\x01\x00\x00"[..], common, ending, b"\0"].concat();
    assert_eq!(size.with_sizes(0x3132_3334, 0x3536_3738).encode(41), expected);
    let codes: Vec<u8> = every_kind().into_iter().map(|kind| kind as u8).collect();
    assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 20, 21, 22, 23, 32, 33, 34]);
}

#[test]
fn a_message_cut_short_or_of_another_version_is_none() {
    let message = DatagramMessage { text: "token".to_owned(), ..message(DatagramKind::Hello, 3) };
    let bytes = message.encode(0);
    for length in 0..bytes.len() {
        assert_eq!(DatagramMessage::decode(&bytes[..length]), None, "{length}");
    }
    // Messages about sizes have no text.
    for (offset, value) in [(0, 0x40), (8, 0), (8, 9), (8, 16), (9, 2), (10, 0xff), (40, 0xff)] {
        let mut other = bytes.clone();
        other[offset] = value;
        assert_eq!(DatagramMessage::decode(&other), None, "{offset}");
    }
    let long = DatagramMessage { text: "ü".repeat(400), ..message }.encode(0);
    assert_eq!(DatagramMessage::decode(&long).unwrap().text, "ü".repeat(256));
    let cut = DatagramMessage {
        text: format!("x{}", "ü".repeat(400)),
        ..DatagramMessage::new(DatagramKind::Refused, 1, 1)
    }
    .encode(0);
    assert_eq!(DatagramMessage::decode(&cut).unwrap().text.len(), MAX_TEXT_BYTES - 1);
}

fn ask(
    responder: &mut DatagramResponder,
    now: Timestamp,
    peer: &str,
    message: &DatagramMessage,
) -> Option<DatagramMessage> {
    let datagram = message.encode(0);
    let answer = responder.answer(now, address(peer), &datagram, || None)?;
    assert!(answer.len() <= datagram.len());
    DatagramMessage::decode(&answer)
}

#[test]
fn probes_are_answered_with_the_cookie_of_the_address_only() {
    let mut responder = open();
    let welcome =
        ask(&mut responder, timestamp(0), "192.0.2.1:1000", &message(DatagramKind::Hello, 0)).unwrap();
    assert_eq!((welcome.kind, welcome.sequence, welcome.value), (DatagramKind::Welcome, 9, 5));
    let probe = message(DatagramKind::Probe, welcome.cookie);
    let answer = ask(&mut responder, timestamp(1), "192.0.2.1:1000", &probe).unwrap();
    assert_eq!(answer, DatagramMessage { kind: DatagramKind::Answer, ..probe.clone() });
    for (peer, probe) in [
        ("192.0.2.1:1001", probe.clone()),
        ("192.0.2.2:1000", probe.clone()),
        ("192.0.2.1:1000", DatagramMessage { session: 78, ..probe.clone() }),
        ("192.0.2.1:1000", DatagramMessage { cookie: probe.cookie ^ 1, ..probe.clone() }),
        ("192.0.2.1:1000", DatagramMessage { kind: DatagramKind::Answer, ..probe.clone() }),
        ("192.0.2.1:1000", DatagramMessage { kind: DatagramKind::Welcome, ..probe.clone() }),
    ] {
        assert_eq!(ask(&mut responder, timestamp(2), peer, &probe), None, "{peer} {probe:?}");
    }
    // A cookie is valid for at most five minutes.
    let minute = 60_000;
    assert!(ask(&mut responder, timestamp(2 * minute), "192.0.2.1:1000", &probe).is_some());
    assert_eq!(ask(&mut responder, timestamp(5 * minute), "192.0.2.1:1000", &probe), None);
}

#[test]
fn a_refusal_for_want_of_a_token_is_no_longer_than_the_hello() {
    let key = TokenKey::from_text(&"k".repeat(32)).unwrap();
    let token = key
        .mint(Audience::Test, &Name::new("alice").unwrap(), [7; 8], 1000, Duration::from_secs(60))
        .unwrap();
    let mut responder = DatagramResponder::new(
        Access::Token {
            key,
            clock: Arc::new(FixedClock::from_unix(1010)),
            revoked: RevokedTokens::default(),
        },
        4,
        timestamp(0),
    );
    let hello = message(DatagramKind::Hello, 0);
    let right = DatagramMessage { text: token, ..hello.clone() };
    assert_eq!(ask(&mut responder, timestamp(0), "192.0.2.1:1", &right).unwrap().kind, DatagramKind::Welcome);
    let wrong = DatagramMessage { text: "pb2.x".to_owned(), ..hello.clone() };
    let refused = ask(&mut responder, timestamp(0), "192.0.2.1:1", &wrong).unwrap();
    assert_eq!((refused.kind, refused.cookie, refused.text.len()), (DatagramKind::Refused, 0, 5));
    let padded = responder.answer(timestamp(0), address("192.0.2.1:1"), &hello.encode(400), || None).unwrap();
    assert!(DatagramMessage::decode(&padded).unwrap().text.contains("--token"));
    responder.drain();
    let padded = responder.answer(timestamp(0), address("192.0.2.1:1"), &right.encode(400), || None).unwrap();
    assert!(DatagramMessage::decode(&padded).unwrap().text.contains("shutting down"));
}

#[test]
fn the_answers_to_one_client_are_rate_limited() {
    let mut responder = open();
    let welcome = ask(&mut responder, timestamp(0), "192.0.2.1:1", &message(DatagramKind::Hello, 0)).unwrap();
    let probe = message(DatagramKind::Probe, welcome.cookie);
    let mut answered = 0;
    for ms in 0..10_000 {
        for _ in 0..3 {
            answered += u64::from(ask(&mut responder, timestamp(ms), "192.0.2.1:1", &probe).is_some());
        }
    }
    assert!((2000..=2200).contains(&answered), "{answered}");
    let hellos = (0..5000).filter(|_| {
        ask(&mut responder, timestamp(10_000), "198.51.100.1:1", &message(DatagramKind::Hello, 0)).is_some()
    });
    assert!(hellos.count() <= 50);
}

/// Regression: forged sources exhausted the budget of all clients.
#[test]
fn forged_hellos_keep_out_neither_clients_nor_newcomers_of_other_networks() {
    let mut responder = DatagramResponder::new(Access::Open, 512, timestamp(0));
    let hello = message(DatagramKind::Hello, 0);
    let known = ask(&mut responder, timestamp(0), "192.0.2.1:1", &hello).unwrap();
    let (mut answered, mut welcome) = (0, 0);
    for ms in 0..10_000_u64 {
        // 20,000 per second, from all addresses of 50 networks.
        for number in 0..20_u64 {
            let host = ms * 20 + number;
            let forged = format!("10.0.{}.{}:{}", host % 50, host / 50 % 256, 1000 + host % 1000);
            answered += u64::from(ask(&mut responder, timestamp(ms), &forged, &hello).is_some());
        }
        if ms % 100 == 0 {
            let newcomer = format!("172.16.{}.1:1", ms / 100);
            welcome += u64::from(ask(&mut responder, timestamp(ms), &newcomer, &hello).is_some());
        }
        if ms % 10 == 0 {
            let probe = message(DatagramKind::Probe, known.cookie);
            assert!(
                ask(&mut responder, timestamp(ms), "192.0.2.1:1", &probe).is_some(),
                "a client at {ms} ms"
            );
        }
    }
    assert!(answered <= 50 * 50 * 11, "{answered} forged hellos were answered");
    // A few new clients share a token bucket with a flooded network.
    assert!(welcome >= 85, "{welcome} of 100 newcomers were answered");

    // A flood from all networks: new clients are answered at the limited rate, known clients as before.
    let everywhere = (0..100_000_u32).filter(|number| {
        let forged = SocketAddr::from((number.wrapping_mul(0x9e37_79b1).to_be_bytes(), 1));
        let datagram = hello.encode(0);
        responder.answer(timestamp(10_000), forged, &datagram, || None).is_some()
    });
    assert!(everywhere.count() <= 5000);
    let probe = message(DatagramKind::Probe, known.cookie);
    assert!(ask(&mut responder, timestamp(10_001), "192.0.2.1:1", &probe).is_some());
}

#[test]
fn clients_are_remembered_up_to_a_bound_and_forgotten_when_idle() {
    let mut responder = open();
    let join = |responder: &mut DatagramResponder, now, peer: &str| {
        let hello =
            responder.answer(now, address(peer), &message(DatagramKind::Hello, 0).encode(300), || None)?;
        let welcome = DatagramMessage::decode(&hello)?;
        ask(responder, now, peer, &message(DatagramKind::Probe, welcome.cookie))
    };
    for client in 0..4 {
        assert!(join(&mut responder, timestamp(0), &format!("192.0.2.{client}:1")).is_some());
    }
    assert_eq!(join(&mut responder, timestamp(5000), "192.0.2.4:1"), None);
    assert!(join(&mut responder, timestamp(5000), "192.0.2.3:1").is_some());
    assert!(join(&mut responder, timestamp(11_000), "192.0.2.4:1").is_some());
}

fn size(kind: DatagramKind, cookie: u64, size_bytes: u32) -> DatagramMessage {
    DatagramMessage { cookie, ..DatagramMessage::new(kind, 77, 9) }.with_sizes(size_bytes, 0)
}

#[test]
fn size_probes_and_requests_require_a_cookie() {
    let mut responder = open();
    let welcome = ask(&mut responder, timestamp(0), "192.0.2.1:1", &message(DatagramKind::Hello, 0)).unwrap();
    let mut ask_size = |peer: &str, message: DatagramMessage, length| {
        let answer = responder.answer(timestamp(1), address(peer), &message.encode(length), || None)?;
        Some((DatagramMessage::decode(&answer).unwrap(), answer.len()))
    };
    let known = "192.0.2.1:1";
    let (arrived, length) = ask_size(known, size(DatagramKind::SizeProbe, welcome.cookie, 1), 1472).unwrap();
    assert_eq!(
        (arrived.kind, arrived.size_bytes(), length),
        (DatagramKind::SizeReceived, 1500, HEADER_BYTES)
    );
    let (load, length) = ask_size(known, size(DatagramKind::SizeRequest, welcome.cookie, 9000), 0).unwrap();
    assert_eq!((load.kind, load.sequence, length), (DatagramKind::SizeResponse, 9, 9000 - 28));
    let (kernel_mtu, length) =
        ask_size(known, size(DatagramKind::KernelMtuRequest, welcome.cookie, 0), 0).unwrap();
    assert_eq!(
        (kernel_mtu.kind, kernel_mtu.limit_bytes(), length),
        (DatagramKind::KernelMtu, 0, HEADER_BYTES)
    );
    for (peer, message) in [
        ("192.0.2.1:2", size(DatagramKind::SizeRequest, welcome.cookie, 9000)),
        ("192.0.2.2:1", size(DatagramKind::SizeProbe, welcome.cookie, 9000)),
        (known, size(DatagramKind::SizeRequest, welcome.cookie ^ 1, 9000)),
        (known, DatagramMessage { session: 78, ..size(DatagramKind::SizeRequest, welcome.cookie, 9000) }),
        (known, size(DatagramKind::SizeRequest, welcome.cookie, 67)),
        (known, size(DatagramKind::SizeRequest, welcome.cookie, 65_536)),
        ("192.0.2.2:1", size(DatagramKind::KernelMtuRequest, welcome.cookie, 9000)),
        (known, size(DatagramKind::KernelMtu, welcome.cookie, 9000)),
        (known, size(DatagramKind::SizeResponse, welcome.cookie, 9000)),
        (known, size(DatagramKind::ExceedsInterface, welcome.cookie, 9000)),
    ] {
        assert_eq!(ask_size(peer, message.clone(), 0), None, "{peer} {message:?}");
    }
    let asked = size(DatagramKind::KernelMtuRequest, welcome.cookie, 0).encode(0);
    let answer = responder.answer(timestamp(1), address(known), &asked, || Some(1400)).unwrap();
    assert_eq!(DatagramMessage::decode(&answer).unwrap().limit_bytes(), 1400);
    let too_long = DatagramResponder::too_long(&load.encode(8972), Some(1500)).unwrap();
    let too_long = DatagramMessage::decode(&too_long).unwrap();
    assert_eq!(
        (too_long.kind, too_long.size_bytes(), too_long.limit_bytes()),
        (DatagramKind::ExceedsInterface, 9000, 1500)
    );
    assert_eq!(DatagramResponder::too_long(&arrived.encode(0), Some(1500)), None);
}

const CLIENT_BYTES: u64 = 1_200_000;

#[test]
fn the_bytes_sent_to_one_client_and_to_all_clients_are_rate_limited() {
    let mut responder = DatagramResponder::new(Access::Open, 100, timestamp(0));
    let mut given = |peer: &str, now, times| {
        let welcome = ask(&mut responder, now, peer, &message(DatagramKind::Hello, 0)).unwrap();
        let asked = size(DatagramKind::SizeRequest, welcome.cookie, 60_000).encode(0);
        let answers = (0..times).filter_map(|_| responder.answer(now, address(peer), &asked, || None));
        let loads = answers.filter(|answer| {
            let kind = DatagramMessage::decode(answer).unwrap().kind;
            assert!(kind == DatagramKind::SizeResponse || answer.len() == HEADER_BYTES);
            kind == DatagramKind::SizeResponse
        });
        loads.count() as u64 * 60_000
    };
    assert!((CLIENT_BYTES - 60_000..=CLIENT_BYTES).contains(&given("192.0.2.1:1", timestamp(0), 100)));
    // Another port is the same client.
    assert_eq!(given("192.0.2.1:2", timestamp(0), 100), 0);
    let others: u64 = (2..60).map(|net| given(&format!("198.51.{net}.1:1"), timestamp(0), 100)).sum();
    assert!(others <= 8_000_000, "{others}");
    let second = given("192.0.2.1:1", timestamp(1000), 100);
    assert!(second <= 200_000 && second > 0, "{second}");
    // Requests beyond the rate limit get no answer.
    assert!(given("192.0.2.1:1", timestamp(10_000), 5000) <= CLIENT_BYTES);
}

/// Regression: a cookie directed 2 MB/s at the next holder of its address for up to two hours.
#[test]
fn a_former_holder_of_an_address_directs_little_at_the_next_one() {
    let mut responder = open();
    let welcome = ask(&mut responder, timestamp(0), "192.0.2.1:1", &message(DatagramKind::Hello, 0)).unwrap();
    // From now on the sender does not receive at the address. No request of theirs renews the cookie.
    let request = size(DatagramKind::SizeRequest, welcome.cookie, 1500);
    let renewal = message(DatagramKind::Hello, welcome.cookie);
    let (mut bytes, mut last) = (0, 0);
    for ms in (1..2 * 3_600_000_u64).step_by(20) {
        for _ in 0..if ms < 400_000 { 20 } else { 1 } {
            let answer = responder.answer(timestamp(ms), address("192.0.2.1:1"), &request.encode(0), || None);
            if let Some(answer) = answer {
                (bytes, last) = (bytes + answer.len() as u64, ms);
            }
        }
        if ms % 1000 == 1 {
            let _to_the_next_holder = ask(&mut responder, timestamp(ms), "192.0.2.1:1", &renewal);
        }
    }
    assert!(last > 120_000, "a search of a path MTU needs its cookie for longer than {last} ms");
    assert!(last < 300_000, "packets are sent until {last} ms");
    // 200 kB/s, and refusals of 40 bytes.
    assert!(bytes < CLIENT_BYTES + 300 * (200_000 + 1000 * 40), "{bytes} bytes");
}

/// Cookies expire within minutes; a prober renews its cookie in time, even at a server that is shutting down.
#[test]
fn a_prober_loses_no_probe_to_the_end_of_its_cookie() {
    let mut responder = open();
    let interval = Duration::from_millis(100);
    let mut prober = NetworkProber::new(0, timestamp(0), interval, 7, None);
    for ms in (0..1_200_000_u64).step_by(100) {
        if ms == 90_000 {
            responder.drain();
        }
        let probe = prober.poll(timestamp(ms)).unwrap();
        let answer = responder.answer(timestamp(ms + 5), address("192.0.2.1:1"), &probe.payload, || None);
        prober.received(timestamp(ms + 10), &answer.unwrap());
        for sample in prober.take_settled() {
            assert!(matches!(sample.outcome, ProbeOutcome::Answered { .. }), "{ms} ms: {sample:?}");
        }
    }
    assert_eq!(prober.in_flight.len(), 0);
}

proptest! {
    #[test]
    fn no_datagram_gets_a_longer_answer(
        magic in any::<bool>(),
        code in 0_u8..40,
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut datagram = bytes;
        if magic {
            datagram.splice(0..0, MAGIC.into_iter().chain([code, 1, 0]));
        }
        if let Some(answer) = open().answer(timestamp(0), address("192.0.2.1:1"), &datagram, || None) {
            prop_assert!(answer.len() <= datagram.len());
            prop_assert_eq!(code, 1, "only a hello is answered without a cookie");
        }
    }
    #[test]
    fn messages_round_trip(
        kind in prop::sample::select(every_kind()),
        numbers in any::<(u32, u64, u64, u32, u32)>(),
        text in "\\PC{0,120}",
        length in 0_usize..2000,
    ) {
        let text = if (kind as u8) < 16 { text } else { String::new() };
        let (sequence, session, cookie, size_bytes, limit_bytes) = numbers;
        let message = DatagramMessage { cookie, text, ..DatagramMessage::new(kind, session, sequence) };
        let message = message.with_sizes(size_bytes, limit_bytes);
        let bytes = message.encode(length);
        prop_assert_eq!(bytes.len(), length.max(HEADER_BYTES + message.text.len()));
        prop_assert_eq!((message.size_bytes(), message.limit_bytes()), (size_bytes, limit_bytes));
        prop_assert_eq!(DatagramMessage::decode(&bytes), Some(message));
        prop_assert_eq!(DatagramMessage::decode(&bytes[..HEADER_BYTES - 1]), None);
    }

    #[test]
    fn arbitrary_bytes_are_read_or_not(
        magic in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = if magic { [&MAGIC[..], &bytes].concat() } else { bytes };
        if let Some(message) = DatagramMessage::decode(&bytes) {
            prop_assert!(message.text.len() <= MAX_TEXT_BYTES);
            prop_assert_eq!(&message.encode(0)[..], &bytes[..HEADER_BYTES + message.text.len()]);
            prop_assert_eq!(DatagramMessage::decode(&message.encode(0)), Some(message));
        }
    }
}
