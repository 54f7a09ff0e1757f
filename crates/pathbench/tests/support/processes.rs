//! Processes, found in `/proc` by an environment variable, so that processes with a dead parent are included.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The role of a process in a lab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// The command started by the user.
    Front,
    /// First process of the lab of `lab run`.
    Orchestrator,
    /// First process of the lab of `lab up`.
    Keeper,
    /// The agent of a host.
    Agent(String),
}

/// A live process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) role: Role,
    command_line: Vec<String>,
}

impl Process {
    /// Whether the process runs the program with this name.
    pub(crate) fn runs(&self, program: &str) -> bool {
        self.command_line.first().is_some_and(|name| name == program)
    }

    /// The command line, starting with the program.
    pub(crate) fn arguments(&self) -> &[String] {
        &self.command_line
    }

    /// Kills the process, which may have ended.
    pub(crate) fn kill(&self) {
        signal(self.id, Signal::KILL);
    }
}

/// Sends a signal to a process, which may have ended.
pub(crate) fn signal(id: i32, signal: Signal) {
    let _dead = kill_process(Pid::from_raw(id).unwrap(), signal);
}

/// All processes with the environment variable `key` set to `value`. A zombie has no environment.
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
    // The process ended in the meantime.
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
