//! The golden results of pathbench-record, and changed copies of them.

#![allow(dead_code, reason = "every test program uses its own part")]

use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const RESULTS: [&str; 4] = ["v1", "v1-emulated", "v1-messages", "v1-mtu"];

pub(crate) fn crates() -> PathBuf {
    pathbench_testkit::checkout().join("crates")
}

pub(crate) fn golden() -> Vec<PathBuf> {
    RESULTS.map(|name| crates().join("pathbench-record/tests/golden").join(name)).to_vec()
}

/// A copy of a result in which `change` changed a file's documents.
pub(crate) fn changed(name: &str, file: &str, change: impl Fn(&mut Value)) -> tempfile::TempDir {
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
