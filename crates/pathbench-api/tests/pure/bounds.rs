//! The bounds of the records that agents, test servers and collectors exchange, and their values.

use pathbench_api::bounds::{self, EARLIEST_MS};
use pathbench_api::digest::Digest;
use pathbench_api::experiment::Experiment;
use pathbench_api::live::LiveReport;
use pathbench_api::name::Name;
use pathbench_api::problem::{LineAnswer, LineStatus};
use pathbench_api::submission::{Submission, SubmissionError, id_time_ms, new_id};
use pathbench_api::summary::Summary;
use serde_json::{Value, json};
use std::str::FromStr;

/// The bounds of docs/collect.md.
#[test]
fn the_bounds_of_bodies_are_the_documented_ones() {
    const KIB: usize = 1_024;
    const MIB: usize = 1_024 * KIB;
    assert_eq!(bounds::BATCH_LINES, 1_000);
    assert_eq!(bounds::BATCH_BYTES, 16 * MIB);
    assert_eq!(bounds::RAW_BYTES, 8 * MIB);
    assert_eq!(bounds::SUMMARY_BYTES, 64 * KIB);
    assert_eq!(bounds::BODY_BYTES, 64 * KIB);
    assert_eq!(bounds::NAME_BYTES, 64);
    // Base64 (RFC 4648, section 4): four characters for each three bytes. A line has 1 KiB for its other fields.
    assert_eq!(bounds::LINE_BYTES, bounds::RAW_BYTES.div_ceil(3) * 4 + bounds::SUMMARY_BYTES + KIB);
}

fn experiment(changes: &Value) -> Experiment {
    let mut fields = json!({
        "name": "hourly", "kind": "test", "schedule": { "every_s": 3600 }, "most_bytes": 50_000_000,
    });
    fields.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    serde_json::from_value(fields).unwrap()
}

#[test]
fn an_experiment_repeats_once_for_seven_seconds_and_ten_megabytes_by_default() {
    let Experiment { repeat, duration_s, bulk_bytes, metered, .. } = experiment(&json!({}));
    assert_eq!((repeat, duration_s, bulk_bytes, metered), (1, 7, 10_000_000, false));
}

#[test]
fn an_experiment_may_reach_its_bounds_and_not_exceed_them() {
    let names = |count: usize| -> Vec<String> { (0..count).map(|index| format!("host-{index}")).collect() };
    let of = |name: &str, count: usize| vec![name.to_owned(); count];
    for (field, least, most, below, above) in [
        ("description", json!(""), json!("x".repeat(512)), None, Some(json!("x".repeat(513)))),
        ("servers", json!([]), json!(names(64)), None, Some(json!(names(65)))),
        ("agents", json!([]), json!(names(10_000)), None, Some(json!(names(10_001)))),
        ("repeat", json!(1), json!(100), Some(json!(0)), Some(json!(101))),
        ("duration_s", json!(1), json!(86_400), Some(json!(0)), Some(json!(86_401))),
        ("bulk_bytes", json!(1), json!(10_000_000_000_u64), Some(json!(0)), Some(json!(10_000_000_001_u64))),
        ("families", json!([]), json!(of("ipv4", 2)), None, Some(json!(of("ipv4", 3)))),
        ("transports", json!([]), json!(of("quic", 4)), None, Some(json!(of("quic", 5)))),
        ("patterns", json!([]), json!(of("ping", 7)), None, Some(json!(of("ping", 8)))),
        ("most_bytes", json!(1), json!(u64::MAX), Some(json!(0)), None),
    ] {
        for value in [least, most] {
            assert_eq!(experiment(&json!({ field: value })).problem(), None, "{field}");
        }
        for value in [below, above].into_iter().flatten() {
            let problem = experiment(&json!({ field: value })).problem().unwrap();
            assert!(problem.contains(&format!("`{field}`")), "{field}: {problem}");
        }
    }
}

