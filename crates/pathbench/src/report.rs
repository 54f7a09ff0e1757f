//! `report`, and what `lab run` does with a finished result.

use crate::cli::ReportArgs;
use crate::exit::{Exit, Failure};
use crate::terminal;
use clap::Args;
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::ResultDocument;
use pathbench_report::ResultSet;
use std::io::Write as _;
use std::path::Path;

pub(crate) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    let sets = args.runs.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let out = args.out.clone().or_else(|| sets.first().and_then(|set| set.directory.clone()));
    let out = out.ok_or_else(|| Failure::bad_input("give a result directory"))?;
    write(&sets, &out)?;
    if args.json {
        let documents: Vec<&ResultDocument> = sets.iter().map(|set| &set.document).collect();
        print_json(&documents)?;
    } else {
        for set in &sets {
            print!("{}", pathbench_report::terminal::summary(set, terminal::style()));
        }
        if args.out.is_some() {
            println!("{}", out.join("report.html").display());
        }
    }
    Ok(Exit::Done)
}

/// Reads a result directory whole.
pub(crate) fn open(path: &Path) -> Result<ResultSet, Failure> {
    let directory = ResultDirectory::open(path).map_err(Failure::bad_input)?;
    let (set, warnings) = ResultSet::read(directory).map_err(Failure::bad_input)?;
    for warning in warnings {
        eprintln!("pathbench: warning: {warning}");
    }
    Ok(set)
}

/// Writes report.html and the figures.
pub(crate) fn write(sets: &[ResultSet], out: &Path) -> Result<(), Failure> {
    pathbench_report::write(sets, out).map(drop).map_err(Failure::failed)
}

/// How a result that was just made is shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PresentationArgs {
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    json: bool,
    /// Write no report.html and no figures
    #[arg(long)]
    no_report: bool,
}

/// Report, and the summary or the document on standard output; nothing of a result without runs.
pub(crate) fn present(
    directory: &Path,
    document: &ResultDocument,
    PresentationArgs { json, no_report }: PresentationArgs,
) -> Result<(), Failure> {
    if document.runs.is_empty() {
        return Ok(());
    }
    let set = open(directory)?;
    if !no_report {
        write(std::slice::from_ref(&set), directory)?;
    }
    if json {
        print_json(&set.document)
    } else {
        print!("{}", pathbench_report::terminal::summary(&set, terminal::style()));
        Ok(())
    }
}

/// Prints `value` as one JSON document on standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(Failure::failed)?;
    writeln!(out).map_err(Failure::failed)
}
