//! The bodies of fuzz targets as tests, so that they stay valid between fuzzing campaigns.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;

/// Multiplies the number of generated inputs; `./test --all` sets it.
const FACTOR: &str = "PATHBENCH_TEST_FUZZ_FACTOR";

/// The configuration of a test with `cases` generated inputs, before a release many times as many.
///
/// # Panics
/// The factor is no number.
pub fn fuzz_config(cases: u32) -> Config {
    let factor = std::env::var(FACTOR).map_or(1, |factor| factor.parse().expect("a factor is a number"));
    Config { cases: cases * factor, failure_persistence: None, ..Config::default() }
}

/// Runs the body of a fuzz target over the files of `seeds` and over `cases` inputs of up to `longest` bytes.
///
/// # Panics
/// The body panics, or a seed is not readable.
pub fn run_fuzz_body(seeds: &Path, cases: u32, longest: usize, body: fn(&[u8])) {
    let mut files: Vec<_> =
        std::fs::read_dir(seeds).into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    for file in files {
        body(&std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
    }
    let inputs = prop::collection::vec(any::<u8>(), 0..longest);
    let run = TestRunner::new(fuzz_config(cases)).run(&inputs, |bytes| {
        body(&bytes);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}
