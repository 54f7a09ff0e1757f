//! The check of a collector's data.

use super::MaintenanceError;
use crate::raw::{RawError, RawMaintenance};
use crate::store::{DatabaseMaintenance, RawPlace};
use std::collections::HashMap;

/// Problems that are reported.
const MOST: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every raw part lies within its segment.
    Places,
    /// Every raw part is read, and has its digest.
    Digests,
}

/// Reports every inconsistency of the database, and between it and the raw store, at most 100.
pub fn check(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
    depth: Depth,
) -> Result<Vec<String>, MaintenanceError> {
    let mut problems = database.verify()?;
    let mut held = HashMap::new();
    let mut name = String::new();
    while problems.len() < MOST {
        let names = database.segments_after(&name, 1_000)?;
        let Some(last) = names.last() else { break };
        name.clone_from(last);
        for segment in &names {
            let places = database.places(segment)?;
            let mut found = misplaced(&places, held.get(segment).copied());
            if !found.is_empty() {
                // Perhaps it is newer than the list.
                held = raw.segments()?.into_iter().map(|segment| (segment.name, segment.bytes)).collect();
                found = misplaced(&places, held.get(segment).copied());
            }
            problems.extend(found);
            if depth == Depth::Digests && held.contains_key(segment) {
                problems.extend(damaged(database, raw, &places)?);
            }
            if problems.len() >= MOST {
                break;
            }
        }
    }
    problems.truncate(MOST);
    Ok(problems)
}

/// `bytes`: of the segment, if there is one.
fn misplaced(places: &[RawPlace], bytes: Option<u64>) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(bytes) = bytes else {
        let missing = |place: &RawPlace| {
            format!("segment {} is missing, with {} raw parts", place.segment, places.len())
        };
        return places.first().map(missing).into_iter().collect();
    };
    let mut end = 0;
    for place in places {
        let RawPlace { segment, offset, .. } = place;
        if *offset < end {
            problems.push(format!("two raw parts overlap in segment {segment} at {offset}"));
        }
        end = offset.saturating_add(place.bytes);
        if end > bytes {
            problems.push(format!("a raw part ends behind segment {segment}: at {end} of {bytes} bytes"));
        }
    }
    problems
}

fn damaged(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
    places: &[RawPlace],
) -> Result<Vec<String>, MaintenanceError> {
    let mut problems = Vec::new();
    for place in places.iter().filter(|place| place.bytes > 0) {
        match raw.read(place) {
            Ok(_) => {}
            Err(error @ (RawError::Damaged { .. } | RawError::Missing { .. })) => {
                // A deletion meanwhile erases rightly.
                if database.places(&place.segment)?.contains(place) {
                    problems.push(error.to_string());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(problems)
}
