//! The examples of packaging/cluster: shards of a study by GNU parallel and by the command of the Kubernetes manifest, joined
//! at the end.

use crate::support::cluster::{command, example, joins, study};
use crate::support::finish;
use pathbench_testkit::test_tools;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// The manifest as JSON, by a parser of YAML.
const PARSE: &str = "import json, sys\nfrom ruamel.yaml import YAML\n\
    print(json.dumps(list(YAML(typ='safe', pure=True).load_all(open(sys.argv[1])))))";
pathbench_testkit::tests!(
    ["parallel"] => parallel_makes_the_shards_and_continues_them;
    ["libraries"] => the_pods_of_the_kubernetes_job_make_the_shards
);

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
