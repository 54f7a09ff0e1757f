//! Places of results and reports: `--out`, `$PATHBENCH_OUT`, names of new directories.

use crate::clock::unix_seconds;
use crate::exit::Failure;
use pathbench_record::directory::{ResultWriter, create_new_beside, default_directory_name, holds_result};
use pathbench_record::time::rfc3339_from_unix;
use pathbench_report::ResultSet;
use std::fs;
use std::path::{Path, PathBuf};

const COMPARISON: &str = "comparison";
/// Names the parent of result directories.
const PARENT_VARIABLE: &str = "PATHBENCH_OUT";
/// The parent in the current directory if the variable is not set.
const DEFAULT_PARENT: &str = "pathbench-results";

/// Where report.html and the figures go.
pub(super) struct Place {
    pub(super) directory: PathBuf,
    pub(super) is_new: bool,
}

/// The directory of `--out`, unless it belongs to another result, whose report would be overwritten.
pub(super) fn chosen(out: &Path, sets: &[ResultSet]) -> Result<Place, Failure> {
    let same = |set: &ResultSet| {
        let own = set.directory.as_deref().unwrap_or(Path::new("")).canonicalize();
        matches!((own, out.canonicalize()), (Ok(own), Ok(out)) if own == out)
    };
    if holds_result(out) && !matches!(sets, [one] if same(one)) {
        return Err(Failure::bad_input(format!(
            "{} holds a result, whose own report would be overwritten; choose another directory with --out",
            out.display()
        )));
    }
    Ok(Place { directory: out.to_owned(), is_new: false })
}

/// The directory of a single result; for several results a new directory next to other results.
pub(super) fn own_place(sets: &[ResultSet]) -> Result<Place, Failure> {
    if let [ResultSet { directory: Some(directory), .. }] = sets {
        return Ok(Place { directory: directory.clone(), is_new: false });
    }
    let now = rfc3339_from_unix(unix_seconds() as i64);
    let directory = default_directory(COMPARISON, &now);
    let directory = create_new_beside(&directory).map_err(|error| {
        let problem = format!("cannot create {}: {error}", directory.display());
        Failure::failed(format!("{problem}; choose another directory with --out"))
    })?;
    Ok(Place { directory, is_new: true })
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
