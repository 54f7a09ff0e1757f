//! What answers probes, without a socket: datagrams and time in, datagrams out.

use super::allowance::Allowance;
use super::header::{HEADER_BYTES, MAGIC};
use super::message::{ProbeKind, ProbeMessage, cut};
use super::newcomers::Newcomers;
use crate::cookie::Cookies;
use crate::path_mtu::{Family, SizeKind, SizeMessage};
use crate::server::{Access, Client};
use pathbench_record::time::Timestamp;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Probes per second of one client, and how many it may send at once: four interfaces behind one NAT at 20 ms.
const CLIENT_RATE: u64 = 200;

/// Packets of given sizes, taken or sent, per second of one client: examinations of four paths.
const SIZE_RATE: u64 = 1000;
/// Bytes of packets per second that one client gets by asking for them, and how many at once.
const CLIENT_LOAD_BYTES: u64 = 2_000_000;
/// The same of all clients together.
const LOAD_BYTES: u64 = 8_000_000;

/// A client that was not heard of for so long may make room for another.
const IDLE: Duration = Duration::from_secs(10);

/// Answers probes.
///
/// Five rules hold for every packet: no answer is longer than what it answers, but for a packet of the size that a
/// client has asked for who has returned his cookie; no more than a hello is answered to an address that has not
/// returned the cookie sent there; what such addresses draw on is theirs alone, so that forged sources can keep out
/// newcomers at most; a client is answered so often, and gets so many bytes, and no more; and what is remembered is
/// bounded.
#[derive(Debug)]
pub struct ProbeResponder {
    access: Access,
    cookies: Cookies,
    clients: HashMap<Client, Allowances>,
    most_clients: usize,
    newcomers: Newcomers,
    load_bytes: Allowance,
    draining: bool,
}

/// What a client may still get.
#[derive(Debug, Clone, Copy)]
struct Allowances {
    probes: Allowance,
    sizes: Allowance,
    load_bytes: Allowance,
}

impl Allowances {
    const fn full(now: Timestamp) -> Self {
        Self {
            probes: Allowance::full(CLIENT_RATE, now),
            sizes: Allowance::full(SIZE_RATE, now),
            load_bytes: Allowance::full(CLIENT_LOAD_BYTES, now),
        }
    }

    fn used_at(&self) -> Timestamp {
        self.probes.used_at().max(self.sizes.used_at())
    }
}

impl ProbeResponder {
    /// A responder for whoever `access` lets in, for at most `most_clients` at the same time.
    pub fn new(access: Access, most_clients: usize, now: Timestamp) -> Self {
        Self {
            access,
            cookies: Cookies::new(now),
            clients: HashMap::new(),
            most_clients: most_clients.max(1),
            newcomers: Newcomers::new(now),
            load_bytes: Allowance::full(LOAD_BYTES, now),
            draining: false,
        }
    }

    /// Whether a datagram is a prober's.
    pub fn takes(datagram: &[u8]) -> bool {
        datagram.starts_with(&MAGIC)
    }

    /// Lets nobody in any more; those who are go on.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The answer to a datagram from `from`, if there is one; never longer than the datagram, unless that asks for a
    /// packet of a size and has the cookie.
    pub fn answer(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        if let Some(message) = SizeMessage::decode(datagram) {
            return self.answer_size(now, from, datagram.len(), message);
        }
        let message = ProbeMessage::decode(datagram)?;
        let reply = match message.kind {
            ProbeKind::Hello => {
                if !self.newcomers.take(from.ip(), now) {
                    return None;
                }
                match self.objection(now, from, &message) {
                    None => ProbeMessage {
                        kind: ProbeKind::Welcome,
                        cookie: self.cookies.cookie(now, from, message.session),
                        text: String::new(),
                        ..message
                    },
                    Some(reason) => {
                        let text = cut(&reason, datagram.len() - HEADER_BYTES).to_owned();
                        ProbeMessage { kind: ProbeKind::Refused, cookie: 0, text, ..message }
                    }
                }
            }
            ProbeKind::Probe => {
                let is_known = self.cookies.is_valid(now, from, message.session, message.cookie);
                if !is_known || !self.admit(now, from)?.probes.take(1, now) {
                    return None;
                }
                ProbeMessage { kind: ProbeKind::Answer, text: String::new(), ..message }
            }
            ProbeKind::Welcome | ProbeKind::Refused | ProbeKind::Answer => return None,
        };
        Some(reply.encode(0))
    }

