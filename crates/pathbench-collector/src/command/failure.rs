//! Failures of a command, with their exit codes.

use std::fmt::Display;

/// Exit codes of Pathbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    BadInput = 2,
    HostCannot = 7,
}

#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn failed(message: impl Display) -> Self {
        Self { exit: Exit::Failed, message: message.to_string() }
    }

    pub fn bad_input(message: impl Display) -> Self {
        Self { exit: Exit::BadInput, message: message.to_string() }
    }
}
