//! Exports agree with the result cell by cell in four readers, the schemas accept the files of results and reject
//! damaged ones, and the examples of docs/data.md run.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use pathbench_record::directory::ResultDirectory;
use pathbench_report::ResultSet;
use pathbench_report::export::{ExportError, ExportFormat, write};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pathbench_kerneltest::privilege_independent!();

type Damage = fn(&mut Value);

const RESULTS: [&str; 4] = ["v1", "v1-emulated", "v1-messages", "v1-mtu"];

fn crates() -> PathBuf {
    pathbench_kerneltest::checkout().join("crates")
}

fn golden() -> Vec<PathBuf> {
    RESULTS.map(|name| crates().join("pathbench-record/tests/golden").join(name)).to_vec()
}

fn exported(results: &[PathBuf], out: &Path) -> Result<(), ExportError> {
    let open = |path: &PathBuf| ResultSet::read(ResultDirectory::open(path).unwrap()).unwrap().0;
    let sets: Vec<ResultSet> = results.iter().map(open).collect();
    ExportFormat::ALL.into_iter().try_for_each(|format| write(&sets, format, out).map(drop))
}

/// The exit code and output of a program.
fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn python() -> Command {
    Command::new(pathbench_kerneltest::test_tools().join("venv/bin/python"))
}

fn script(name: &str, arguments: &[&OsStr]) -> (bool, String) {
    let script = crates().join("pathbench-report/tests/export").join(name);
    output(python().arg(script).args(arguments))
}

fn assert_agrees(results: &[PathBuf]) {
    let out = tempfile::tempdir().unwrap();
    exported(results, out.path()).unwrap();
    let places = [out.path().as_os_str()].into_iter().chain(results.iter().map(|path| path.as_os_str()));
    let (agrees, text) = script("agree.py", &places.collect::<Vec<_>>());
    assert!(agrees, "{text}");
}

/// A copy of a result in which `change` changed a file's documents.
fn changed(name: &str, file: &str, change: impl Fn(&mut Value)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let original = crates().join("pathbench-record/tests/golden").join(name);
    for entry in fs::read_dir(&original).unwrap() {
        let entry = entry.unwrap();
        let mut text = fs::read_to_string(entry.path()).unwrap();
        if entry.file_name() == file {
            let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            let each = documents.map(|document| {
                let mut document = document.unwrap();
                change(&mut document);
                format!("{document}\n")
            });
            text = each.collect();
        }
        fs::write(copy.path().join(entry.file_name()), text).unwrap();
    }
    copy
}

#[test]
fn tables_agree_with_the_results() {
    assert_agrees(&golden());
}

#[test]
fn tables_agree_with_hostile_results() {
    let names = [
        "",
        " ",
        "=cmd|' /C calc'!A0",
        "a\"b,c;d\n\r\ne\tf",
        "\u{202e}päth ☃ 𝒳 | `x` <script>",
        "null",
        "NaN",
    ];
    let line = json!(names.concat());
    let many = changed("v1", "samples.jsonl", |sample| {
        sample["path"] = line.clone();
        sample["bytes_sent"] = u64::MAX.into();
        sample["srtt_ms"] = 5.into();
        sample["rttvar_ms"] = f64::MAX.into();
        sample["from_the_future"] = json!({"a": 1});
    });
    let all = changed("v1", "run.json", |document| {
        let run = document["runs"][0].clone();
        let runs = names.iter().map(|name| {
            let mut run = run.clone();
            run["id"] = (*name).into();
            run["error"] = (*name).into();
            // A parser that rounds reads …712.
            run["stall_ms"] = 1_873.636_221_936_371_4.into();
            run["paths"][0]["name"] = (*name).into();
            run["notes"] = json!([name]);
            run["variant"] = json!({*name: name});
            run
        });
        document["runs"] = runs.collect();
    });
    let none = changed("v1", "run.json", |document| {
        document["runs"] = json!([]);
        document["summary"]["groups"] = json!([]);
    });
    for file in ["samples.jsonl", "events.jsonl", "delivery.jsonl"] {
        fs::write(none.path().join(file), "").unwrap();
    }
    assert_agrees(&[none.path().to_owned()]);
    assert_agrees(&[many, all, none].each_ref().map(|copy| copy.path().to_owned()));
}

#[test]
fn row_groups_keep_every_row() {
    let copy = changed("v1", "run.json", |_| {});
    let lines = fs::read_to_string(copy.path().join("delivery.jsonl")).unwrap();
    let count = 45_000 / lines.lines().count() + 1;
    fs::write(copy.path().join("delivery.jsonl"), lines.repeat(count)).unwrap();
    assert_agrees(&[copy.path().to_owned()]);
}

#[test]
fn the_schemas_accept_results_and_name_the_place_of_damage() {
    let schemas = crates().join("../docs/schema");
    let validate = |results: &[PathBuf]| {
        let places = [schemas.as_os_str()].into_iter().chain(results.iter().map(|path| path.as_os_str()));
        script("validate.py", &places.collect::<Vec<_>>())
    };
    let (accepts, text) = validate(&golden());
    assert!(accepts, "{text}");
    let damages: [(&str, Damage, &str); 8] = [
        (
            "run.json",
            |it| drop(it.as_object_mut().unwrap().remove("seed")),
            "run.json:1: $: 'seed' is a required",
        ),
        (
            "run.json",
            |it| it["runs"][0]["repetition"] = "1".into(),
            "$.runs[0].repetition: '1' is not of type",
        ),
        ("run.json", |it| it["runs"][0]["transport"] = "sctp".into(), "$.runs[0].transport: 'sctp' is not"),
        ("run.json", |it| it["runs"][0]["stall_ms"] = Value::Null, "$.runs[0].stall_ms: None is not of type"),
        (
            "run.json",
            |it| it["schema"] = "pathbench.result/9".into(),
            "$.schema: 'pathbench.result/1' was expected",
        ),
        (
            "samples.jsonl",
            |it| it["bytes_sent"] = (-1).into(),
            "samples.jsonl:1: $.bytes_sent: -1 is less than",
        ),
        ("events.jsonl", |it| it["source"] = "rumour".into(), "events.jsonl:1: $.source: 'rumour' is not"),
        ("delivery.jsonl", |it| it["t_ms"] = json!([]), "delivery.jsonl:1: $.t_ms: [] is not of type"),
    ];
    for (file, damage, place) in damages {
        let copy = changed("v1", file, damage);
        let (accepts, text) = validate(&[copy.path().to_owned()]);
        assert!(!accepts && text.contains(place), "{place}: {text}");
    }
}

#[test]
fn the_examples_of_the_documentation_run() {
    let out = tempfile::tempdir().unwrap();
    exported(&golden(), out.path()).unwrap();
    let text = fs::read_to_string(crates().join("../docs/data.md")).unwrap();
    let mut count = 0;
    for block in text.split("\n```").skip(1).step_by(2) {
        let (language, code) = block.split_once('\n').unwrap();
        let mut command = match language {
            "python" => python(),
            "r" => Command::new("Rscript"),
            other => panic!("an example in {other}"),
        };
        let option = if language == "r" { "-e" } else { "-c" };
        let (runs, printed) = output(command.args([option, code]).current_dir(out.path()));
        assert!(runs && !printed.is_empty(), "{code}\n{printed}");
        count += 1;
    }
    assert_eq!(count, 4);
}
