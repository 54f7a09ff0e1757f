//! The client opens the streams of a test, runs it, and returns the records of both ends.

mod observer;
mod plan;
mod probes;
mod progress;
mod run;

pub use crate::stream::Update;
pub use observer::{ClientControl, ClientObserver, Connected, PathProgress, Progress, Unobserved};
pub use plan::{ClientPlan, PathProbes, PathToProbe};
pub use probes::run_client;
pub use run::{ClientError, ClientOutcome, FetchError, fetch_record};
