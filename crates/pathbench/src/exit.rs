//! Exit codes and the one reporter through which every failure reaches the user.

use crate::output;
use std::fmt::Display;
use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    BadInput,
    Unreachable,
    Refused,
    ExpectationNotHeld,
    /// A multipath transport fell back or used one path only.
    MultipathNotUsed,
    HostCannot,
    /// Standard output is closed: 128 + 13, as shells report the end by SIGPIPE.
    OutputClosed,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::BadInput => 2,
            Self::Unreachable => 3,
            Self::Refused => 4,
            Self::ExpectationNotHeld => 5,
            Self::MultipathNotUsed => 6,
            Self::HostCannot => 7,
            Self::OutputClosed => 141,
        }
    }

    /// Of another process of this program.
    pub(crate) fn of_code(code: i32) -> Self {
        [
            Self::Done,
            Self::Failed,
            Self::BadInput,
            Self::Unreachable,
            Self::Refused,
            Self::ExpectationNotHeld,
            Self::MultipathNotUsed,
            Self::HostCannot,
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
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn failed(message: impl Display) -> Self {
        Self { exit: Exit::Failed, message: message.to_string() }
    }

    pub(crate) fn bad_input(message: impl Display) -> Self {
        Self { exit: Exit::BadInput, message: message.to_string() }
    }

    /// This host lacks a privilege or a feature.
    pub(crate) fn host_cannot(message: impl Display) -> Self {
        Self { exit: Exit::HostCannot, message: message.to_string() }
    }

    /// Prints the failure on stderr, further lines indented. A closed standard output needs no message.
    pub(crate) fn report(&self) {
        if self.exit == Exit::OutputClosed {
            return;
        }
        let mut lines = self.message.lines();
        output::note(format_args!("pathbench: {}", lines.next().unwrap_or("failed")));
        lines.for_each(|line| output::note(format_args!("  {line}")));
    }
}
