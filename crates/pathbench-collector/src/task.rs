//! Blocking work of requests: cancelled when the request has ended.

use pathbench_record::network::Client;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// Set when the future that waits for the work is dropped, because its client is gone or its time is over. Long loops of
/// the work ask for it.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the work took too long")]
pub struct Cancelled;

struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug, Error)]
pub enum TaskError {
    #[error("the work took longer than {} s", .0.as_secs())]
    Time(Duration),
    #[error("this collector: {0}")]
    Failed(tokio::task::JoinError),
}

/// Runs `work` on a thread for blocking work, and waits for it for `time`. A panic of the work goes on in the caller.
pub async fn run<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce(&Cancellation) -> T + Send + 'static,
) -> Result<T, TaskError> {
    let cancellation = Cancellation::default();
    let guard = CancelOnDrop(cancellation.clone());
    let client = client();
    let done = tokio::task::spawn_blocking(move || CLIENT.sync_scope(client, || work(&cancellation)));
    let done = tokio::time::timeout(time, done).await;
    drop(guard);
    match done {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Ok(Err(error)) => Err(TaskError::Failed(error)),
        Err(_) => Err(TaskError::Time(time)),
    }
}

tokio::task_local! {
    static CLIENT: Client;
}

/// Runs `request` for a client: its memory and its turns count for that client.
pub async fn for_client<F: Future>(client: Client, request: F) -> F::Output {
    CLIENT.scope(client, request).await
}

/// The client of the request that runs, also in its blocking work.
pub fn client() -> Client {
    CLIENT.try_with(|client| *client).unwrap_or_else(|_| Client::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}
