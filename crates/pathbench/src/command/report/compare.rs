//! `report --compare`, `--baseline`, `--fail-if` and `--summary`.

use crate::result::style;
use clap::Args;
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::file;
use pathbench_report::export::markdown;
use pathbench_report::{ComparedResults, FailureCondition, ResultSet, terminal};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Compare the results with the first of them
    #[arg(long, conflicts_with = "export", group = "reference")]
    compare: bool,
    /// Compare the results with the one in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "export", group = "reference")]
    baseline: Option<PathBuf>,
    /// End with exit code 8 if the whole 95 % confidence interval of a change is beyond the given one, as in
    /// `goodput_mbps < -5%` or `mptcp.stall_ms > +50`; repeatable
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true, requires = "reference")]
    fail_if: Vec<FailureCondition>,
    /// Write the comparison as Markdown into FILE (`-`: standard output, instead of the summary)
    #[arg(long, value_name = "FILE", requires = "reference")]
    summary: Option<PathBuf>,
}

impl CompareArgs {
    pub(super) fn baseline(&self) -> Option<&PathBuf> {
        self.baseline.as_ref()
    }

    pub(super) fn is_requested(&self) -> bool {
        self.compare || self.baseline.is_some()
    }

    /// The comparison, if the command makes one.
    pub(super) fn compare(&self, sets: &[ResultSet]) -> Result<Option<ComparedResults>, Failure> {
        if !self.is_requested() {
            return Ok(None);
        }
        let sets: Vec<&ResultSet> = sets.iter().collect();
        if sets.len() < 2 {
            return Err(Failure::bad_input("--compare needs two results or more: the baseline first"));
        }
        let compared =
            ComparedResults::from_sets(&sets).map(|compared| compared.judged(&sets, &self.fail_if));
        compared.transpose().map_err(|error| Failure::bad_input(format_args!("--fail-if {error}")))
    }

    /// Prints the comparison, and writes the file of `--summary`.
    pub(super) fn print(
        &self,
        compared: &ComparedResults,
        sets: &[ResultSet],
        json: bool,
    ) -> Result<(), Failure> {
        let to_output = self.summary.as_deref() == Some(Path::new("-"));
        if let Some(path) = &self.summary {
            let text = markdown::comparison(compared, sets);
            if to_output {
                output::print(&text)?;
            } else {
                file::write_named(path, text.as_bytes()).map_err(|error| {
                    Failure::failed(format_args!("cannot write {}: {error}", path.display()))
                })?;
            }
        }
        match (json, to_output) {
            (true, _) => output::print_json(compared),
            (false, true) => Ok(()),
            (false, false) => output::print(&terminal::comparison(compared, sets, style())),
        }
    }
}
