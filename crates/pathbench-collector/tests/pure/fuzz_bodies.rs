//! The bodies of the fuzz targets, run over their seeds and generated inputs, so that they stay valid between fuzzing
//! sessions.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::run_fuzz_body;
use std::path::Path;

fn all(target: &str, cases: u32, longest: usize, body: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    run_fuzz_body(&seeds, cases, longest, body);
}

#[test]
fn stored_facts() {
    all("facts", 300, 80, bodies::facts::run);
}

#[test]
fn requests() {
    all("http", 800, 120, bodies::http::run);
}

#[test]
fn raw_parts() {
    all("raw", 500, 150, bodies::raw::run);
}
