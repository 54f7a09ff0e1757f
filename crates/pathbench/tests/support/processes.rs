//! Processes, found in `/proc` by a variable of their environment, so that none is missed because its parent died.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What a process is to a lab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// The command that the user gave.
    Front,
    /// First process of the lab of `lab run`.
    Orchestrator,
    /// First process of the lab of `lab up`.
    Keeper,
    /// The agent of a host.
    Agent(String),
}

/// A process that lives.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) role: Role,
    command_line: Vec<String>,
}

impl Process {
    /// Whether it is the program of that name.
    pub(crate) fn runs(&self, program: &str) -> bool {
        self.command_line.first().is_some_and(|name| name == program)
    }

    /// Its command line, the program first.
    pub(crate) fn arguments(&self) -> &[String] {
        &self.command_line
    }

    /// Ends it, however it is; it may be gone already.
    pub(crate) fn kill(&self) {
        signal(self.id, Signal::KILL);
    }
}

/// Sends a signal to a process, which may be gone.
pub(crate) fn signal(id: i32, signal: Signal) {
    let _gone = kill_process(Pid::from_raw(id).unwrap(), signal);
}

/// All processes whose environment has `key` with this value. A dead process that waits for its parent has none.
pub(crate) fn with_environment(key: &str, value: &Path) -> Vec<Process> {
    let wanted = [key.as_bytes(), b"=", value.as_os_str().as_bytes()].concat();
    let mut found: Vec<Process> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|id| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted)
        })
        .filter_map(of_id)
        .collect();
    found.sort_by_key(|process| process.id);
    found
}

fn of_id(id: i32) -> Option<Process> {
    let bytes = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let command_line: Vec<String> = bytes
        .split(|&byte| byte == 0)
        .filter(|argument| !argument.is_empty())
        .map(|argument| OsStr::from_bytes(argument).to_string_lossy().into_owned())
        .collect();
    // It died in between.
    if command_line.is_empty() {
        return None;
    }
    let role = match command_line.get(1).map(String::as_str) {
        Some("__orchestrate") => Role::Orchestrator,
        Some("__keep") => Role::Keeper,
        Some("__host") => Role::Agent(command_line.get(2).cloned().unwrap_or_default()),
        _ => Role::Front,
    };
    Some(Process { id, role, command_line })
}
