//! The agent: a collector's experiments on schedule, within the limits of the host's owner, and the owner's own
//! measurements from a local page; and the client of a collector, which submits results with the owner's consent.
//! It never measures itself (the program does, as a child process), and reads time only from the clock of its host.
//!
//! # Modules
//! - `arguments`: the command line of an execution: what an experiment asks for, and what the owner permits
//! - `budget`: the bytes that measurements have used, by interface and month, and the executions of the day
//! - `client`: the client side of a collector: consent, submissions made from result directories, the outbox, and
//!   requests over HTTP. Nothing here leaves the host without the owner's consent
//! - `courier`: the thread that talks to the collector: check-in, what waits in the outbox, and live reports
//! - `durable`: files that survive a power cut: written beside their path, synchronised, then renamed
//! - `execution`: one execution: `pathbench test` or `roam` as a child process, within its bytes and its time
//! - `history`: the results of the agent on this host: the latest ones, for the page, and the removal of old ones
//! - `host`: the host of an agent, as its caller provides it: clock, networks, program, state directory and log
//! - `limits`: the limits that the owner of a host sets
//! - `measurement`: A measurement from its order to its submission: the server, the interfaces, the budget, the
//!   child process, the outbox
//! - `networks`: the networks of this host, and the rules by which a measurement uses them: metered and roaming
//!   networks only where the owner allows them
//! - `page`: the local page: choose a server and a mode, start and stop, the chart of the running measurement,
//!   results, consent
//! - `pending`: measurements whose result is not in the outbox yet: noted on the disk before they begin, so that
//!   the next start of the agent submits what a SIGKILL or a power cut left behind
//! - `schedule`: when each experiment is due
//! - `service`: `pathbench agent`: a collector's experiments on schedule, within the limits of the host's owner,
//!   and the owner's own measurements from a local page
//! - `state`: the state that the threads of the agent share: its settings, the collector's last answer, and the
//!   running measurement
//! - `status`: `GET /health` and `GET /metrics` of the agent
//! - `submit`: `pathbench submit`, and `--submit` of the commands that measure: results go to the outbox, and from
//!   there to a collector
//! - `target`: the server of an execution: chosen among those that the collector offers and the owner permits, by
//!   the connection time

mod arguments;
mod budget;
pub mod client;
mod courier;
pub mod durable;
mod execution;
mod history;
pub mod host;
mod limits;
mod measurement;
pub mod networks;
mod page;
mod pending;
mod schedule;
pub mod service;
mod state;
mod status;
pub mod submit;
mod target;
