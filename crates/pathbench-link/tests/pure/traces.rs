//! Traces of measured links: their schedules, and the errors of invalid files.

use pathbench_link::RateModel;
use pathbench_link::trace::{self, TraceError, TraceFormat, TraceOptions};
use pathbench_link::{ScheduleEnd, Steps};
use proptest::prelude::*;
use std::time::Duration;

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn auto() -> TraceOptions {
    TraceOptions::default()
}

#[test]
fn mahimahi_opportunities_are_read_with_any_line_end() {
    for text in ["0\n3\n3\n10\n", "0\r\n3\r\n3\r\n10", "0\r3\r3\r10\r\r", "\u{feff}0\n 3\n3\t\n10\n\n\n"] {
        let schedule = trace::mahimahi(text.as_bytes()).unwrap();
        assert_eq!(schedule.at_ms, [0, 3, 3, 10], "{text:?}");
        assert_eq!(schedule.mean_rate_bps(), Some(4 * 1_500 * 8 * 100));
        assert_eq!(schedule.period(), Some(ms(10)));
    }
}

#[test]
fn a_lone_one_is_twelve_megabits() {
    assert_eq!(trace::mahimahi(b"1").unwrap().mean_rate_bps(), Some(12_000_000));
}

#[test]
fn trains_are_read_with_their_opportunities_in_order() {
    let schedule = trace::cellreplay(b"0 21 0 0 2 1 4\r\n103 25 0 8\n250 20 0\n").unwrap();
    assert_eq!(schedule.trains.len(), 3);
    assert_eq!(schedule.trains[0].base_delay, ms(21));
    assert_eq!(schedule.trains[0].opportunities, [0, 0, 1, 2, 4].map(ms));
    assert_eq!(schedule.trains[1].at, ms(103));
    // Five packets after the first of their train, in 12 ms.
    assert_eq!(schedule.mean_rate_bps(), Some(5_000_000));
    assert_eq!(schedule.mean_base_delay(), Some(ms(22)));
}

#[test]
fn tables_are_read_with_and_without_a_header() {
    for header in ["", "second,bytes_per_second\n", "# a walk\n\n\"second\", \"Bytes_per_second\"\r\n"] {
        let text = format!("{header}0,1000\n1.5, 0\n# gone\n2,125000.5\n");
        let schedule = trace::bytes_per_second(text.as_bytes()).unwrap();
        let steps = vec![(ms(0), 8_000), (ms(1_500), 0), (ms(2_000), 1_000_004)];
        assert_eq!(schedule, Steps { steps, end: ScheduleEnd::Repeat(ms(2_500)) }, "{text:?}");
        assert_eq!(schedule.mean_rate_bps(), Some(204_801), "(1.5 * 8000 + 0.5 * 1000004) / 2.5");
    }
}

#[test]
fn the_first_value_of_a_table_holds_from_zero_and_the_last_as_long_as_the_one_before() {
    let schedule = trace::delay(b"1,20\n2,30.25\n", &auto()).unwrap();
    let steps = vec![(ms(0), ms(20)), (ms(2_000), Duration::from_micros(30_250))];
    assert_eq!(schedule, Steps { steps, end: ScheduleEnd::Repeat(ms(3_000)) });
}

#[test]
fn loss_is_a_probability_or_a_percentage() {
    let schedule = trace::loss(b"second,loss\n0,0\n1,0.5\n2,2.5%\n3,100 %\n", &auto()).unwrap();
    let values: Vec<f64> = schedule.steps.iter().map(|step| step.1).collect();
    assert_eq!(values, [0.0, 0.5, 0.025, 1.0]);
    assert!((schedule.mean_loss().unwrap() - 0.38125).abs() < 1e-12);
}

#[test]
fn one_line_holds_for_ever() {
    let schedule = trace::bytes_per_second(b"0,1000").unwrap();
    assert_eq!(schedule.end, ScheduleEnd::Hold);
    assert_eq!(schedule.mean_rate_bps(), Some(8_000));
    assert_eq!(trace::cellreplay(b"0 20 0 1").unwrap().trains.len(), 1);
}

