//! The bodies of the fuzz targets, run over their seeds and a few hundred generated inputs, so that they stay valid
//! between fuzzing sessions.

use crate::bodies;
use pathbench_testkit::run_fuzz_body;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn wire() {
    run_fuzz_body(CRATE, "wire", 1200, 300, bodies::wire::run);
}

#[test]
fn payloads() {
    run_fuzz_body(CRATE, "payloads", 400, 200, bodies::payloads::run);
}

#[test]
fn conversation() {
    run_fuzz_body(CRATE, "conversation", 200, 150, bodies::conversation::run);
}
