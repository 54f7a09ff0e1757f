//! One execution: `pathbench test` or `roam` as a child process, within its bytes and its time.

use crate::host::AgentHost;
use crate::networks::{InterfaceMeter, NetworkRules};
use crate::state::AgentContext;
use pathbench_program::exit::Exit;
use pathbench_program::supervised;
use pathbench_record::document::Reachability;
use pathbench_record::live::LiveRecord;
use pathbench_record::time::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(200);
/// Interval between two looks at the interfaces' counters.
const COUNT: Duration = Duration::from_secs(1);
/// Interval between two looks at the networks.
const NETWORKS: Duration = Duration::from_secs(10);
/// Time in which a stopped child writes its result.
const GRACE: Duration = Duration::from_secs(30);
/// A line of live records, and what is kept of standard error.
const LINE_BYTES: u64 = 1 << 20;
const ERROR_BYTES: u64 = 4096;

/// The command line and the bounds of an execution.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) arguments: Vec<String>,
    pub(crate) token: Option<String>,
    pub(crate) directory: PathBuf,
    /// Interface → bytes that it may still use.
    pub(crate) left: BTreeMap<String, u64>,
    /// The limit of all interfaces together.
    pub(crate) most_bytes: u64,
    pub(crate) longest: Duration,
    /// The part of `longest` that the test of the other IP version took.
    pub(crate) spent: Duration,
    /// `None` if it may use every network.
    pub(crate) networks: Option<NetworkRules>,
}

#[derive(Debug)]
pub(crate) struct ExecutionOutcome {
    /// `None` if the child was killed.
    pub(crate) exit: Option<i32>,
    /// Why the agent stopped it.
    pub(crate) stopped: Option<String>,
    /// The end of its messages.
    pub(crate) message: String,
    /// Interface → bytes.
    pub(crate) used: BTreeMap<String, u64>,
    pub(crate) lasted: Duration,
    /// The attempts to reach the server, if there was no run.
    pub(crate) reachability: Vec<Reachability>,
}

impl ExecutionOutcome {
    pub(crate) fn is_good(&self) -> bool {
        let good = [Exit::Done, Exit::MultipathNotUsed].map(|exit| i32::from(exit.code()));
        self.stopped.is_none() && self.exit.is_some_and(|code| good.contains(&code))
    }
}

