//! Result directories and their reports, for `report` and for commands that have finished a measurement.

mod compare;
mod export;
mod join;
mod place;
mod trace;

use crate::exit::{Exit, Failure};
use crate::live::Live;
use crate::output;
use clap::Args;
use pathbench_host::{kernel, sysctl};
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::{HostRecord, ResultDocument};
use pathbench_record::schema::{FILES, FileSchema, SEQUENCE, TRACE};
use pathbench_report::export::ExportFormat;
use pathbench_report::{FigureFormat, ResultSet, WriteError};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use place::{create_result, parent_of_results, remove_empty};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Result directories (or their run.json), or one directory of `pathbench trace`; the shards of a study are joined to one result
    #[arg(required_unless_present = "schema", value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Join the shards that are there, although others are missing or unfinished
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    compare: compare::CompareArgs,
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
    /// Write the result as data for other programs instead of the report, to --out or to the directory `export` of the
    /// result; repeatable
    #[arg(long, value_name = "FORMAT", value_parser = export::formats(), conflicts_with_all = ["png", "json"])]
    export: Vec<ExportFormat>,
    /// Print the JSON Schema of run.json, or of a line of another file, and do nothing else
    #[arg(long, value_name = "FILE", value_parser = schema_names(), exclusive = true)]
    schema: Option<String>,
}

fn schema_names() -> Vec<&'static str> {
    FILES.into_iter().chain([TRACE, SEQUENCE]).map(|file| file.name).collect()
}

pub(crate) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    if let Some(file) = args.schema.as_deref().and_then(FileSchema::named) {
        output::print_json(&file.schema())?;
        return Ok(Exit::Done);
    }
    if let Some(done) = trace::report(args)? {
        return Ok(done);
    }
    let paths = args.compare.baseline().into_iter().chain(&args.runs);
    let mut sets = paths.map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let mut out = args.out.as_deref();
    if !args.compare.is_requested() && sets.iter().any(join::is_shard) && (sets.len() > 1 || args.partial) {
        // The joined result is in --out, and so is its report.
        sets = vec![join::joined(sets, out.take(), args.partial)?];
    }
    if !args.export.is_empty() {
        export::export(&sets, &args.export, out)?;
        return Ok(Exit::Done);
    }
    // Before anything is written.
    let compared = args.compare.compared(&sets)?;
    let place = match (out, args.json) {
        (Some(out), _) => Some(place::chosen(out, &sets)?),
        (None, true) => None,
        (None, false) => Some(place::own_place(&sets)?),
    };
    if let Some(place) = &place {
        write_as(&sets, &place.directory, figure_format(args)).inspect_err(|_| {
            if place.is_new {
                // The incomplete report.
                let _stays = fs::remove_dir_all(&place.directory);
            }
        })?;
    }
    if let Some(compared) = &compared {
        args.compare.print(compared, &sets, args.json)?;
        if let Some(place) = place.filter(|_| !args.json) {
            output::note(format_args!("{}", place.directory.join("report.html").display()));
        }
        return Ok(if compared.is_failed() { Exit::ConditionHolds } else { Exit::Done });
    }
    if args.json {
        let documents: Vec<&ResultDocument> = sets.iter().map(|set| &set.document).collect();
        output::print_json(&documents)?;
    } else {
        let mut parts = sets.iter().map(summary).collect::<Result<Vec<String>, Failure>>()?;
        // The summary names a result's own report.
        if let Some(place) = place.filter(|place| out.is_some() || place.is_new) {
            parts.push(format!("{}\n", place.directory.join("report.html").display()));
        }
        output::print(&parts.concat())?;
    }
    Ok(Exit::Done)
}

pub(crate) fn open(path: &Path) -> Result<ResultSet, Failure> {
    let directory = ResultDirectory::open(path).map_err(Failure::bad_input)?;
    let (set, warnings) = ResultSet::read(directory).map_err(Failure::bad_input)?;
    for warning in warnings {
        output::note(format_args!("pathbench: warning: {warning}"));
    }
    Ok(set)
}

fn summary(set: &ResultSet) -> Result<String, Failure> {
    let text = pathbench_report::terminal::summary(set, output::style());
    set.lines.failure().map_or(Ok(text), |error| Err(Failure::bad_input(error)))
}

pub(crate) fn write(sets: &[ResultSet], out: &Path) -> Result<(), Failure> {
    write_as(sets, out, FigureFormat::Svg)
}

fn write_as(sets: &[ResultSet], out: &Path, format: FigureFormat) -> Result<(), Failure> {
    pathbench_report::write(sets, out, format).map(drop).map_err(failure_of)
}

fn failure_of(error: WriteError) -> Failure {
    // Which errors there are depends on the features.
    if matches!(error, WriteError::NoRasteriser) {
        Failure::host_cannot(error)
    } else if matches!(error, WriteError::Lines(_)) {
        Failure::bad_input(error)
    } else {
        Failure::failed(error)
    }
}

const fn figure_format(args: &ReportArgs) -> FigureFormat {
    if args.png { FigureFormat::SvgAndPng } else { FigureFormat::Svg }
}

/// What standard output gets at the end of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presentation {
    Summary,
    Json,
    /// Standard output holds live records.
    Nothing,
}

impl Presentation {
    pub(crate) const fn of(json: bool, live: &Live) -> Self {
        match (json, live.has_standard_output()) {
            (_, true) => Self::Nothing,
            (true, false) => Self::Json,
            (false, false) => Self::Summary,
        }
    }
}

/// Writes the report of a finished result, and prints its summary or its JSON document.
pub(crate) fn present(directory: &Path, what: Presentation, no_report: bool) -> Result<(), Failure> {
    let set = open(directory)?;
    if !no_report {
        write(std::slice::from_ref(&set), directory)?;
    }
    match what {
        Presentation::Summary => output::print(&summary(&set)?),
        Presentation::Json => output::print_json(&set.document),
        Presentation::Nothing => Ok(()),
    }
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
