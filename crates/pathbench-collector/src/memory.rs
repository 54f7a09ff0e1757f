//! Bounds of the memory that clients can take.

use pathbench_record::network::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The least part of a client: one batch and its decompressed form.
const LEAST_OF_CLIENT_BYTES: usize = 40 << 20;

/// Memory that all bodies of requests, or all answers, share; a share is released by its owner's drop. One client gets
/// half of it; what it has beside others beyond a small part leaves free four times as much, so that some clients together
/// leave memory for the next one.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    bytes: usize,
    of_client_bytes: usize,
    /// Granted beside others as long as anything is free.
    beside_others_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used_bytes: usize,
    by_client: HashMap<Client, usize>,
}

#[derive(Debug)]
pub struct MemoryShare {
    budget: MemoryBudget,
    client: Client,
    granted_bytes: usize,
}

impl MemoryBudget {
    pub fn new(bytes: usize) -> Self {
        let of_client_bytes = (bytes / 2).max(LEAST_OF_CLIENT_BYTES).min(bytes);
        let beside_others_bytes = bytes / 16;
        Self(Arc::new(Budget { bytes, of_client_bytes, beside_others_bytes, state: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn share(&self, client: Client) -> MemoryShare {
        MemoryShare { budget: self.clone(), client, granted_bytes: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    pub fn available_bytes(&self) -> usize {
        self.0.bytes - self.state().used_bytes
    }
}

impl MemoryShare {
    /// Another share of the same client.
    pub fn another(&self) -> Self {
        self.budget.share(self.client)
    }

    /// Grows the share to `bytes`; false if the memory is in use, or the client has its part.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.granted_bytes);
        if missing == 0 {
            return true;
        }
        let mut state = self.budget.state();
        let of_client = state.by_client.get(&self.client).copied().unwrap_or_default();
        let Budget { bytes: most, of_client_bytes, beside_others_bytes, .. } = *self.budget.0;
        let free = most - state.used_bytes;
        let after = of_client + missing;
        if missing > free || after > of_client_bytes {
            return false;
        }
        let is_first = of_client == 0 || of_client == state.used_bytes;
        if !is_first && after > beside_others_bytes.max((free - missing) / 4) {
            return false;
        }
        state.used_bytes += missing;
        state.by_client.insert(self.client, after);
        self.granted_bytes = bytes;
        true
    }

    /// Returns what is beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.granted_bytes.saturating_sub(bytes);
        if excess == 0 {
            return;
        }
        self.granted_bytes -= excess;
        let mut state = self.budget.state();
        state.used_bytes -= excess;
        if let Some(of_client) = state.by_client.get_mut(&self.client) {
            *of_client -= excess;
            if *of_client == 0 {
                state.by_client.remove(&self.client);
            }
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
