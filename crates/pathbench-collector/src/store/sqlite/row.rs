//! Values in a row.

use crate::store::{self, RawRange};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use rusqlite::Row;

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(store::unsigned)
}

pub(super) fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}

/// The range of a raw part from four columns, the first of which is `column`.
pub(super) fn raw_range(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<RawRange>> {
    let Some(segment) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    Ok(Some(RawRange {
        segment,
        offset: unsigned(row, column + 1)?,
        bytes: unsigned(row, column + 2)?,
        digest: Digest(row.get(column + 3)?),
    }))
}
