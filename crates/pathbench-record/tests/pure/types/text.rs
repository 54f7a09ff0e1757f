//! Text for people, test ids, and names of result directories.

use pathbench_record::directory::default_directory_name;
use pathbench_record::document::HandoverReason;
use pathbench_record::end::TestId;
use pathbench_record::text::*;
use std::path::Path;
use std::time::Duration;

#[test]
fn durations_have_the_unit_that_fits() {
    for (ms, table, sentence) in [
        (0, "0 ms", "0 ms"),
        (40, "40.0 ms", "40 ms"),
        (2_400, "2.40 s", "2.4 s"),
        (80_000, "80.0 s", "1 min 20 s"),
        (300_000, "5.00 min", "5 min"),
        (7_260_000, "2.02 h", "2 h 1 min"),
        (266_400_000, "74.0 h", "3 days 2 h"),
    ] {
        assert_eq!(duration_ms(ms as f64), table);
        assert_eq!(duration(Duration::from_millis(ms)), sentence);
    }
    assert_eq!(duration(Duration::from_micros(350)), "350 µs");
    assert_eq!(duration_ms(f64::NAN), NONE);
}

#[test]
fn control_characters_and_excess_length_are_removed() {
    assert_eq!(printable("\u{1b}[2Jbusy\r\n\u{202e}ysub ü", 100), " [2Jbusy   ysub ü");
    assert_eq!(printable(&"ü".repeat(600), 500).chars().count(), 500);
}

#[test]
fn text_form_round_trips() {
    let id = TestId(*b"\x00\x01\x02\x03\xff\xfe\xfd\xfc\x10\x20\x30\x40\x50\x60\x70\x80");
    assert_eq!(id.to_string(), "00010203fffefdfc1020304050607080");
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!("+0010203fffefdfc1020304050607080".parse::<TestId>().is_err());
    assert!("00".parse::<TestId>().is_err());
}

#[test]
fn default_names_are_safe_and_sort_by_time() {
    for (scenario, started, expected) in [
        ("failover", "2026-11-21T20:33:54Z", "/results/failover-20261121-203354"),
        ("a b/../c", "2026-11-21T20:33:54Z", "/results/a-b-..-c-20261121-203354"),
        ("..", "2026-11-21T20:33:54Z", "/results/result..-20261121-203354"),
        ("", "yesterday", "/results/result"),
        ("x", "2026-11-21T20:33:54.25+01:00", "/results/x-20261121-203354"),
    ] {
        assert_eq!(default_directory_name(Path::new("/results"), scenario, started), Path::new(expected));
    }
    for bad in ["", "2026-11-21", "2026-11-21T20:33", "21.11.2026 20:33:54", "2026-11-2xT20:33:54Z"] {
        assert_eq!(default_directory_name(Path::new(""), "x", bad), Path::new("x"), "{bad}");
    }
}

#[test]
fn a_quantity_has_three_digits_in_the_largest_unit_that_fits() {
    const RATES: [(f64, &str); 3] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    for (bps, expected) in [
        (0.0, "0 kbit/s"),
        (12_340.0, "12.3 kbit/s"),
        (1_234_000.0, "1.23 Mbit/s"),
        (9_994_000.0, "9.99 Mbit/s"),
        (9_996_000.0, "10.0 Mbit/s"),
        (99_940_000.0, "99.9 Mbit/s"),
        (99_960_000.0, "100 Mbit/s"),
        (999_400_000.0, "999 Mbit/s"),
        (999_600_000.0, "1.00 Gbit/s"),
        (-1_234_000.0, "-1.23 Mbit/s"),
        (1e15, "1.00e6 Gbit/s"),
        (f64::INFINITY, NONE),
    ] {
        assert_eq!(scaled(bps, &RATES), expected, "{bps}");
    }
}

#[test]
fn a_plain_quantity_has_no_trailing_zeros() {
    for (text, expected) in
        [("1.00 Gbit/s", "1 Gbit/s"), ("2.40 s", "2.4 s"), ("100 ms", "100 ms"), ("1.00", "1.00")]
    {
        assert_eq!(plain(text), expected);
    }
}

#[test]
fn a_duration_rounds_to_whole_seconds_from_one_minute_on() {
    for (ms, expected) in [
        (59_499, "59.5 s"),
        (59_500, "1 min"),
        (3_599_499, "59 min 59 s"),
        (3_600_000, "1 h"),
        (172_799_000, "47 h 59 min"),
        (172_800_000, "2 days"),
    ] {
        assert_eq!(duration(Duration::from_millis(ms)), expected, "{ms}");
    }
    assert_eq!(duration_s(0.25), "250 ms");
    for seconds in [-1.0, f64::NAN, 1e300] {
        assert_eq!(duration_s(seconds), NONE, "{seconds}");
    }
}

/// Unicode: controls (Cc), zero-width and bidirectional format characters, line separators, noncharacters.
#[test]
fn every_character_that_deceives_a_reader_is_known() {
    for deceptive in [
        '\0', '\u{1b}', '\u{7f}', '\u{9b}', '\u{200b}', '\u{200f}', '\u{2028}', '\u{202e}', '\u{2060}',
        '\u{2069}', '\u{feff}', '\u{fffe}', '\u{ffff}',
    ] {
        assert!(is_deceptive(deceptive), "{deceptive:?}");
    }
    for honest in [' ', '~', 'ü', '–', '\u{2010}', '\u{2027}', '\u{202f}', '\u{206a}', '\u{fffd}'] {
        assert!(!is_deceptive(honest), "{honest:?}");
    }
}

#[test]
fn a_reason_has_the_name_of_the_result_format() {
    use HandoverReason::{Other, RtoThreshold, RttThreshold, UnderRto};
    for reason in [RttThreshold, UnderRto, RtoThreshold, Other] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
    }
    assert_eq!(RttThreshold.name(), "rtt-threshold");
}
