//! The collector's commands on its directory, as its operator uses them.

use crate::support::process::{Collector, line, run, submission, submission_with_raw_part};
use std::process::Output;

fn failure(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_backup_of_a_running_collector_restores_results_and_tokens() {
    let collector = Collector::start(&["--open"]);
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let one = submission_with_raw_part();
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
    let files = std::fs::read_dir(collector.dir.join("raw")).unwrap().map(|file| file.unwrap().path());
    for segment in files.filter(|file| file.extension().is_some_and(|suffix| suffix == "segment")) {
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
fn an_export_removes_the_files_of_deleted_results() {
    use std::os::unix::fs::PermissionsExt as _;
    let collector = Collector::start(&["--open"]);
    let place = tempfile::tempdir().unwrap();
    let exported = place.path().join("export");
    let export = || collector.command(&["export", "--all", exported.to_str().unwrap()]);
    let one = submission();
    assert_eq!(collector.submit(&[line(&one)]).status, 201);
    assert!(export().ends_with("1 day\n"));
    let day = exported.join("date=2026-11-25");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&exported), mode(&day), mode(&day.join("part.parquet"))), (0o700, 0o700, 0o600));
    let others = [day.join("notes"), exported.join("date=today/part.parquet")];
    std::fs::create_dir(exported.join("date=today")).unwrap();
    for other in &others {
        std::fs::write(other, "mine").unwrap();
    }
    collector.command(&["delete", &one.id.to_string()]);
    assert!(export().ends_with("0 days\n"));
    assert!(!day.join("part.parquet").exists());
    assert!(others.iter().all(|other| other.exists()));
    std::fs::remove_file(&others[0]).unwrap();
    export();
    assert!(!day.exists());
}

#[test]
fn bad_input_has_one_message_with_its_place_and_remedy() {
    let place = tempfile::tempdir().unwrap();
    let collector = Collector::start_in(place.path(), &[]);
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
    assert!(wrong(&["token", "--name", "a\nb"]).contains("no control characters"));
    assert!(wrong(&["token", "--valid", "1h"]).contains("--name"), "an agent's token has its name");
    assert!(wrong(&["token", "--name", "a", "--valid", "91d"]).contains("90 days"));
    assert!(wrong(&["token", "--revoke", "x"]).contains("16 hexadecimal digits"));
    assert!(wrong(&["delete", "0190a1b2-0000-7000-8000-000000000000"]).contains("there is no result"));
    assert!(wrong(&["agents", "--raw", "s3:bucket"]).contains("s3://"));
    assert!(wrong(&["agents", "--raw", "s3://bucket?endpoint=http://127.0.0.1:1&region=x"]).contains("AWS_"));
    assert!(wrong(&["--cert", name_of, "--key", name_of]).contains(name_of));
    drop(collector);
}

#[test]
fn a_command_makes_no_collector() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("none");
    let to = place.path().join("to").to_str().unwrap().to_owned();
    let file = place.path().join("experiment.toml");
    std::fs::write(
        &file,
        "name = \"a\"\nkind = \"test\"\nmost_bytes = 1\nschedule = { every_s = 60, jitter_s = 1 }\n",
    )
    .unwrap();
    let commands: [&[&str]; 9] = [
        &["check"],
        &["token", "--admin"],
        &["backup", &to],
        &["export", &to],
        &["agents"],
        &["delete", "0190a1b2-0000-7000-8000-000000000000"],
        &["server", "add", "nyc"],
        &["server", "list"],
        &["experiment", "put", file.to_str().unwrap()],
    ];
    let is_refused = || {
        for command in commands {
            let (code, message) = failure(&run(&[command, &["--dir", dir.to_str().unwrap()]].concat()));
            assert_eq!(code, Some(2), "{command:?}: {message}");
            assert!(message.contains(&format!("there is no collector in {}", dir.display())), "{message}");
        }
    };
    is_refused();
    assert!(!dir.exists() && !std::path::Path::new(&to).exists());
    std::fs::create_dir(&dir).unwrap();
    is_refused();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_collector_refuses_the_raw_store_of_another_database() {
    let collector = Collector::start(&["--open"]);
    let one = submission_with_raw_part();
    assert_eq!(collector.submit(&[line(&one)]).status, 201);
    let other = tempfile::tempdir().unwrap();
    let moved = other.path().join("raw");
    std::fs::rename(collector.dir.join("raw"), &moved).unwrap();
    let is_refused = |arguments: &[&str]| {
        let dir = other.path().to_str().unwrap();
        let (code, message) = failure(&run(&[arguments, &["--dir", dir]].concat()));
        assert_eq!(code, Some(2), "{arguments:?}: {message}");
        assert!(message.contains("belongs to another database: name the right ones with"), "{message}");
    };
    is_refused(&["--listen", "127.0.0.1:0"]);
    is_refused(&["check"]);
    let held = std::fs::read_dir(&moved).unwrap().map(|file| file.unwrap().file_name());
    assert!(held.into_iter().any(|name| name.to_str().unwrap().ends_with(".segment")));
}

#[test]
fn a_restoration_keeps_a_log_and_a_key() {
    let collector = Collector::start(&[]);
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("backup").to_str().unwrap().to_owned();
    collector.command(&["backup", &backup]);
    let secret = std::fs::read(collector.dir.join("secret.key")).unwrap();
    let restore = |name: &str, file: &str, text: &[u8]| {
        let dir = place.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join(file), text).unwrap();
        let (code, message) = failure(&run(&["restore", &backup, "--dir", dir.to_str().unwrap()]));
        assert_eq!(std::fs::read(dir.join(file)).unwrap(), text);
        (code, message, dir)
    };
    for suffix in ["-wal", "-shm", "-journal"] {
        let file = format!("results.sqlite{suffix}");
        let (code, message, dir) = restore(suffix, &file, b"x");
        assert!(code == Some(2) && message.contains(&file), "{message}");
        assert!(!dir.join("results.sqlite").exists() && !dir.join("secret.key").exists());
    }
    let (code, message, dir) = restore("other key", "secret.key", &[b'0'; 64]);
    assert!(code == Some(2) && message.contains("is not the key of the backup"), "{message}");
    assert!(!dir.join("results.sqlite").exists() && !dir.join("raw").exists());
    let (code, message, dir) = restore("same key", "secret.key", &secret);
    assert_eq!(code, Some(0), "{message}");
    let (code, message) = failure(&run(&["check", "--dir", dir.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{message}");
}

#[test]
fn experiments_and_servers_are_listed_and_removed() {
    let place = tempfile::tempdir().unwrap();
    let collector = Collector::start(&[]);
    let file = place.path().join("experiment.toml");
    let text =
        "name = \"mesh\"\nkind = \"test\"\nmost_bytes = 1000\nschedule = { every_s = 3600, jitter_s = 60 }\n";
    std::fs::write(&file, text).unwrap();
    let print = |arguments: &[&str]| collector.command(arguments);
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
