//! Numbers of minitopo and of tc(8).

use std::time::Duration;

/// A decimal number of at most 15 characters, without sign or exponent.
pub(super) fn number(text: &str) -> Option<f64> {
    let plain = text.len() <= 15
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && text.bytes().any(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A time of tc(8); microseconds without a unit.
pub(super) fn tc_time(text: &str) -> Option<Duration> {
    let (value, unit) = split(text)?;
    let nanoseconds = match unit {
        "" | "us" | "usec" | "usecs" => 1e3,
        "ms" | "msec" | "msecs" => 1e6,
        "s" | "sec" | "secs" => 1e9,
        _ => return None,
    };
    checked_nanoseconds(value * nanoseconds)
}

/// A rate of tc(8); bits per second without a unit. `bps` is bytes per second.
pub(super) fn tc_rate(text: &str) -> Option<u64> {
    let (value, unit) = split(text)?;
    let bits = match unit.to_ascii_lowercase().as_str() {
        "" | "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        "bps" => 8.0,
        "kbps" => 8e3,
        "mbps" => 8e6,
        "gbps" => 8e9,
        _ => return None,
    };
    Some((value * bits).round() as u64)
}

/// A size of dd(1) and pv(1): bytes, or a number with `k`, `m` or `g` for powers of 1024.
pub(super) fn size(text: &str) -> Option<u64> {
    let (value, unit) = split(text)?;
    let bytes = match unit.to_ascii_lowercase().as_str() {
        "" | "c" => 1.0,
        "k" => 1_024.0,
        "m" => 1_048_576.0,
        "g" => 1_073_741_824.0,
        _ => return None,
    };
    Some((value * bytes).round() as u64)
}

/// A percentage of tc(8), with or without `%`.
pub(super) fn tc_percent(text: &str) -> Option<f64> {
    number(text.strip_suffix('%').unwrap_or(text)).filter(|percent| *percent <= 100.0).map(rounded_percent)
}

/// Rounds to six decimals, which is more than scenarios need.
pub(super) fn rounded_percent(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

pub(super) fn milliseconds(value: f64) -> Option<Duration> {
    checked_nanoseconds(value * 1e6)
}

pub(super) fn seconds(value: f64) -> Option<Duration> {
    checked_nanoseconds(value * 1e9)
}

fn checked_nanoseconds(value: f64) -> Option<Duration> {
    (0.0..=1e15).contains(&value).then(|| Duration::from_nanos(value.round() as u64))
}

fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (value, unit) = text.split_at(end);
    Some((number(value)?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_tc() {
        let times = [("10ms", 10_000_000), ("1", 1_000), ("1.5s", 1_500_000_000), ("2usec", 2_000)];
        for (text, nanoseconds) in times {
            assert_eq!(tc_time(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
        for (text, bps) in [("1mbit", 1_000_000), ("8000", 8_000), ("1Mbps", 8_000_000), ("0.5kbit", 500)] {
            assert_eq!(tc_rate(text), Some(bps), "{text}");
        }
        for (text, bytes) in
            [("400k", 409_600), ("1K", 1_024), ("2m", 2_097_152), ("7", 7), ("1.5g", 1_610_612_736)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        assert_eq!((size("1kB"), size("k"), size("-1")), (None, None, None));
        for text in ["-1ms", "1h", "ms", "", "1e3", "1.2.3"] {
            assert_eq!((tc_time(text), tc_rate(text)), (None, None), "{text}");
        }
        assert_eq!(
            (tc_percent("1.5%"), tc_percent("100"), tc_percent("101")),
            (Some(1.5), Some(100.0), None)
        );
    }
}
