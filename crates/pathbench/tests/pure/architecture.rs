//! Every path that ARCHITECTURE.md names exists, and its map contains every crate and module.

use std::path::Path;

const TEXT: &str = include_str!("../../../../ARCHITECTURE.md");
const ROOTS: [&str; 4] = ["crates/", "docs/", "scenarios/", ".ci/"];

#[test]
fn every_path_that_it_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Every second piece is between backticks.
    let named: Vec<&str> = TEXT
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| ROOTS.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    assert!(named.len() >= 7, "it should name every crate at least: {named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !root.join(name).exists()).collect();
    assert!(missing.is_empty(), "{missing:?} do not exist");
}

#[test]
fn every_crate_is_on_the_map() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(crates).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TEXT.contains(&format!("`crates/{name}`")), "crates/{name} is missing");
    }
}

#[test]
fn every_module_is_on_the_map() {
    let (_, modules) = TEXT.split_once("### Modules").unwrap();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap() {
        let place = entry.unwrap().path();
        let crate_name = place.file_name().unwrap().to_str().unwrap();
        let (_, listed) = modules.split_once(&format!("\n**{crate_name}**: ")).unwrap();
        let listed = listed.split("\n\n").next().unwrap();
        for source in std::fs::read_dir(place.join("src")).unwrap() {
            let source = source.unwrap().path();
            let module = source.file_stem().unwrap().to_str().unwrap();
            let is_listed = listed.contains(&format!("`{module}`"));
            assert!(is_listed || ["lib", "main"].contains(&module), "{} is missing", source.display());
        }
    }
}
