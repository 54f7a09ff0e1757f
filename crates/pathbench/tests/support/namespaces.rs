//! The kernel's own count of network namespaces.
//!
//! A user namespace has its own limits (`/proc/sys/user`, namespaces(7)) for all namespaces created in it and below
//! it. The kernel counts exactly: a network namespace counts until it is freed, regardless of the process or socket
//! that holds it. If another lab can start under the limit of a single lab, the earlier labs have left no namespace
//! behind.

use super::{Finished, Workplace, finish};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Network namespaces of a lab with two hosts: one each, and the fabric namespace.
const NETWORKS_OF_A_LAB: u32 = 3;
/// Pause between attempts: the kernel frees namespaces some time after their last process ends, and an attempt
/// creates some itself.
const PAUSE: Duration = Duration::from_millis(500);
/// If both programs of an MPTCP connection are killed at the same moment, the connection may live as long as a closed
/// one (`TCP_TIMEWAIT_LEN`, 60 s; `net/mptcp/protocol.c`) and hold its namespace. This is rare.
const TRIES: u32 = 140;

/// A user namespace held open by a process.
pub(crate) struct Ledger {
    holder: Child,
}

impl Ledger {
    /// Requires unshare(1) and nsenter(1) of util-linux.
    pub(crate) fn open() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", "echo open && exec sleep infinity"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test needs unshare(1) of util-linux");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "open\n", "this user cannot make a user namespace");
        Self { holder }
    }

    /// A program in this user namespace. It replaces nsenter, so its process ID is that of the child.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        let target = self.holder.id().to_string();
        command.args(["--user", "--preserve-credentials", "--target", &target, "--"]).arg(program);
        command
    }

    /// Limits the number of network namespaces.
    fn limit(&self, networks: u32) {
        let script = format!("echo {networks} > /proc/sys/user/max_net_namespaces");
        finish(self.command(Path::new("sh")).args(["-c", &script])).expect(0);
    }

    /// Starts and ends one more lab under the limit of a single lab; on failure, returns the output of the last
    /// attempt.
    pub(crate) fn is_empty(&self, workplace: &Workplace, scenario: &str, name: &str) -> Result<(), Finished> {
        let run = |arguments: &[&str]| {
            let mut command = self.command(&super::binary());
            workplace.prepare(&mut command);
            finish(command.args(arguments))
        };
        // As root: with its own user namespace, the command would first test in a child whether it can create one.
        let up = ["lab", "up", scenario, "--name", name, "--as-root"];
        self.limit(NETWORKS_OF_A_LAB - 1);
        let refused = run(&up);
        assert_ne!(refused.code, Some(0), "the limit does not hold: {refused:#?}");
        self.limit(NETWORKS_OF_A_LAB);
        let mut last = refused;
        for _ in 0..TRIES {
            std::thread::sleep(PAUSE);
            last = run(&up);
            if last.code == Some(0) {
                run(&["lab", "down", name]).expect(0);
                return Ok(());
            }
        }
        Err(last)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _dead = self.holder.kill();
        let _reaped = self.holder.wait();
    }
}
