//! Time series as compressed columns: 4 bytes a value, little-endian, bytes of one significance together, all columns of
//! a run in one zlib stream (RFC 1950), in base64. `assets/payload.js` is the decoder.

use data_encoding::BASE64;
use miniz_oxide::deflate::compress_to_vec_zlib;
use serde_json::{Value, json};

/// The precision of times in a column.
const TIME_STEP_MS: f64 = 0.01;
const LEVEL: u8 = 6;

/// Columns of equal length with what they are about, and the bytes of all columns so far.
#[derive(Debug, Default)]
pub(super) struct Tables {
    headers: Vec<Value>,
    bytes: Vec<u8>,
}

pub(super) enum Column {
    /// Ascending times in ms, as differences in steps of 0.01 ms.
    Time(Vec<f64>),
    /// Gauges. NaN is a gap.
    Gauge(Vec<f64>),
    /// Non-negative integers up to 2³² − 1; larger ones saturate.
    Count(Vec<u64>),
}

impl Tables {
    /// Adds a table. `about` is an object with the table's keys.
    pub(super) fn add(&mut self, mut about: Value, columns: Vec<(&str, Column)>) {
        let mut described = Vec::new();
        let mut rows = 0;
        for (name, column) in columns {
            let (encoding, words) = column.words();
            rows = words.len();
            shuffle(&words, &mut self.bytes);
            described.push(json!([name, encoding]));
        }
        if rows > 0 {
            about["rows"] = json!(rows);
            about["columns"] = Value::Array(described);
            self.headers.push(about);
        }
    }

    pub(super) fn into_value(self) -> Value {
        let zlib = BASE64.encode(&compress_to_vec_zlib(&self.bytes, LEVEL));
        json!({ "tables": self.headers, "zlib": zlib })
    }
}

impl Column {
    fn words(self) -> (&'static str, Vec<u32>) {
        match self {
            Self::Time(times) => ("time", differences(&times)),
            Self::Gauge(values) => {
                ("gauge", values.into_iter().map(|value| (value as f32).to_bits()).collect())
            }
            Self::Count(values) => {
                ("count", values.into_iter().map(|value| u32::try_from(value).unwrap_or(u32::MAX)).collect())
            }
        }
    }
}

fn differences(times: &[f64]) -> Vec<u32> {
    let mut last = 0_u64;
    let difference = |t_ms: &f64| {
        // Casts saturate, also for NaN.
        let step = ((t_ms / TIME_STEP_MS).round() as u64).max(last);
        let difference = u32::try_from(step - last).unwrap_or(u32::MAX);
        last += u64::from(difference);
        difference
    };
    times.iter().map(difference).collect()
}

fn shuffle(words: &[u32], into: &mut Vec<u8>) {
    for significance in 0..4 {
        into.extend(words.iter().map(|word| word.to_le_bytes()[significance]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::inflate::decompress_to_vec_zlib;

    #[test]
    fn columns_are_read_back_as_they_were_written() {
        let mut tables = Tables::default();
        let times = vec![0.0, 10.004, 10.0, 4_000_000.25];
        tables.add(
            json!({ "about": "x" }),
            vec![
                ("t_ms", Column::Time(times)),
                ("count", Column::Count(vec![1, 0, 70_000, u64::MAX])),
                ("gauge", Column::Gauge(vec![0.5, f64::NAN, -1.0, 3e300])),
            ],
        );
        tables.add(json!({}), vec![("t_ms", Column::Time(Vec::new()))]);
        let value = tables.into_value();
        assert_eq!(value["tables"].as_array().map(Vec::len), Some(1), "a table without rows is left out");
        let text = value["zlib"].as_str().unwrap_or_default();
        let bytes =
            decompress_to_vec_zlib(&BASE64.decode(text.as_bytes()).unwrap_or_default()).unwrap_or_default();
        let word = |column: usize, row: usize| {
            let byte = |significance: usize| bytes[column * 16 + significance * 4 + row];
            u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
        };
        assert_eq!([0, 1, 2, 3].map(|row| word(0, row)), [0, 1000, 0, 399_999_025]);
        assert_eq!([0, 1, 2, 3].map(|row| word(1, row)), [1, 0, 70_000, u32::MAX]);
        let gauges = [0, 1, 2, 3].map(|row| f32::from_bits(word(2, row)).to_string());
        assert_eq!(gauges, ["0.5", "NaN", "-1", "inf"]);
    }
}
