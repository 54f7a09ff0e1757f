//! The bodies of the fuzz targets, run over generated inputs, so that they stay valid between fuzzing sessions.

use crate::bodies;
use pathbench_testkit::run_fuzz_body;

#[test]
fn datagrams() {
    run_fuzz_body(env!("CARGO_MANIFEST_DIR"), "datagrams", 100, 600, bodies::datagrams);
}
