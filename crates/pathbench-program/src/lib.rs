//! The frame of Pathbench's programs, the outermost shell of each: the host's clock, exit codes, standard output and
//! error, random bytes, signals, children of the same program, and status pages with metrics. It never knows a command.

pub mod clock;
pub mod diagnostics;
pub mod exit;
pub mod exposition;
pub mod output;
pub mod random;
pub mod renewal;
pub mod responder;
pub mod signals;
pub mod supervised;