#[test]
fn an_experiment_starts_every_ten_seconds_to_every_31_days() {
    let problem = |every_s: u32, jitter_s: u32| {
        experiment(&json!({ "schedule": { "every_s": every_s, "jitter_s": jitter_s } })).problem()
    };
    for (every_s, jitter_s) in [(10, 0), (10, 10), (31 * 86_400, 0)] {
        assert_eq!(problem(every_s, jitter_s), None, "every {every_s} s, jitter {jitter_s} s");
    }
    for every_s in [0, 9, 31 * 86_400 + 1] {
        assert!(problem(every_s, 0).unwrap().contains("`schedule.every_s`"), "every {every_s} s");
    }
    assert!(problem(10, 11).unwrap().starts_with("`schedule.jitter_s`"));
}

#[test]
fn a_live_report_has_at_most_eight_paths_with_rates_up_to_one_terabit_per_second() {
    let problem = |rates: &[f64]| {
        let path = |goodput_mbps: &f64| json!({ "name": "wlan", "goodput_mbps": goodput_mbps });
        let paths: Vec<Value> = rates.iter().map(path).collect();
        let report = json!({ "agent": "host-1", "runs_done": 0, "runs_planned": 1, "paths": paths });
        serde_json::from_value::<LiveReport>(report).unwrap().problem()
    };
    assert_eq!(problem(&[]), None);
    assert_eq!(problem(&[0.0, 1e6]), None);
    assert_eq!(problem(&[1.0; 8]), None);
    assert!(problem(&[1.0; 9]).unwrap().starts_with("`paths`"));
    for rate in [-0.1, 1e6 + 1.0] {
        assert!(problem(&[1.0, rate]).unwrap().starts_with("`goodput_mbps`"), "{rate}");
    }
}

#[test]
fn a_name_has_1_to_64_bytes() {
    assert!(Name::new("").is_err());
    assert_eq!(Name::new("x".repeat(64)).unwrap().as_str(), "x".repeat(64));
    assert!(Name::new("x".repeat(65)).is_err());
    assert!(Name::new("ü".repeat(33)).is_err(), "66 bytes of UTF-8");
    assert!(Name::new("line\nfeed").is_err());
}

#[test]
fn a_longer_text_is_cut_to_a_name_between_two_characters() {
    for (text, expected) in [
        ("wlan".to_owned(), "wlan".to_owned()),
        ("x".repeat(64), "x".repeat(64)),
        ("x".repeat(65), "x".repeat(64)),
        (format!("{}üx", "x".repeat(63)), "x".repeat(63)),
        ("ü".repeat(40), "ü".repeat(32)),
        (" a\tb ".to_owned(), "a b".to_owned()),
        ("\u{200b}".to_owned(), "-".to_owned()),
        (String::new(), "-".to_owned()),
    ] {
        assert_eq!(Name::nearest(&text).as_str(), expected, "{text:?}");
    }
}

/// The statuses of RFC 9110, section 15.
#[test]
fn a_line_is_stored_once_and_sent_again_only_to_a_busy_collector() {
    for (status, code, is_stored, is_retryable) in [
        (LineStatus::Created, 201, true, false),
        (LineStatus::Known, 200, true, false),
        (LineStatus::Conflict, 409, false, false),
        (LineStatus::Deleted, 410, false, false),
        (LineStatus::Invalid, 422, false, false),
        (LineStatus::Large, 413, false, false),
        (LineStatus::Busy, 503, false, true),
    ] {
        assert_eq!((status.code(), status.is_stored()), (code, is_stored), "{status:?}");
        let answer = LineAnswer::new(7, None, status, None);
        assert_eq!((answer.line, answer.code, answer.retryable), (7, code, is_retryable), "{status:?}");
    }
    // As a busy collector, for clients that know no more.
    let full = LineAnswer::without_space(7, None, "full".to_owned());
    assert_eq!((full.status, full.code, full.retryable), (LineStatus::Busy, 507, true));
}

/// The example of FIPS 180-4 for the message `abc`.
#[test]
fn a_digest_is_written_as_64_hexadecimal_digits() {
    const TEXT: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let digest = Digest::compute(b"abc");
    assert_eq!(digest.to_string(), TEXT);
    assert_eq!(serde_json::to_value(digest).unwrap(), TEXT);
    assert_eq!(Digest::from_str(TEXT), Ok(digest));
    for wrong in [&TEXT[2..], &TEXT.to_uppercase(), &format!("{TEXT}00")] {
        assert!(Digest::from_str(wrong).is_err(), "{wrong}");
    }
}

