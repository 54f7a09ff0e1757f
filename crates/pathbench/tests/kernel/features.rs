//! The features `png` and `qlog`: with them the files are written, without them the request is rejected. `./test --all` also
//! builds this program without them.

use crate::support::{TWO_PATHS, Workplace};
use pathbench_report::PNG_AVAILABLE;
use pathbench_transport::QLOG_AVAILABLE;
use std::path::Path;

/// Names of the files in `directory`; none if the directory does not exist.
fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn png_is_written_on_request_or_refused_before_anything_is_written() {
    let work = Workplace::new();
    let text = format!("{TWO_PATHS}\n[run]\ntransports = [\"tcp\"]\nduration = \"200ms\"\n");
    let file = work.scenario("plain", &text);
    work.run(&["lab", "run", &file, "--no-calibration", "--out", "result-plain"]).expect(0);
    let result = work.path().join("result-plain");
    let is_png = |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "png");
    assert!(!files(&result).iter().any(is_png), "PNG was not asked for: {:?}", files(&result));
    let done = work.run(&["report", "result-plain", "--png", "--out", "drawn"]);
    let drawn = files(&work.path().join("drawn"));
    if PNG_AVAILABLE {
        assert_eq!(done.code, Some(0), "{done:#?}");
        assert!(drawn.iter().any(is_png), "{drawn:?}");
    } else {
        assert_eq!(done.code, Some(7), "{done:#?}");
        assert!(
            done.stderr.contains("built without PNG") && done.stderr.contains("--features png"),
            "{done:#?}"
        );
        assert!(drawn.is_empty(), "{drawn:?}");
    }
}

#[test]
fn qlog_files_are_in_the_result_or_the_key_is_refused() {
    let work = Workplace::new();
    let rest = "[run]\ntransports = [\"quic\"]\nduration = \"500ms\"\n[run.quic]\nqlog = true\n";
    let file = work.scenario("logged", &format!("{TWO_PATHS}\n{rest}"));
    let done = work.run(&["lab", "run", &file, "--no-calibration", "--out", "result-logged"]);
    if QLOG_AVAILABLE {
        assert_eq!(done.code, Some(0), "{done:#?}");
        let logs = work.path().join("result-logged/qlog");
        let runs = files(&logs);
        assert_eq!(runs.len(), 1, "{runs:?}");
        let run = logs.join(&runs[0]);
        let names = files(&run);
        assert!(!names.is_empty(), "{done:#?}");
        assert!(names.iter().all(|name| run.join(name).metadata().unwrap().len() > 0), "{names:?}");
    } else {
        assert_eq!(done.code, Some(2), "{done:#?}");
        assert!(done.stderr.contains("run.quic.qlog: this pathbench was built without qlog"), "{done:#?}");
        assert!(!work.path().join("result-logged").exists());
    }
}
