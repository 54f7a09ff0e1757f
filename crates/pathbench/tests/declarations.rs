//! Every program of tests says whether an ordinary user is to run it as well, so that `./test` cannot leave one out.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::path::{Path, PathBuf};

pathbench_kerneltest::privilege_independent!();

/// The declarations; a program with a `main` in namespaces makes the third by its call.
const DECLARATIONS: [&str; 3] = [
    "\npathbench_kerneltest::unprivileged_too!();\n",
    "\npathbench_kerneltest::privilege_independent!();\n",
    "\nuse pathbench_kerneltest::{Order, ",
];
/// What a program may not use that cannot declare anything: the crates without `pathbench-kerneltest` only compute.
const PRIVILEGED: [&str; 7] =
    ["TcpListener", "TcpStream", "UdpSocket", "os::unix::net", "process::Command", "rustix", "libc"];

/// The crates with the program of their unit tests and the programs of their `tests` directory.
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
    roots.into_iter().filter(|root| root.exists()).chain(tests).collect()
}

fn declarations(text: &str) -> usize {
    DECLARATIONS.iter().map(|declaration| text.matches(declaration).count()).sum()
}

#[test]
fn every_program_of_tests_says_whether_an_ordinary_user_is_to_run_it() {
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
        "say it with pathbench_kerneltest::unprivileged_too!(); or privilege_independent!();, once: {silent:#?}"
    );
}

#[test]
fn a_declaration_counts_once_and_only_where_it_is_made() {
    assert_eq!(declarations("\n// pathbench_kerneltest::unprivileged_too!();\n"), 0);
    assert_eq!(declarations("use x;\n\npathbench_kerneltest::unprivileged_too!();\n\nfn f() {}"), 1);
    assert_eq!(declarations("\nuse pathbench_kerneltest::{Order, run};\n"), 1);
    assert_eq!(declarations("\nuse pathbench_kerneltest::MonotonicClock;\n"), 0);
}
