//! Dates in RFC 3339.

use pathbench_record::time::{rfc3339_from_unix, unix_from_rfc3339};

#[test]
fn dates_are_read_as_they_are_written() {
    for seconds in [0, 951_782_400, 951_868_800, 1_577_836_800, 1_795_597_200, 4_102_444_799] {
        let text = rfc3339_from_unix(seconds);
        assert_eq!(unix_from_rfc3339(&text), Some(seconds.unsigned_abs()), "{seconds}");
    }
    for wrong in ["", "2026-11-25", "2026-13-01T00:00:00Z", "x-y-zT0:0:0Z", "2026-11-25T09:00:00"] {
        assert_eq!(unix_from_rfc3339(wrong), None, "{wrong}");
    }
}
