//! Runs the tests of a measurement of lines, one after the other; waits for a busy server.

use crate::client::{ServerTarget, TestClient, busy_wait, start_test};
use pathbench_analysis::line::MeasuredValue;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientOutcome;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

pub(super) const TICK: Duration = Duration::from_millis(100);
/// Attempts at a busy server.
const BUSY_TRIES: u32 = 5;
const STOPPED: &str = "stopped by the user";

#[derive(Clone, Copy)]
pub(super) struct TestRunner<'a> {
    pub(super) client: &'a TestClient,
    pub(super) stop: &'a AtomicBool,
}

impl TestRunner<'_> {
    pub(super) fn run(
        &self,
        transport: Transport,
        target: &ServerTarget,
        parameters: &PatternParameters,
        congestion: Option<&str>,
    ) -> MeasuredValue<ClientOutcome> {
        let clock = &self.client.clock;
        for attempt in 1.. {
            let mut plan = self.client.plan(transport, target, parameters.clone());
            plan.socket.congestion = congestion.map(str::to_owned);
            let (transferred, test) = start_test(self.client, plan);
            let outcome = loop {
                if self.stop.load(Ordering::Relaxed) {
                    // The thread and its connection end with the process.
                    return Err(STOPPED.to_owned());
                }
                if matches!(transferred.recv_timeout(TICK), Err(RecvTimeoutError::Disconnected)) {
                    break test.join().map_err(|_| "the test failed".to_owned())?;
                }
            };
            let Some(wait) = busy_wait(&outcome).filter(|_| attempt < BUSY_TRIES) else { return Ok(outcome) };
            let until = clock.now() + wait;
            while clock.now() < until && !self.stop.load(Ordering::Relaxed) {
                clock.sleep_until((clock.now() + TICK).min(until));
            }
        }
        Err("the server is busy".to_owned())
    }
}
