//! Tests that need root and are due before a release.

use crate::support::cluster::{command, example, joins, study};
use crate::support::finish;
use pathbench_testkit::checkout;

pathbench_testkit::tests!(["root", "sbatch", "munged"] => a_job_array_of_slurm_makes_the_shards);

/// Bounds a command that starts daemons. unshare(1) ignores SIGTERM while it waits.
const PATIENCE: [&str; 3] = ["timeout", "--signal=KILL", "150s"];

/// Slurm's daemons call setgroups(2), which an ordinary user's namespace denies.
fn a_job_array_of_slurm_makes_the_shards() {
    let work = study();
    let mut array = command(&work, PATIENCE[0]);
    array.args(&PATIENCE[1..]);
    array.args(["unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    array.arg(checkout().join("crates/pathbench/tests/support/slurm.sh")).arg(work.path().join("cluster"));
    array.args(["sbatch", "--wait", "--array=1-2"]).arg(example("slurm.sh"));
    array.args(["2", "study.toml", "results", "--no-calibration"]);
    let finished = finish(&mut array);
    let log = |name: &str| std::fs::read_to_string(work.path().join(name)).unwrap_or_default();
    let logs = ["cluster/munged.log", "cluster/slurmctld.log", "cluster/slurmd.log"].map(log).join("\n");
    let outputs = ["pathbench-1-1.log", "pathbench-1-2.log"].map(log);
    assert_eq!(finished.code, Some(0), "{finished:#?}\n{logs}\n{outputs:#?}");
    assert!(outputs.iter().all(|output| output.contains("study")), "{outputs:#?}");
    joins(&work);
}
