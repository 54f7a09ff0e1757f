//! The library's instants out of the clock that is handed in.

use pathbench_record::time::{Clock, Timestamp};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The handed-in clock, and the fixed pair of points that translates between it and [`Instant`].
///
/// The library wants `std`'s instants, and only ever looks at the difference of two of them.
#[derive(Clone)]
pub(crate) struct Epoch {
    clock: Arc<dyn Clock>,
    origin: Timestamp,
    instant: Instant,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Epoch {
    /// The epoch that starts now.
    pub(crate) fn starting(clock: Arc<dyn Clock>) -> Self {
        let origin = clock.now();
        #[expect(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made otherwise; any would do, for only differences to it are used"
        )]
        let instant = Instant::now();
        Self { clock, origin, instant }
    }

    /// The present of the handed-in clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The library's instant for `at`; the epoch itself for anything before it.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.instant + at.since(self.origin)
    }

    /// The point in time of one of the library's instants.
    pub(crate) fn timestamp(&self, instant: Instant) -> Timestamp {
        self.origin + instant.checked_duration_since(self.instant).unwrap_or(Duration::ZERO)
    }
}