    /// The answer to an examination's message of `length` bytes.
    fn answer_size(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        length: usize,
        message: SizeMessage,
    ) -> Option<Vec<u8>> {
        let is_asked = matches!(message.kind, SizeKind::Size | SizeKind::Ask | SizeKind::Belief);
        if !is_asked || !self.cookies.is_valid(now, from, message.session, message.cookie) {
            return None;
        }
        let family = Family::of(from.ip());
        let mut all_load_bytes = self.load_bytes;
        let allowances = self.admit(now, from)?;
        if !allowances.sizes.take(1, now) {
            return None;
        }
        if message.kind == SizeKind::Size {
            let size_bytes = family.packet_bytes(length);
            return Some(SizeMessage { kind: SizeKind::Arrived, size_bytes, ..message }.encode(0));
        }
        if message.kind == SizeKind::Belief {
            return Some(SizeMessage { kind: SizeKind::Believed, limit_bytes: 0, ..message }.encode(0));
        }
        let payload = family.load_payload_bytes(message.size_bytes)?;
        let cost = u64::from(message.size_bytes);
        // Said in words: silence would be taken for the packet's fate.
        if !allowances.load_bytes.take(cost, now) || !all_load_bytes.take(cost, now) {
            return Some(SizeMessage { kind: SizeKind::Busy, ..message }.encode(0));
        }
        self.load_bytes = all_load_bytes;
        Some(SizeMessage { kind: SizeKind::Load, ..message }.encode(payload))
    }

    /// An answer in which what this host's kernel believes of the way to the client stands, where that was asked for;
    /// `believed` finds it out.
    pub fn with_belief(answer: Vec<u8>, believed: impl FnOnce() -> Option<u32>) -> Vec<u8> {
        match SizeMessage::decode(&answer) {
            Some(message) if message.kind == SizeKind::Believed => {
                SizeMessage { limit_bytes: believed().unwrap_or_default(), ..message }.encode(0)
            }
            _ => answer,
        }
    }

    /// What goes out instead of an `answer` that is longer than this host's interface takes, which is `limit` bytes
    /// where that is known.
    pub fn too_long(answer: &[u8], limit: Option<u32>) -> Option<Vec<u8>> {
        let message = SizeMessage::decode(answer).filter(|message| message.kind == SizeKind::Load)?;
        let limit_bytes = limit.unwrap_or_default();
        Some(SizeMessage { kind: SizeKind::TooLong, limit_bytes, ..message }.encode(0))
    }

    /// Why the sender of a hello may not probe, in words for the person there.
    fn objection(&self, now: Timestamp, from: SocketAddr, hello: &ProbeMessage) -> Option<String> {
        let token = (!hello.text.is_empty()).then_some(hello.text.as_str());
        if let Err(refusal) = self.access.check(token) {
            return Some(refusal.to_string());
        }
        if self.draining {
            return Some("the server is shutting down".to_owned());
        }
        let client = Client::from(from.ip());
        let is_full = !self.clients.contains_key(&client)
            && self.clients.values().filter(|allowance| now.since(allowance.used_at()) < IDLE).count()
                >= self.most_clients;
        is_full.then(|| "the server answers the probes of as many clients as it may; try later".to_owned())
    }

