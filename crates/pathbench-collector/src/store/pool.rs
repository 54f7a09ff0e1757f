//! A bounded pool of connections.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections that are made when needed, at most `most` at a time.
#[derive(Debug)]
pub(super) struct Pool<C> {
    state: Mutex<State<C>>,
    returned: Condvar,
    most: usize,
}

#[derive(Debug)]
struct State<C> {
    idle: Vec<C>,
    lent: usize,
}

impl<C> Pool<C> {
    pub(super) fn new(most: usize) -> Self {
        let state = Mutex::new(State { idle: Vec::new(), lent: 0 });
        Self { state, returned: Condvar::new(), most: most.max(1) }
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to one connection; `None` if all are in use for `patience`.
    pub(super) fn take(&self, patience: Duration) -> Option<Permit<'_, C>> {
        let waited =
            self.returned.wait_timeout_while(self.state(), patience, |state| state.lent >= self.most);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.lent >= self.most {
            return None;
        }
        state.lent += 1;
        let idle = state.idle.pop();
        Some(Permit { pool: self, idle })
    }
}

/// A right to use one connection, given back on drop.
pub(super) struct Permit<'a, C> {
    pool: &'a Pool<C>,
    /// A connection from earlier, if there is one.
    pub(super) idle: Option<C>,
}

impl<C> Permit<'_, C> {
    /// Returns a connection that is in order.
    pub(super) fn keep(mut self, connection: C) {
        self.idle = Some(connection);
    }
}

impl<C> Drop for Permit<'_, C> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.lent -= 1;
        state.idle.extend(self.idle.take());
        drop(state);
        self.pool.returned.notify_one();
    }
}