/// The example of RFC 9562, appendix A.6: a `UUIDv7` of 2022-02-22 19:22:22 UTC.
#[test]
fn the_time_of_an_id_is_that_of_its_making() {
    let of_the_rfc = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F".parse().unwrap();
    assert_eq!(id_time_ms(of_the_rfc), Some(1_645_557_742_000));
    assert_eq!(id_time_ms(new_id(EARLIEST_MS, &[0xff; 10])), Some(EARLIEST_MS));
    let of_version_4 = "919108f7-52d1-4320-9bac-f847db4148a8".parse().unwrap();
    assert_eq!(id_time_ms(of_version_4), None);
}

const NOW_MS: u64 = 1_795_600_000_000;

fn summary(changes: &[(&str, Value)]) -> Summary {
    let mut fields = json!({
        "mode": "stable", "scenario": "test", "started_ms": NOW_MS, "version": "0.1.0", "kernel": "6.18.5",
        "machine": "x86_64",
    });
    for (field, value) in changes {
        fields[*field] = value.clone();
    }
    serde_json::from_value(fields).unwrap()
}

fn group(label: &str, pattern: &str, valid: u32, figures: &Value) -> Value {
    json!({
        "label": label, "pattern": pattern, "runs": 3, "valid": valid, "completed": 3, "multipath_used": 0,
        "figures": figures,
    })
}

#[test]
fn a_summary_starts_between_2020_and_the_latest_time() {
    let check = |started_ms: u64| summary(&[("started_ms", json!(started_ms))]).check(NOW_MS);
    for started_ms in [EARLIEST_MS, NOW_MS] {
        assert_eq!(check(started_ms), Ok(()), "{started_ms}");
    }
    assert!(check(NOW_MS + 1).unwrap_err().contains("in the future"));
    assert!(check(EARLIEST_MS - 1).unwrap_err().contains("before 2020"));
    // 2020-01-01T00:00:00Z
    assert_eq!(EARLIEST_MS, 1_577_836_800_000);
}

#[test]
fn the_lists_of_a_summary_may_reach_their_bounds_and_not_exceed_them() {
    let figures =
        |count: usize| -> Value { (0..count).map(|index| (index.to_string(), json!(1.0))).collect() };
    for (field, most, item) in [
        ("groups", 128, group("tcp", "bulk", 3, &json!({}))),
        ("networks", 64, json!({ "path": "wlan", "kind": "wifi" })),
        (
            "reachability",
            64,
            json!({ "transport": "quic", "family": "ipv4", "port": 443, "reachable": true }),
        ),
        ("handovers", 64, json!({ "transport": "mptcp", "reason": "other" })),
        ("delay_pairs", 64, json!({ "direction": "upload", "mptcp_ms": 1.0, "mpquic_ms": 2.0 })),
        ("family_pairs", 64, json!({ "transport": "quic", "ipv4_ms": 1.0, "ipv6_ms": 2.0 })),
    ] {
        assert_eq!(summary(&[(field, json!(vec![item.clone(); most]))]).check(NOW_MS), Ok(()), "{field}");
        let error = summary(&[(field, json!(vec![item; most + 1]))]).check(NOW_MS).unwrap_err();
        assert!(error.contains(&format!("`{field}` has {} entries", most + 1)), "{error}");
    }
    for field in ["figures", "shares"] {
        let check = |count: usize| {
            let mut group = group("tcp", "bulk", 3, &json!({}));
            group[field] = figures(count);
            summary(&[("groups", json!([group]))]).check(NOW_MS)
        };
        assert_eq!(check(32), Ok(()), "{field}");
        assert!(check(33).unwrap_err().contains(&format!("`{field}` has 33 entries")));
    }
}

