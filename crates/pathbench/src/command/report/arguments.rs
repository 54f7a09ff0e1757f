//! The arguments of `report`.

use super::compare::CompareArgs;
use super::export::formats;
use clap::Args;
use pathbench_record::schema::{FILES, SEQUENCE, TRACE};
use pathbench_report::FigureFormat;
use pathbench_report::export::ExportFormat;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ReportArgs {
    /// Result directories (or their run.json), or one directory of `pathbench trace`; the shards of a study are joined to one result
    #[arg(required_unless_present = "schema", value_name = "RUN")]
    pub(super) runs: Vec<PathBuf>,
    /// Join the shards that are there, although others are missing or unfinished
    #[arg(long)]
    pub(super) partial: bool,
    #[command(flatten)]
    pub(super) compare: CompareArgs,
    /// Where report.html and the figures go [default: the directory of a single result; of several comparison-DATE in
    /// `$PATHBENCH_OUT`, else in pathbench-results; nowhere with --json]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Write the figures as PNG, too
    #[arg(long)]
    pub(super) png: bool,
    /// Print the result documents as one JSON array instead of the summary, and write no report unless --out is given
    #[arg(long)]
    pub(super) json: bool,
    /// Print only the headline, whether multipath was used, and problems
    #[arg(long, conflicts_with_all = ["json", "export", "compare"])]
    pub(super) brief: bool,
    /// Write the result as data for other programs instead of the report, to --out or to the directory `export` of the
    /// result; repeatable
    #[arg(long, value_name = "FORMAT", value_parser = formats(), conflicts_with_all = ["png", "json"])]
    pub(super) export: Vec<ExportFormat>,
    /// Print the JSON Schema of run.json, or of a line of another file, and do nothing else
    #[arg(long, value_name = "FILE", value_parser = schema_names(), exclusive = true)]
    pub(super) schema: Option<String>,
}

impl ReportArgs {
    pub(super) const fn figure_format(&self) -> FigureFormat {
        if self.png { FigureFormat::SvgAndPng } else { FigureFormat::Svg }
    }
}

fn schema_names() -> Vec<&'static str> {
    FILES.into_iter().chain([TRACE, SEQUENCE]).map(|file| file.name).collect()
}
