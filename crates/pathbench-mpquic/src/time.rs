//! Translation between the library's instants and Pathbench's timestamps.

use pathbench_record::time::Timestamp;
use std::time::{Duration, Instant};

/// The same point in time as a [`Timestamp`] and as an [`Instant`], to translate between them.
///
/// The library requires `std`'s instants, and uses only the difference of two of them.
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

    /// The library's instant for `at`; the epoch's for an earlier `at`.
    pub fn instant(&self, at: Timestamp) -> Instant {
        self.instant + at.duration_since(self.origin)
    }

    pub fn timestamp(&self, instant: Instant) -> Timestamp {
        self.origin + instant.checked_duration_since(self.instant).unwrap_or(Duration::ZERO)
    }
}
