//! Exit codes and the one reporter through which every failure reaches the user.

use crate::output;
use std::fmt::Display;
use std::process::ExitCode;

/// The exit codes of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done,
    /// Something failed.
    Failed,
    /// Usage or bad input.
    BadInput,
    /// No server could be reached.
    Unreachable,
    /// The server refused.
    Refused,
    /// An expectation of the scenario did not hold.
    ExpectationNotHeld,
    /// A multipath transport fell back or used one path only.
    MultipathNotUsed,
    /// This host cannot do it.
    HostCannot,
    /// Nobody reads standard output any more; as shells report a program that SIGPIPE (13) ended: 128 + 13.
    OutputClosed,
}

impl Exit {
    /// The number the shell sees.
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
}

impl Exit {
    /// The meaning of an exit code of another process of this program.
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

/// A failure on its way to the user: what to print and how to exit.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    /// A failure with exit code 1.
    pub(crate) fn failed(message: impl Display) -> Self {
        Self { exit: Exit::Failed, message: message.to_string() }
    }

    /// A failure that the user's input caused.
    pub(crate) fn bad_input(message: impl Display) -> Self {
        Self { exit: Exit::BadInput, message: message.to_string() }
    }

    /// A failure that this host's lack of a privilege or feature caused.
    pub(crate) fn host_cannot(message: impl Display) -> Self {
        Self { exit: Exit::HostCannot, message: message.to_string() }
    }

    /// Prints the failure on stderr; every line after the first is indented under it. A closed standard output is no
    /// news to the one who closed it.
    pub(crate) fn report(&self) {
        if self.exit == Exit::OutputClosed {
            return;
        }
        let mut lines = self.message.lines();
        output::note(format_args!("pathbench: {}", lines.next().unwrap_or("failed")));
        lines.for_each(|line| output::note(format_args!("  {line}")));
    }
}
