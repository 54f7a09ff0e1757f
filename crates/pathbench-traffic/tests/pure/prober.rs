//! The prober of one path, without a socket.

use pathbench_record::time::Timestamp;
use pathbench_traffic::datagram::{
    DatagramClient as _, DatagramKind, DatagramMessage, DatagramResponder, Outgoing, Unsent,
};
use pathbench_traffic::probe::{NetworkProber, ProbeCounts, ProbeOutcome, ProbeSample};
use pathbench_traffic::server::Access;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_nanos(5_000_000_000 + ms * 1_000_000)
}

fn prober() -> NetworkProber {
    NetworkProber::new(0, timestamp(0), 100 * MS, 42, None)
}

/// Runs a prober against a responder for `ms` over a path of `rtt_ms`; `fate`: how often each datagram arrives.
fn run(ms: u64, rtt_ms: u64, fate: impl Fn(u32) -> usize) -> (NetworkProber, Vec<ProbeSample>) {
    let peer = "192.0.2.1:9".parse().unwrap();
    let mut responder = DatagramResponder::new(Access::Open, 4, timestamp(0));
    let (mut prober, mut settled) = (prober(), Vec::new());
    let mut in_flight: BTreeMap<Timestamp, Vec<Vec<u8>>> = BTreeMap::new();
    for now in 0..ms {
        for answer in in_flight.remove(&timestamp(now)).unwrap_or_default() {
            prober.received(timestamp(now), &answer);
        }
        if let Some(Outgoing { sequence, payload }) = prober.poll(timestamp(now)) {
            for _ in 0..fate(sequence) {
                let answer = responder.answer(timestamp(now), peer, &payload, || None);
                in_flight.entry(timestamp(now + rtt_ms)).or_default().extend(answer);
            }
        }
        prober.expire(timestamp(now));
        settled.extend(prober.take_settled());
    }
    prober.finish();
    settled.extend(prober.take_settled());
    (prober, settled)
}

#[test]
fn every_probe_is_accounted_for_once_and_the_first_already_measures() {
    let (prober, settled) = run(2000, 30, |_| 1);
    assert_eq!(settled.len(), 20);
    for (probe, sequence) in settled.iter().zip(0..) {
        assert_eq!((probe.sequence, probe.sent_at), (sequence, timestamp(u64::from(sequence) * 100)));
        assert_eq!(probe.outcome, ProbeOutcome::Answered { rtt: 30 * MS });
    }
    assert_eq!(prober.counts, ProbeCounts::default());
    assert!(prober.in_flight.is_empty());
}

#[test]
fn silence_counts_as_loss_and_later_answers_count_again() {
    // No datagram arrives from 1 s to 3 s.
    let (_, settled) = run(8000, 30, |sequence| usize::from(!(10..30).contains(&sequence)));
    let lost: Vec<u32> = settled
        .iter()
        .filter(|probe| probe.outcome == ProbeOutcome::Lost)
        .map(|probe| probe.sequence)
        .collect();
    assert_eq!(lost, (10..30).collect::<Vec<_>>());
    assert_eq!(settled.len(), 80);
}

#[test]
fn a_new_address_costs_no_probe() {
    let mut responder = DatagramResponder::new(Access::Open, 4, timestamp(0));
    let mut prober = prober();
    for (step, peer) in [(0, "192.0.2.1:9"), (100, "192.0.2.1:9"), (200, "192.0.2.7:4")] {
        if step == 200 {
            prober.discard_cookie();
        }
        let probe = prober.poll(timestamp(step)).unwrap();
        let answer =
            responder.answer(timestamp(step), peer.parse().unwrap(), &probe.payload, || None).unwrap();
        prober.received(timestamp(step + 1), &answer);
    }
    let settled = prober.take_settled();
    assert_eq!(settled.len(), 3);
    assert!(settled.iter().all(|probe| probe.outcome == ProbeOutcome::Answered { rtt: MS }));
}

