//! Exports agree with the result cell by cell in four readers, and the examples of docs/data.md run.

use crate::results::{changed, crates, golden};
use pathbench_record::directory::ResultDirectory;
use pathbench_record::file::OpenDirectory;
use pathbench_report::ResultSet;
use pathbench_report::export::{ExportFormat, ResultExportError, write};
use pathbench_testkit::{program, test_tools};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn exported(results: &[PathBuf], out: &Path) -> Result<(), ResultExportError> {
    let open = |path: &PathBuf| ResultSet::read(ResultDirectory::open(path).unwrap()).unwrap().0;
    let sets: Vec<ResultSet> = results.iter().map(open).collect();
    let out = &OpenDirectory::create(out).unwrap();
    ExportFormat::ALL.into_iter().try_for_each(|format| write(&sets, format, out).map(drop))
}

/// The exit code and output of a program.
fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn python() -> Command {
    Command::new(test_tools().join("venv/bin/python"))
}

fn script(name: &str, arguments: &[&OsStr]) -> (bool, String) {
    let script = crates().join("pathbench-report/tests/export").join(name);
    output(python().arg(script).args(arguments))
}

pathbench_testkit::tests!(
    ["libraries"] => tables_agree_with_the_results, tables_agree_with_hostile_results, row_groups_keep_every_row;
    ["libraries", "Rscript"] => the_examples_of_the_documentation_run;
    ["libraries", "node"] => the_trace_processor_reads_every_run, a_trace_of_hostile_names_is_read;
    ["flent"] => flent_reads_and_draws_every_run;
);

fn assert_agrees(results: &[PathBuf]) {
    let out = tempfile::tempdir().unwrap();
    exported(results, out.path()).unwrap();
    let places = [out.path().as_os_str()].into_iter().chain(results.iter().map(|path| path.as_os_str()));
    let (agrees, text) = script("agree.py", &places.collect::<Vec<_>>());
    assert!(agrees, "{text}");
}

fn tables_agree_with_the_results() {
    assert_agrees(&golden());
}

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

fn row_groups_keep_every_row() {
    let copy = changed("v1", "run.json", |_| {});
    let lines = fs::read_to_string(copy.path().join("delivery.jsonl")).unwrap();
    let count = 45_000 / lines.lines().count() + 1;
    fs::write(copy.path().join("delivery.jsonl"), lines.repeat(count)).unwrap();
    assert_agrees(&[copy.path().to_owned()]);
}

fn the_examples_of_the_documentation_run() {
    let out = tempfile::tempdir().unwrap();
    exported(&golden(), out.path()).unwrap();
    let text = fs::read_to_string(crates().join("../docs/data.md")).unwrap();
    let mut count = 0;
    for block in text.split("\n```").skip(1).step_by(2) {
        let (language, code) = block.split_once('\n').unwrap();
        let mut command = match language {
            "python" => python(),
            "r" => Command::new(program("Rscript")),
            other => panic!("an example in {other}"),
        };
        let option = if language == "r" { "-e" } else { "-c" };
        let (runs, printed) = output(command.args([option, code]).current_dir(out.path()));
        assert!(runs && !printed.is_empty(), "{code}\n{printed}");
        count += 1;
    }
    assert_eq!(count, 4);
}

/// The rows of each query on a trace, by Perfetto's trace processor.
fn queried<const N: usize>(trace: &Path, queries: [&str; N]) -> [Vec<Value>; N] {
    let script = crates().join("pathbench-report/tests/export/trace.mjs");
    let output = Command::new(program("node"))
        .args([script.as_os_str(), test_tools().as_os_str(), trace.as_os_str()])
        .args(queries)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Option<Vec<Vec<Value>>> = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let all = rows.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    all.try_into().unwrap()
}

const PROBLEMS: &str = "select name, value from stats where severity != 'info' and value > 0";

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn the_trace_processor_reads_every_run() {
    for result in golden().into_iter().filter(|result| result.join("samples.jsonl").exists()) {
        let out = tempfile::tempdir().unwrap();
        exported(std::slice::from_ref(&result), out.path()).unwrap();
        let document = ResultDirectory::open(&result).unwrap().document;
        for run in &document.runs {
            let of_run = |file: &str| {
                let mut lines = lines(&result.join(file));
                lines.retain(|line| line["run"] == run.id);
                lines
            };
            let (samples, events) = (of_run("samples.jsonl"), of_run("events.jsonl"));
            let deliveries = of_run("delivery.jsonl");
            let [problems, counters, instants, goodput, negative] = queried(
                &out.path().join(format!("{}.perfetto-trace", run.id)),
                [
                    PROBLEMS,
                    "select t.name, count(*) as n, sum(value) as total from counter join counter_track t on \
                     track_id = t.id group by t.name",
                    "select name from slice where dur = 0",
                    "select sum(value) as total from counter join counter_track t on track_id = t.id where t.name \
                     glob 'goodput *'",
                    "select ts from counter where ts < 0",
                ],
            );
            assert_eq!(
                (problems.as_slice(), negative.as_slice()),
                ([].as_slice(), [].as_slice()),
                "{}",
                run.id
            );
            let counter = |name: &str| counters.iter().find(|row| row["name"] == name);
            for (name, field) in [("cwnd", "cwnd_bytes"), ("smoothed RTT", "srtt_ms"), ("MSS", "mss_bytes")] {
                let expected: f64 = samples.iter().map(|sample| number(&sample[field])).sum();
                let found = counter(name).map_or(0.0, |row| number(&row["total"]));
                assert!(
                    (found - expected).abs() <= 1e-6 * expected,
                    "{}: {name}: {found}, {expected}",
                    run.id
                );
                let count = counter(name).map_or(0, |row| row["n"].as_u64().unwrap());
                assert_eq!(count, samples.len() as u64, "{}: {name}", run.id);
            }
            assert_eq!(instants.len(), events.len(), "{}", run.id);
            let bytes: f64 = deliveries.iter().map(|line| number(&line["bytes"])).sum();
            let total = goodput[0]["total"].as_f64().unwrap_or_default();
            // 1 Mbit/s for 10 ms.
            assert!((total * 1250.0 - bytes).abs() <= 1e-6 * bytes, "{}: {total}, {bytes}", run.id);
        }
    }
}

