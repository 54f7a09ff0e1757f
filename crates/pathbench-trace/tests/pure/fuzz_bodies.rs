//! Runs the bodies of the fuzz targets over their seeds and generated inputs, so that they keep working between
//! fuzzing campaigns.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::fuzz_config;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Changes of the seeds, which are valid inputs.
fn run(target: &str, body: fn(&[u8]), cases: u32) {
    let seeds = format!("{}/fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut seeds: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|seed| seed.unwrap().path()).collect();
    seeds.sort();
    let seeds: Vec<_> = seeds.iter().map(|seed| std::fs::read(seed).unwrap()).collect();
    assert!(!seeds.is_empty());
    for seed in &seeds {
        body(seed);
    }
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    let input = (prop::sample::select(seeds), changes, any::<prop::sample::Index>());
    TestRunner::new(fuzz_config(cases))
        .run(&input, |(mut bytes, changes, end)| {
            for (place, byte) in changes {
                *place.get_mut(&mut bytes) = byte;
            }
            bytes.truncate(end.index(2 * bytes.len()));
            body(&bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn file() {
    run("file", bodies::file::run, 1_000);
}

#[test]
fn segments() {
    run("segments", bodies::segments::run, 2_000);
}

#[test]
fn options() {
    run("options", bodies::options::run, 20_000);
}
