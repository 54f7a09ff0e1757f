//! The bodies of the fuzz targets, run over their seeds and generated inputs, so that they stay valid between fuzzing
//! sessions.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::run_fuzz_body;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn submissions() {
    bodies::submission::run(&[3]);
    run_fuzz_body(CRATE, "submission", 2000, 200, bodies::submission::run);
}

#[test]
fn anonymous_forms() {
    run_fuzz_body(CRATE, "anonymiser", 4000, 200, bodies::anonymiser::run);
}

/// The unchanged document of the fuzz target passes: its changes lead beyond the first check.
#[test]
fn the_document_of_the_fuzz_target_is_a_submission() {
    let line = bodies::submission::valid().to_string();
    pathbench_api::submission::Submission::check(line.as_bytes(), 1_795_600_000_000).unwrap();
}

#[test]
fn a_summary_beyond_its_bound_is_rejected() {
    let mut line = bodies::submission::valid();
    let group = line["summary"]["groups"][0].clone();
    line["summary"]["groups"] = vec![group; 128].into();
    for group in line["summary"]["groups"].as_array_mut().unwrap() {
        for index in 0..30 {
            group["figures"][format!("{index:060}")] = 1.5.into();
        }
    }
    let text = line.to_string();
    assert!(text.len() > 2 * pathbench_api::bounds::SUMMARY_BYTES);
    let error = pathbench_api::submission::Submission::check(text.as_bytes(), 1_795_600_000_000).unwrap_err();
    assert!(error.to_string().contains("beside `raw`"), "{error}");
}
