//! How the opening of a run's connection ended.

use super::resolved::ResolvedRun;
use pathbench_record::document::{OpeningOutcome, OpeningRecord};

impl ResolvedRun<'_> {
    /// `None` without the client's record, and before an outcome.
    pub(super) fn opening(&self) -> Option<OpeningRecord> {
        let evidence = self.evidence;
        let client = evidence.client.as_ref()?;
        let (outcome, after) = match client.handshake {
            Some(handshake) => (OpeningOutcome::Opened, handshake),
            None if evidence.error.is_none() => return None,
            None => {
                let outcome = evidence.unreachable.map_or(OpeningOutcome::Other, OpeningOutcome::from);
                (outcome, client.ended.duration_since(client.started))
            }
        };
        let path = self.paths_from_the_first().into_iter().next().map(|path| path.name);
        Some(OpeningRecord { path, outcome, after_ms: after.as_nanos() as f64 / 1e6 })
    }
}
