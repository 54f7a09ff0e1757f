//! Runs the bodies of the fuzz targets over their seeds and generated inputs, so that they keep working between
//! fuzzing campaigns.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::run_fuzz_body_on_changed_seeds;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn file() {
    run_fuzz_body_on_changed_seeds(CRATE, "file", 1_000, bodies::file::run);
}

#[test]
fn segments() {
    run_fuzz_body_on_changed_seeds(CRATE, "segments", 2_000, bodies::segments::run);
}

#[test]
fn options() {
    run_fuzz_body_on_changed_seeds(CRATE, "options", 20_000, bodies::options::run);
}
