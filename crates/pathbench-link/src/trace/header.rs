//! The header of a table: which column has which quantity, by names and units.

use super::error::TraceError;
use super::lines::{Line, Lines, shown};
use super::unit::{RateUnit, TimeUnit, is_rate_word, words};

/// Maximum number of columns.
const MAX_COLUMNS: usize = 256;
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// The rate, delay or loss that a column contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Rate,
    /// A one-way delay.
    Delay,
    RoundTrip,
    Loss,
    Other,
}

impl ColumnKind {
    pub(super) fn from_name(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let words = words(&lower);
        let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
        if has(&["loss", "lost", "losses", "drop", "drops", "error", "errors"]) {
            if is_loss(&words) { Self::Loss } else { Self::Other }
        } else if RateUnit::from_column(name).is_some() || words.iter().any(|word| is_rate_word(word)) {
            Self::Rate
        } else if has(&["rtt", "ping"]) {
            Self::RoundTrip
        } else if has(&["delay", "owd"]) {
            Self::Delay
        } else {
            Self::Other
        }
    }
}

/// Whether a column has a share of packets: `packets_lost` and `loss_count` have numbers of them.
fn is_loss(words: &[&str]) -> bool {
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    let is_share = is_percent(words) || has(&["rate", "ratio", "fraction", "share", "probability"]);
    let is_count = has(&["packets", "pkts", "bytes", "count", "number", "num", "total"]);
    (has(&["loss"]) && !is_count) || (has(&["loss", "lost"]) && is_share)
}

/// Whether the words of a column's name say percent.
pub(super) fn is_percent(words: &[&str]) -> bool {
    words.iter().any(|word| word.contains('%') || matches!(*word, "percent" | "percentage" | "pct"))
}

fn is_time(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ColumnKind::from_name(name) == ColumnKind::Other && words(&lower).into_iter().any(is_time_word)
}

fn is_time_word(word: &str) -> bool {
    const KNOWN: [&str; 16] = [
        "time",
        "timestamp",
        "t",
        "ts",
        "datetime",
        "date",
        "elapsed",
        "epoch",
        "second",
        "seconds",
        "sec",
        "s",
        "ms",
        "us",
        "ns",
        "unix",
    ];
    KNOWN.contains(&word)
}

/// The header of a table.
pub(super) struct Header<'a> {
    pub(super) line: u64,
    separator: u8,
    pub(super) columns: Vec<&'a str>,
    text: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if the first line with content is no header.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<Self>, TraceError> {
        let Some(line) = Lines::with_content(bytes)?.next() else { return Ok(None) };
        // A table with numbered rows may leave the name of their column out.
        let is_unnamed = line.text.first().is_some_and(|byte| SEPARATORS.contains(byte))
            && line.text.iter().any(u8::is_ascii_alphabetic);
        let begins = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'"' | b'_');
        if !is_unnamed && !line.text.first().is_some_and(begins) {
            return Ok(None);
        }
        // Of equally many, the first separator.
        let separator = SEPARATORS
            .into_iter()
            .rev()
            .map(|separator| (fields(line.text, separator).take(MAX_COLUMNS + 1).count(), separator))
            .max_by_key(|(count, _)| *count);
        let (Some((count @ 2.., separator)), Ok(_)) = (separator, std::str::from_utf8(line.text)) else {
            return Ok(None);
        };
        if count > MAX_COLUMNS {
            let expected = "a header of at most 256 columns";
            return Err(line.malformed(line.text, expected));
        }
        let name = |field: &'a [u8]| std::str::from_utf8(field).unwrap_or_default();
        let columns = fields(line.text, separator).map(name).map(bare).collect();
        Ok(Some(Self { line: line.number, separator, columns, text: line.text }))
    }

    /// Whether these are the columns of LENS's IRTT tables, which have no units in their names.
    pub(super) fn is_lens(&self) -> bool {
        self.columns == ["timestamp", "rtt", "uplink", "downlink"]
    }

    fn found(&self) -> String {
        shown(self.text)
    }

    /// The column of the time, and its unit. A name that says nothing else precedes one such as `download_time_ms`.
    pub(super) fn time(&self) -> Result<(usize, Option<TimeUnit>), TraceError> {
        let is_plain = |name: &str| words(&name.to_ascii_lowercase()).into_iter().all(is_time_word);
        let position = |fits: &dyn Fn(&str) -> bool| self.columns.iter().position(|name| fits(name));
        let index = position(&|name| is_time(name) && is_plain(name))
            .or_else(|| position(&is_time))
            .ok_or_else(|| TraceError::NoTimeColumn { line: self.line, found: self.found() })?;
        Ok((index, TimeUnit::from_column(self.columns[index])))
    }

    /// The one column of `kinds`.
    pub(super) fn find(
        &self,
        kinds: &[ColumnKind],
        named: &[String],
        what: &'static str,
        example: &'static str,
    ) -> Result<usize, TraceError> {
        let is_named = |name: &str| named.iter().any(|one| one.eq_ignore_ascii_case(name));
        let fits = |name: &str| {
            let kind = ColumnKind::from_name(name);
            // A name of the user's may have no meaning for this program; it then names a rate.
            let unknown = kind == ColumnKind::Other && kinds.contains(&ColumnKind::Rate) && is_named(name);
            (kinds.contains(&kind) || unknown) && (named.is_empty() || is_named(name))
        };
        let all: Vec<usize> = (0..self.columns.len()).filter(|&index| fits(self.columns[index])).collect();
        match all.as_slice() {
            [] => Err(TraceError::NoColumn { line: self.line, found: self.found(), what, example }),
            [one] => Ok(*one),
            several => {
                let columns: Vec<String> = several
                    .iter()
                    .map(|&index| format!("`{}`", shown(self.columns[index].as_bytes())))
                    .collect();
                Err(TraceError::SeveralColumns { line: self.line, found: columns.join(", "), what })
            }
        }
    }

    pub(super) fn rows(bytes: &[u8]) -> Result<impl Iterator<Item = Line<'_>>, TraceError> {
        Ok(Lines::with_content(bytes)?.skip(1))
    }

    /// The value of a column. A line with other columns than the header is an error: its values may be shifted.
    pub(super) fn field<'b>(&self, line: &Line<'b>, index: usize) -> Result<&'b [u8], TraceError> {
        const COLUMNS: &str =
            "a line with the columns of the header (a separator within a value needs quotes)";
        let (mut found, mut count) = (None, 0);
        for (at, field) in fields(line.text, self.separator).enumerate() {
            if at >= self.columns.len() && !field.trim_ascii().is_empty() {
                return Err(line.malformed(line.text, COLUMNS));
            }
            if at == index {
                found = Some(bare_bytes(field));
            }
            count += 1;
        }
        // Lines are without the blanks around them, so an empty first value between tabs is not seen.
        let may_be_shifted = self.separator == b'\t' && count < self.columns.len();
        found.filter(|_| !may_be_shifted).ok_or_else(|| line.malformed(line.text, COLUMNS))
    }
}

/// The fields of a line; a separator within quotes is part of its field.
fn fields(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut is_quoted = false;
        let end = text.iter().position(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == separator && !is_quoted
        });
        let (field, after) = text.split_at(end.unwrap_or(text.len()));
        rest = after.split_first().map(|(_, rest)| rest);
        Some(field)
    })
}

fn bare(text: &str) -> &str {
    text.trim().trim_matches('"').trim()
}

fn bare_bytes(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text).trim_ascii()
}