#[test]
fn a_figure_of_a_summary_lies_between_0_and_1e12() {
    let in_figures = |value: f64| json!([group("tcp", "bulk", 3, &json!({ "goodput_mbps": value }))]);
    let in_shares = |value: f64| {
        let mut group = group("tcp", "bulk", 3, &json!({}));
        group["shares"] = json!({ "wlan": value });
        json!([group])
    };
    let mptcp = |value: f64| json!([{ "direction": "upload", "mptcp_ms": value, "mpquic_ms": 1.0 }]);
    let mpquic = |value: f64| json!([{ "direction": "upload", "mptcp_ms": 1.0, "mpquic_ms": value }]);
    let ipv4 = |value: f64| json!([{ "transport": "quic", "ipv4_ms": value, "ipv6_ms": 1.0 }]);
    let ipv6 = |value: f64| json!([{ "transport": "quic", "ipv4_ms": 1.0, "ipv6_ms": value }]);
    let rtt = |value: f64| json!([{ "transport": "quic", "family": "ipv4", "port": 443, "reachable": true, "rtt_ms": value }]);
    let fields: [(&str, &dyn Fn(f64) -> Value); 7] = [
        ("groups", &in_figures),
        ("groups", &in_shares),
        ("delay_pairs", &mptcp),
        ("delay_pairs", &mpquic),
        ("family_pairs", &ipv4),
        ("family_pairs", &ipv6),
        ("reachability", &rtt),
    ];
    for (field, with) in fields {
        for value in [0.0, 1e12] {
            assert_eq!(summary(&[(field, with(value))]).check(NOW_MS), Ok(()), "{field} {value}");
        }
        for value in [-1.0, 1.1e12] {
            assert!(summary(&[(field, with(value))]).check(NOW_MS).is_err(), "{field} {value}");
        }
    }
}

#[test]
fn a_handover_may_be_abrupt_by_at_most_1e12_ms() {
    for field in ["duration_sent_ms", "duration_received_ms"] {
        let check = |value: f64| {
            let handover = json!({ "transport": "mptcp", "reason": "other", field: value });
            summary(&[("handovers", json!([handover]))]).check(NOW_MS)
        };
        for value in [-1e12, -20.0, 1e12] {
            assert_eq!(check(value), Ok(()), "{field} {value}");
        }
        for value in [-1.1e12, 1.1e12] {
            assert!(check(value).is_err(), "{field} {value}");
        }
    }
}

#[test]
fn the_label_of_a_group_begins_with_a_transport() {
    let check =
        |label: &str| summary(&[("groups", json!([group(label, "bulk", 3, &json!({}))]))]).check(NOW_MS);
    assert_eq!(check("tcp@wlan"), Ok(()));
    assert!(check("sctp").unwrap_err().contains("`sctp`"));
}

#[test]
fn a_raw_part_is_a_zstd_file_of_at_most_8_mib() {
    let check = |base64: &str| {
        let line = include_str!("../../fuzz/bodies/submission.json").replace("KLUv/SQAAQAAmenYUQ==", base64);
        Submission::check(line.as_bytes(), NOW_MS).map(|checked| checked.raw.len())
    };
    // The magic number of a zstd frame (RFC 8878, section 3.1.1) and zeros.
    let most_characters = (8_usize << 20).div_ceil(3) * 4;
    let zeros = "A".repeat(most_characters - "KLUv/Q".len() - 1);
    assert_eq!(check(&format!("KLUv/Q{zeros}=")).unwrap(), 8 << 20);
    let one_byte_more = check(&format!("KLUv/Q{zeros}A"));
    assert!(matches!(one_byte_more, Err(SubmissionError::RawSize)), "{one_byte_more:?}");
    let four_bytes_more = check(&format!("KLUv/Q{zeros}AAAAA"));
    assert!(matches!(four_bytes_more, Err(SubmissionError::RawSize)), "{four_bytes_more:?}");
    // `PK`: a zip file.
    assert!(matches!(check("UEsDBA=="), Err(SubmissionError::RawFormat)));
}

#[test]
fn a_line_is_bounded_before_its_summary_is_parsed() {
    let line = |numbers: usize, raw: usize| {
        format!(r#"{{"summary":[{}0],"raw":"{}"}}"#, "0,".repeat(numbers), "A".repeat(raw))
    };
    let large = Submission::check(line(bounds::SUMMARY_BYTES, 0).as_bytes(), 0);
    let most = bounds::SUMMARY_BYTES + 1_024;
    assert!(matches!(large, Err(SubmissionError::LargeSummary { bytes }) if bytes > most));
    let within_bounds = Submission::check(line(1_000, bounds::SUMMARY_BYTES * 2).as_bytes(), 0);
    assert!(matches!(within_bounds, Err(SubmissionError::Json(_))));
}