impl Execution {
    pub(crate) fn run(&self, shared: &Arc<AgentContext>) -> io::Result<ExecutionOutcome> {
        let interfaces: Vec<String> = self.left.keys().cloned().collect();
        let host = &shared.host;
        let networks = host.networks.as_ref();
        let mut meter = InterfaceMeter::new(networks, interfaces.clone());
        let mut command = supervised::command(&host.program, &self.arguments);
        command
            // A server that a collector names must not get the owner's tokens.
            .env_remove("PATHBENCH_TOKEN")
            .env_remove("PATHBENCH_COLLECTOR_TOKEN")
            .env_remove("PATHBENCH_OUT")
            // Ctrl-C is for the agent, which stops the child.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(token) = &self.token {
            command.env("PATHBENCH_TOKEN", token);
        }
        let mut child = command.spawn()?;
        let reader = child.stdout.take().map(|out| follow(out, Arc::clone(shared)));
        let errors = child.stderr.take().map(keep_errors);
        let (_ends_with_the_child, objections) = self.watch_networks(host, interfaces);
        let mut stopped: Option<(String, Timestamp)> = None;
        let begun = host.clock.now();
        let mut counted = begun;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let now = host.clock.now();
            if stopped.is_none() {
                let is_due = now.duration_since(counted) >= COUNT;
                let used = is_due.then(|| meter.read(networks));
                if is_due {
                    counted = now;
                }
                let reason = objections
                    .try_recv()
                    .ok()
                    .or_else(|| self.reason_to_stop(shared, now.duration_since(begun), used));
                if let Some(reason) = reason {
                    // It has not been waited for, so its number is its own.
                    let _ended = kill_process(Pid::from_child(&child), Signal::TERM);
                    stopped = Some((reason, now));
                }
            } else if stopped.as_ref().is_some_and(|(_, at)| now.duration_since(*at) > GRACE) {
                child.kill()?;
            }
            host.clock.sleep_until(now + TICK);
        };
        let reachability = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        let message = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
        let used = meter.read(networks);
        let lasted = host.clock.now().duration_since(begun);
        let stopped = stopped.map(|(reason, _)| reason);
        Ok(ExecutionOutcome { exit: status.code(), stopped, message, used, lasted, reachability })
    }

    /// Reports the first objection to a network, until the first part of the result is dropped. nmcli(1) can take seconds.
    fn watch_networks(&self, host: &Arc<AgentHost>, interfaces: Vec<String>) -> (Arc<()>, Receiver<String>) {
        let running = Arc::new(());
        let (sender, objections) = channel();
        if let Some(rules) = self.networks.clone() {
            let (ended, host) = (Arc::downgrade(&running), Arc::clone(host));
            thread::spawn(move || {
                loop {
                    host.clock.sleep_until(host.clock.now() + NETWORKS);
                    if ended.strong_count() == 0 {
                        return;
                    }
                    if let Some(reason) = rules.objection(host.networks.as_ref(), &interfaces) {
                        let _ended = sender.send(reason);
                        return;
                    }
                }
            });
        }
        (running, objections)
    }

    fn reason_to_stop(
        &self,
        shared: &AgentContext,
        lasted: Duration,
        used: Option<BTreeMap<String, u64>>,
    ) -> Option<String> {
        if shared.is_stopping() || shared.take_cancellation() {
            return Some("stopped".to_owned());
        }
        if self.spent + lasted > self.longest {
            return Some(format!("it took longer than {} s", self.longest.as_secs()));
        }
        let used = used?;
        if used.values().sum::<u64>() > self.most_bytes {
            return Some(format!("it used more than {} bytes", self.most_bytes));
        }
        let over = used.iter().find(|(name, used)| self.left.get(*name).is_some_and(|left| *used > left));
        over.map(|(name, _)| format!("the month's budget of {name} is used up"))
    }
}

/// Passes live records to the state of the agent; returns the attempts of the last record.
fn follow(out: ChildStdout, shared: Arc<AgentContext>) -> JoinHandle<Vec<Reachability>> {
    thread::spawn(move || {
        let mut reachability = Vec::new();
        let mut reader = BufReader::new(out);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return reachability,
                Ok(_) => {}
            }
            if let Ok(record) = serde_json::from_slice::<LiveRecord>(&line) {
                shared.add_record(&record);
                if let LiveRecord::End(end) = record {
                    reachability = end.reachability;
                }
            }
        }
    })
}

/// Reads everything, so that the child never waits, and keeps the last messages.
fn keep_errors(mut errors: ChildStderr) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut kept: Vec<u8> = Vec::new();
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = errors.read(&mut buffer) {
            kept.extend_from_slice(&buffer[..count]);
            let over = kept.len().saturating_sub(ERROR_BYTES as usize);
            kept.drain(..over);
        }
        String::from_utf8_lossy(&kept).trim().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::SettingsFile;
    use crate::host::test_host;

    #[test]
    fn both_ip_versions_together_take_no_longer_than_the_owner_allows() {
        let execution = Execution {
            arguments: Vec::new(),
            token: None,
            directory: PathBuf::new(),
            left: BTreeMap::new(),
            most_bytes: 1,
            longest: Duration::from_secs(60),
            spent: Duration::from_secs(40),
            networks: None,
        };
        let shared = AgentContext::new(SettingsFile::default(), test_host());
        assert_eq!(execution.reason_to_stop(&shared, Duration::from_secs(19), None), None);
        let reason = execution.reason_to_stop(&shared, Duration::from_secs(21), None);
        assert_eq!(reason.as_deref(), Some("it took longer than 60 s"));
    }
}
