//! Blocking work of requests.

use crate::refusal::Refusal;
use crate::task::{self, Cancellation, TaskError};
use crate::turn::Turns;
use std::sync::Arc;
use std::time::Duration;

/// The time of a request bounds its work: the deadline of the request drops the future.
const TIME: Duration = Duration::from_secs(240);

/// How long a body waits for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Runs `work` on a thread for blocking work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    outcome(task::run(TIME, |_| work()).await)
}

/// Runs `work` on a body in a turn of its client.
pub(super) async fn in_turn<T: Send + 'static>(
    turns: &Arc<Turns>,
    work: impl FnOnce(&Cancellation) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let Ok(turn) = turns.take(task::client(), LONGEST_WAIT).await else {
        return Err(Refusal::busy(
            "the collector is busy with the bodies of requests",
            Duration::from_secs(5),
        ));
    };
    let with_turn = move |cancellation: &Cancellation| {
        let _turn = turn;
        work(cancellation)
    };
    outcome(task::run(TIME, with_turn).await)
}

fn outcome<T>(done: Result<Result<T, Refusal>, TaskError>) -> Result<T, Refusal> {
    done.unwrap_or_else(|error| Err(Refusal::failed(error)))
}
