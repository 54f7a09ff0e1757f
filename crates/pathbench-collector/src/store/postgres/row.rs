//! Values in a row.

use crate::store::{RawRange, unsigned};
use pathbench_api::digest::Digest;
use tokio_postgres::{Error, Row};

pub(super) fn digest(row: &Row, column: usize) -> Result<Option<Digest>, Error> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(Digest))
}

/// The range of a raw part from four columns, the first of which is `column`.
pub(super) fn raw_range(row: &Row, column: usize) -> Result<Option<RawRange>, Error> {
    let Some(segment) = row.try_get::<_, Option<String>>(column)? else { return Ok(None) };
    let offset = unsigned(row.try_get(column + 1)?);
    let bytes = unsigned(row.try_get(column + 2)?);
    Ok(digest(row, column + 3)?.map(|digest| RawRange { segment, offset, bytes, digest }))
}

/// The answer to `SELECT count(*)`.
pub(super) fn count(rows: &[Row]) -> Result<u64, Error> {
    rows.first().map_or(Ok(0), |row| row.try_get(0)).map(unsigned)
}
