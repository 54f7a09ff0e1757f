//! Runs the body of the fuzz target over its seeds and generated inputs, so that the target keeps working between
//! fuzzing campaigns.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[test]
fn results() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/results");
    let mut seeds: Vec<_> = std::fs::read_dir(seeds).into_iter().flatten().flatten().collect();
    seeds.sort_by_key(std::fs::DirEntry::path);
    for seed in seeds {
        bodies::results::run(&std::fs::read(seed.path()).unwrap());
    }
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(any::<u8>(), 0..200), |bytes| {
            bodies::results::run(&bytes);
            Ok(())
        })
        .unwrap();
    std::fs::remove_dir_all(bodies::results::directory()).unwrap();
}
