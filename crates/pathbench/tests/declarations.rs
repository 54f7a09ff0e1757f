//! Every test program declares whether an ordinary user runs it as well, so that `./test` cannot omit one.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::path::{Path, PathBuf};

pathbench_kerneltest::privilege_independent!();

/// The declarations. The third is the call in a program with its own `main` in namespaces.
const DECLARATIONS: [&str; 3] = [
    "\npathbench_kerneltest::unprivileged_too!();\n",
    "\npathbench_kerneltest::privilege_independent!();\n",
    "\nuse pathbench_kerneltest::{Order, ",
];
/// Programs without a declaration do not use these: the crates without `pathbench-kerneltest` only compute.
const PRIVILEGED: [&str; 7] =
    ["TcpListener", "TcpStream", "UdpSocket", "os::unix::net", "process::Command", "rustix", "libc"];

/// The crates, each with its unit tests' program and the programs in its `tests` directory.
fn programs() -> Vec<(PathBuf, Vec<PathBuf>)> {
    let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    crates
        .map(|directory| directory.unwrap().path())
        .map(|directory| (directory.clone(), programs_of(&directory)))
        .collect()
}

fn programs_of(directory: &Path) -> Vec<PathBuf> {
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| directory.join(root));
    let entries =
        fs::read_dir(directory.join("tests")).into_iter().flatten().map(|entry| entry.unwrap().path());
    let tests = entries.filter_map(|path| match path.extension() {
        Some(extension) => (extension == "rs").then_some(path),
        None => Some(path.join("main.rs")).filter(|main| main.exists()),
    });
    let roots = roots.into_iter().filter(|root| root.exists() && has_tests(&directory.join("src")));
    roots.chain(tests).collect()
}

/// Whether any file in this directory has tests.
fn has_tests(directory: &Path) -> bool {
    let mut paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.any(|path| {
        if path.is_dir() { has_tests(&path) } else { fs::read_to_string(&path).unwrap().contains("#[test]") }
    })
}

fn declarations(text: &str) -> usize {
    DECLARATIONS.iter().map(|declaration| text.matches(declaration).count()).sum()
}

#[test]
fn every_test_program_declares_whether_an_ordinary_user_runs_it() {
    let programs = programs();
    let count: usize = programs.iter().map(|(_, programs)| programs.len()).sum();
    assert!(count > 60, "only {count} programs were found");
    let mut silent = Vec::new();
    for (directory, programs) in programs {
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let can_declare = manifest.contains("\npathbench-kerneltest.workspace");
        for program in programs {
            let text = fs::read_to_string(&program).unwrap();
            let declared = if can_declare {
                declarations(&text) == 1
            } else {
                directory.ends_with("pathbench-kerneltest")
                    || !PRIVILEGED.iter().any(|word| text.contains(word))
            };
            if !declared {
                silent.push(program);
            }
        }
    }
    assert!(
        silent.is_empty(),
        "declare it with pathbench_kerneltest::unprivileged_too!(); or privilege_independent!();, once: {silent:#?}"
    );
}

#[test]
fn a_declaration_counts_once_and_only_where_it_is_made() {
    assert_eq!(declarations("\n// pathbench_kerneltest::unprivileged_too!();\n"), 0);
    assert_eq!(declarations("use x;\n\npathbench_kerneltest::unprivileged_too!();\n\nfn f() {}"), 1);
    assert_eq!(declarations("\nuse pathbench_kerneltest::{Order, run};\n"), 1);
    assert_eq!(declarations("\nuse pathbench_kerneltest::MonotonicClock;\n"), 0);
}
