//! Lines, fields and numbers of a text file.

use super::error::TraceError;
use super::limits::MAX_BYTES;

#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u64,
    pub(super) text: &'a [u8],
}

impl<'a> Line<'a> {
    pub(super) fn is_comment(&self) -> bool {
        self.text.first() == Some(&b'#')
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        self.text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
    }

    pub(super) fn malformed(&self, found: &[u8], expected: &'static str) -> TraceError {
        TraceError::Malformed { line: self.number, found: shown(found), expected }
    }

    /// A number without sign or fraction; up to 18 digits, so that arithmetic does not overflow.
    pub(super) fn whole(&self, field: &[u8], expected: &'static str) -> Result<u64, TraceError> {
        if field.is_empty() || field.len() > 18 || !field.iter().all(u8::is_ascii_digit) {
            return Err(self.malformed(field, expected));
        }
        Ok(field.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
    }
}

#[derive(Debug)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, TraceError> {
        check_size(bytes)?;
        Ok(Self { rest: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes), number: 0 })
    }

    pub(super) fn trim(bytes: &'a [u8]) -> Result<Self, TraceError> {
        Self::new(bytes).map(|lines| Self { rest: lines.rest.trim_ascii_end(), ..lines })
    }

    /// The lines that are neither empty nor comments.
    pub(super) fn with_content(bytes: &'a [u8]) -> Result<impl Iterator<Item = Line<'a>>, TraceError> {
        Ok(Self::new(bytes)?.filter(|line| !line.text.is_empty() && !line.is_comment()))
    }
}

pub(super) fn check_size(bytes: &[u8]) -> Result<(), TraceError> {
    if bytes.len() > MAX_BYTES {
        return Err(TraceError::TooLarge { bytes: bytes.len() });
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return Err(TraceError::Compressed);
    }
    Ok(())
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let end = self.rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = match rest {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => rest,
        };
        Some(Line { number: self.number, text: text.trim_ascii() })
    }
}

pub(super) fn shown(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    let cut = &text[..text.len().min(LONGEST)];
    let ellipsis = if text.len() > LONGEST { "…" } else { "" };
    format!("{}{ellipsis}", cut.escape_ascii())
}

pub(super) fn number(text: &[u8]) -> Option<f64> {
    let decimal = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    if text.len() > 40 || !text.iter().all(decimal) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(u64, &[u8])> {
        Lines::new(bytes).unwrap().map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn any_line_end_counts_as_one() {
        for text in ["1\n2\n\n3\n", "1\r\n2\r\n\r\n3\r\n", "1\r2\r\r3", "\u{feff}1\r\n 2\t\n\r3"] {
            assert_eq!(lines(text.as_bytes()), [(1, &b"1"[..]), (2, b"2"), (3, b""), (4, b"3")], "{text:?}");
        }
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn quoted_input_is_short_and_escaped() {
        assert_eq!(shown(b"\x1b[31m"), "\\x1b[31m");
        assert_eq!(shown(&[b'x'; 100]).chars().count(), 41);
    }
}
