//! The check of a collector's data.

use super::MaintenanceError;
use crate::raw::{RawError, RawMaintenance};
use crate::store::{DatabaseMaintenance, RawRange};
use std::collections::HashMap;

/// Problems that are reported.
const MOST: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every raw part lies within its segment.
    Ranges,
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
            let ranges = database.ranges(segment)?;
            let mut found = misplaced(&ranges, held.get(segment).copied());
            if !found.is_empty() {
                // Perhaps it is newer than the list.
                held = raw.segments()?.into_iter().map(|segment| (segment.name, segment.bytes)).collect();
                found = misplaced(&ranges, held.get(segment).copied());
            }
            problems.extend(found);
            if depth == Depth::Digests && held.contains_key(segment) {
                problems.extend(damaged(database, raw, &ranges)?);
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
fn misplaced(ranges: &[RawRange], bytes: Option<u64>) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(bytes) = bytes else {
        let missing = |range: &RawRange| {
            format!("segment {} is missing, with {} raw parts", range.segment, ranges.len())
        };
        return ranges.first().map(missing).into_iter().collect();
    };
    let mut end = 0;
    for range in ranges {
        let RawRange { segment, offset, .. } = range;
        if *offset < end {
            problems.push(format!("two raw parts overlap in segment {segment} at {offset}"));
        }
        end = offset.saturating_add(range.bytes);
        if end > bytes {
            problems.push(format!("a raw part ends behind segment {segment}: at {end} of {bytes} bytes"));
        }
    }
    problems
}

fn damaged(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
    ranges: &[RawRange],
) -> Result<Vec<String>, MaintenanceError> {
    let mut problems = Vec::new();
    for range in ranges.iter().filter(|range| range.bytes > 0) {
        match raw.read(range) {
            Ok(_) => {}
            Err(error @ (RawError::Damaged { .. } | RawError::Missing { .. })) => {
                // A deletion meanwhile erases rightly.
                if database.ranges(&range.segment)?.contains(range) {
                    problems.push(error.to_string());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(problems)
}
