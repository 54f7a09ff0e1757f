//! Runs the body of the fuzz target over its seeds and generated inputs, so that the target keeps working between
//! fuzzing campaigns.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::run_fuzz_body;
use std::path::Path;

#[test]
fn results() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/results");
    run_fuzz_body(&seeds, 300, 200, bodies::results::run);
    std::fs::remove_dir_all(bodies::results::directory()).unwrap();
}
