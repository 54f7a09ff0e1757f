//! One crate a room, arrows only point down the list, and every room says what it does and what it never does.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use serde_json::Value;
use std::path::Path;
use std::process::Command;

pathbench_kerneltest::privilege_independent!();

/// From the roof to the ground. A room may depend on rooms further down only.
const ROOMS: [&str; 15] = [
    "pathbench",
    "pathbench-collector",
    "pathbench-report",
    "pathbench-minitopo",
    "pathbench-lab",
    "pathbench-traffic",
    "pathbench-transport",
    "pathbench-mpquic",
    "pathbench-emulator",
    "pathbench-link",
    "pathbench-host",
    "pathbench-trace",
    "pathbench-analysis",
    TESTS_SHARE,
    "pathbench-record",
];

/// What only tests, benchmarks and examples may use.
const TESTS_SHARE: &str = "pathbench-kerneltest";

/// What follows from the sentences that begin with "never": a room, and rooms it must not even reach.
const FORBIDDEN: [(&str, &str); 3] = [
    // The report reads no socket, and so knows nobody who has one.
    ("pathbench-report", "pathbench-transport"),
    ("pathbench-report", "pathbench-host"),
    // The traffic room opens no netlink socket.
    ("pathbench-traffic", "pathbench-host"),
];

struct Room {
    name: String,
    /// `src/lib.rs`, or `src/main.rs` of the roof.
    root: String,
    /// Other rooms it depends on in any way, tests included.
    uses: Vec<String>,
    /// Those of them that its tests, benchmarks and examples alone depend on.
    tests_use: Vec<String>,
}

fn rooms() -> Vec<Room> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().iter().map(room).collect()
}

fn room(package: &Value) -> Room {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dependencies = package["dependencies"].as_array().unwrap();
    let rooms = |only_tests: bool| {
        let uses = dependencies.iter().filter(|dependency| !only_tests || dependency["kind"] == "dev");
        // A room that depends on itself turns on its own features for its tests.
        let names =
            uses.map(|dependency| text(&dependency["name"])).filter(|name| package["name"] != name.as_str());
        names.filter(|name| ROOMS.contains(&name.as_str())).collect()
    };
    let targets = package["targets"].as_array().unwrap();
    let root = targets
        .iter()
        .map(|target| text(&target["src_path"]))
        .find(|path| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"))
        .unwrap();
    Room { name: text(&package["name"]), root, uses: rooms(false), tests_use: rooms(true) }
}

fn storey(name: &str) -> usize {
    let place = ROOMS.iter().position(|room| *room == name);
    place.unwrap_or_else(|| panic!("{name} has no place in the list of rooms: say where it belongs"))
}

#[test]
fn arrows_only_point_down() {
    let rooms = rooms();
    assert!(rooms.len() >= 7, "only {} rooms", rooms.len());
    for room in &rooms {
        for used in &room.uses {
            assert!(storey(&room.name) < storey(used), "{} must not depend on {used}", room.name);
        }
    }
}

#[test]
fn the_ground_depends_on_nothing_and_the_report_on_the_ground_only() {
    for room in rooms() {
        match room.name.as_str() {
            "pathbench-record" => assert!(room.uses.is_empty(), "{:?}", room.uses),
            "pathbench-report" => assert_eq!(room.uses, ["pathbench-record"]),
            _ => {}
        }
        for (_, forbidden) in FORBIDDEN.iter().filter(|(name, _)| *name == room.name) {
            assert!(!room.uses.iter().any(|used| used == forbidden), "{} reaches {forbidden}", room.name);
        }
    }
}

#[test]
fn what_tests_share_is_in_no_program() {
    let rooms = rooms();
    let users: Vec<&Room> =
        rooms.iter().filter(|room| room.uses.iter().any(|used| used == TESTS_SHARE)).collect();
    assert!(!users.is_empty(), "nobody uses {TESTS_SHARE}");
    for room in users {
        let count = |names: &[String]| names.iter().filter(|name| *name == TESTS_SHARE).count();
        assert_eq!(count(&room.uses), count(&room.tests_use), "{} ships {TESTS_SHARE}", room.name);
    }
}

#[test]
fn every_room_says_what_it_does_and_what_it_never_does() {
    for room in rooms() {
        let text = std::fs::read_to_string(&room.root).unwrap();
        let opening: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(opening.contains("never"), "{} does not open with what it never does: {opening}", room.root);
    }
}
