//! Civil dates from Unix time, in UTC: enough for names and stamps, without a calendar crate.

/// Seconds of a day; Unix time knows no leap seconds.
const DAY: i64 = 86_400;

/// A moment in UTC, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilTime {
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl CivilTime {
    /// The civil time `seconds` after 1970-01-01T00:00:00Z.
    ///
    /// Days to date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
    pub const fn from_unix(seconds: i64) -> Self {
        let of_day = seconds.rem_euclid(DAY);
        // Days since 0000-03-01: years that begin in March have their leap day last.
        let days = seconds.div_euclid(DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: year_of_era + era * 400 + if month <= 2 { 1 } else { 0 },
            month: month as u8,
            day: day as u8,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
        }
    }

    /// `2026-11-21T20:33:54Z` (RFC 3339).
    pub fn rfc3339(self) -> String {
        let Self { year, month, day, hour, minute, second } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// `2026-11-21T20:33:54Z` for a number of seconds since the Unix epoch (RFC 3339, UTC).
pub fn rfc3339_from_unix(seconds: i64) -> String {
    CivilTime::from_unix(seconds).rfc3339()
}

/// `20261121-203354` from an RFC 3339 stamp, for file names; `None` when `stamp` does not begin like one.
pub fn compact_stamp(stamp: &str) -> Option<String> {
    let pattern = b"dddd-dd-ddTdd:dd:dd";
    let head = stamp.as_bytes().get(..pattern.len())?;
    let fits = head.iter().zip(pattern).all(|(byte, form)| match form {
        b'd' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        _ => byte == form,
    });
    if !fits {
        return None;
    }
    let digits: String =
        head.iter().filter(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect();
    let (date, time) = digits.split_at(8);
    Some(format!("{date}-{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        // From `date -u -d @SECONDS +%FT%TZ`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(rfc3339_from_unix(seconds), expected);
        }
    }

    #[test]
    fn a_stamp_becomes_a_file_name() {
        assert_eq!(compact_stamp("2026-11-21T20:33:54Z").as_deref(), Some("20261121-203354"));
        assert_eq!(compact_stamp("2026-11-21T20:33:54.25+01:00").as_deref(), Some("20261121-203354"));
        for bad in ["", "2026-11-21", "2026-11-21T20:33", "21.11.2026 20:33:54", "2026-11-2xT20:33:54Z"] {
            assert_eq!(compact_stamp(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn one_second_later_is_later_and_dates_exist(seconds in -100_000_000_000_i64..100_000_000_000) {
            let now = CivilTime::from_unix(seconds);
            prop_assert!(now < CivilTime::from_unix(seconds + 1));
            let leap = now.year % 4 == 0 && (now.year % 100 != 0 || now.year % 400 == 0);
            let longest = match now.month {
                2 => if leap { 29 } else { 28 },
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            prop_assert!((1..=12).contains(&now.month) && (1..=longest).contains(&now.day));
        }
    }
}
