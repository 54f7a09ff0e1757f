//! Results with messages: the suite of `pathbench test` over four transports, and a handover under interactive traffic.

use super::{Course, add_carried, event, finish_run, link, nothing, run};
use pathbench_analysis::metrics;
use pathbench_record::direction::Direction;
use pathbench_record::document::{
    DirectionRecord, Reachability, ResultDocument, RunRecord, ServerRecord, UnreachableBecause,
};
use pathbench_record::end::{MessageLine, MessageRecord};
use pathbench_record::network::AddressFamily;
use pathbench_record::statistics::SplitMix64;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_report::ResultSet;
use serde_json::json;
use std::time::Duration;

const ORIGIN: Timestamp = Timestamp::from_nanos(1_000_000_000_000);
const LABELS: [&str; 4] = ["tcp", "mptcp", "quic", "mpquic"];

fn at(ms: f64) -> Timestamp {
    ORIGIN + Duration::from_nanos((ms * 1e6) as u64)
}

/// Round-trip time with a tail: most values near `floor_ms`, one in twenty up to twice as long.
fn noisy(random: &mut SplitMix64, floor_ms: f64) -> f64 {
    let part = random.draw_below(1000) as f64 / 1000.0;
    floor_ms * (1.0 + 0.15 * part + if part > 0.95 { 20.0 * (part - 0.95) } else { 0.0 })
}

/// A period without delivery: messages due in it wait until its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    pub(super) from_ms: f64,
    pub(super) until_ms: f64,
}

/// Adds 10 s of messages in both directions, one per 100 ms; the requester gives up 5 s after the last message.
pub(super) fn add_messages(set: &mut ResultSet, run: &mut RunRecord, floor_ms: f64, outage: Option<Outage>) {
    let mut random = SplitMix64::new(u64::from(run.repetition) * 31 + run.label.len() as u64);
    let end = at(15_000.0);
    let mut all = Vec::new();
    for direction in Direction::BOTH {
        let messages: Vec<MessageRecord> = (0..100_u32)
            .map(|sequence| {
                let due = f64::from(sequence) * 100.0;
                let took = noisy(&mut random, floor_ms);
                let through = match outage {
                    Some(outage) if due + took / 2.0 >= outage.from_ms && due < outage.until_ms => {
                        outage.until_ms + took
                    }
                    _ => due + took,
                };
                let acknowledged = (through < 15_000.0).then(|| at(through));
                MessageRecord {
                    flow: direction,
                    sequence,
                    due: at(due),
                    sent: Some(at(due)),
                    acknowledged,
                    answered: acknowledged,
                }
            })
            .collect();
        run.directions.push(DirectionRecord {
            direction,
            goodput_mbps: None,
            delivered_bytes: 275_000,
            stall_ms: None,
            delay_ms: metrics::delay(&messages, end),
        });
        set.lines.held.messages.extend(MessageLine::of_messages(&run.id, &messages, ORIGIN, end));
        all.extend(messages);
    }
    run.delay_ms = metrics::delay(&all, end);
    run.delivered_bytes = 550_000;
    run.duration_ms = 10_000.0;
}

pub(super) fn of_transport(id: &str, label: &str, repetition: u32, pattern: &str) -> RunRecord {
    let mut run = run(id, label, repetition);
    run.transport = label.split('@').next().and_then(|name| name.parse().ok()).unwrap_or_default();
    pattern.clone_into(&mut run.pattern);
    run.multipath.requested = run.transport.is_multipath();
    run.multipath.negotiated = run.multipath.requested;
    run.multipath.used = run.multipath.requested;
    run.encrypted = matches!(run.transport, Transport::Quic | Transport::Mpquic);
    run.encryption = run.encrypted.then(|| "TLS 1.3 TLS13_AES_128_GCM_SHA256".to_owned());
    run.handshake_ms = Some(if run.encrypted { 24.0 } else { 21.0 });
    run
}

/// The suite against a server on the Internet: four transports, five patterns, six repetitions.
pub(crate) fn suite() -> ResultSet {
    let mut set = nothing("test", "the suite against test.example, over wifi and lte");
    set.document.servers = servers();
    set.document.reachability = reachability();
    for repetition in 1..=6_u32 {
        for (index, label) in LABELS.into_iter().enumerate() {
            for pattern in ["ping", "bulk", "throughput-upload", "throughput-download", "interactive"] {
                let id = format!("{repetition}{index}-{label}-{pattern}-r{repetition}");
                let mut run = of_transport(&id, label, repetition, pattern);
                run.server = Some("test.example:4433".to_owned());
                suite_run(&mut set, &mut run);
                finish_run(&mut set, run);
            }
        }
    }
    set
}

