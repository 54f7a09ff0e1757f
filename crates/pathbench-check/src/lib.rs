//! Whether multipath is usable from this host and to a server: facts in, findings with remedies out.
//!
//! Pure: it never changes the host, opens a socket, runs a program or reads a clock. `pathbench-host` reads the facts,
//! `pathbench-traffic` probes the server, and `crates/pathbench` prints the findings.

mod address;
pub mod buffers;
pub mod facts;
pub mod finding;
pub mod host;
mod manager;
pub mod server;
pub mod setup;
