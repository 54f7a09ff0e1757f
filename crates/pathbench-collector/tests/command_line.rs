//! The collector's commands on its directory, as its operator uses them.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use std::process::Output;
use support::process::{Collector, line, run, submission};

pathbench_kerneltest::unprivileged_too!();

fn failure(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_backup_of_a_running_collector_restores_results_and_tokens() {
    let collector = Collector::start(&["--open"]);
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let mut one = submission();
    one.raw = Some(data_encoding::BASE64.encode(&zstd::encode_all(&b"a result"[..], 3).unwrap()));
    assert_eq!(collector.submit(&[line(&one)]).status, 201);
    let admin = collector.command(&["token", "--admin"]);
    collector.command(&["backup", &path("backup")]);
    assert_eq!(collector.command(&["check", "--digests"]), "no problem found\n");
    let exported = path("export");
    assert!(collector.command(&["export", &exported]).ends_with("1 day\n"));
    let part = std::path::Path::new(&exported).join("date=2026-11-25/part.parquet");
    assert!(std::fs::read(&part).unwrap().starts_with(b"PAR1"), "{}", part.display());
    // A second backup does not overwrite the first.
    let (code, message) =
        failure(&run(&["backup", &path("backup"), "--dir", collector.dir.to_str().unwrap()]));
    assert!(code == Some(2) && message.contains("name a new directory"), "{message}");
    drop(collector);

    let restored = path("restored");
    let output = run(&["restore", &path("backup"), "--dir", &restored]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (code, message) = failure(&run(&["restore", &path("backup"), "--dir", &restored]));
    assert_eq!(code, Some(2), "{message}");
    let collector = Collector::start_in(restored.as_ref(), &["--open"]);
    assert_eq!(collector.submit(&[line(&one)]).status, 200);
    assert_eq!(collector.request("GET", "/v1/admin/agents").bearer(&admin).send().status, 200);
    assert_eq!(collector.command(&["check", "--digests"]), "no problem found\n");
    // A damaged raw part is found.
    for segment in std::fs::read_dir(collector.dir.join("raw")).unwrap() {
        let segment = segment.unwrap().path();
        let mut bytes = std::fs::read(&segment).unwrap();
        for byte in &mut bytes {
            *byte ^= 1;
        }
        std::fs::write(&segment, bytes).unwrap();
    }
    let output = run(&["check", "--digests", "--dir", collector.dir.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn bad_input_has_one_message_with_its_place_and_remedy() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    let file = place.path().join("experiment.toml");
    let name_of = file.to_str().unwrap();
    let wrong = |arguments: &[&str]| {
        let (code, message) = failure(&run(&[arguments, &["--dir", dir]].concat()));
        assert_eq!(code, Some(2), "{arguments:?}: {message}");
        message
    };
    for (text, expected) in [
        ("name = \"a\"\n", "missing field"),
        ("name = \"a\"\nkind = \"test\"\nmost_bytes = 1\nschedule = { every_s = 1 }\n", "between 10 and"),
        ("name = \"a\"\nkind = \"test\"\nmost_bytes = 0\nschedule = { every_s = 60 }\n", "most_bytes"),
        ("name = \"a\"\nspeed = 1\n", "unknown field `speed`"),
    ] {
        std::fs::write(&file, text).unwrap();
        let message = wrong(&["experiment", "put", name_of]);
        assert!(message.contains(expected) && message.contains(name_of), "{message}");
    }
    assert!(wrong(&["experiment", "remove", "none"]).contains("`none`"));
    assert!(wrong(&["server", "add", "a", "--address", "a b"]).contains("names no server"));
    assert!(wrong(&["token", "--name", "a b"]).contains("letters, digits"));
    assert!(wrong(&["token", "--valid", "91d"]).contains("90 days"));
    assert!(wrong(&["delete", "0190a1b2-0000-7000-8000-000000000000"]).contains("there is no result"));
    assert!(wrong(&["agents", "--raw", "s3:bucket"]).contains("s3://"));
    assert!(wrong(&["agents", "--raw", "s3://bucket?endpoint=http://127.0.0.1:1&region=x"]).contains("AWS_"));
    assert!(wrong(&["--cert", name_of, "--key", name_of]).contains(name_of));
}

#[test]
fn experiments_and_servers_are_listed_and_removed() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    let file = place.path().join("experiment.toml");
    let text =
        "name = \"mesh\"\nkind = \"test\"\nmost_bytes = 1000\nschedule = { every_s = 3600, jitter_s = 60 }\n";
    std::fs::write(&file, text).unwrap();
    let print = |arguments: &[&str]| {
        let output = run(&[arguments, &["--dir", dir]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    print(&["experiment", "put", file.to_str().unwrap()]);
    assert!(print(&["experiment", "list"]).starts_with("mesh  test  every 1 h"));
    let key = print(&["server", "add", "nyc"]);
    assert_eq!(key.trim().len(), 64);
    // The key of a name is always the same.
    assert_eq!(print(&["server", "add", "nyc", "--address", "nyc.example.net:4433"]), key);
    assert!(print(&["server", "list"]).contains("nyc.example.net:4433  never reported"));
    print(&["server", "remove", "nyc"]);
    print(&["experiment", "remove", "mesh"]);
    assert_eq!(print(&["server", "list"]) + &print(&["experiment", "list"]), "");
}
