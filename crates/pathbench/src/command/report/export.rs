//! `report --export`: results in formats of other programs.

use crate::result::ReportDirectory;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::file::OpenDirectory;
use pathbench_report::ResultSet;
use pathbench_report::export::{self, ExportFormat, ResultExportError};
use std::path::Path;

/// The subdirectory of a result, or of a comparison, for its exports.
const DIRECTORY: &str = "export";

pub(super) fn formats() -> impl TypedValueParser<Value = ExportFormat> {
    PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name)).try_map(|name| {
        let known = ExportFormat::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or("unknown format")
    })
}

/// Creates the directory of the exports: `out`, or the subdirectory of the result `own`, which is no symbolic link.
pub(super) fn export_directory(out: Option<&Path>, own: &Path) -> Result<OpenDirectory, Failure> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| Failure::failed(format!("cannot create {path}: {error}"))
    };
    match out {
        Some(out) => OpenDirectory::create(out).map_err(failed(out)),
        None => OpenDirectory::open(own)
            .and_then(|own| own.subdirectory(DIRECTORY))
            .map_err(failed(&own.join(DIRECTORY))),
    }
}

/// Writes `sets` in each of `formats`, and prints the files' names.
pub(super) fn export(
    sets: &[ResultSet],
    formats: &[ExportFormat],
    out: Option<&Path>,
    now: &str,
) -> Result<(), Failure> {
    let directory = match out {
        Some(out) => export_directory(Some(&ReportDirectory::from_option(out, sets)?.path), out)?,
        None => export_directory(None, &ReportDirectory::beside_results(sets, now)?.path)?,
    };
    let mut text = String::new();
    for format in formats {
        let files = export::write(sets, *format, &directory).map_err(|error| match error {
            ResultExportError::Value { .. } | ResultExportError::Lines(_) => Failure::bad_input(error),
            _ => Failure::failed(error),
        })?;
        text.extend(files.iter().map(|file| format!("{}\n", file.display())));
    }
    output::print(&text)
}
