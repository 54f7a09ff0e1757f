//! Result directories that another user has prepared, and a disk that is full.

use crate::support::{Workplace, binary, finish, hostile};
use std::process::Command;

#[test]
fn links_in_place_of_written_files_are_replaced() {
    hostile::links_in_place_of_written_files_are_replaced();
}

#[test]
fn directories_that_are_links_are_refused() {
    hostile::directories_that_are_links_are_refused();
}

#[test]
fn written_files_that_are_no_files_are_named() {
    hostile::written_files_that_are_no_files_are_named();
}

#[test]
fn read_files_that_are_no_files_are_named() {
    hostile::read_files_that_are_no_files_are_named();
}

#[test]
fn analyses_that_are_no_files_are_named() {
    hostile::analyses_that_are_no_files_are_named();
}

/// The disk is full, and in the second pass it fills when a part of the page is written.
const FULL_DISK: &str = r#"
mount -t tmpfs -o size=4m tmpfs "$1" && cp -r "$2" "$1/result" && cd "$1" || exit 90
printf 'the whole old report' >result/report.html
dd if=/dev/zero of=fill bs=4k 2>/dev/null
for free in 0 65536; do
    truncate -s -$free fill
    "$3" report result
    [ $? = 1 ] || exit 91
    [ "$(cat result/report.html)" = 'the whole old report' ] || exit 92
    [ -z "$(ls -A result | grep '^\.new-')" ] || exit 93
done
"#;

#[test]
fn a_full_disk_leaves_the_old_report_and_prints_the_summary() {
    let work = Workplace::new();
    let directory = tempfile::tempdir().unwrap();
    let golden = pathbench_testkit::checkout().join("crates/pathbench-record/tests/golden/v1-emulated");
    let mut command = Command::new("unshare");
    work.prepare(&mut command);
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh"]);
    command.arg(directory.path()).arg(golden).arg(binary());
    let finished = finish(&mut command).expect(0).reports(&["report.html", "No space left on device"]);
    assert!(finished.stdout.contains("mptcp"), "{finished:#?}");
    assert_eq!(finished.stderr.matches("cannot write").count(), 2, "{finished:#?}");
}
