//! Root reads and writes in directories of other users.

use crate::support::{Workplace, binary, finish, hostile};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

pathbench_testkit::tests!(
    ["root"] => links_in_place_of_written_files_are_replaced, directories_that_are_links_are_refused,
    written_files_that_are_no_files_are_named, read_files_that_are_no_files_are_named,
    analyses_that_are_no_files_are_named, a_unit_gets_no_executable_that_others_can_replace
);

fn links_in_place_of_written_files_are_replaced() {
    hostile::links_in_place_of_written_files_are_replaced();
}

fn directories_that_are_links_are_refused() {
    hostile::directories_that_are_links_are_refused();
}

fn written_files_that_are_no_files_are_named() {
    hostile::written_files_that_are_no_files_are_named();
}

fn read_files_that_are_no_files_are_named() {
    hostile::read_files_that_are_no_files_are_named();
}

fn analyses_that_are_no_files_are_named() {
    hostile::analyses_that_are_no_files_are_named();
}

/// In a mount namespace without the units of this machine.
fn a_unit_gets_no_executable_that_others_can_replace() {
    let work = Workplace::new();
    let open = work.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::copy(binary(), open.join("pathbench")).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new("unshare");
    work.prepare(&mut command);
    let script = "mount -t tmpfs tmpfs /etc/systemd && \"$1\" setup --persist; code=$?; ls -R /etc/systemd; exit $code";
    command.args(["--mount", "--net", "sh", "-c", script, "sh"]).arg(open.join("pathbench"));
    let finished = finish(&mut command).expect(7).reports(&["open", "permissions 777", "install -D -o root"]);
    assert!(!finished.stdout.contains("pathbench-setup.service"), "{finished:#?}");
}
