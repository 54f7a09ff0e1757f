//! The bodies of the fuzz targets, run over their seeds and generated inputs, so that they stay valid between fuzzing
//! sessions.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::run_fuzz_body;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn stored_facts() {
    run_fuzz_body(CRATE, "facts", 300, 80, bodies::facts::run);
}

#[test]
fn requests() {
    run_fuzz_body(CRATE, "http", 800, 120, bodies::http::run);
}

#[test]
fn raw_parts() {
    run_fuzz_body(CRATE, "raw", 500, 150, bodies::raw::run);
}
