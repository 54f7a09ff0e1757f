//! The bodies of the fuzz targets, run over their seeds and generated inputs, so that they stay valid between fuzzing
//! sessions.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_host::change::journal::ParsedJournal;
use std::path::Path;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn journals() {
    let seed = include_bytes!("../../fuzz/seeds/journal/steps.jsonl");
    let journal = ParsedJournal::parse(Path::new("journal"), seed, &bodies::journal::here()).unwrap();
    assert_eq!(journal.entries.len(), 3, "changes lead beyond the first check");
    pathbench_testkit::run_fuzz_body_on_changed_seeds(CRATE, "journal", 4000, bodies::journal::run);
}
