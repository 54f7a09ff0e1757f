//! Validation of a peer's record: every honest record passes, and no harmful value does.

use crate::honest;

use honest::{Course, end, series};
use pathbench_record::connection::PathEventKind;
use pathbench_record::delivery::Gap;
use pathbench_record::end::{EndRecord, MessageRecord, TestId};
use pathbench_record::pattern::{PatternParameters, ThroughputParameters};
use pathbench_record::response::{LoadProbe, ProbeKind, ResponseRecord, ResponsivenessParameters};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_traffic::record::check_peer;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Both ends' records of a test in both directions over some streams, each with its own clock, and the client's time.
#[derive(Debug, Clone)]
struct Honest {
    client: EndRecord,
    server: EndRecord,
    now: Timestamp,
}

fn course() -> impl Strategy<Value = Course> {
    prop::collection::vec((0..9_900_u64, 1..1_000_000_u64), 0..30)
}

fn honest() -> impl Strategy<Value = Honest> {
    let starts = (0..u64::MAX / 4, prop_oneof![0..1000_u64, 0..u64::MAX / 4]);
    (starts, 0..4_u32, course(), course(), any::<bool>()).prop_map(
        |((here, there), stream, up, down, completed)| {
            let (here, there) = (Timestamp::from_nanos(here), Timestamp::from_nanos(there));
            Honest {
                client: end(Side::Client, here, stream, &up, &down, completed),
                server: end(Side::Server, there, stream, &down, &up, completed),
                now: here + 11 * SECOND,
            }
        },
    )
}

type Change = Box<dyn Fn(&mut EndRecord)>;

/// Changes that no honest end makes, each with the field in which validation detects it.
#[allow(clippy::too_many_lines, reason = "a list of changes")]
fn falsified_fields() -> Vec<(&'static str, Change)> {
    let far = Timestamp::from_nanos(u64::MAX / 2);
    let falsify = |field, falsify: Change| (field, falsify);
    vec![
        falsify("side", Box::new(|record| record.side = Side::Client)),
        falsify("test", Box::new(|record| record.test = TestId([8; 16]))),
        falsify("samples_thinned_by", Box::new(|record| record.samples_thinned_by = 0)),
        falsify("parameters", Box::new(|record| record.parameters = ThroughputParameters::default().into())),
        falsify("started", Box::new(move |record| record.ended = record.ended + 1000 * SECOND)),
        falsify("handshake", Box::new(|record| record.handshake = Some(1000 * SECOND))),
        falsify("streams.length", Box::new(|record| record.streams.clear())),
        falsify("streams[0].stream", Box::new(|record| record.streams[0].stream = 77)),
        falsify("streams[1].stream", Box::new(|record| record.streams.push(record.streams[0].clone()))),
        falsify("streams[0].received_bytes", Box::new(|record| record.streams[0].received_bytes = u64::MAX)),
        falsify("streams[0].sent_bytes", Box::new(|record| record.streams[0].sent_bytes = u64::MAX)),
        falsify("streams[0].hung_ns", Box::new(|record| record.streams[0].hung_ns = Some(u64::MAX))),
        falsify("streams[0].error", Box::new(|record| record.streams[0].error = Some("\u{1b}".to_owned()))),
        falsify(
            "streams[0].paths",
            Box::new(|record| {
                record.streams[0].paths = vec![record.streams[0].paths[0].clone(); 5000];
            }),
        ),
        falsify("streams[0]", Box::new(|record| record.streams[0].paths[0].rto_ms = f64::NAN)),
        falsify(
            "streams[0].in_force",
            Box::new(|record| record.streams[0].in_force.congestion = "x".repeat(9999)),
        ),
        falsify("deliveries.origin", Box::new(move |record| record.deliveries.origin = far)),
        falsify("deliveries.bytes", Box::new(|record| record.deliveries.bytes.push(1))),
        falsify("deliveries.bytes", Box::new(|record| record.deliveries.bytes = vec![u64::MAX; 2])),
        falsify("deliveries.bytes.length", Box::new(|record| record.deliveries.bytes.resize(100_000, 0))),
        falsify(
            "offered.first",
            Box::new(move |record| {
                (record.offered.first, record.offered.last) = (Some(far), Some(far));
                (record.offered.bytes, record.streams[0].sent_bytes) = (vec![1], 1);
                record.streams[0].completed = false;
            }),
        ),
        falsify(
            "offered.gaps[0]",
            Box::new(move |record| {
                record.offered.gaps = vec![Gap { from: far, until: Timestamp::default() }];
            }),
        ),
        falsify(
            "messages.length",
            Box::new(|record| {
                let at = record.started;
                let message = MessageRecord {
                    flow: pathbench_record::direction::Direction::Download,
                    sequence: 0,
                    due: at,
                    sent: None,
                    acknowledged: None,
                    answered: None,
                };
                record.messages.push(message);
            }),
        ),
        falsify("samples[0].at", Box::new(move |record| record.samples[0].at = record.ended + 100 * SECOND)),
        falsify("samples[0].stream", Box::new(|record| record.samples[0].stream = 78)),
        falsify("samples[3]", Box::new(|record| record.samples[3].figures.srtt_ms = -1.0)),
        falsify(
            "path_events[0].at",
            Box::new(|record| record.path_events[0].at = record.ended + 100 * SECOND),
        ),
        falsify(
            "path_events.length",
            Box::new(|record| {
                record.path_events = vec![record.path_events[0].clone(); 5000];
            }),
        ),
        falsify(
            "path_events[0]",
            Box::new(|record| {
                record.path_events[0].kind = PathEventKind::InterfaceGone { change: "\u{202e}".to_owned() };
            }),
        ),
        falsify(
            "mptcp_counters",
            Box::new(|record| record.mptcp_counters = Some(BTreeMap::from([("Uptime".to_owned(), 1)]))),
        ),
        falsify(
            "mptcp_counters.MPJoinSynRx",
            Box::new(|record| {
                record.mptcp_counters = Some(BTreeMap::from([("MPJoinSynRx".to_owned(), u64::MAX)]));
            }),
        ),
        falsify("response", Box::new(|record| record.response = Some(ResponseRecord::default()))),
        falsify("errors", Box::new(|record| record.errors = vec![String::new(); 50])),
    ]
}

