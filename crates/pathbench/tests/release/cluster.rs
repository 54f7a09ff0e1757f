//! The examples of packaging/cluster: shards of a study by GNU parallel, by a job array of a one-node Slurm cluster, and by
//! the command of the Kubernetes manifest, joined at the end.
//!
//! Slurm's daemons call setgroups(2), which an ordinary user's namespace denies: its test fails as an ordinary user. How labs run
//! as an ordinary user is the subject of other programs.

use crate::support::{QUICK, Workplace, binary, finish};
use pathbench_kerneltest::{checkout, test_tools};
use pathbench_record::directory::ResultDirectory;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The manifest as JSON, by a parser of YAML.
const PARSE: &str = "import json, sys\nfrom ruamel.yaml import YAML\n\
    print(json.dumps(list(YAML(typ='safe', pure=True).load_all(open(sys.argv[1])))))";
/// Bounds a command that starts daemons. unshare(1) ignores SIGTERM while it waits.
const PATIENCE: [&str; 3] = ["timeout", "--signal=KILL", "150s"];

fn example(name: &str) -> PathBuf {
    checkout().join("packaging/cluster").join(name)
}

/// A study of two quick runs in `study.toml`.
fn study() -> Workplace {
    let work = Workplace::new();
    work.scenario("study", &format!("{QUICK}repeat = 2\n"));
    work
}

/// A command that finds the program under test by its name.
fn command(work: &Workplace, program: &str) -> Command {
    let mut command = Command::new(program);
    work.prepare(&mut command);
    let mut places = vec![binary().parent().unwrap().to_owned()];
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    // Daemons are there, which the PATH of an ordinary user lacks.
    places.push("/usr/sbin".into());
    command.env("PATH", std::env::join_paths(places).unwrap());
    command
}

/// Joins `results/shard-1` and `results/shard-2`, and checks that they are the whole study.
fn joins(work: &Workplace) {
    work.run(&["report", "results/shard-1", "results/shard-2", "--out", "joined"]).expect(0);
    let document = ResultDirectory::open(&work.path().join("joined")).unwrap().document;
    let repetitions: BTreeSet<u32> = document.runs.iter().map(|run| run.repetition).collect();
    assert_eq!((document.runs.len(), repetitions), (2, BTreeSet::from([1, 2])));
    let joined = document.study.unwrap().joined;
    assert_eq!(joined.iter().map(|shard| shard.number).collect::<Vec<_>>(), [1, 2]);
    assert!(work.left_behind().is_empty());
}

#[test]
fn parallel_makes_the_shards_and_continues_them() {
    let work = study();
    let mut parallel = command(&work, "sh");
    parallel.arg(example("parallel.sh")).args(["2", "study.toml", "results", "--no-calibration"]);
    // It writes its notices and temporary files there.
    parallel.env("HOME", work.path());
    finish(&mut parallel).expect(0);
    joins(&work);
    // All runs are made: the same command finds them.
    let made = std::fs::read(work.path().join("results/shard-2/run.json")).unwrap();
    finish(&mut parallel).expect(0);
    assert_eq!(std::fs::read(work.path().join("results/shard-2/run.json")).unwrap(), made);
}

#[test]
fn a_job_array_of_slurm_makes_the_shards() {
    assert!(rustix::process::geteuid().is_root(), "Slurm's daemons need root: run this test as root");
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

#[test]
fn the_pods_of_the_kubernetes_job_make_the_shards() {
    let python = test_tools().join("venv/bin/python");
    let manifest = example("kubernetes.yaml");
    let parsed = finish(Command::new(python).args(["-c", PARSE]).arg(manifest)).expect(0).stdout;
    let documents: Vec<Value> = serde_json::from_str(&parsed).unwrap();
    let job = &documents.iter().find(|document| document["kind"] == "Job").unwrap()["spec"];
    assert_eq!(job["completionMode"], "Indexed");
    let pod = &job["template"]["spec"];
    let container = &pod["containers"][0];
    let shards = &container["env"][0];
    assert_eq!((&shards["name"], shards["value"].as_str().unwrap()), (&Value::from("SHARDS"), "8"));
    assert_eq!(job["completions"], 8);
    let names = |list: &Value| -> BTreeSet<String> {
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&container["volumeMounts"]), names(&pod["volumes"]));
    let claim = documents.iter().find(|document| document["kind"] == "PersistentVolumeClaim").unwrap();
    assert_eq!(pod["volumes"][1]["persistentVolumeClaim"]["claimName"], claim["metadata"]["name"]);

    let work = study();
    std::fs::create_dir(work.path().join("results")).unwrap();
    let words = ["command", "args"].map(|key| container[key].as_array().unwrap().clone()).concat();
    let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
    for index in ["0", "1"] {
        let mut shell = command(&work, words[0]);
        // The volumes are directories here, and links are not measured.
        shell.args(words[1..].iter().map(|word| {
            let here = word.replace("/study/study.toml", "study.toml --no-calibration");
            here.replace("/results/", "results/")
        }));
        finish(shell.env("JOB_COMPLETION_INDEX", index).env("SHARDS", "2")).expect(0);
    }
    joins(&work);
}
