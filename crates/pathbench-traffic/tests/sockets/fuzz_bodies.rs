//! The bodies of the fuzz targets, run over their seeds and a few hundred generated inputs, so that they stay valid
//! between fuzzing sessions.

use crate::bodies;
use pathbench_testkit::run_fuzz_body;
use std::path::Path;

fn all(target: &str, cases: u32, longest: usize, body: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    run_fuzz_body(&seeds, cases, longest, body);
}

#[test]
fn wire() {
    all("wire", 1200, 300, bodies::wire::run);
}

#[test]
fn payloads() {
    all("payloads", 400, 200, bodies::payloads::run);
}

#[test]
fn conversation() {
    all("conversation", 200, 150, bodies::conversation::run);
}