fn suite_run(set: &mut ResultSet, run: &mut RunRecord) {
    let mut random = SplitMix64::new(u64::from(run.repetition) + 7 * run.label.len() as u64);
    let multipath = run.transport.is_multipath();
    let wobble = 1.0 + random.draw_below(100) as f64 / 900.0;
    let seed = u64::from(run.repetition);
    let courses = |rate: f64, until: f64| {
        let mut courses = vec![Course::new("wifi", rate, seed).until(until)];
        if multipath {
            courses.push(Course::new("lte", rate * 0.6, seed + 3).until(until));
        }
        courses
    };
    let asked = match run.pattern.as_str() {
        "ping" => {
            let mut answers: Vec<Option<Duration>> =
                (0..5).map(|_| Some(Duration::from_secs_f64(noisy(&mut random, 20.0) / 1e3))).collect();
            if run.label == "quic" && run.repetition == 2 {
                answers[3] = None;
            }
            run.ping = metrics::ping(&answers);
            run.multipath.used = false;
            json!({ "count": 5, "warm_up": 1, "interval_ms": 100.0 })
        }
        "bulk" => {
            let rate = if multipath { 72.0 } else { 45.0 } * wobble;
            run.fct_ms = Some(80_000.0 / rate + 40.0);
            add_carried(set, run, Direction::Download, &courses(45.0 * wobble, 80_000.0 / rate));
            json!({ "bytes": 10_000_000, "streams": 1 })
        }
        "interactive" => {
            run.multipath.used = false;
            add_messages(set, run, if run.encrypted { 22.0 } else { 20.0 } * wobble, None);
            if run.label == "mpquic" && run.repetition == 4 {
                run.touched_by = vec!["`lte` lost its address 100.64.0.7 at 4.2 s".to_owned()];
            }
            json!({ "duration_ms": 10_000.0, "interval_ms": 100.0 })
        }
        up_or_down => {
            let (direction, rate) = if up_or_down == "throughput-upload" {
                (Direction::Upload, 18.0)
            } else {
                (Direction::Download, 46.0)
            };
            run.stall_ms = Some(12.0 * wobble);
            add_carried(set, run, direction, &courses(rate * wobble, 3000.0));
            json!({ "direction": direction.name(), "duration_ms": 3000.0, "streams": 1 })
        }
    };
    run.parameters.asked = asked.as_object().cloned().unwrap_or_default();
}

fn servers() -> Vec<ServerRecord> {
    let server = |address: &str, ping_ms: Option<f64>, lost, chosen| ServerRecord {
        address: address.to_owned(),
        name: ping_ms.map(|_| "a server".to_owned()),
        ping_ms,
        lost,
        chosen,
        error: ping_ms.is_none().then(|| "no answer within 3 s".to_owned()),
    };
    vec![
        server("far.example:4433", Some(183.0), 1, false),
        server("test.example:4433", Some(20.4), 0, true),
        server("dead.example:4433", None, 5, false),
    ]
}

fn reachability() -> Vec<Reachability> {
    let mut all = Vec::new();
    for transport in [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic] {
        for family in [AddressFamily::Ipv4, AddressFamily::Ipv6] {
            for port in [4433, 443] {
                let blocked = matches!(transport, Transport::Quic | Transport::Mpquic) && port == 443;
                let reachable = family == AddressFamily::Ipv4 && !blocked;
                all.push(Reachability {
                    server: "test.example:4433".to_owned(),
                    transport,
                    family,
                    port,
                    reachable,
                    rtt_ms: reachable.then_some(42.0),
                    error: None,
                    error_kind: match (reachable, family) {
                        (true, _) => None,
                        (false, AddressFamily::Ipv6) => Some(UnreachableBecause::NoRoute),
                        (false, AddressFamily::Ipv4) => Some(UnreachableBecause::Timeout),
                    },
                });
            }
        }
    }
    all
}

/// Interactive traffic while `wlan` goes down at 3 s and comes back at 7 s, on each transport.
pub(crate) fn handover() -> ResultSet {
    let mut set = nothing("handover", "one of two paths goes away under interactive traffic");
    set.document.links = vec![link("wlan", 50_000_000), link("lte", 50_000_000)];
    for repetition in 1..=3_u32 {
        let late = f64::from(repetition) * 7.0;
        for (label, until_ms) in [
            ("mpquic", Some(3090.0)),
            ("mptcp", Some(3310.0)),
            ("quic@wlan", Some(8100.0)),
            ("tcp@wlan", Some(20_000.0)),
            ("tcp@lte", None),
        ] {
            let id = format!("{}-r{repetition}", label.replace('@', "-"));
            let mut run = of_transport(&id, label, repetition, "interactive");
            set.lines.held.events.push(event(&id, 3000.0, "down", "wlan"));
            set.lines.held.events.push(event(&id, 7000.0, "up", "wlan"));
            let outage = until_ms.map(|until_ms| Outage { from_ms: 3000.0, until_ms: until_ms + late });
            add_messages(&mut set, &mut run, if label.ends_with("lte") { 45.0 } else { 18.0 }, outage);
            let asked = json!({ "duration_ms": 10_000.0, "interval_ms": 100.0 });
            run.parameters.asked = asked.as_object().cloned().unwrap_or_default();
            finish_run(&mut set, run);
        }
    }
    set
}

/// One ping run without answers, and one interactive run without messages.
pub(crate) fn silence() -> ResultSet {
    let mut set =
        ResultSet { document: ResultDocument::default(), ..nothing("silence", "nothing came back") };
    "silence".clone_into(&mut set.document.scenario.name);
    let mut ping = of_transport("01", "quic", 1, "ping");
    ping.ping = metrics::ping(&[None, None, None]);
    finish_run(&mut set, ping);
    finish_run(&mut set, of_transport("02", "quic", 1, "interactive"));
    set
}
