//! ARCHITECTURE.md and the other pages name the crates, dependencies, modules and files that exist, and no others.

use super::dependencies::crates;
use super::sources::{Source, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const TEXT: &str = include_str!("../../../../ARCHITECTURE.md");
const ROOTS: [&str; 7] = [".ci/", ".config/", ".github/", "crates/", "docs/", "packaging/", "scenarios/"];
const MOST_BYTES: usize = 15_500;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of the entries of a directory, sorted.
fn entries(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn crate_names() -> BTreeSet<String> {
    entries(&checkout().join("crates"))
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the dependency picture from top to bottom: a crate and the crates that it depends on.
pub(crate) fn picture() -> Vec<(String, BTreeSet<String>)> {
    let full = |name: &str| match name {
        "pathbench" => name.to_owned(),
        name => format!("pathbench-{name}"),
    };
    let rows = TEXT.lines().filter_map(|line| line.split_once("─►")).filter_map(|(left, right)| {
        let name = left.split_whitespace().next_back()?;
        let row = (full(name), right.split_whitespace().map(full).collect());
        line_of_picture(left).then_some(row)
    });
    rows.collect()
}

/// Rows of the picture have an optional layer and a crate's name before the arrow; those of other figures have more.
fn line_of_picture(left: &str) -> bool {
    left.chars().all(|c| c.is_ascii_lowercase() || c == ' ') && left.split_whitespace().count() <= 2
}

#[test]
fn it_stays_short() {
    assert!(TEXT.len() <= MOST_BYTES, "ARCHITECTURE.md has {} of {MOST_BYTES} bytes", TEXT.len());
}

#[test]
fn every_path_that_is_named_exists() {
    let root = checkout();
    let pages = ["docs", "docs/design"].into_iter().map(|name| root.join(name));
    let pages =
        pages.flat_map(|directory| entries(&directory).into_iter().map(move |name| directory.join(name)));
    let pages = pages.filter(|page| page.extension().is_some_and(|kind| kind == "md"));
    let others =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"].map(|name| root.join(name));
    let (mut count, mut problems) = (0, Vec::new());
    for page in pages.chain(others) {
        let text = fs::read_to_string(&page).unwrap();
        // A command's first word is its file.
        let words = quoted(&text).filter_map(|name| name.split_whitespace().next());
        for name in words.filter(|name| ROOTS.iter().any(|prefix| name.starts_with(prefix))) {
            count += 1;
            if !root.join(name).exists() {
                problems.push(format!("{}: {name}", page.file_name().unwrap().display()));
            }
        }
    }
    assert!(problems.is_empty(), "names of files that do not exist:\n{}", problems.join("\n"));
    assert!(count >= 60, "only {count} paths were found");
}

#[test]
fn the_table_of_crates_is_complete() {
    let rows = TEXT.lines().filter_map(|line| line.strip_prefix("| `crates/")?.split_once("` |"));
    let listed: BTreeSet<String> =
        rows.map(|(name, _)| name.to_owned()).filter(|name| !name.contains('/')).collect();
    assert_eq!(listed, crate_names());
}

#[test]
fn the_picture_has_the_dependencies_of_the_manifests() {
    let mut rows: BTreeMap<_, _> = picture().into_iter().collect();
    let mut problems = Vec::new();
    for one in crates() {
        let shown = rows.remove(&one.name).unwrap_or_default();
        let missing: Vec<_> = one.programs_use.difference(&shown).collect();
        let superfluous: Vec<_> = shown.difference(&one.programs_use).collect();
        if !missing.is_empty() || !superfluous.is_empty() {
            problems.push(format!("{}: add {missing:?}, remove {superfluous:?}", one.name));
        }
    }
    problems.extend(rows.keys().map(|name| format!("{name} does not exist")));
    assert!(problems.is_empty(), "the picture of ARCHITECTURE.md:\n{}", problems.join("\n"));
}

#[test]
fn every_module_begins_with_its_purpose() {
    let begins =
        |source: &Source| source.syntax.attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
    let sources = sources();
    let others: Vec<_> = sources.iter().filter(|source| !begins(source)).map(|source| &source.path).collect();
    assert!(others.is_empty(), "modules without `//!`: {others:#?}");
}

#[test]
fn the_readme_names_the_minimum_rust() {
    let text = fs::read_to_string(checkout().join("README.md")).unwrap();
    let named = concat!("[Rust](https://rustup.rs) ", env!("CARGO_PKG_RUST_VERSION"), " or newer");
    assert!(text.contains(named), "README.md lacks {named:?}");
}