/// The client alone measures the probes: a server cannot add or change one, whatever it claims.
#[test]
fn a_servers_response_is_refused_whatever_it_says() {
    let parameters = ResponsivenessParameters::default();
    let mut records = [Side::Client, Side::Server].map(|side| {
        let started = Timestamp::from_nanos(7_000_000_000);
        end(side, started, 0, &vec![(4_500, 1000)], &vec![(4_500, 1000)], false)
    });
    for record in &mut records {
        record.parameters = PatternParameters::Responsiveness(parameters.clone());
    }
    let [client, server] = records;
    let now = client.started + 40 * SECOND;
    assert_eq!(check_peer(&client, &server, now), Ok(()));
    let begun = server.started;
    let probe = |sequence: u32, due: Timestamp, answered| LoadProbe {
        kind: ProbeKind::Own,
        path: None,
        sequence,
        due,
        answered,
    };
    let after = |ms: u64| begun + Duration::from_millis(ms);
    let lies: [(&str, Vec<LoadProbe>); 5] = [
        ("none", Vec::new()),
        (
            "more than the time allows",
            (0..100_000).map(|sequence| probe(sequence, begun, Some(begun))).collect(),
        ),
        ("answered before it was sent", vec![probe(0, after(500), Some(begun))]),
        ("a delay of centuries", vec![probe(0, begun, Some(Timestamp::from_nanos(u64::MAX)))]),
        ("outside of the phases", vec![probe(0, after(3_600_000), Some(after(3_600_001)))]),
    ];
    for (what, probes) in lies {
        let response = ResponseRecord { begun, probes, ..ResponseRecord::default() };
        let lying = EndRecord { response: Some(response), ..server.clone() };
        assert_eq!(check_peer(&client, &lying, now).unwrap_err().field, "response", "{what}");
    }
    // Times are whole nanoseconds: other numbers are no record at all.
    let response = ResponseRecord { begun, probes: vec![probe(0, begun, None)], ..ResponseRecord::default() };
    let json = serde_json::to_value(EndRecord { response: Some(response), ..server }).unwrap();
    assert!(serde_json::from_value::<EndRecord>(json.clone()).is_ok());
    for wrong in [json!(-1), json!(0.5), json!(1e300), json!("NaN"), json!(null)] {
        let mut changed = json.clone();
        changed["response"]["probes"][0]["due"] = wrong.clone();
        assert!(serde_json::from_value::<EndRecord>(changed).is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_honest_record_is_accepted(honest in honest()) {
        let Honest { client, server, now } = honest;
        prop_assert_eq!(check_peer(&client, &server, now), Ok(()));
        prop_assert_eq!(check_peer(&server, &client, server.started + 11 * SECOND), Ok(()));
    }

    #[test]
    fn a_falsified_field_is_refused_by_its_name(honest in honest(), which in any::<prop::sample::Index>()) {
        let Honest { client, mut server, now } = honest;
        let falsified_fields = falsified_fields();
        let (field, falsify) = which.get(&falsified_fields);
        falsify(&mut server);
        let invalid = check_peer(&client, &server, now).unwrap_err();
        // If byte counts contradict each other, either field may be reported.
        let near = field.split(['.', '[']).next().unwrap();
        prop_assert!(invalid.field.starts_with(near) || invalid.field.starts_with("streams"), "{}: {}", field, invalid);
    }

    #[test]
    fn records_of_streams_add_up_to_that_of_the_test(
        started in 0..u64::MAX / 2,
        courses in prop::collection::vec((course(), course()), 1..5),
    ) {
        let started = Timestamp::from_nanos(started);
        let part = |(index, (sent, received)): (usize, &(Course, Course))| {
            end(Side::Server, started, index as u32, sent, received, true)
        };
        let parts: Vec<EndRecord> = courses.iter().enumerate().map(part).collect();
        let whole = EndRecord::of_streams(parts.clone()).unwrap();
        let all = |of: fn(&(Course, Course)) -> &Course| courses.iter().flat_map(of).copied().collect::<Course>();
        prop_assert_eq!(&whole.offered, &series(started, &all(|course| &course.0)));
        prop_assert_eq!(&whole.deliveries, &series(started, &all(|course| &course.1)));
        prop_assert_eq!(whole.completed, parts.len() == 4);
        prop_assert_eq!(whole.samples.len(), 10 * parts.len());
        // The order of the parts does not matter.
        let reversed = parts.iter().rev().cloned().collect();
        prop_assert_eq!(EndRecord::of_streams(reversed), Some(whole));
        let mut elsewhere = parts;
        if elsewhere.len() > 1 {
            elsewhere[1].deliveries.origin = Timestamp::from_nanos(u64::MAX);
            prop_assert_eq!(EndRecord::of_streams(elsewhere), None);
        }
    }
}

#[test]
fn a_record_fits_by_losing_samples_and_not_otherwise() {
    let course: Course = (0..500).map(|ms| (ms * 10, 1)).collect();
    let mut record = end(Side::Server, Timestamp::default(), 0, &course, &course, true);
    let whole = record.fit(usize::MAX).unwrap().len();
    assert_eq!((record.samples.len(), record.samples_thinned_by), (10, 1));
    let json = record.fit(whole - 1).unwrap();
    assert!(json.len() < whole && record.samples.len() == 5 && record.samples_thinned_by == 2);
    // Without samples the record still exceeds the requested length, but not the limit of a frame.
    let json = record.fit(10).unwrap();
    assert!(record.samples.is_empty() && json.len() > 10);
    record.errors = vec!["x".repeat(9 << 20)];
    assert!(record.fit(10).unwrap_err().to_string().contains("even without samples"));
}
