//! The library's instants, and the timestamps that are passed in.

use pathbench_record::time::Timestamp;
use std::time::{Duration, Instant};

/// A fixed pair of points that translates between [`Timestamp`] and [`Instant`].
///
/// The library wants `std`'s instants, and only ever looks at the difference of two of them.
#[derive(Debug, Clone, Copy)]
pub struct Epoch {
    origin: Timestamp,
    instant: Instant,
}

impl Epoch {
    /// The epoch that starts at `origin`.
    pub fn starting(origin: Timestamp) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made otherwise; any would do, for only differences to it are used"
        )]
        let instant = Instant::now();
        Self { origin, instant }
    }

    /// The library's instant for `at`; the epoch itself for anything before it.
    pub fn instant(&self, at: Timestamp) -> Instant {
        self.instant + at.since(self.origin)
    }

    pub fn timestamp(&self, instant: Instant) -> Timestamp {
        self.origin + instant.checked_duration_since(self.instant).unwrap_or(Duration::ZERO)
    }
}
