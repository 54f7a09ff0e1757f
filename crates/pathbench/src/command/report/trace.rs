//! `report` of a directory that `pathbench trace --out` wrote.

use super::arguments::ReportArgs;
use super::export::export_directory;
use crate::result::{check_not_other_result, failure_from_write, present_written, report_line, style};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::directory::{TRACE_FILE, read_sequences, read_trace};
use pathbench_record::file::OpenDirectory;
use pathbench_report::export::{ExportFormat, write_trace};
use pathbench_report::{terminal, trace};
use std::path::Path;

/// Reports the analysis of captures; `None` if the arguments name results of measurements.
pub(super) fn report(args: &ReportArgs) -> Result<Option<Exit>, Failure> {
    let Some(path) = args.runs.iter().find(|path| holds_trace(path)) else { return Ok(None) };
    if args.runs.len() > 1 || args.compare.is_requested() {
        return Err(Failure::bad_input(format!(
            "{} is an analysis of captures, which cannot be compared; report it alone, or analyse the captures together",
            path.display()
        )));
    }
    let document = read_trace(path).map_err(Failure::bad_input)?;
    let own = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    if let Some(out) = &args.out {
        check_not_other_result(out, Some(own))?;
    }
    if !args.export.is_empty() {
        let directory = export_directory(args.out.as_deref(), own)?;
        return export(&document, &args.export, &directory).map(Some);
    }
    let target = args.out.as_deref().or((!args.json).then_some(own));
    let mut written = Ok(());
    if let Some(target) = target {
        let (lines, warning) = read_sequences(own).map_err(Failure::bad_input)?;
        if let Some(warning) = warning {
            output::note(format_args!("pathbench: warning: {warning}"));
        }
        written = trace::write(&document, &lines, target, args.figure_format()).map(drop);
    }
    let report = target.filter(|_| written.is_ok()).map(report_line);
    present_written(written.map_err(failure_from_write), || {
        if args.json {
            return output::print_json(&document);
        }
        let mut text = terminal::trace(&document, style());
        text.extend(report);
        output::print(&text)
    })?;
    Ok(Some(Exit::Done))
}

fn holds_trace(path: &Path) -> bool {
    if path.is_dir() {
        path.join(TRACE_FILE).symlink_metadata().is_ok() && path.join("run.json").symlink_metadata().is_err()
    } else {
        path.file_name().is_some_and(|name| name == TRACE_FILE)
    }
}

fn export(
    document: &pathbench_record::trace::TraceDocument,
    formats: &[ExportFormat],
    directory: &OpenDirectory,
) -> Result<Exit, Failure> {
    if let Some(format) = formats.iter().find(|one| !matches!(one, ExportFormat::Csv | ExportFormat::Parquet))
    {
        let name = format.name();
        return Err(Failure::bad_input(format!(
            "an analysis of captures has tables only, and no {name}; use --export csv or --export parquet"
        )));
    }
    let mut text = String::new();
    for format in formats {
        let files = write_trace(document, *format, directory).map_err(Failure::failed)?;
        text.extend(files.iter().map(|file| format!("{}\n", file.display())));
    }
    output::print(&text)?;
    Ok(Exit::Done)
}
