//! Text for people, test ids, and names of result directories.

use pathbench_record::directory::default_directory_name;
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
