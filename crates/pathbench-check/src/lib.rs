//! Whether multipath is usable from this host and to a server: facts in, findings with remedies out.
//!
//! Pure: it never changes the host, opens a socket, runs a program or reads a clock. `pathbench-host` reads the facts,
//! `pathbench-traffic` probes the server, and `crates/pathbench` prints the findings.
//!
//! # Modules
//! - `facts`: facts about a host
//! - `finding`: A finding: the examined object, its state, the meaning and the remedy
//! - `host`: findings about this host, from its facts alone
//! - `server`: facts about a server and the paths to it → findings
//! - `setup`: plans of an MPTCP set-up: endpoints, limits, policy rules with their tables, and settings

pub mod facts;
pub mod finding;
pub mod host;
pub mod server;
pub mod setup;
