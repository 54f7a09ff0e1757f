//! Files of results against the JSON Schemas of docs/schema.

use crate::processes::checkout;
use crate::programs::test_tools;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Validates `run.json` and the files of lines in `directories`.
///
/// # Errors
/// The output of the validator: file, line, place and problem of each error.
pub fn validate_results(directories: &[PathBuf]) -> Result<(), String> {
    let checkout = checkout();
    let validated = Command::new(test_tools().join("venv/bin/python"))
        .arg(checkout.join("crates/pathbench-report/tests/export/validate.py"))
        .arg(checkout.join("docs/schema"))
        .args(directories)
        .output()
        .map_err(|error| format!("the schema validator does not start ({error}): run .ci/tools/install"))?;
    let text = [validated.stdout, validated.stderr].concat();
    if validated.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&text).into_owned()) }
}

/// The directories of finished results below `place`, to a depth of four.
pub fn finished_results(place: &Path) -> Vec<PathBuf> {
    fn walk(place: &Path, depth: u32, found: &mut Vec<PathBuf>) {
        // The document of `pathbench run` has the same name.
        let document = fs::read_to_string(place.join("run.json")).unwrap_or_default();
        if document.contains("\"pathbench.result/") || place.join("trace.json").exists() {
            found.push(place.to_owned());
        }
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                walk(&entry.path(), depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(place, 4, &mut found);
    found
}