#[test]
fn late_answers_and_duplicates_are_distinguished() {
    let (prober, settled) = run(8000, 3200, |_| 1);
    assert!(settled.iter().all(|probe| probe.outcome == ProbeOutcome::Lost));
    assert!(prober.counts.late >= 40 && prober.counts.duplicates == 0, "{:?}", prober.counts);
    let (prober, settled) = run(1000, 10, |_| 2);
    assert!(settled.iter().all(|probe| probe.outcome == ProbeOutcome::Answered { rtt: 10 * MS }));
    assert_eq!(prober.counts, ProbeCounts { late: 0, duplicates: 10 });
}

#[test]
fn probes_not_sent_are_refused_with_the_reason() {
    let mut prober = prober();
    assert_eq!(prober.poll(timestamp(0)).unwrap().sequence, 0);
    let unreachable = Unsent::Failed { reason: "Network is unreachable".to_owned() };
    prober.not_sent(timestamp(0), 0, unreachable);
    prober.not_sent(timestamp(0), 0, Unsent::Full);
    prober.refused("nothing is in flight".to_owned());
    assert_eq!(prober.poll(timestamp(99)), None);
    // Asleep from 100 ms to 350 ms: 1 and 2 were never sent.
    assert_eq!(prober.poll(timestamp(350)).unwrap().sequence, 3);
    let refused: Vec<(u32, bool)> = prober
        .take_settled()
        .iter()
        .map(|probe| (probe.sequence, matches!(&probe.outcome, ProbeOutcome::Refused { .. })))
        .collect();
    assert_eq!(refused, [(0, true), (1, true), (2, true)]);
    assert_eq!(prober.due(), timestamp(400));
    // The work after a year of sleep is also limited.
    assert!(prober.poll(timestamp(400 + 365 * 86_400_000)).is_some());
    assert!(prober.take_settled().len() <= 4096);
}

#[test]
fn a_refusal_is_reported_with_the_servers_reason_and_a_hello_follows() {
    let mut prober = prober();
    let Outgoing { sequence, payload } = prober.poll(timestamp(0)).unwrap();
    let hello = DatagramMessage::decode(&payload).unwrap();
    let refusal = DatagramMessage { kind: DatagramKind::Refused, text: "no".to_owned(), ..hello };
    prober.received(timestamp(5), &refusal.encode(0));
    let error = "the server refused: no".to_owned();
    assert_eq!(
        prober.take_settled(),
        [ProbeSample { path: 0, sequence, sent_at: timestamp(0), outcome: ProbeOutcome::Refused { error } }]
    );
    let again = DatagramMessage::decode(&prober.poll(timestamp(100)).unwrap().payload).unwrap();
    assert_eq!(again.kind, DatagramKind::Hello);
    // Answers of another session are ignored.
    let foreign = DatagramMessage { kind: DatagramKind::Welcome, session: 43, sequence: 1, ..refusal };
    prober.received(timestamp(105), &foreign.encode(0));
    assert!(!prober.in_flight.is_empty());
}

proptest! {
    #[test]
    fn whatever_comes_each_probe_is_settled_once(
        datagrams in prop::collection::vec((any::<bool>(), 0_u8..7, 0_u32..12, 0_u64..2000), 0..60),
    ) {
        let mut prober = prober();
        let (mut settled, mut sent, mut now) = (Vec::new(), 0, 0);
        for (ours, code, sequence, later) in datagrams {
            now += later;
            sent += u32::from(prober.poll(timestamp(now)).is_some());
            let mut datagram = DatagramMessage {
                kind: DatagramKind::Answer,
                sequence,
                session: if ours { 42 } else { 1 },
                cookie: 1,
                value: 0,
                text: String::new(),
            }
            .encode(0);
            datagram[8] = code;
            prober.received(timestamp(now), &datagram);
            prober.expire(timestamp(now));
            settled.extend(prober.take_settled());
        }
        prober.finish();
        settled.extend(prober.take_settled());
        let mut numbers: Vec<u32> = settled.iter().map(|probe| probe.sequence).collect();
        numbers.sort_unstable();
        prop_assert!(numbers.len() as u32 >= sent);
        prop_assert_eq!(numbers, (0..settled.len() as u32).collect::<Vec<_>>());
    }
}
