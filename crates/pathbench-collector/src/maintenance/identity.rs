//! The identity of a raw store, which its database keeps as well. A raw store with another database would lose every raw
//! part: erasure removes the segments that no result refers to.

use super::MaintenanceError;
use crate::raw::{Randomness, RawMaintenance, new_name};
use crate::store::record::record;
use crate::store::{Database, DatabaseMaintenance, Document, DocumentKind, StoreError};
use serde_json::json;

const SETTING: &str = "raw-store";

/// The identity of the database's raw store; `None` before the first start of its collector.
pub fn raw_store_of(database: &dyn Database) -> Result<Option<String>, StoreError> {
    record(database, DocumentKind::Setting, SETTING)
}

/// Ties the raw store to the database at their first start together, and refuses one of another database.
pub fn pair(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
    random: Randomness,
    now_ms: u64,
) -> Result<(), MaintenanceError> {
    let body = json!(new_name(now_ms, random())).to_string();
    // Collectors that start together agree on the first one.
    database.add_document(
        DocumentKind::Setting,
        &Document { key: SETTING.to_owned(), body, updated_ms: now_ms },
    )?;
    if let Some(identity) = raw_store_of(database)?
        && raw.identity()?.is_none()
        && fits(database, raw)?
    {
        raw.set_identity(&identity)?;
    }
    check_pair(database, raw)
}

/// Whether a raw store without an identity can be that of the database.
fn fits(database: &dyn DatabaseMaintenance, raw: &dyn RawMaintenance) -> Result<bool, MaintenanceError> {
    let segments = raw.segments()?;
    let referred = database.segments_after("", 1_000)?;
    Ok(if referred.is_empty() {
        segments.is_empty()
    } else {
        segments.iter().any(|segment| referred.contains(&segment.name))
    })
}

pub fn check_pair(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
) -> Result<(), MaintenanceError> {
    let identity = raw_store_of(database)?.ok_or(MaintenanceError::NoCollector)?;
    if raw.identity()?.as_ref() == Some(&identity) {
        return Ok(());
    }
    Err(MaintenanceError::OtherDatabase { location: raw.location(), identity })
}
