//! Times of a table: numbers since the start, Unix times, and dates.

use super::error::TraceError;
use super::lines::{Line, number, shown};
use super::unit::TimeUnit;

const DATE: &str = "a time: seconds, or a date such as 2024-05-05T11:00:01Z";

/// Seconds of a time on any clock, and the time zone that a date names in words.
pub(super) struct ClockTime<'a> {
    pub(super) seconds: f64,
    /// `CDT` and the like, whose offset is unknown.
    pub(super) zone: Option<&'a str>,
    /// Whether the time is a date or a Unix time.
    pub(super) is_absolute: bool,
}

/// A number in `unit` (without one: seconds, or a Unix time in the unit of its magnitude), or a date.
pub(super) fn parse<'a>(
    line: &Line<'_>,
    text: &'a [u8],
    unit: Option<TimeUnit>,
) -> Result<ClockTime<'a>, TraceError> {
    if let Some(value) = number(text) {
        let seconds = value * unit.unwrap_or_else(|| unit_of_magnitude(value)).seconds();
        return Ok(ClockTime { seconds, zone: None, is_absolute: seconds >= 1e8 });
    }
    let date = std::str::from_utf8(text).ok().and_then(date);
    date.ok_or_else(|| TraceError::Malformed { line: line.number, found: shown(text), expected: DATE })
}

/// The unit in which a number is a date of this century, or seconds.
fn unit_of_magnitude(value: f64) -> TimeUnit {
    match value {
        1e17.. => TimeUnit::Nanoseconds,
        1e14.. => TimeUnit::Microseconds,
        1e11.. => TimeUnit::Milliseconds,
        _ => TimeUnit::Seconds,
    }
}

/// `YYYY-MM-DD`, `T`, `_` or a blank, `HH:MM[:SS[.FRACTION]]`, and `Z`, an offset, a zone's abbreviation, or nothing. The day
/// may have `/` or `.`, the time of day `.` for `:`, as in G-NetTrack's `2019.12.16_13.40.04`.
fn date(text: &str) -> Option<ClockTime<'_>> {
    let (day, clock) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes()[10], b'T' | b't' | b' ' | b'_') {
        return None;
    }
    let mut parts = day.split(['-', '/', '.']).map(|part| small(part, 4));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let end = clock.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(clock.len());
    let (clock, zone) = (clock.get(..end)?, clock.get(end..)?.trim());
    let mut parts = clock.splitn(3, if clock.contains(':') { ':' } else { '.' });
    let (hour, minute) = (small(parts.next()?, 2)?, small(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0.0), |second| number(second.as_bytes()))?;
    if hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    let (offset_minutes, zone) = offset(zone)?;
    let whole = days(year, month, day) * 86_400 + hour * 3_600 + (minute - offset_minutes) * 60;
    Some(ClockTime { seconds: whole as f64 + second, zone, is_absolute: true })
}

fn small(text: &str, digits: usize) -> Option<i64> {
    let is_number = (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Minutes east of UTC, and the zone whose offset is unknown.
fn offset(zone: &str) -> Option<(i64, Option<&str>)> {
    if matches!(zone, "" | "Z" | "z" | "UTC" | "GMT") {
        return Some((0, None));
    }
    if let Some(digits) = zone.strip_prefix(['+', '-']) {
        let (hours, minutes) = match digits.split_once(':') {
            Some(pair) => pair,
            None if digits.len() == 4 => digits.split_at_checked(2)?,
            None => (digits, "0"),
        };
        let minutes = small(hours, 2)? * 60 + small(minutes, 2)?;
        return Some((if zone.starts_with('-') { -minutes } else { minutes }, None));
    }
    // The hours of AM and PM are others.
    let is_name = !matches!(zone, "AM" | "PM" | "am" | "pm")
        && zone.len() <= 5
        && zone.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_name.then_some((0, Some(zone)))
}

/// Days from 1970-01-01 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    before + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_unix_times_are_the_same_seconds() {
        let seconds = |text: &str| {
            let line = Line { number: 1, text: text.as_bytes() };
            parse(&line, text.as_bytes(), None).map(|time| time.seconds).ok()
        };
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0.0));
        for text in [
            "2024-02-29T12:00:01.5Z",
            "2024-02-29 12:00:01.5",
            "2024/02/29 12:00:01.5 CDT",
            "2024-02-29T14:30:01.5+02:30",
            "2024-02-29T04:00:01.5-0800",
            "1709208001.5",
            "1709208001500",
            "1709208001500000",
        ] {
            assert_eq!(seconds(text), Some(1_709_208_001.5), "{text}");
        }
        for text in
            ["2024-13-01T00:00:00Z", "11:00:01", "2024-02-29", "2024-02-29T25:00:00", "soon", "2024-02-29Tä"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
