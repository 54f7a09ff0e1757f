//! Every option named in a message, a help text or the documentation exists.

use crate::support::help::{HelpPage, collector_pages, pages};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pathbench_testkit::tests!(
    ["pathbench-collector"] => every_option_that_is_named_exists;
    [] => options_and_commands_are_found_in_text;
);

/// Options of other programs, named in the text together with the program.
const FOREIGN: &[(&str, &[&str])] = &[
    ("example gallery", &["--only", "--results"]),
    ("kubectl", &["--filename", "--for", "--from-file", "--timeout"]),
    ("nsenter", &["--target", "--net"]),
    ("curl", &["--mptcp"]),
    ("iperf3", &["--skip-rx-copy"]),
    ("configure", &["--disable-shared"]),
    (
        "cargo",
        &[
            "--all-targets",
            "--bench",
            "--example",
            "--features",
            "--in-diff",
            "--lib",
            "--locked",
            "--package",
            "--release",
            "--test",
            "--workspace",
        ],
    ),
    ("container", &["--cap-add", "--device", "--privileged", "--security-opt"]),
    ("deny", &["--record"]),
    ("docker", &["--cap-add", "--device", "--privileged", "--security-opt"]),
    ("mount", &["--bind"]),
    ("pg_dump", &["--file", "--format"]),
    ("sbatch", &["--array", "--dependency", "--parsable", "--wrap"]),
    ("ss", &["--kill"]),
    ("rustc", &["--edition", "--extern"]),
    ("systemctl", &["--now", "--user"]),
    ("systemd-analyze", &["--man"]),
    ("unshare", &["--mount"]),
    ("useradd", &["--system"]),
];

/// Documents and help texts.
fn texts() -> Vec<(PathBuf, String)> {
    let checkout = pathbench_testkit::checkout();
    let mut files = Vec::new();
    for place in ["crates", "docs", "packaging", "scenarios"] {
        collect(&checkout.join(place), &mut files);
    }
    for file in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        files.push(checkout.join(file));
    }
    files.into_iter().map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

/// The text files below `place`, without tests, which use nonexistent options on purpose, and without benchmarks,
/// which start other programs.
fn collect(place: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !["tests", "benches", "target"].iter().any(|name| path.ends_with(name)) {
                collect(&path, files);
            }
        } else if path
            .extension()
            .is_some_and(|kind| ["rs", "md", "toml", "service"].iter().any(|one| kind == *one))
        {
            files.push(path);
        }
    }
}

/// The options in a text: two dashes, a lower-case letter, then such letters, digits and dashes; not part of a word.
fn options(text: &str) -> Vec<&str> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        if rest.starts_with("--")
            && !(before.is_alphanumeric() || before == '-' || before == '_')
            && rest[2..].starts_with(|c: char| c.is_ascii_lowercase())
        {
            let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
            found.push(rest[..end].trim_end_matches('-'));
        }
        before = c;
    }
    found
}

/// The commands in a line, each up to its end: `pathbench` and the words after it.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    let end = |rest: &str| rest.find(['`', '"', '\'', ';', '|', ')', ',']).unwrap_or(rest.len());
    line.split("pathbench ").skip(1).map(move |rest| rest[..end(rest)].split(" -- ").next().unwrap_or(rest))
}

/// The page of the command at the start of `text`: the page with the most matching words.
fn page<'a>(pages: &'a [HelpPage], text: &str) -> Option<&'a HelpPage> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let fits = |page: &&HelpPage| {
        !page.words.is_empty()
            && words.starts_with(&page.words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    pages.iter().filter(fits).max_by_key(|page| page.words.len())
}

fn every_option_that_is_named_exists() {
    let mut pages = pages();
    // The page of `collect` is the collector's.
    pages.retain(|page| page.words != ["collect"]);
    pages.extend(collector_pages());
    let known: BTreeSet<&str> = pages.iter().flat_map(|page| &page.options).map(String::as_str).collect();
    assert!(known.len() > 50 && known.contains("--transports"), "{known:?}");
    let (mut unknown, mut seen) = (Vec::new(), 0);
    for (file, text) in texts() {
        for (line, number) in text.lines().zip(1_u32..) {
            let is_foreign = |option: &str| {
                FOREIGN.iter().any(|(program, options)| options.contains(&option) && text.contains(program))
            };
            for option in options(line) {
                seen += 1;
                if !known.contains(option) && !is_foreign(option) {
                    unknown.push(format!("{}:{number}: {option}", file.display()));
                }
            }
            for command in commands(line) {
                let Some(page) = page(&pages, command) else { continue };
                let wrong = options(command).into_iter().filter(|option| !page.options.contains(*option));
                unknown.extend(wrong.map(|option| {
                    format!("{}:{number}: pathbench {} has no {option}", file.display(), page.name())
                }));
            }
        }
    }
    assert!(seen > 200, "only {seen} options are named at all");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

fn options_and_commands_are_found_in_text() {
    assert_eq!(
        options("give --path IFACE, or `--until-gone`; -- a dash, a--b, --- or ----x"),
        ["--path", "--until-gone"]
    );
    assert_eq!(options("--set path.x=1 (--json)"), ["--set", "--json"]);
    let found: Vec<&str> =
        commands("run `pathbench lab exec x -- ls --all`, then pathbench mtu --undo; done").collect();
    assert_eq!(found, ["lab exec x", "mtu --undo"]);
}
