//! The bodies of the fuzz targets, run over their seeds and generated inputs, so that they stay valid between fuzzing
//! sessions.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;

fn all(target: &str, cases: u32, longest: usize, body: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds: Vec<_> = std::fs::read_dir(seeds).into_iter().flatten().flatten().collect();
    seeds.sort_by_key(std::fs::DirEntry::path);
    for seed in seeds {
        body(&std::fs::read(seed.path()).unwrap());
    }
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(any::<u8>(), 0..longest), |bytes| {
            body(&bytes);
            Ok(())
        })
        .unwrap();
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
