//! Erasure: of the raw parts of deleted results, and of those that no result refers to.

use super::MaintenanceError;
use crate::raw::{RawMaintenance, RawSegment, name_time_ms};
use crate::store::{Database, DatabaseMaintenance, Deletion, DocumentKind, RawRange};
use pathbench_api::digest::Digest;
use pathbench_api::token::MAX_VALIDITY;
use std::collections::HashMap;
use std::time::Duration;

/// Erasures of one round.
const ROUND: usize = 1_000;

/// A live report is shown for 15 s.
pub const LIVE_KEPT: Duration = Duration::from_secs(60);

pub const AGENTS_KEPT: Duration = Duration::from_secs(90 * 86_400);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erased {
    /// Ranges of segments that stay.
    pub ranges: u64,
    /// Segments that were removed.
    pub segments: u64,
}

/// Deletes the results that were received more than `keep` before `now_ms`, with their raw parts.
pub fn retain(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
    keep: Duration,
    now_ms: u64,
) -> Result<u64, MaintenanceError> {
    let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
    let deleted = database.delete(&Deletion::ReceivedBefore(now_ms.saturating_sub(keep_ms)), now_ms)?;
    erase_deleted(database, raw)?;
    Ok(deleted)
}

/// Deletes live reports, revocations of tokens that have expired, and agents without a check-in for `keep` or, where results are kept for ever, [`AGENTS_KEPT`].
pub fn delete_old_documents(
    database: &dyn Database,
    keep: Option<Duration>,
    now_ms: u64,
) -> Result<(), MaintenanceError> {
    let kinds = [
        (DocumentKind::Live, LIVE_KEPT),
        (DocumentKind::Revocation, MAX_VALIDITY),
        (DocumentKind::Agent, keep.unwrap_or(AGENTS_KEPT)),
    ];
    for (kind, keep) in kinds {
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        database.delete_documents(kind, now_ms.saturating_sub(keep_ms))?;
    }
    Ok(())
}

/// Erases the raw parts of all deleted results. What a crash interrupts, the next call completes.
pub fn erase_deleted(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
) -> Result<Erased, MaintenanceError> {
    let mut erased = Erased::default();
    let sealed_before_ms = raw.sealed_before_ms();
    let sealed = |segment: &str| name_time_ms(segment).is_some_and(|made_ms| made_ms < sealed_before_ms);
    loop {
        let erasures = database.erasures(ROUND)?;
        if erasures.is_empty() {
            return Ok(erased);
        }
        let mut by_segment: HashMap<&str, Vec<RawRange>> = HashMap::new();
        for erasure in &erasures {
            by_segment.entry(&erasure.range.segment).or_default().push(erasure.range.clone());
        }
        for (segment, ranges) in by_segment {
            if sealed(segment) && database.ranges(segment)?.is_empty() {
                raw.remove(segment)?;
                erased.segments += 1;
            } else {
                raw.erase(&ranges)?;
                erased.ranges += ranges.len() as u64;
            }
        }
        let numbers: Vec<u64> = erasures.iter().map(|erasure| erasure.number).collect();
        database.erased(&numbers)?;
    }
}

/// Erases bytes of sealed segments that no result refers to: of commits that failed after the raw parts were stored, of
/// torn appends, and of results that several collectors stored at the same time.
pub fn erase_unreferenced(
    database: &dyn DatabaseMaintenance,
    raw: &dyn RawMaintenance,
) -> Result<Erased, MaintenanceError> {
    let mut erased = Erased::default();
    let before_ms = raw.sealed_before_ms();
    for RawSegment { name, bytes, made_ms } in raw.segments()? {
        if made_ms >= before_ms {
            continue;
        }
        let ranges = database.ranges(&name)?;
        if ranges.is_empty() {
            raw.remove(&name)?;
            erased.segments += 1;
            continue;
        }
        let gaps = gaps(&name, bytes, &ranges);
        raw.erase(&gaps)?;
        erased.ranges += gaps.len() as u64;
    }
    Ok(erased)
}

/// The ranges between `ranges`, which are in order.
fn gaps(segment: &str, bytes: u64, ranges: &[RawRange]) -> Vec<RawRange> {
    let mut gaps = Vec::new();
    let mut gap = |from: u64, to: u64| {
        if from < to {
            let (segment, digest) = (segment.to_owned(), Digest([0; 32]));
            gaps.push(RawRange { segment, offset: from, bytes: to - from, digest });
        }
    };
    let mut end = 0;
    for range in ranges {
        gap(end, range.offset.min(bytes));
        end = end.max(range.offset.saturating_add(range.bytes));
    }
    gap(end, bytes);
    gaps
}
