//! Blocking work of requests.

use crate::refusal::Refusal;

/// Runs `work` on a thread for blocking work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // The task of the request counts it and writes it to the log.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(Refusal::failed(format!("this collector: {error}"))),
    }
}
