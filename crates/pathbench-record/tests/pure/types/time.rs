//! Dates.

use pathbench_record::time::{Timestamp, rfc3339_from_unix, unix_from_rfc3339};
use std::time::Duration;

#[test]
fn known_moments() {
    // From `date -u -d @SECONDS +%FT%TZ`.
    for (seconds, expected) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_709_164_800, "2024-02-29T00:00:00Z"),
        (1_767_225_599, "2025-12-31T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (4_107_542_399, "2100-02-28T23:59:59Z"),
        (-1, "1970-01-01T00:00:00Z"),
        (i64::MAX, "9999-12-31T23:59:59Z"),
    ] {
        assert_eq!(rfc3339_from_unix(seconds), expected);
        let inverse = unix_from_rfc3339(expected).unwrap();
        assert_eq!(inverse, seconds.clamp(0, 253_402_300_799).unsigned_abs());
    }
}

#[test]
fn dates_are_read_as_they_are_written() {
    for seconds in [0, 951_782_400, 951_868_800, 1_577_836_800, 1_795_597_200, 4_102_444_799] {
        let text = rfc3339_from_unix(seconds);
        assert_eq!(unix_from_rfc3339(&text), Some(seconds.unsigned_abs()), "{text}");
    }
}

#[test]
fn other_texts_are_no_moments() {
    for text in [
        "",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-1-1T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2026-11-25",
        "x-y-zT0:0:0Z",
        "2026-11-25T09:00:00",
    ] {
        assert_eq!(unix_from_rfc3339(text), None, "{text}");
    }
}

#[test]
fn milliseconds_count_from_an_origin_in_both_directions() {
    let at = Timestamp::from_nanos;
    for (nanos, ms) in [(3_500_000, 1.5), (2_000_000, 0.0), (500_000, -1.5)] {
        assert!((at(nanos).ms_from(at(2_000_000)) - ms).abs() < 1e-12, "{nanos}");
        assert_eq!(at(2_000_000).plus_ms(ms), at(nanos));
    }
    assert_eq!(at(2_000_000).plus_ms(f64::NAN), at(2_000_000));
    assert_eq!(at(1).plus_ms(-1.0), at(0));
    assert_eq!(at(1).duration_since(at(2)), Duration::ZERO);
}
