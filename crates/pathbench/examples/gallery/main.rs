//! Writes docs/gallery.md: runs every shipped scenario by `pathbench lab run`, keeps the figure that `table.rs` names,
//! and fills the figures of the result into the scenario's sentence.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its progress")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod page;
mod table;

use clap::Parser;
use pathbench_record::document::ResultDocument;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use table::{Entry, entries};

/// Runs of a scenario with an invalid run or a failed expectation: the first and two more.
const ATTEMPTS: u32 = 3;

#[derive(Debug, Parser)]
#[command(about = "Runs every shipped scenario and writes docs/gallery.md")]
struct Arguments {
    /// Make the entry of this scenario only; repeatable
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Repetitions of each scenario, instead of those of the table
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Where the results go; a scenario whose result is there is not run again
    #[arg(long, value_name = "DIR", default_value = "target/gallery")]
    results: PathBuf,
}

fn main() -> ExitCode {
    match made(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gallery: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every requested entry was made.
fn made(arguments: &Arguments) -> Result<bool, String> {
    if let Some(unknown) = arguments.only.iter().find(|name| entries().all(|entry| entry.scenario != **name))
    {
        return Err(format!("no entry for `{unknown}`; `pathbench lab list` prints the shipped scenarios"));
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = checkout.join("docs");
    let images = docs.join("img/gallery");
    create(&images)?;
    create(&arguments.results)?;
    let gallery = Gallery { pathbench: built(&checkout)?, images, results: arguments.results.clone() };
    let file = docs.join("gallery.md");
    let mut blocks = page::blocks(&fs::read_to_string(&file).unwrap_or_default());
    let mut all = true;
    for entry in entries().filter(|entry| arguments.only.is_empty() || is_named(entry, arguments)) {
        match gallery.made(entry, arguments.repeat) {
            Ok(block) => {
                blocks.insert(entry.scenario.to_owned(), block);
                fs::write(&file, page::page(&blocks)).map_err(|error| at(&file, &error))?;
            }
            Err(error) => {
                eprintln!("gallery: {}: {error}", entry.scenario);
                all = false;
            }
        }
    }
    Ok(all)
}

fn is_named(entry: &Entry, arguments: &Arguments) -> bool {
    arguments.only.iter().any(|name| name == entry.scenario)
}

fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| at(directory, &error))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The program, built beside this one: cargo builds no program for an example.
fn built(checkout: &Path) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let directory = own.parent().and_then(Path::parent).ok_or("this program has no directory")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(checkout).args(["build", "--locked", "--package", "pathbench"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err("cargo cannot build pathbench".to_owned());
    }
    Ok(directory.join("pathbench"))
}

struct Gallery {
    pathbench: PathBuf,
    images: PathBuf,
    results: PathBuf,
}

impl Gallery {
    /// Runs the scenario of `entry`, copies its figure and returns its block of the page.
    fn made(&self, entry: &Entry, repeat: Option<u32>) -> Result<String, String> {
        let options = entry.options(repeat);
        let result = self.results.join(entry.scenario);
        if !result.join("run.json").exists() {
            self.measured(entry, &options, &result)?;
        }
        let document = acceptable(&result)?;
        // By today's report, for a result of an earlier version as well.
        self.run(&["report".into(), result.clone().into_os_string()])?;
        let figure = result.join(format!("{}.svg", entry.figure));
        let image = self.images.join(format!("{}.svg", entry.scenario));
        fs::copy(&figure, &image).map_err(|error| at(&figure, &error))?;
        page::block(entry, &options, &document)
    }

    /// Runs the scenario until a result is acceptable, and moves that result to `place`.
    fn measured(&self, entry: &Entry, options: &[String], place: &Path) -> Result<(), String> {
        let mut problem = String::new();
        for attempt in 1..=ATTEMPTS {
            println!("{}: attempt {attempt} of {ATTEMPTS}", entry.scenario);
            let out = self.results.join(format!("{}-{attempt}", entry.scenario));
            if out.exists() {
                fs::remove_dir_all(&out).map_err(|error| at(&out, &error))?;
            }
            let mut arguments = ["lab", "run", entry.scenario, "--out"].map(Into::into).to_vec();
            arguments.push(out.clone().into_os_string());
            arguments.extend(options.iter().map(Into::into));
            match self.run(&arguments).and_then(|()| acceptable(&out)) {
                Ok(_) => return fs::rename(&out, place).map_err(|error| at(place, &error)),
                Err(error) => problem = error,
            }
            eprintln!("gallery: {}: {problem}", entry.scenario);
        }
        Err(format!("no acceptable result in {ATTEMPTS} attempts: {problem}"))
    }

    /// Runs `pathbench` with `arguments`; exit code 0 includes that all expectations held.
    fn run(&self, arguments: &[std::ffi::OsString]) -> Result<(), String> {
        let mut command = Command::new(&self.pathbench);
        let status = command.args(arguments).stdout(Stdio::null()).status();
        let status = status.map_err(|error| at(&self.pathbench, &error))?;
        if status.success() { Ok(()) } else { Err(format!("pathbench ended with {status}")) }
    }
}

/// The document of a result whose runs are all valid and whose expectations all hold.
fn acceptable(result: &Path) -> Result<ResultDocument, String> {
    let file = result.join("run.json");
    let text = fs::read(&file).map_err(|error| at(&file, &error))?;
    let document: ResultDocument =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    if let Some(run) = document.runs.iter().find(|run| !run.valid) {
        return Err(format!("run {} is not valid: {}", run.id, run.invalid_because.join("; ")));
    }
    match document.summary.expectations.iter().find(|expectation| !expectation.held) {
        Some(failed) => Err(format!("the expectation {} {} did not hold", failed.key, failed.expected)),
        None if document.runs.is_empty() => Err("the result has no run".to_owned()),
        None => Ok(document),
    }
}
