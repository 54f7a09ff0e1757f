//! Text for users: quantities with three significant digits, durations, and untrusted text.

use std::time::Duration;

/// Replaces a value that is not a number.
pub const NONE: &str = "–";

pub fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// `value` in the largest of `units` (factor, name; largest first) in which it is at least 1.
pub fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    // With 0.9995, 999.6 Mbit/s becomes 1.00 Gbit/s and not `1000 Mbit/s`.
    let fits = |&&(factor, _): &&(f64, &str)| value.abs() >= 0.9995 * factor;
    let Some((factor, unit)) = units.iter().find(fits).or(units.last()) else {
        return NONE.to_owned();
    };
    let scaled = value / factor;
    if scaled.abs() >= 1e6 {
        format!("{scaled:.2e} {unit}")
    } else {
        format!("{} {unit}", three_digits(scaled))
    }
}

/// `text` without trailing zeros: `1 Gbit/s` for `1.00 Gbit/s`.
pub fn plain(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_owned(),
    }
}

/// A measured duration in a table: `350 µs`, `210 ms`, `2.40 s`, `15.4 min`.
pub fn duration_ms(ms: f64) -> String {
    if ms.abs() >= 120_000.0 {
        return scaled(ms / 60_000.0, &[(60.0, "h"), (1.0, "min")]);
    }
    if ms == 0.0 {
        return "0 ms".to_owned();
    }
    scaled(ms, &[(1e3, "s"), (1.0, "ms"), (1e-3, "µs")])
}

/// [`duration`] of any number of seconds from a file.
pub fn duration_s(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or(NONE.to_owned(), duration)
}

/// A duration in a sentence: `350 µs`, `210 ms`, `2.4 s`, `4 min 20 s`, `3 days 2 h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.saturating_add(Duration::from_millis(500)).as_secs();
    let (large, small, factor) = match seconds {
        0..60 => return plain(&duration_ms(time.as_secs_f64() * 1e3)),
        60..3_600 => ((60, "min"), (1, "s"), 60),
        3_600..172_800 => ((3_600, "h"), (60, "min"), 60),
        _ => ((86_400, "days"), (3_600, "h"), 24),
    };
    let rest = seconds / small.0 % factor;
    let rest = if rest == 0 { String::new() } else { format!(" {rest} {}", small.1) };
    format!("{} {}{rest}", seconds / large.0, large.1)
}

/// Whether untrusted text must not contain `character` on a terminal, a page or a picture: the character would move the
/// cursor, end a line, be invisible, or reverse the reading direction of the text after it.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        || matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// `text` with a space instead of every deceptive character, truncated after `most` characters.
pub fn printable(text: &str, most: usize) -> String {
    let printable = |character| if is_deceptive(character) { ' ' } else { character };
    text.chars().take(most).map(printable).collect()
}
