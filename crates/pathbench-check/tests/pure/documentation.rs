//! docs/check.md lists every id with its explanation.

use pathbench_check::finding::FindingId;
use strum::IntoEnumIterator as _;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/check.md");

/// `PATHBENCH_BLESS=1` rewrites the table.
#[test]
fn the_table_of_ids_is_that_of_the_program() {
    let before = std::fs::read_to_string(FILE).unwrap();
    let head = "| id | examined |\n|---|---|\n";
    let begin = before.find(head).unwrap() + head.len();
    let length = before[begin..].find("\n## ").unwrap();
    let rows: Vec<String> =
        FindingId::iter().map(|id| format!("| `{}` | {} |", id.name(), id.explanation())).collect();
    let mut text = before.clone();
    text.replace_range(begin..begin + length, &(rows.join("\n") + "\n"));
    if std::env::var_os("PATHBENCH_BLESS").is_some() {
        std::fs::write(FILE, &text).unwrap();
        return;
    }
    assert!(text == before, "docs/check.md differs from crates/pathbench-check/src/finding/id.rs");
}

#[test]
fn ids_are_kebab_case() {
    for id in FindingId::iter() {
        let name = id.name();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        assert_eq!(serde_json::to_value(id).unwrap(), name);
    }
}
