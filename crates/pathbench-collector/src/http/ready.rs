//! `GET /ready`: one check of both stores at a time, for all clients.

use crate::refusal::Refusal;
use pathbench_record::time::{Timestamp, WallClock};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// An outcome answers the requests of this time.
const KEPT: Duration = Duration::from_secs(5);

/// An outcome answers requests while the next check runs: a check of an unreachable S3 store takes 91 s.
const KEPT_DURING_CHECK: Duration = Duration::from_secs(30);

type Outcome = Result<(), Refusal>;

#[derive(Debug, Default)]
pub struct Readiness {
    running: Mutex<()>,
    /// With its monotonic time.
    last: Mutex<Option<(Timestamp, Outcome)>>,
}

impl Readiness {
    /// The outcome of `check`, or of a recent one.
    pub fn check(&self, clock: &dyn WallClock, check: impl FnOnce() -> Outcome) -> Outcome {
        if let Some(outcome) = self.last(clock, KEPT) {
            return outcome;
        }
        let _running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return self.last(clock, KEPT_DURING_CHECK).unwrap_or_else(|| {
                    Err(Refusal::busy("the check of the database and the raw store still runs", KEPT))
                });
            }
        };
        let outcome = check();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((clock.now(), outcome.clone()));
        outcome
    }

    fn last(&self, clock: &dyn WallClock, most: Duration) -> Option<Outcome> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.filter(|(at, _)| clock.now().duration_since(*at) < most).map(|(_, outcome)| outcome)
    }
}
