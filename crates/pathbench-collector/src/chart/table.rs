//! Tables as CSV and JSON.

use pathbench_api::name::Name;
use pathbench_record::text::is_deceptive;
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    Count(u64),
    Number(f64),
    /// A number, and how a page shows it.
    Quantity(f64, String),
    Absent,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn from_name(name: Option<&Name>) -> Self {
        name.map_or(Self::Absent, |name| Self::text(name.as_str()))
    }

    /// A number, and its words.
    pub fn quantity(value: Option<f64>, words: impl Fn(f64) -> String) -> Self {
        value.map_or(Self::Absent, |value| Self::Quantity(value, words(value)))
    }

    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Quantity(_, text) => text.clone(),
            Self::Count(count) => grouped(*count),
            Self::Number(number) => number.to_string(),
            Self::Absent => "–".to_owned(),
        }
    }

    pub const fn is_number(&self) -> bool {
        !matches!(self, Self::Text(_))
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(plain(text)),
            Self::Count(count) => json!(count),
            Self::Number(number) | Self::Quantity(number, _) => json!(rounded(*number)),
            Self::Absent => Value::Null,
        }
    }

    fn csv(&self) -> String {
        match self {
            Self::Text(text) => csv_text(text),
            Self::Count(count) => count.to_string(),
            Self::Number(number) | Self::Quantity(number, _) => rounded(*number).to_string(),
            Self::Absent => String::new(),
        }
    }
}

/// Thousands apart, with a narrow no-break space.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Six significant digits; a bucket has fewer.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// Without control characters and characters that change the reading direction.
fn plain(text: &str) -> String {
    text.replace(is_deceptive, " ")
}

/// A field of CSV (RFC 4180). Spreadsheets run a text that begins like a formula: an apostrophe precedes it.
pub fn csv_text(text: &str) -> String {
    let mut text = plain(text);
    if text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        text.insert(0, '\'');
    }
    if text.contains([',', '"', '\n', '\r', ';', '\'']) || text != text.trim() {
        text = format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

/// A line of CSV without its end.
pub fn csv_row(row: &[Cell]) -> String {
    let cells: Vec<String> = row.iter().map(Cell::csv).collect();
    cells.join(",")
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct DataTable {
    /// Name in files, heading in pages.
    pub columns: Vec<(String, String)>,
    pub rows: Vec<Vec<Cell>>,
}

impl DataTable {
    pub fn new<const N: usize>(columns: [(&str, &str); N]) -> Self {
        let columns = columns.map(|(name, heading)| (name.to_owned(), heading.to_owned())).into();
        Self { columns, rows: Vec::new() }
    }

    pub fn csv(&self) -> String {
        let mut out = String::new();
        let names: Vec<String> = self.columns.iter().map(|(name, _)| csv_text(name)).collect();
        // Writing to a string cannot fail.
        let _ = write!(out, "{}\r\n", names.join(","));
        for row in &self.rows {
            out.push_str(&csv_row(row));
            out.push_str("\r\n");
        }
        out
    }

    pub fn json(&self) -> Value {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let row = |row: &Vec<Cell>| row.iter().map(Cell::json).collect::<Vec<Value>>();
        json!({ "columns": names, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}
