//! The JSON document of a supervised program, `run.json` in its directory.

use pathbench_record::document::HostRecord;
use pathbench_supervisor::{ConnectionGroup, ConnectionReport, LeftOnTcp, UnseenAccepted};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct ProgramDocument<'a> {
    pub(super) schema: &'static str,
    pub(super) command: Vec<String>,
    pub(super) transport: String,
    pub(super) host: HostRecord,
    pub(super) duration_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    /// The signal that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signal: Option<i32>,
    /// Calls of socket(2) that returned an MPTCP socket.
    pub(super) sockets_created: u64,
    /// Created sockets that no snapshot of the kernel's sockets contained: never connected, or closed before the next one.
    pub(super) sockets_unseen: u64,
    pub(super) connections_total: u64,
    pub(super) connections_multipath: u64,
    pub(super) unseen_accepted: UnseenAccepted,
    /// Connections beyond the number that is followed at the same time.
    pub(super) connections_not_followed: u64,
    /// Calls that failed with EMFILE, the program's limit of descriptors.
    pub(super) refused_for_descriptors: u64,
    pub(super) groups: Vec<&'a ConnectionGroup>,
    /// The first connections; all are in `connections.jsonl`.
    pub(super) connections: &'a [ConnectionReport],
    pub(super) left_on_tcp: Vec<Left<'a>>,
    pub(super) io_uring: Vec<ProgramCount<'a>>,
    pub(super) refused_options: Vec<OptionCount>,
    /// Snapshots of the kernel's sockets failed, or reports of closed ones were lost.
    pub(super) incomplete: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Left<'a> {
    pub(super) reason: LeftOnTcp,
    pub(super) program: &'a str,
    pub(super) sockets: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct ProgramCount<'a> {
    pub(super) program: &'a str,
    pub(super) calls: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct OptionCount {
    pub(super) option: String,
    pub(super) calls: u64,
}
