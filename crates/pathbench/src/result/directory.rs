//! Directories of results and reports: `--out`, `$PATHBENCH_OUT`, names of new directories.

use pathbench_program::exit::Failure;
use pathbench_record::directory::{ResultWriter, create_new_beside, default_directory_name, holds_result};
use pathbench_report::ResultSet;
use std::fs;
use std::path::{Path, PathBuf};

const COMPARISON: &str = "comparison";
/// Names the parent of result directories.
const PARENT_VARIABLE: &str = "PATHBENCH_OUT";
/// The parent in the current directory if the variable is not set.
const DEFAULT_PARENT: &str = "pathbench-results";

/// The directory of report.html and the figures.
pub(crate) struct ReportDirectory {
    pub(crate) path: PathBuf,
    pub(crate) is_new: bool,
}

impl ReportDirectory {
    /// The directory of `--out`, unless it belongs to another result, whose report would be overwritten.
    pub(crate) fn from_option(out: &Path, sets: &[ResultSet]) -> Result<Self, Failure> {
        let own = match sets {
            [one] => Some(one.directory.as_deref().unwrap_or(Path::new(""))),
            _ => None,
        };
        check_not_other_result(out, own)?;
        Ok(Self { path: out.to_owned(), is_new: false })
    }

    /// The directory of a single result; for several results a new directory, named by the date `now` (RFC 3339), next to
    /// other results.
    pub(crate) fn beside_results(sets: &[ResultSet], now: &str) -> Result<Self, Failure> {
        if let [ResultSet { directory: Some(directory), .. }] = sets {
            return Ok(Self { path: directory.clone(), is_new: false });
        }
        let path = default_directory(COMPARISON, now);
        let path = create_new_beside(&path).map_err(|error| {
            let problem = format!("cannot create {}: {error}", path.display());
            Failure::failed(format!("{problem}; choose another directory with --out"))
        })?;
        Ok(Self { path, is_new: true })
    }
}

/// Refuses the directory `out` of a report if it holds a result other than that in `own`.
pub(crate) fn check_not_other_result(out: &Path, own: Option<&Path>) -> Result<(), Failure> {
    let is_own =
        matches!((own.map(Path::canonicalize), out.canonicalize()), (Some(Ok(own)), Ok(out)) if own == out);
    if holds_result(out) && !is_own {
        return Err(Failure::bad_input(format!(
            "{} holds a result, whose own report would be overwritten; choose another directory with --out",
            out.display()
        )));
    }
    Ok(())
}

/// The directory that `PATHBENCH_OUT` names.
pub(crate) fn parent_of_results() -> Option<PathBuf> {
    std::env::var_os(PARENT_VARIABLE).filter(|parent| !parent.is_empty()).map(PathBuf::from)
}

/// The directory of a result or comparison without `--out`.
fn default_directory(name: &str, started: &str) -> PathBuf {
    let parent = parent_of_results().unwrap_or_else(|| DEFAULT_PARENT.into());
    default_directory_name(&parent, name, started)
}

/// Creates the directory of the command or scenario `name` that started at `started` (RFC 3339): `out`, or a new
/// directory next to other results.
pub(crate) fn create_result(out: Option<&Path>, name: &str, started: &str) -> Result<ResultWriter, Failure> {
    match out {
        Some(out) => ResultWriter::create(out),
        None => ResultWriter::create_beside(&default_directory(name, started)),
    }
    .map_err(Failure::bad_input)
}

/// Removes a result directory without a finished run.
pub(crate) fn remove_empty(directory: &Path) {
    let _never_written = fs::remove_file(directory.join("run.partial.json"));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            let _stays = fs::remove_file(entry.path());
        }
    }
    let _not_empty = fs::remove_dir(directory);
}
