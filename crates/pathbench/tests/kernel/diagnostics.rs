//! Diagnostics of a lab: its processes write to the same place as the command.

use crate::support::{QUICK, Workplace, finish};

#[test]
fn the_processes_of_a_lab_have_the_diagnostics_of_the_command() {
    let work = Workplace::new();
    let file = work.scenario("observed", QUICK);
    let mut command =
        work.pathbench(&["-v", "lab", "run", &file, "--no-calibration", "--no-report", "--out", "result"]);
    let finished = finish(command.env_remove("PATHBENCH_LOG").env_remove("PATHBENCH_LOG_FILE")).expect(0);
    for (process, text) in [
        ("orchestrator", "link{name=\"eth\"}: pathbench_lab"),
        ("client", "connection{transport=tcp remote=10."),
        ("client", "test{id="),
        ("server", "stream admitted pattern="),
    ] {
        assert!(finished.stderr.contains(text), "`{text}` of the {process}: {finished:#?}");
    }
    assert!(!finished.stderr.contains("DEBUG"), "{finished:#?}");
}