fn a_trace_of_hostile_names_is_read() {
    let long = "\u{202e}<script>\u{0}☃".repeat(1000);
    let copy = changed("v1", "run.json", |document| {
        let run = document["runs"][0].clone();
        let ids = ["../../up", "", "a/b", "a/b", &long].map(|id| {
            let mut run = run.clone();
            run["id"] = id.into();
            run["label"] = long.as_str().into();
            run
        });
        document["runs"] = json!(ids);
    });
    for file in ["samples.jsonl", "events.jsonl", "delivery.jsonl"] {
        let mut all = lines(&copy.path().join(file));
        for line in &mut all {
            line["run"] = "a/b".into();
            line["path"] = long.as_str().into();
            line["t_ms"] = json!(number(&line["t_ms"]) - 5000.0);
        }
        let text: Vec<String> = all.iter().map(Value::to_string).collect();
        fs::write(copy.path().join(file), text.join("\n") + "\n").unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    exported(&[copy.path().to_owned()], out.path()).unwrap();
    let mut traces: Vec<PathBuf> =
        fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    traces.retain(|path| path.extension().is_some_and(|one| one == "perfetto-trace"));
    assert_eq!(traces.len(), 5, "{traces:?}");
    for trace in traces {
        let [problems] = queried(&trace, [PROBLEMS]);
        assert!(problems.is_empty(), "{}: {problems:?}", trace.display());
    }
}

/// The mean of a series by Flent's own statistics.
fn flent_mean(file: &Path, series: &str) -> f64 {
    let (runs, text) =
        output(Command::new(program("flent")).arg("-i").arg(file).args(["-f", "stats", "-o", "-"]));
    assert!(runs, "{text}");
    let of_series = text.split(&format!("{series}:")).nth(1).unwrap_or_else(|| panic!("{series}: {text}"));
    let mean = of_series.split("Mean:").nth(1).and_then(|rest| rest.split_whitespace().next());
    mean.and_then(|mean| mean.parse().ok()).unwrap_or_else(|| panic!("{series}: {text}"))
}

fn flent_reads_and_draws_every_run() {
    let mut count = 0;
    for result in golden() {
        let out = tempfile::tempdir().unwrap();
        exported(std::slice::from_ref(&result), out.path()).unwrap();
        let bytes_of = |run: &str, direction: &str| {
            let mut all = lines(&result.join("delivery.jsonl"));
            all.retain(|line| line["run"] == *run && line["direction"] == *direction);
            all.iter().map(|line| number(&line["bytes"])).sum::<f64>()
        };
        for run in &ResultDirectory::open(&result).unwrap().document.runs {
            for direction in ["upload", "download"] {
                let file = out.path().join(format!("{}-{direction}.flent", run.id));
                let bytes = bytes_of(&run.id, direction);
                assert_eq!(file.exists(), bytes > 0.0, "{}", file.display());
                if !file.exists() {
                    continue;
                }
                count += 1;
                let data: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
                let seconds: Vec<f64> = data["x_values"].as_array().unwrap().iter().map(number).collect();
                let length = number(&data["metadata"]["LENGTH"]);
                let ends = seconds.iter().skip(1).copied().chain([length]);
                let sum = data["results"][format!("TCP {direction} sum")].as_array().unwrap();
                let windows = seconds.iter().zip(ends).zip(sum);
                let total: f64 =
                    windows.map(|((from, until), mbps)| (until - from) * number(mbps) * 125_000.0).sum();
                assert!((total - bytes).abs() <= 1e-3 * bytes, "{}: {total}, {bytes}", file.display());
                let mean = sum.iter().map(number).sum::<f64>() / sum.len() as f64;
                let found = flent_mean(&file, &format!("TCP {direction} sum"));
                assert!((found - mean).abs() <= 0.01 * mean + 0.01, "{}: {found}, {mean}", file.display());
                let picture = out.path().join("picture.png");
                let options = ["-p", "totals", "-f", "plot", "-o"];
                let (runs, text) =
                    output(Command::new(program("flent")).arg("-i").arg(&file).args(options).arg(&picture));
                assert!(runs, "{text}");
                // A file without series gives an empty one and exit code 0.
                assert!(fs::read(&picture).unwrap().starts_with(b"\x89PNG"), "{text}");
                fs::remove_file(&picture).unwrap();
            }
        }
    }
    assert!(count > 3, "{count}");
}
