//! The client opens the streams of a test, runs it, and returns the records of both ends.

mod observer;
mod plan;
mod progress;
mod run;

pub use crate::stream::Update;
pub use observer::{ClientControl, ClientObserver, Connected, PathProgress, Progress, Unobserved};
pub use plan::ClientPlan;
pub use run::{ClientError, ClientOutcome, FetchError, fetch_record, run_client};
