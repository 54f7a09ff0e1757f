//! The bodies of the fuzz targets, run over generated inputs, so that they stay valid between fuzzing sessions.

use crate::bodies;
use pathbench_testkit::run_fuzz_body;

#[test]
fn netlink() {
    run_fuzz_body(env!("CARGO_MANIFEST_DIR"), "netlink", 2000, 400, bodies::netlink);
}
