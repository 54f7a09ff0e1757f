//! Directories that root uses by default. Each test has a mount namespace of its own, in which they are empty.

use crate::support::standing::Lab;
use crate::support::{Finished, Workplace, binary, finish};
use pathbench_testkit::program;
use std::path::Path;
use std::process::Command;

pathbench_testkit::tests!(
    ["root"] => the_journal_of_root_is_in_run, the_settings_of_root_are_in_etc;
    ["root", "pathbench-collector"] => the_collector_of_root_is_in_var_lib;
);

/// A command of root's without settings of another directory, where `place` is empty.
fn with_empty(place: &str, work: &Workplace, program: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new("unshare");
    work.prepare(&mut command);
    let script = format!("mkdir -p {place} && mount -t tmpfs tmpfs {place} && exec \"$@\"");
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
        command.env_remove(variable);
    }
    finish(command.args(["--mount", "sh", "-c", &script, "sh"]).arg(program).args(arguments))
}

fn the_journal_of_root_is_in_run() {
    let lab = Lab::standing(&["--as-root", "--set", "host.client.mptcp.subflows=0"]);
    let program = binary();
    let script = format!(
        "mount -t tmpfs tmpfs /run && {} setup --apply && ls /run/pathbench && {0} setup --undo",
        program.display()
    );
    let mut command = lab.exec("client", &["unshare", "--mount", "sh", "-c", &script]);
    let finished = finish(command.env_remove("XDG_RUNTIME_DIR")).expect(0);
    assert!(finished.stdout.contains("setup-journal-"), "{finished:#?}");
}

fn the_settings_of_root_are_in_etc() {
    let work = Workplace::new();
    let finished = with_empty("/etc/pathbench", &work, &binary(), &["agent", "https://c.example"]);
    finished.expect(2).reports(&["/etc/pathbench/collector.toml"]);
}

fn the_collector_of_root_is_in_var_lib() {
    let work = Workplace::new();
    let program = program("pathbench-collector");
    let finished = with_empty("/var/lib/pathbench-collector", &work, &program, &["agents"]);
    finished.expect(2).reports(&["/var/lib/pathbench-collector"]);
}
