//! A crate depends only on crates further down the list, and every crate documents its responsibility.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// From top to bottom. A crate may depend only on crates further down.
const CRATES: [&str; 19] = [
    "pathbench",
    "pathbench-collector",
    "pathbench-report",
    "pathbench-minitopo",
    "pathbench-lab",
    "pathbench-check",
    "pathbench-supervisor",
    "pathbench-traffic",
    "pathbench-transport",
    "pathbench-mpquic",
    "pathbench-emulator",
    "pathbench-link",
    "pathbench-host",
    "pathbench-trace",
    "pathbench-analysis",
    "pathbench-api",
    "pathbench-token",
    TESTS_SHARE,
    "pathbench-record",
];

/// Used only by tests, benchmarks and examples.
const TESTS_SHARE: &str = "pathbench-testkit";

/// The column "never" of ARCHITECTURE.md: a crate, and a crate that it must not use.
const FORBIDDEN: [(&str, &str); 5] = [
    // The report does not read sockets.
    ("pathbench-report", "pathbench-transport"),
    ("pathbench-report", "pathbench-host"),
    // The traffic crate does not open netlink sockets.
    ("pathbench-traffic", "pathbench-host"),
    // The collector runs no tests, and the first build of the program does not contain the collector.
    ("pathbench-collector", "pathbench-transport"),
    ("pathbench", "pathbench-collector"),
];

struct Crate {
    name: String,
    /// `src/lib.rs`; for the top crate `src/main.rs`.
    root: String,
    /// Other crates in its dependencies, including those for tests.
    uses: Vec<String>,
    /// The subset that only its tests, benchmarks and examples use.
    tests_use: Vec<String>,
}

fn crates() -> Vec<Crate> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().iter().map(read).collect()
}

fn read(package: &Value) -> Crate {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dependencies = package["dependencies"].as_array().unwrap();
    let crates = |only_tests: bool| {
        let uses = dependencies.iter().filter(|dependency| !only_tests || dependency["kind"] == "dev");
        // A crate that depends on itself enables its own features for its tests.
        let names =
            uses.map(|dependency| text(&dependency["name"])).filter(|name| package["name"] != name.as_str());
        names.filter(|name| CRATES.contains(&name.as_str())).collect()
    };
    let targets = package["targets"].as_array().unwrap();
    let root = targets
        .iter()
        .map(|target| text(&target["src_path"]))
        .find(|path| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"))
        .unwrap();
    Crate { name: text(&package["name"]), root, uses: crates(false), tests_use: crates(true) }
}

fn position(name: &str) -> usize {
    let place = CRATES.iter().position(|one| *one == name);
    place.unwrap_or_else(|| panic!("{name} is not in the list of crates: add it"))
}

#[test]
fn dependencies_point_down() {
    let crates = crates();
    assert!(crates.len() >= 7, "only {} crates", crates.len());
    for one in &crates {
        for used in &one.uses {
            assert!(position(&one.name) < position(used), "{} must not depend on {used}", one.name);
        }
    }
}

#[test]
fn the_record_depends_on_nothing_and_the_report_on_pure_crates_only() {
    for one in crates() {
        match one.name.as_str() {
            "pathbench-record" => assert!(one.uses.is_empty(), "{:?}", one.uses),
            // The last one in tests only: `test_code_is_in_no_program`.
            "pathbench-report" => {
                assert_eq!(one.uses, ["pathbench-analysis", "pathbench-record", TESTS_SHARE]);
            }
            _ => {}
        }
        for (_, forbidden) in FORBIDDEN.iter().filter(|(name, _)| *name == one.name) {
            assert!(!one.uses.iter().any(|used| used == forbidden), "{} reaches {forbidden}", one.name);
        }
    }
}

#[test]
fn test_code_is_in_no_program() {
    let crates = crates();
    let users: Vec<&Crate> =
        crates.iter().filter(|one| one.uses.iter().any(|used| used == TESTS_SHARE)).collect();
    assert!(!users.is_empty(), "no crate uses {TESTS_SHARE}");
    for one in users {
        let count = |names: &[String]| names.iter().filter(|name| *name == TESTS_SHARE).count();
        assert_eq!(count(&one.uses), count(&one.tests_use), "{} ships {TESTS_SHARE}", one.name);
    }
}

#[test]
fn every_crate_documents_its_responsibility() {
    for one in crates() {
        let text = std::fs::read_to_string(&one.root).unwrap();
        let opening: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(
            opening.contains("never"),
            "{} does not document its limits with \"never\": {opening}",
            one.root
        );
    }
}
