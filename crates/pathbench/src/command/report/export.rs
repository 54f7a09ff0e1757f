//! `report --export`: results in formats of other programs.

use crate::result::ReportDirectory;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_report::ResultSet;
use pathbench_report::export::{self, ExportFormat, ResultExportError};
use std::path::Path;

/// The subdirectory of a result, or of a comparison, for its exports.
pub(super) const DIRECTORY: &str = "export";

pub(super) fn formats() -> impl TypedValueParser<Value = ExportFormat> {
    PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name)).try_map(|name| {
        let known = ExportFormat::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or("unknown format")
    })
}

/// Writes `sets` in each of `formats`, and prints the files' names.
pub(super) fn export(
    sets: &[ResultSet],
    formats: &[ExportFormat],
    out: Option<&Path>,
    now: &str,
) -> Result<(), Failure> {
    let directory = match out {
        Some(out) => ReportDirectory::from_option(out, sets)?.path,
        None => ReportDirectory::beside_results(sets, now)?.path.join(DIRECTORY),
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
