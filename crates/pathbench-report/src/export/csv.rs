//! Tables as CSV (RFC 4180 with LF as line end): a header; text in quotes, so that an empty text (`""`) differs from
//! no value; numbers and booleans without. Text is never changed: an import as spreadsheet formulas is the reader's choice.

use serde_json::Value;
use std::io::{self, Write};

pub(super) struct CsvWriter<W> {
    out: W,
    line: String,
}

impl<W: Write> CsvWriter<W> {
    pub(super) fn new(out: W, columns: &[super::table::Column]) -> io::Result<Self> {
        let mut writer = Self { out, line: String::new() };
        let header: Vec<Value> = columns.iter().map(|column| column.name.clone().into()).collect();
        writer.row(&header)?;
        Ok(writer)
    }

    pub(super) fn row(&mut self, cells: &[Value]) -> io::Result<()> {
        self.line.clear();
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                self.line.push(',');
            }
            match cell {
                Value::Null => {}
                Value::String(text) => self.line.extend(["\"", &text.replace('"', "\"\""), "\""]),
                other => self.line.push_str(&other.to_string()),
            }
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
