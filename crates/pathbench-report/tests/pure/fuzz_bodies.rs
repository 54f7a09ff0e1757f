//! Runs the body of the fuzz target over its seeds and generated inputs, so that the target keeps working between
//! fuzzing campaigns.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::run_fuzz_body;

#[test]
fn results() {
    run_fuzz_body(env!("CARGO_MANIFEST_DIR"), "results", 300, 200, bodies::results::run);
    std::fs::remove_dir_all(bodies::results::directory()).unwrap();
}
