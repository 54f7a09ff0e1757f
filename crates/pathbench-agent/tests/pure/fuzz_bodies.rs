//! The bodies of the fuzz targets, run over generated inputs, so that they stay valid between fuzzing sessions.

#[path = "../../fuzz/bodies/mod.rs"]
mod bodies;

use pathbench_testkit::run_fuzz_body;

#[test]
fn answers_of_collectors() {
    // Unchanged, so that the changes lead beyond the first check.
    bodies::answer::run(&[3]);
    run_fuzz_body(env!("CARGO_MANIFEST_DIR"), "answer", 2000, 120, bodies::answer::run);
}

#[test]
fn the_document_of_the_fuzz_target_leads_to_command_lines() {
    let answer: pathbench_api::check_in::CheckInAnswer =
        serde_json::from_value(bodies::answer::valid()).unwrap();
    assert!(answer.experiments.iter().all(|one| one.problem().is_none()));
    let resolve = |_: &str, _: u16| Ok(vec![std::net::IpAddr::from([192, 0, 2, 1])]);
    for server in &answer.servers {
        pathbench_agent::target::TestTarget::parse(server, resolve).unwrap();
    }
}
