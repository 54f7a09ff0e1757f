//! The frame of Pathbench's programs, the outermost shell of each: the host's clock, exit codes, standard output and
//! error, random bytes, signals, children of the same program, and status pages with metrics. It never knows a command.
//!
//! # Modules
//! - [`clock`]: the host's clock, which all other crates are passed
//! - [`diagnostics`]: events and spans of `tracing`, on request
//! - [`exit`]: exit codes, and failures with their exit code and message
//! - [`exposition`]: metrics in the format of OpenMetrics
//! - [`output`]: standard output and standard error
//! - [`random`]: random bytes from the kernel
//! - [`responder`]: a small HTTP server for status pages
//! - [`signals`]: the signals that stop a program
//! - [`supervised`]: children of the same program, which end with it

pub mod clock;
pub mod diagnostics;
pub mod exit;
pub mod exposition;
pub mod output;
pub mod random;
pub mod responder;
pub mod signals;
pub mod supervised;