#[test]
fn the_content_decides_the_format_of_a_rate() {
    let table = [
        ("12\n13\n", TraceFormat::Mahimahi),
        ("0 21 0 0 1\n", TraceFormat::CellReplay),
        ("# a walk\nsecond,bytes_per_second\n0,1\n", TraceFormat::Csv),
        ("time_s;bw (Mbit/s)\n0;1\n", TraceFormat::Csv),
        ("0.5\t3.5\n1.0\t2\n", TraceFormat::Pensieve),
        ("{\"uplink\":{\"trace_pattern\":[{\"duration\":1,\"capacity\":1}]}}", TraceFormat::AlphaRtc),
    ];
    for (text, format) in table {
        assert_eq!(trace::detect_rate(text.as_bytes(), None), Ok(format), "{text:?}");
        assert!(trace::rate(text.as_bytes(), &auto()).is_ok(), "{text:?}");
    }
    for format in TraceFormat::ALL {
        assert_eq!(TraceFormat::from_name(format.name()), Some(format));
    }
    assert_eq!(TraceFormat::from_name("Mahimahi"), None);
}

#[test]
fn a_format_given_by_name_overrides_detection() {
    let read = |format| trace::rate(b"1\n2\n", &TraceOptions { format: Some(format), ..auto() });
    assert!(matches!(read(TraceFormat::Mahimahi), Ok(RateModel::Opportunities(_))));
    assert!(matches!(read(TraceFormat::BytesPerSecond), Err(TraceError::Malformed { line: 1, .. })));
    assert!(matches!(read(TraceFormat::Ping), Err(TraceError::Lacks { .. })));
}

/// Format, text, parts of the message.
const MISTAKES: &[(&str, &[u8], &[&str])] = &[
    ("mahimahi", b"", &["file is empty", "whole number of milliseconds"]),
    ("mahimahi", b"\n\n", &["file is empty"]),
    ("mahimahi", b"0\n0\n", &["line 2", "some time"]),
    ("mahimahi", b"5\n\n6\n", &["line 2", "``"]),
    ("mahimahi", b"5\r\n4\r\n", &["line 2", "4 ms comes after 5 ms", "not decrease"]),
    ("mahimahi", b"1\n2.5\n", &["line 2", "`2.5`"]),
    ("mahimahi", b"1\n-2\n", &["line 2", "`-2`"]),
    ("mahimahi", b"1\n99999999999999999999\n", &["line 2", "`99999999999999999999`"]),
    ("mahimahi", b"1\n9999999999999\n", &["line 2", "31 days"]),
    ("mahimahi", b"1\n\x1b[2J\xff\n", &["line 2", "`\\x1b[2J\\xff`"]),
    ("cellreplay", b"0 20\n", &["line 1", "`0 20`", "three whole numbers"]),
    ("cellreplay", b"0 20 0\n10 20 x\n", &["line 2", "`x`"]),
    ("cellreplay", b"10 20 0\n5 20 0\n", &["line 2", "5 ms comes after 10 ms"]),
    ("cellreplay", b"0 20 0\n0 20 0\n", &["line 2", "some time"]),
    ("cellreplay", b"0 2000000 0\n", &["line 1", "base delay", "minute"]),
    ("bytes", b"second,bits_per_second\n0,1\n", &["line 1", "bits_per_second", "`second,bytes_per_second`"]),
    ("bytes", b"0,1\nsecond,bytes_per_second\n", &["line 2", "two numbers"]),
    ("bytes", b"0,1\n1,2,3\n", &["line 2", "`1,2,3`"]),
    ("bytes", b"0;1\n", &["line 1", "comma"]),
    (
        "auto",
        b"0,11\n1,12\n",
        &["line 1", "Mbit/s or bytes per second", "rate_trace_unit", "\"mbit/s\"", "\"bytes/s\""],
    ),
    ("bytes", b"0,1\n1,-2\n", &["line 2", "the rate is -2", "0 to"]),
    ("bytes", b"0,1\n1,inf\n", &["line 2", "`1,inf`"]),
    ("bytes", b"0,1\n1,1e300\n", &["line 2", "the rate"]),
    ("bytes", b"0,1\n1,5%\n", &["line 2", "`1,5%`"]),
    ("bytes", b"0,1\n0,1\n", &["line 2", "increase"]),
    ("bytes", b"1,1\n0.5,1\n", &["line 2", "0.5 s comes after 1 s"]),
    ("bytes", b"-1,1\n", &["line 1", "the time", "0 to"]),
    ("bytes", b"1700000000,1\n", &["line 1", "the time"]),
    ("bytes", b"86400,1\n", &["line 1", "subtract the first one"]),
    ("loss", b"0,1.5\n", &["line 1", "the loss", "0 to 1"]),
    ("loss", b"0\n1\n0\n", &["leoreplayer", "loss"]),
    ("delay", b"0,70000\n", &["line 1", "the delay"]),
    ("auto", b"", &["file is empty"]),
    ("auto", b"\nx y\n", &["line 2", "mahimahi", "cellreplay", "pensieve", "csv"]),
    ("auto", b"{\"a\": 1}\n", &["alphartc", "upload"]),
    ("auto", b"\x1f\x8b\x08", &["gunzip"]),
];

