//! The bodies of the fuzz targets, run over generated inputs, so that they stay valid between fuzzing sessions.

use crate::bodies;
use pathbench_testkit::run_fuzz_body;

#[test]
fn datagrams() {
    // More clients than a server has slots for connections: the slots return.
    run_fuzz_body(env!("CARGO_MANIFEST_DIR"), "datagrams", 600, 600, bodies::datagrams);
}
