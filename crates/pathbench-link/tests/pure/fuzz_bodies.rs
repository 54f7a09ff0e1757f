//! The bodies of the fuzz targets, run over their seeds and generated inputs, so that they stay valid between fuzzing
//! sessions.

use crate::bodies;
use pathbench_testkit::{run_fuzz_body, run_fuzz_body_on_changed_seeds};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn traces() {
    run_fuzz_body(CRATE, "traces", 1000, 100, bodies::traces::run);
    run_fuzz_body_on_changed_seeds(CRATE, "traces", 2000, bodies::traces::run);
}
