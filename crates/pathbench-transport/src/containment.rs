//! Panics stay within the thread's work that they happen in.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic in it comes back as the message, after the panic hook has printed it. What `work` held is
/// dropped by then. Locks that it held are poisoned: the next owner decides what that means.
///
/// # Errors
/// The panic's message.
pub fn contain_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(panic.as_ref()))
}

/// The message of a panic, out of its payload.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panicked without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_as_its_message() {
        assert_eq!(contain_panic(|| 1), Ok(1));
        assert_eq!(contain_panic(|| -> u8 { panic!("plain") }), Err("plain".to_owned()));
        assert_eq!(contain_panic(|| -> u8 { panic!("number {}", 7) }), Err("number 7".to_owned()));
    }
}
