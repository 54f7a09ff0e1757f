//! Many results as JSON, CSV and Parquet, part by part.

use super::answer::Job;
use super::entry::entry;
use super::parts::{PART_BYTES, PartSource};
use super::results::RESULTS_AT_ONCE;
use super::rows::{self, RowWriter};
use crate::refusal::Refusal;
use crate::store::StoredResult;
use crate::viewer::View;
use parquet::errors::ParquetError;
use std::vec;

/// The results of an answer, of which a few are in memory at a time.
pub(super) struct Selected {
    view: View,
    sequences: vec::IntoIter<u64>,
}

impl Selected {
    pub(super) fn new(view: View, sequences: Vec<u64>) -> Self {
        Self { view, sequences: sequences.into_iter() }
    }

    /// The next results; `None` after the last one. Some can be deleted meanwhile.
    fn next(&mut self, job: &Job) -> Result<Option<Vec<StoredResult>>, Refusal> {
        job.check()?;
        let some: Vec<u64> = self.sequences.by_ref().take(RESULTS_AT_ONCE).collect();
        if some.is_empty() {
            return Ok(None);
        }
        let mut results = job.database.results(&some)?;
        results.retain(|one| self.view.viewer.may_see(one.consent));
        Ok(Some(results))
    }
}

/// Four results of at most 64 KiB, one of them parsed, and their text.
const BUILDING_BYTES: usize = 4 << 20;

/// The answer of `GET /v1/results`.
pub(super) struct JsonSource {
    pub(super) selected: Selected,
    /// Results that pass the filter.
    pub(super) all: u64,
    pub(super) next_cursor: Option<u64>,
    pub(super) written: usize,
    pub(super) is_begun: bool,
}

impl PartSource for JsonSource {
    const BUILDING_BYTES: usize = BUILDING_BYTES;

    fn add(&mut self, job: &Job, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        if !self.is_begun {
            out.extend_from_slice(format!("{{\"all\":{},\"results\":[", self.all).as_bytes());
            self.is_begun = true;
        }
        while out.len() < PART_BYTES {
            let Some(results) = self.selected.next(job)? else {
                let cursor = self.next_cursor.map_or_else(|| "null".to_owned(), |cursor| cursor.to_string());
                out.extend_from_slice(format!("],\"next_cursor\":{cursor}}}").as_bytes());
                return Ok(false);
            };
            for result in &results {
                if self.written > 0 {
                    out.push(b',');
                }
                self.written += 1;
                let failed = |_| Refusal::internal("cannot write JSON");
                serde_json::to_writer(&mut *out, &entry(job, result, self.selected.view)).map_err(failed)?;
            }
        }
        Ok(true)
    }
}

pub(super) struct CsvSource {
    pub(super) selected: Selected,
    pub(super) is_begun: bool,
}

impl PartSource for CsvSource {
    // A row has at most 8 KiB, and a result 128 rows: four results, and as much again where the text grows.
    const BUILDING_BYTES: usize = 2 * BUILDING_BYTES;

    fn add(&mut self, job: &Job, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        if !self.is_begun {
            rows::add_csv_head(out);
            self.is_begun = true;
        }
        while out.len() < PART_BYTES {
            let Some(results) = self.selected.next(job)? else { return Ok(false) };
            for result in &results {
                rows::add_csv(out, job, result, self.selected.view.viewer);
            }
        }
        Ok(true)
    }
}

pub(super) struct ParquetSource {
    selected: Selected,
    /// Absent after the end.
    writer: Option<RowWriter<Vec<u8>>>,
}

impl ParquetSource {
    pub(super) fn new(selected: Selected) -> Result<Self, Refusal> {
        Ok(Self { selected, writer: Some(RowWriter::new(Vec::new()).map_err(failed)?) })
    }
}

fn failed(_: ParquetError) -> Refusal {
    Refusal::internal("cannot write Parquet")
}

impl PartSource for ParquetSource {
    // A row group, one of its columns encoded, and the groups' descriptions.
    const BUILDING_BYTES: usize = BUILDING_BYTES + 3 * rows::GROUP_BYTES;

    fn add(&mut self, job: &Job, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let viewer = self.selected.view.viewer;
        while let Some(writer) = &mut self.writer {
            let Some(results) = self.selected.next(job)? else { break };
            for result in &results {
                writer.add(job, result, viewer).map_err(failed)?;
            }
            let written = writer.take().map_err(failed)?;
            out.extend_from_slice(&written);
            if out.len() >= PART_BYTES {
                return Ok(true);
            }
        }
        if let Some(writer) = self.writer.take() {
            out.extend_from_slice(&writer.finish().map_err(failed)?);
        }
        Ok(false)
    }
}