fn read(format: &str, bytes: &[u8]) -> Result<(), TraceError> {
    match format {
        "mahimahi" => trace::mahimahi(bytes).map(drop),
        "cellreplay" => trace::cellreplay(bytes).map(drop),
        "bytes" => trace::bytes_per_second(bytes).map(drop),
        "loss" => trace::loss(bytes, &auto()).map(drop),
        "delay" => trace::delay(bytes, &auto()).map(drop),
        _ => trace::rate(bytes, &auto()).map(drop),
    }
}

#[test]
fn errors_name_the_line_the_error_and_the_valid_form() {
    for (format, text, parts) in MISTAKES {
        let shown = text.escape_ascii();
        let message = match read(format, text) {
            Ok(()) => panic!("{format} took {shown}"),
            Err(error) => error.to_string(),
        };
        for part in *parts {
            assert!(message.contains(part), "{format} {shown}: `{message}` lacks `{part}`");
        }
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let bytes = vec![b'\n'; trace::MAX_BYTES + 1];
    for format in ["mahimahi", "cellreplay", "bytes", "loss", "delay", "auto"] {
        assert!(matches!(read(format, &bytes), Err(TraceError::TooLarge { .. })), "{format}");
    }
}

/// Increasing times from zero, with no two in the same millisecond.
fn times(count: usize) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1_u64..5_000, count).prop_map(|gaps| {
        gaps.iter()
            .scan(0, |at, gap| {
                let now = *at;
                *at += gap;
                Some(now)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn a_written_mahimahi_trace_is_read_back(mut at_ms in prop::collection::vec(0_u64..100_000, 1..200), end in 0_usize..3) {
        at_ms.sort_unstable();
        let last = *at_ms.last().unwrap();
        at_ms.push(last.max(1));
        let end = ["\n", "\r\n", "\r"][end];
        let text: String = at_ms.iter().flat_map(|at| [at.to_string(), end.to_owned()]).collect();
        prop_assert_eq!(&trace::mahimahi(text.as_bytes()).unwrap().at_ms, &at_ms);
        prop_assert_eq!(trace::detect_rate(text.as_bytes(), None), Ok(TraceFormat::Mahimahi));
    }

    #[test]
    fn a_written_table_is_read_back(at in times(20), rates in prop::collection::vec(0_u64..10_000_000_000, 20)) {
        let rows = at.iter().zip(&rates);
        let lines = rows.clone().map(|(at, rate)| format!("{}.{:03},{rate}", at / 1_000, at % 1_000));
        let text = lines.collect::<Vec<_>>().join("
");
        let schedule = trace::bytes_per_second(text.as_bytes()).unwrap();
        let expected: Vec<_> = rows.map(|(&at, &rate)| (ms(at), rate * 8)).collect();
        prop_assert_eq!(&schedule.steps, &expected);
        // The mean lies between the extremes.
        let mean = schedule.mean_rate_bps().unwrap();
        prop_assert!(expected.iter().any(|step| step.1 <= mean) && expected.iter().any(|step| step.1 >= mean));
    }

    #[test]
    fn every_parsed_schedule_is_valid(
        text in r"(([0-9]{1,4}|[0-9]\.[0-9]{1,2}|-1|x)[ ,\n]){0,60}"
    ) {
        for format in ["mahimahi", "cellreplay", "bytes", "loss", "delay", "auto"] {
            if let Err(error) = read(format, text.as_bytes()) {
                prop_assert!(!error.to_string().contains(char::is_control));
            }
        }
        if let Ok(schedule) = trace::mahimahi(text.as_bytes()) {
            prop_assert!(schedule.at_ms.is_sorted() && schedule.at_ms.last() > Some(&0));
        }
        if let Ok(schedule) = trace::cellreplay(text.as_bytes()) {
            prop_assert!(schedule.trains.is_sorted_by_key(|train| train.at));
            prop_assert!(schedule.trains.iter().all(|train| train.opportunities.is_sorted()));
        }
        if let Ok(schedule) = trace::loss(text.as_bytes(), &auto()) {
            prop_assert_eq!(schedule.steps[0].0, Duration::ZERO);
            prop_assert!(schedule.steps.is_sorted_by(|one, other| one.0 < other.0));
            if let ScheduleEnd::Repeat(period) = schedule.end {
                prop_assert!(schedule.steps.last().unwrap().0 < period);
            }
        }
    }
}