    /// What a client that has returned its cookie may get; `None` when there are too many.
    fn admit(&mut self, now: Timestamp, from: SocketAddr) -> Option<&mut Allowances> {
        let client = Client::from(from.ip());
        if !self.clients.contains_key(&client) && self.clients.len() >= self.most_clients {
            self.clients.retain(|_, allowance| now.since(allowance.used_at()) < IDLE);
            if self.clients.len() >= self.most_clients {
                return None;
            }
        }
        Some(self.clients.entry(client).or_insert_with(|| Allowances::full(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::TokenKey;
    use proptest::prelude::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(10_000_000_000_000 + ms * 1_000_000)
    }

    fn from(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn message(kind: ProbeKind, cookie: u64) -> ProbeMessage {
        ProbeMessage { kind, sequence: 9, session: 77, cookie, sent_ns: 5, text: String::new() }
    }

    fn open() -> ProbeResponder {
        ProbeResponder::new(Access::Open, 4, at(0))
    }

    fn ask(
        responder: &mut ProbeResponder,
        now: Timestamp,
        peer: &str,
        message: &ProbeMessage,
    ) -> Option<ProbeMessage> {
        let datagram = message.encode(0);
        let answer = responder.answer(now, from(peer), &datagram)?;
        assert!(answer.len() <= datagram.len());
        ProbeMessage::decode(&answer)
    }

    #[test]
    fn probes_are_answered_to_whoever_returns_his_cookie_and_to_nobody_else() {
        let mut responder = open();
        let welcome = ask(&mut responder, at(0), "192.0.2.1:1000", &message(ProbeKind::Hello, 0)).unwrap();
        assert_eq!((welcome.kind, welcome.sequence, welcome.sent_ns), (ProbeKind::Welcome, 9, 5));
        let probe = message(ProbeKind::Probe, welcome.cookie);
        let answer = ask(&mut responder, at(1), "192.0.2.1:1000", &probe).unwrap();
        assert_eq!(answer, ProbeMessage { kind: ProbeKind::Answer, ..probe.clone() });
        for (peer, probe) in [
            ("192.0.2.1:1001", probe.clone()),
            ("192.0.2.2:1000", probe.clone()),
            ("192.0.2.1:1000", ProbeMessage { session: 78, ..probe.clone() }),
            ("192.0.2.1:1000", ProbeMessage { cookie: probe.cookie ^ 1, ..probe.clone() }),
            ("192.0.2.1:1000", ProbeMessage { kind: ProbeKind::Answer, ..probe.clone() }),
            ("192.0.2.1:1000", ProbeMessage { kind: ProbeKind::Welcome, ..probe.clone() }),
        ] {
            assert_eq!(ask(&mut responder, at(2), peer, &probe), None, "{peer} {probe:?}");
        }
        // For two hours at most.
        let hour = 3_600_000;
        assert!(ask(&mut responder, at(hour), "192.0.2.1:1000", &probe).is_some());
        assert_eq!(ask(&mut responder, at(2 * hour), "192.0.2.1:1000", &probe), None);
    }

    #[test]
    fn who_has_no_token_is_told_within_what_he_sent() {
        let key = TokenKey::from_text(&"k".repeat(32)).unwrap();
        let token = key.mint("alice", 1000, Duration::from_secs(60)).unwrap();
        let mut responder = ProbeResponder::new(Access::Token { key, wall_clock: || 1010 }, 4, at(0));
        let hello = message(ProbeKind::Hello, 0);
        let right = ProbeMessage { text: token, ..hello.clone() };
        assert_eq!(ask(&mut responder, at(0), "192.0.2.1:1", &right).unwrap().kind, ProbeKind::Welcome);
        let wrong = ProbeMessage { text: "pb1.x".to_owned(), ..hello.clone() };
        let refused = ask(&mut responder, at(0), "192.0.2.1:1", &wrong).unwrap();
        assert_eq!((refused.kind, refused.cookie, refused.text.len()), (ProbeKind::Refused, 0, 5));
        let padded = responder.answer(at(0), from("192.0.2.1:1"), &hello.encode(400)).unwrap();
        assert!(ProbeMessage::decode(&padded).unwrap().text.contains("--token"));
        responder.drain();
        let padded = responder.answer(at(0), from("192.0.2.1:1"), &right.encode(400)).unwrap();
        assert!(ProbeMessage::decode(&padded).unwrap().text.contains("shutting down"));
    }

    #[test]
    fn a_client_is_answered_so_often_and_no_more() {
        let mut responder = open();
        let welcome = ask(&mut responder, at(0), "192.0.2.1:1", &message(ProbeKind::Hello, 0)).unwrap();
        let probe = message(ProbeKind::Probe, welcome.cookie);
        let mut answered = 0;
        for ms in 0..10_000 {
            for _ in 0..3 {
                answered += u64::from(ask(&mut responder, at(ms), "192.0.2.1:1", &probe).is_some());
            }
        }
        assert!((CLIENT_RATE * 10..=CLIENT_RATE * 11).contains(&answered), "{answered}");
        let hellos = (0..5000).filter(|_| {
            ask(&mut responder, at(10_000), "198.51.100.1:1", &message(ProbeKind::Hello, 0)).is_some()
        });
        assert!(hellos.count() <= 50);
    }

    /// Forged sources once used up what was meant for everybody.
    #[test]
    fn forged_hellos_keep_out_neither_clients_nor_newcomers_of_other_networks() {
        let mut responder = ProbeResponder::new(Access::Open, 512, at(0));
        let hello = message(ProbeKind::Hello, 0);
        let known = ask(&mut responder, at(0), "192.0.2.1:1", &hello).unwrap();
        let (mut answered, mut welcome) = (0, 0);
        for ms in 0..10_000_u64 {
            // 20,000 a second, of all addresses of 50 networks.
            for number in 0..20_u64 {
                let host = ms * 20 + number;
                let forged = format!("10.0.{}.{}:{}", host % 50, host / 50 % 256, 1000 + host % 1000);
                answered += u64::from(ask(&mut responder, at(ms), &forged, &hello).is_some());
            }
            if ms % 100 == 0 {
                let newcomer = format!("172.16.{}.1:1", ms / 100);
                welcome += u64::from(ask(&mut responder, at(ms), &newcomer, &hello).is_some());
            }
            if ms % 10 == 0 {
                let probe = message(ProbeKind::Probe, known.cookie);
                assert!(ask(&mut responder, at(ms), "192.0.2.1:1", &probe).is_some(), "a client at {ms} ms");
            }
        }
        assert!(answered <= 50 * 50 * 11, "{answered} forged hellos were answered");
        // A few share an allowance with a flooded network.
        assert!(welcome >= 85, "{welcome} of 100 newcomers were answered");

        // Floods from everywhere: newcomers are answered at the bounded rate, clients as ever.
        let everywhere = (0..100_000_u32).filter(|number| {
            let forged = SocketAddr::from((number.wrapping_mul(0x9e37_79b1).to_be_bytes(), 1));
            let datagram = hello.encode(0);
            responder.answer(at(10_000), forged, &datagram).is_some()
        });
        assert!(everywhere.count() <= 5000);
        let probe = message(ProbeKind::Probe, known.cookie);
        assert!(ask(&mut responder, at(10_001), "192.0.2.1:1", &probe).is_some());
    }

    #[test]
    fn clients_are_remembered_up_to_a_bound_and_make_room_when_idle() {
        let mut responder = open();
        let join = |responder: &mut ProbeResponder, now, peer: &str| {
            let hello = responder.answer(now, from(peer), &message(ProbeKind::Hello, 0).encode(300))?;
            let welcome = ProbeMessage::decode(&hello)?;
            ask(responder, now, peer, &message(ProbeKind::Probe, welcome.cookie))
        };
        for client in 0..4 {
            assert!(join(&mut responder, at(0), &format!("192.0.2.{client}:1")).is_some());
        }
        assert_eq!(join(&mut responder, at(5000), "192.0.2.4:1"), None);
        assert!(join(&mut responder, at(5000), "192.0.2.3:1").is_some());
        assert!(join(&mut responder, at(11_000), "192.0.2.4:1").is_some());
        assert!(responder.clients.len() <= 4);
    }

    fn size(kind: SizeKind, cookie: u64, size_bytes: u32) -> SizeMessage {
        SizeMessage { kind, sequence: 9, session: 77, cookie, size_bytes, limit_bytes: 0 }
    }

    #[test]
    fn packets_of_a_size_are_taken_and_given_with_a_cookie_only() {
        let mut responder = open();
        let welcome = ask(&mut responder, at(0), "192.0.2.1:1", &message(ProbeKind::Hello, 0)).unwrap();
        let mut ask_size = |peer: &str, message: SizeMessage, length| {
            let answer = responder.answer(at(1), from(peer), &message.encode(length))?;
            Some((SizeMessage::decode(&answer).unwrap(), answer.len()))
        };
        let known = "192.0.2.1:1";
        let (arrived, length) = ask_size(known, size(SizeKind::Size, welcome.cookie, 1), 1472).unwrap();
        assert_eq!((arrived.kind, arrived.size_bytes, length), (SizeKind::Arrived, 1500, HEADER_BYTES));
        let (load, length) = ask_size(known, size(SizeKind::Ask, welcome.cookie, 9000), 0).unwrap();
        assert_eq!((load.kind, load.sequence, length), (SizeKind::Load, 9, 9000 - 28));
        let (believed, length) = ask_size(known, size(SizeKind::Belief, welcome.cookie, 0), 0).unwrap();
        assert_eq!((believed.kind, believed.limit_bytes, length), (SizeKind::Believed, 0, HEADER_BYTES));
        let told = ProbeResponder::with_belief(believed.encode(0), || Some(1400));
        assert_eq!(SizeMessage::decode(&told).unwrap().limit_bytes, 1400);
        assert_eq!(ProbeResponder::with_belief(load.encode(0), || Some(1400)), load.encode(0));
        for (peer, message) in [
            ("192.0.2.1:2", size(SizeKind::Ask, welcome.cookie, 9000)),
            ("192.0.2.2:1", size(SizeKind::Size, welcome.cookie, 9000)),
            (known, size(SizeKind::Ask, welcome.cookie ^ 1, 9000)),
            (known, SizeMessage { session: 78, ..size(SizeKind::Ask, welcome.cookie, 9000) }),
            (known, size(SizeKind::Ask, welcome.cookie, 67)),
            (known, size(SizeKind::Ask, welcome.cookie, 65_536)),
            ("192.0.2.2:1", size(SizeKind::Belief, welcome.cookie, 9000)),
            (known, size(SizeKind::Believed, welcome.cookie, 9000)),
            (known, size(SizeKind::Load, welcome.cookie, 9000)),
            (known, size(SizeKind::TooLong, welcome.cookie, 9000)),
        ] {
            assert_eq!(ask_size(peer, message, 0), None, "{peer} {message:?}");
        }
        let too_long = ProbeResponder::too_long(&load.encode(8972), Some(1500)).unwrap();
        let too_long = SizeMessage::decode(&too_long).unwrap();
        assert_eq!(
            (too_long.kind, too_long.size_bytes, too_long.limit_bytes),
            (SizeKind::TooLong, 9000, 1500)
        );
        assert_eq!(ProbeResponder::too_long(&arrived.encode(0), Some(1500)), None);
    }

    #[test]
    fn a_client_gets_so_many_bytes_and_all_together_get_so_many() {
        let mut responder = ProbeResponder::new(Access::Open, 100, at(0));
        let mut given = |peer: &str, now, times| {
            let welcome = ask(&mut responder, now, peer, &message(ProbeKind::Hello, 0)).unwrap();
            let asked = size(SizeKind::Ask, welcome.cookie, 60_000).encode(0);
            let answers = (0..times).filter_map(|_| responder.answer(now, from(peer), &asked));
            let loads = answers.filter(|answer| {
                let kind = SizeMessage::decode(answer).unwrap().kind;
                assert!(kind == SizeKind::Load || answer.len() == HEADER_BYTES);
                kind == SizeKind::Load
            });
            loads.count() as u64 * 60_000
        };
        assert!((CLIENT_LOAD_BYTES - 60_000..=CLIENT_LOAD_BYTES).contains(&given("192.0.2.1:1", at(0), 100)));
        // By another port it is the same client.
        assert_eq!(given("192.0.2.1:2", at(0), 100), 0);
        let others: u64 = (2..60).map(|net| given(&format!("198.51.{net}.1:1"), at(0), 100)).sum();
        assert!(others <= LOAD_BYTES, "{others}");
        let second = given("192.0.2.1:1", at(1000), 100);
        assert!(second <= CLIENT_LOAD_BYTES && second > 0, "{second}");
        // More questions than anybody needs get no answer at all.
        assert!(given("192.0.2.1:1", at(10_000), 5000) <= CLIENT_LOAD_BYTES);
    }

    proptest! {
        #[test]
        fn no_datagram_gets_a_longer_answer(
            magic in any::<bool>(),
            code in 0_u8..24,
            bytes in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut datagram = bytes;
            if magic {
                datagram.splice(0..0, MAGIC.into_iter().chain([code, 1, 0]));
            }
            if let Some(answer) = open().answer(at(0), from("192.0.2.1:1"), &datagram) {
                prop_assert!(answer.len() <= datagram.len());
                prop_assert_eq!(code, 1, "only a hello is answered without a cookie");
            }
        }
    }
}
