//! The core of a stream of the pattern `responsiveness`, shared by its two threads.

use super::channel::TICK;
use super::error::StreamError;
use crate::responsiveness::{LoadCore, LoadStep};
use pathbench_record::time::Clock;
use pathbench_transport::lock;
use std::sync::{Condvar, Mutex, PoisonError};

/// The core of a stream, and the condition on which its sending thread waits.
pub(crate) struct LoadWork {
    pub(super) core: Mutex<LoadCore>,
    pub(super) changed: Condvar,
}

impl LoadWork {
    pub(super) fn new(core: LoadCore) -> Self {
        Self { core: Mutex::new(core), changed: Condvar::new() }
    }

    /// The next step, after a wait for it: until bytes that demand an answer arrive, or for `TICK`.
    pub(super) fn next(&self, clock: &dyn Clock) -> Result<LoadStep, StreamError> {
        let mut core = lock(&self.core);
        let now = clock.now();
        let step = core.next(now)?;
        if let LoadStep::WaitUntil(due) = step {
            let time = due.duration_since(now).min(TICK);
            // A poisoned lock means that the other thread panicked, which ends the stream.
            drop(self.changed.wait_timeout(core, time).unwrap_or_else(PoisonError::into_inner));
        }
        Ok(step)
    }
}
