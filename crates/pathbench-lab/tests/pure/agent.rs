//! The agent's answers.

use pathbench_lab::agent::{AgentNotice, AgentRequest, serve};
use pathbench_lab::channel::{receive, send};
use pathbench_record::end::TestId;
use pathbench_record::pattern::{PatternParameters, PingParameters};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientPlan;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Injects a panic into the work of a request.
#[derive(Debug)]
struct PanickingClock;

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        panic!("injected")
    }

    fn sleep_until(&self, _deadline: Timestamp) {
        panic!("injected")
    }
}

/// Regression: the orchestrator waited for an answer that was never sent, forever if the test had no duration.
#[test]
fn a_panic_is_an_answer() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(PanickingClock);
    let agent = thread::spawn(move || serve(&theirs, &clock));
    assert!(matches!(receive(&ours).unwrap(), AgentNotice::Ready));
    let ping = PatternParameters::Ping(PingParameters::default());
    let plan = ClientPlan::new(Transport::Tcp, ([192, 0, 2, 1], 1).into(), TestId([7; 16]), ping);
    send(&ours, &AgentRequest::Transfer(Box::new(plan))).unwrap();
    let answer = receive(&ours).unwrap();
    assert!(matches!(answer, AgentNotice::Failed(message) if message.contains("panicked")));
    drop(ours);
    assert!(agent.join().unwrap().is_ok());
}
