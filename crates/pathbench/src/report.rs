//! `report`, and the report of a result that a command has just finished.

use crate::cli::ReportArgs;
use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::session::default_directory;
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::directory::{ResultDirectory, create_new_beside, holds_result};
use pathbench_record::document::ResultDocument;
use pathbench_report::{FigureFormat, ResultSet, WriteError};
use std::path::{Path, PathBuf};

const COMPARISON: &str = "comparison";

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
                // The report that was begun.
                let _stays = std::fs::remove_dir_all(&place.directory);
            }
        })?;
    }
    if args.json {
        let documents: Vec<&ResultDocument> = sets.iter().map(|set| &set.document).collect();
        output::print_json(&documents)?;
    } else {
        let summaries = sets.iter().map(|set| pathbench_report::terminal::summary(set, output::style()));
        let mut parts: Vec<String> = summaries.collect();
        // A result's own report is named by its summary.
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

/// The directory of `--out`, where that is not the place of another result, whose report would be overwritten.
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

/// The directory of a single result; for several a new one beside other results.
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

/// Writes the report of a finished result, and prints its summary or its document.
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
