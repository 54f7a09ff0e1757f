//! The bodies of fuzz targets as tests, so that they stay valid between fuzzing campaigns.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::{Path, PathBuf};

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

/// Runs the body of a fuzz target of the crate in the directory `crate_root` over its seeds and over `cases` inputs of up
/// to `longest` bytes.
///
/// # Panics
/// The body panics, or a seed is not readable.
pub fn run_fuzz_body(crate_root: &str, target: &str, cases: u32, longest: usize, body: fn(&[u8])) {
    run_seeds(crate_root, target, body);
    let inputs = prop::collection::vec(any::<u8>(), 0..longest);
    run_generated(cases, &inputs, body);
}

/// Like [`run_fuzz_body`], but with changes of the seeds, which are valid inputs.
///
/// # Panics
/// The body panics, a seed is not readable, or there is none.
pub fn run_fuzz_body_on_changed_seeds(crate_root: &str, target: &str, cases: u32, body: fn(&[u8])) {
    let seeds = run_seeds(crate_root, target, body);
    assert!(!seeds.is_empty(), "no seeds of {target}");
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    let inputs = (prop::sample::select(seeds), changes, any::<prop::sample::Index>()).prop_map(
        |(mut bytes, changes, end)| {
            for (index, byte) in changes {
                *index.get_mut(&mut bytes) = byte;
            }
            bytes.truncate(end.index(2 * bytes.len()));
            bytes
        },
    );
    run_generated(cases, &inputs, body);
}

fn run_seeds(crate_root: &str, target: &str, body: fn(&[u8])) -> Vec<Vec<u8>> {
    let seeds = Path::new(crate_root).join("fuzz/seeds").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(seeds).into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let seed = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        body(&seed);
        seed
    };
    files.into_iter().map(read).collect()
}

fn run_generated(cases: u32, inputs: &impl Strategy<Value = Vec<u8>>, body: fn(&[u8])) {
    let run = TestRunner::new(fuzz_config(cases)).run(inputs, |bytes| {
        body(&bytes);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}
