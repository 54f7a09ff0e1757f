//! Runs the body of the fuzz target over its seeds and generated inputs, so that the target keeps working between
//! fuzzing campaigns.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

pathbench_kerneltest::privilege_independent!();

/// Changes of the seeds, which are valid files.
#[test]
fn file() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/file");
    let mut seeds: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|seed| seed.unwrap().path()).collect();
    seeds.sort();
    let seeds: Vec<_> = seeds.iter().map(|seed| std::fs::read(seed).unwrap()).collect();
    assert!(!seeds.is_empty());
    for seed in &seeds {
        bodies::file::run(seed);
    }
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    let input = (prop::sample::select(seeds), changes, any::<prop::sample::Index>());
    let config = Config { cases: 1_000, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&input, |(mut bytes, changes, end)| {
            for (place, byte) in changes {
                *place.get_mut(&mut bytes) = byte;
            }
            bytes.truncate(end.index(2 * bytes.len()));
            bodies::file::run(&bytes);
            Ok(())
        })
        .unwrap();
}
