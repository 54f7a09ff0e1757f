//! Bounds of the memory that clients can take.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which memory is granted.
const UNIT_BYTES: usize = 4096;

/// Memory that all bodies of requests, or all answers, share; a share is released by its owner's drop.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Semaphore>);

#[derive(Debug)]
pub struct MemoryShare {
    budget: MemoryBudget,
    permits: Vec<OwnedSemaphorePermit>,
    granted_bytes: usize,
}

impl MemoryBudget {
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT_BYTES)))
    }

    pub fn share(&self) -> MemoryShare {
        MemoryShare { budget: self.clone(), permits: Vec::new(), granted_bytes: 0 }
    }

    pub fn available_bytes(&self) -> usize {
        self.0.available_permits() * UNIT_BYTES
    }
}

impl MemoryShare {
    /// Grows the share to `bytes`; false if the memory is in use.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.granted_bytes).div_ceil(UNIT_BYTES);
        if missing == 0 {
            return true;
        }
        // Fewer and larger permits as the share grows.
        let wanted = missing.max((self.granted_bytes / UNIT_BYTES).min(256));
        for units in [wanted, missing] {
            let Ok(units_u32) = u32::try_from(units) else { return false };
            if let Ok(permit) = Arc::clone(&self.budget.0).try_acquire_many_owned(units_u32) {
                self.permits.push(permit);
                self.granted_bytes += units * UNIT_BYTES;
                return true;
            }
        }
        false
    }
}
