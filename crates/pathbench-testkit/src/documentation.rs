//! Comparison of metrics with their documentation.

use std::path::Path;

/// Compares the names, types and helps of an exposition with the table in a file of `docs/`.
///
/// # Panics
/// If they differ.
#[allow(clippy::unwrap_used, reason = "an assertion")]
pub fn assert_documented(text: &str, file: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let family = |pair: &[&str]| {
        let (name, help) = pair[0].strip_prefix("# HELP ")?.split_once(' ')?;
        let kind = pair[1].strip_prefix(&format!("# TYPE {name} "))?;
        let suffix = if kind == "counter" {
            "_total"
        } else if kind == "info" {
            "_info"
        } else {
            ""
        };
        Some(format!("| `{name}{suffix}` | {kind} | {help} |"))
    };
    let rows: Vec<String> = lines.windows(2).filter_map(family).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let docs = std::fs::read_to_string(path).unwrap();
    let prefix = rows[0].split_once("_build_info").unwrap().0;
    let documented: Vec<&str> = docs.lines().filter(|line| line.starts_with(prefix)).collect();
    assert_eq!(documented, rows, "the table in docs/{file} shall be\n{}", rows.join("\n"));
}
