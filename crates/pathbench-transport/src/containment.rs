//! Limits a panic to the work in which it occurs, and its effect on locks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs `work` and returns the message of a panic, after the panic hook has printed it. Everything that `work` owned is
/// dropped; mutexes that it held are poisoned.
/// Errors: the panic's message.
pub fn contain_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(panic.as_ref()))
}

/// Locks a mutex whose content a panic of another thread leaves usable: counters, series, slots and samples each change
/// in one step, and a TLS session is in the state after its last call.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panicked without a message").to_owned()
}
