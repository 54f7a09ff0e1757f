//! Documents and directories of results, for `report` and for commands that have finished a measurement.

mod directory;
mod host;
mod presentation;

pub(crate) use directory::{
    ReportDirectory, check_not_other_result, create_result, parent_of_results, remove_empty,
};
pub(crate) use host::host_record;
pub(crate) use presentation::{
    Presentation, failure_from_write, open, present, present_written, report_line, style, summary, write,
};
