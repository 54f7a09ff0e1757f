//! Result directories and their reports, for `report` and for commands that have finished a measurement.

use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::output;
use clap::Args;
use pathbench_host::{kernel, sysctl};
use pathbench_record::directory::{
    ResultDirectory, ResultWriter, create_new_beside, default_directory_name, holds_result,
};
use pathbench_record::document::{HostRecord, ResultDocument};
use pathbench_record::time::rfc3339_from_unix;
use pathbench_report::{FigureFormat, ResultSet, WriteError};
use std::fs;
use std::path::{Path, PathBuf};

const COMPARISON: &str = "comparison";
/// Names the parent of result directories.
const PARENT_VARIABLE: &str = "PATHBENCH_OUT";
/// The parent in the current directory if the variable is not set.
const DEFAULT_PARENT: &str = "pathbench-results";

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Result directories (or their run.json)
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where report.html and the figures go [default: the directory of a single result; of several comparison-DATE in
    /// `$PATHBENCH_OUT`, else in pathbench-results; nowhere with --json]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the figures as PNG, too
    #[arg(long)]
    png: bool,
    /// Print the result documents as one JSON array instead of the summary, and write no report unless --out is given
    #[arg(long)]
    json: bool,
}

pub(crate) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    let sets = args.runs.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let place = match (&args.out, args.json) {
        (Some(out), _) => Some(chosen(out, &sets)?),
        (None, true) => None,
        (None, false) => Some(own_place(&sets)?),
    };
    if let Some(place) = &place {
        let format = if args.png { FigureFormat::SvgAndPng } else { FigureFormat::Svg };
        write_as(&sets, &place.directory, format).inspect_err(|_| {
            if place.is_new {
                // The incomplete report.
                let _stays = fs::remove_dir_all(&place.directory);
            }
        })?;
    }
    if args.json {
        let documents: Vec<&ResultDocument> = sets.iter().map(|set| &set.document).collect();
        output::print_json(&documents)?;
    } else {
        let summaries = sets.iter().map(|set| pathbench_report::terminal::summary(set, output::style()));
        let mut parts: Vec<String> = summaries.collect();
        // The summary names a result's own report.
        if let Some(place) = place.filter(|place| args.out.is_some() || place.is_new) {
            parts.push(format!("{}\n", place.directory.join("report.html").display()));
        }
        output::print(&parts.concat())?;
    }
    Ok(Exit::Done)
}

/// Where report.html and the figures go.
struct Place {
    directory: PathBuf,
    is_new: bool,
}

/// The directory of `--out`, unless it belongs to another result, whose report would be overwritten.
fn chosen(out: &Path, sets: &[ResultSet]) -> Result<Place, Failure> {
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
fn own_place(sets: &[ResultSet]) -> Result<Place, Failure> {
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

pub(crate) fn open(path: &Path) -> Result<ResultSet, Failure> {
    let directory = ResultDirectory::open(path).map_err(Failure::bad_input)?;
    let (set, warnings) = ResultSet::read(directory).map_err(Failure::bad_input)?;
    for warning in warnings {
        output::note(format_args!("pathbench: warning: {warning}"));
    }
    Ok(set)
}

pub(crate) fn write(sets: &[ResultSet], out: &Path) -> Result<(), Failure> {
    write_as(sets, out, FigureFormat::Svg)
}

fn write_as(sets: &[ResultSet], out: &Path, format: FigureFormat) -> Result<(), Failure> {
    pathbench_report::write(sets, out, format).map(drop).map_err(|error| {
        let host_cannot = matches!(error, WriteError::NoRasteriser);
        if host_cannot { Failure::host_cannot(error) } else { Failure::failed(error) }
    })
}

/// Writes the report of a finished result, and prints its summary or its JSON document.
pub(crate) fn present(directory: &Path, json: bool, no_report: bool) -> Result<(), Failure> {
    let set = open(directory)?;
    if !no_report {
        write(std::slice::from_ref(&set), directory)?;
    }
    if json {
        output::print_json(&set.document)
    } else {
        output::print(&pathbench_report::terminal::summary(&set, output::style()))
    }
}

/// The directory that `PATHBENCH_OUT` names.
pub(crate) fn parent_of_results() -> Option<PathBuf> {
    std::env::var_os(PARENT_VARIABLE).filter(|parent| !parent.is_empty()).map(PathBuf::from)
}

/// The directory of a result or comparison without `--out`.
pub(crate) fn default_directory(name: &str, started: &str) -> PathBuf {
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

/// The record of this machine; `privilege` is the command's.
pub(crate) fn host_record(privilege: &str, started: String) -> HostRecord {
    HostRecord {
        kernel: kernel::release().text,
        machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
        cpus: kernel::cpu_count() as u32,
        memory_bytes: kernel::memory_bytes(),
        pathbench: env!("CARGO_PKG_VERSION").to_owned(),
        privilege: privilege.to_owned(),
        started,
        default_congestion: sysctl::read("net.ipv4.tcp_congestion_control").unwrap_or_default(),
        processors_awake: false,
    }
}

/// Removes a result directory that has only empty files.
pub(crate) fn remove_empty(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            let _stays = fs::remove_file(entry.path());
        }
    }
    let _not_empty = fs::remove_dir(directory);
}
