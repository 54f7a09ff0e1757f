//! The bodies of the fuzz targets, run over their seeds and generated inputs, so that they stay valid between fuzzing
//! sessions.

use crate::bodies;
use pathbench_host::change::journal::ParsedJournal;
use pathbench_testkit::{run_fuzz_body, run_fuzz_body_on_changed_seeds};
use std::path::Path;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn netlink() {
    run_fuzz_body(CRATE, "netlink", 2000, 400, bodies::netlink::run);
}

#[test]
fn journals() {
    let seed = include_bytes!("../../fuzz/seeds/journal/steps.jsonl");
    let journal = ParsedJournal::parse(Path::new("journal"), seed, &bodies::journal::here()).unwrap();
    assert_eq!(journal.entries.len(), 3, "changes lead beyond the first check");
    run_fuzz_body_on_changed_seeds(CRATE, "journal", 4000, bodies::journal::run);
}
