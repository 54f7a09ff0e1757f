//! Studies in shards on a cluster, by the examples of packaging/cluster.

use super::{QUICK, Workplace, binary};
use pathbench_record::directory::ResultDirectory;
use pathbench_testkit::checkout;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn example(name: &str) -> PathBuf {
    checkout().join("packaging/cluster").join(name)
}

/// A study of two quick runs in `study.toml`.
pub(crate) fn study() -> Workplace {
    let work = Workplace::new();
    work.scenario("study", &format!("{QUICK}repeat = 2\n"));
    work
}

/// A command that finds the program under test by its name.
pub(crate) fn command(work: &Workplace, program: &str) -> Command {
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
pub(crate) fn joins(work: &Workplace) {
    work.run(&["report", "results/shard-1", "results/shard-2", "--out", "joined"]).expect(0);
    let document = ResultDirectory::open(&work.path().join("joined")).unwrap().document;
    let repetitions: BTreeSet<u32> = document.runs.iter().map(|run| run.repetition).collect();
    assert_eq!((document.runs.len(), repetitions), (2, BTreeSet::from([1, 2])));
    let joined = document.study.unwrap().joined;
    assert_eq!(joined.iter().map(|shard| shard.number).collect::<Vec<_>>(), [1, 2]);
    assert!(work.left_behind().is_empty());
}
