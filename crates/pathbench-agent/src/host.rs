//! The host of an agent, as its caller provides it: clock, networks, program, state directory and log.

use crate::networks::HostNetworks;
use pathbench_record::time::WallClock;
use serde_json::{Value, json};
use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub struct AgentHost {
    pub clock: Arc<dyn WallClock>,
    pub networks: Arc<dyn HostNetworks>,
    /// The program whose `test` and `roam` measure.
    pub program: PathBuf,
    /// The directory of the budget, the results and the outbox.
    pub state_directory: PathBuf,
    /// Takes the lines of the log, each a JSON object.
    pub log: Box<dyn Fn(&str) + Send + Sync>,
    /// The agent ends when this is set.
    pub stop: Arc<AtomicBool>,
    /// The agent reads its configuration file again when this is set.
    pub reload: Arc<AtomicBool>,
}

impl Debug for AgentHost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentHost").field("state_directory", &self.state_directory).finish_non_exhaustive()
    }
}

impl AgentHost {
    /// Logs an event with the members of the object `fields`.
    pub(crate) fn log(&self, event: &str, fields: Value) {
        let mut line = json!({ "time": self.clock.rfc3339(), "event": event });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        (self.log)(&line.to_string());
    }
}

#[cfg(test)]
pub(crate) fn test_host() -> Arc<AgentHost> {
    Arc::new(AgentHost {
        clock: Arc::new(pathbench_program::clock::RealClock),
        networks: Arc::new(crate::networks::KernelNetworks),
        program: PathBuf::new(),
        state_directory: PathBuf::new(),
        log: Box::new(|_| {}),
        stop: Arc::default(),
        reload: Arc::default(),
    })
}
