//! The report and the summary of a finished result.

use crate::live::LiveOutput;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::directory::ResultDirectory;
use pathbench_report::terminal::Style;
use pathbench_report::{FigureFormat, ReportWriteError, ResultSet};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Width without a terminal.
const DEFAULT_WIDTH: usize = 100;

/// The style of text on standard output.
pub(crate) fn style() -> Style {
    Style {
        colour: output::stdout_is_terminal() && output::wants_colour(),
        width: output::columns().unwrap_or(DEFAULT_WIDTH),
    }
}

/// The last line of a summary: the report in `directory`.
pub(crate) fn report_line(directory: &Path) -> String {
    format!("\nReport   {}\n", directory.join("report.html").display())
}

pub(crate) fn open(path: &Path) -> Result<ResultSet, Failure> {
    let directory = ResultDirectory::open(path).map_err(Failure::bad_input)?;
    let (set, warnings) = ResultSet::read(directory).map_err(Failure::bad_input)?;
    for warning in warnings {
        output::note(format_args!("pathbench: warning: {warning}"));
    }
    Ok(set)
}

pub(crate) fn summary(set: &ResultSet, is_brief: bool) -> Result<String, Failure> {
    let write =
        if is_brief { pathbench_report::terminal::brief } else { pathbench_report::terminal::summary };
    let text = write(set, style());
    set.lines.failure().map_or(Ok(text), |error| Err(Failure::bad_input(error)))
}

pub(crate) fn write(sets: &[ResultSet], out: &Path, format: FigureFormat) -> Result<(), Failure> {
    pathbench_report::write(sets, out, format).map(drop).map_err(failure_from_write)
}

pub(crate) fn failure_from_write(error: ReportWriteError) -> Failure {
    // Which errors there are depends on the features.
    if matches!(error, ReportWriteError::NoRasteriser) {
        Failure::host_cannot(error)
    } else if matches!(error, ReportWriteError::Lines(_)) {
        Failure::bad_input(error)
    } else {
        Failure::failed(error)
    }
}

/// The output on standard output at the end of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Presentation {
    Summary,
    Brief,
    Json,
    /// Standard output holds live records.
    Nothing,
}

impl Presentation {
    pub(crate) const fn from_flags(json: bool, brief: bool) -> Self {
        match (json, brief) {
            (true, _) => Self::Json,
            (false, true) => Self::Brief,
            (false, false) => Self::Summary,
        }
    }

    pub(crate) const fn unless_live(self, live: &LiveOutput) -> Self {
        if live.has_standard_output() { Self::Nothing } else { self }
    }
}

/// Writes the report of a finished result, and prints its summary or its JSON document.
pub(crate) fn present(directory: &Path, what: Presentation, no_report: bool) -> Result<(), Failure> {
    let set = open(directory)?;
    let written =
        if no_report { Ok(()) } else { write(std::slice::from_ref(&set), directory, FigureFormat::Svg) };
    present_written(written, || match what {
        Presentation::Summary => output::print(&summary(&set, false)?),
        Presentation::Brief => output::print(&summary(&set, true)?),
        Presentation::Json => output::print_json(&set.document),
        Presentation::Nothing => Ok(()),
    })
}

/// Prints the result also if its report was not written because a file could not be, as on a full disk. The command
/// fails then.
pub(crate) fn present_written(
    written: Result<(), Failure>,
    print: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    if written.as_ref().is_err_and(|failure| failure.exit != Exit::Failed) {
        return written;
    }
    print().and(written)
}
