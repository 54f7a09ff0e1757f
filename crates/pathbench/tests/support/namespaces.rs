//! The kernel's own count of network namespaces.
//!
//! A user namespace has limits of its own (`/proc/sys/user`, namespaces(7)), which hold for everything created in it
//! and below it, and the kernel counts against them exactly: a network namespace is counted until it is freed,
//! whoever or whatever keeps it. Labs that are started in such a ledger therefore prove that they left nothing behind
//! by the fact that one more fits when the limit is that of a single lab.

use super::{Finished, Workplace, finish};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Network namespaces of a lab of two hosts: theirs, and the wires'.
const NETWORKS_OF_A_LAB: u32 = 3;
/// Between two tries: the kernel frees namespaces some time after they are gone, and a try makes some itself.
const PAUSE: Duration = Duration::from_millis(500);
/// An MPTCP connection whose two programs were killed in the same moment may wait for its end as long as a closed
/// one may (`TCP_TIMEWAIT_LEN`, 60 s; `net/mptcp/protocol.c`), and keeps its namespace meanwhile. That is seldom.
const TRIES: u32 = 140;

/// A user namespace that is held open.
pub(crate) struct Ledger {
    holder: Child,
}

impl Ledger {
    /// Needs unshare(1) and nsenter(1) of util-linux.
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

    /// A program in this user namespace. It replaces nsenter, so that its process id is that of the child.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        let target = self.holder.id().to_string();
        command.args(["--user", "--preserve-credentials", "--target", &target, "--"]).arg(program);
        command
    }

    /// Sets how many network namespaces there may be.
    fn limit(&self, networks: u32) {
        let script = format!("echo {networks} > /proc/sys/user/max_net_namespaces");
        finish(self.command(Path::new("sh")).args(["-c", &script])).expect(0);
    }

    /// Proves that there is room for one more lab, which is taken down again, when there is only room for one.
    /// Otherwise returns what its last try said.
    pub(crate) fn is_empty(&self, workplace: &Workplace, scenario: &str, name: &str) -> Result<(), Finished> {
        let run = |arguments: &[&str]| {
            let mut command = self.command(&super::binary());
            workplace.prepare(&mut command);
            finish(command.args(arguments))
        };
        // As root, for in a user namespace of its own it would first try in a child whether it can have one.
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
        let _gone = self.holder.kill();
        let _reaped = self.holder.wait();
    }
}
