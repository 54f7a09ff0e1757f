//! Exit codes, and failures with their exit code and message.

use std::fmt::Display;
use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    BadInput = 2,
    Unreachable = 3,
    Refused = 4,
    ExpectationNotHeld = 5,
    /// A multipath transport fell back or used one path only.
    MultipathNotUsed = 6,
    HostCannot = 7,
    /// A condition of `report --fail-if` holds.
    ConditionHolds = 8,
    /// Standard output is closed: 128 + 13, as shells report the end by SIGPIPE.
    OutputClosed = 141,
}

impl Exit {
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The exit code of another process of this program.
    pub fn from_code(code: i32) -> Self {
        [
            Self::Done,
            Self::Failed,
            Self::BadInput,
            Self::Unreachable,
            Self::Refused,
            Self::ExpectationNotHeld,
            Self::MultipathNotUsed,
            Self::HostCannot,
            Self::ConditionHolds,
            Self::OutputClosed,
        ]
        .into_iter()
        .find(|exit| i32::from(exit.code()) == code)
        .unwrap_or(Self::Failed)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
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

    /// This host lacks a privilege or a feature.
    pub fn host_cannot(message: impl Display) -> Self {
        Self { exit: Exit::HostCannot, message: message.to_string() }
    }
}
