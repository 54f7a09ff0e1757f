//! A study of `lab run` or `test`: its options, and its result, which another command can continue.

use crate::result::create_result;
use clap::Args;
use pathbench_lab::study::is_interrupted;
use pathbench_program::exit::Failure;
use pathbench_record::directory::{ResultWriter, Resumed};
use pathbench_record::document::{ResultDocument, Shard, StudyRecord, identity_differences};
use pathbench_record::statistics::FEWEST_FOR_INTERVAL;
use pathbench_record::units::Span;
use std::fs;
use std::path::{Path, PathBuf};

/// Repetitions with `--until-ci` and without `--repeat`.
const MOST_REPETITIONS: u32 = 100;

/// How a study begins, continues and ends.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StudyArgs {
    /// Repetitions before the others, which are recorded and enter no statistic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) warm_up: Option<u32>,
    /// End after the repetition at which every 95 % interval of a median lies within this range around it, e.g. 5%; from
    /// 6 repetitions on, at most --repeat [without --repeat: at most 100]
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "shard")]
    pub(crate) until_ci: Option<f64>,
    /// Begin no run that would probably end later than this time after the start of the command
    #[arg(long, value_name = "TIME")]
    pub(crate) time_limit: Option<Span>,
    /// Continue the unfinished study in this directory, or begin it there if the directory is new or empty
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub(crate) resume: Option<PathBuf>,
    /// Make only part K of N of the study, with whole repetitions; `pathbench report` joins the results of all parts
    #[arg(long, value_name = "K/N")]
    pub(crate) shard: Option<Shard>,
}

impl StudyArgs {
    /// The number of repetitions with `--until-ci` if the user gave none.
    pub(crate) fn most_repetitions(&self) -> Option<u32> {
        self.until_ci.map(|_| MOST_REPETITIONS)
    }

    /// Checks that every shard of `subject` has a repetition, and that `--until-ci` can be reached.
    pub(crate) fn validate(&self, subject: &str, repeat: u32) -> Result<(), String> {
        if let Some(shard) = self.shard.filter(|shard| shard.of > repeat) {
            return Err(format!(
                "--shard {shard}: a shard has whole repetitions, and {subject} has only {repeat}; raise --repeat, or \
                 make fewer shards"
            ));
        }
        if self.until_ci.is_some() && (repeat as usize) < FEWEST_FOR_INTERVAL {
            return Err(format!(
                "--until-ci: an interval needs {FEWEST_FOR_INTERVAL} repetitions, and {subject} has at most {repeat}; \
                 raise --repeat"
            ));
        }
        Ok(())
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    number
        .ok()
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or_else(|| "write it as a percentage above 0, e.g. 5%".to_owned())
}

/// Creates the result of the study `name` that started at `started` (RFC 3339), or with `resume` opens the one in `out`
/// if there is one.
pub(crate) fn open(out: Option<&Path>, resume: bool, name: &str, started: &str) -> Result<Resumed, Failure> {
    match out.filter(|out| resume && !is_new(out)) {
        Some(out) => ResultWriter::resume(out, |run| !is_interrupted(run)).map_err(Failure::bad_input),
        None => create_result(out, name, started).map(|writer| Resumed::Unfinished(writer, None)),
    }
}

fn is_new(directory: &Path) -> bool {
    fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

/// Checks that the study `found` in `directory` is the one of the document `now`.
pub(crate) fn check_identity(
    found: &ResultDocument,
    now: &ResultDocument,
    directory: &Path,
) -> Result<(), Failure> {
    let mut differences = identity_differences(found, now);
    let shard = |document: &ResultDocument| document.study.as_ref().and_then(|study| study.shard);
    if shard(found) != shard(now) {
        let shown = |shard: Option<Shard>| shard.map_or_else(|| "none".to_owned(), |shard| shard.to_string());
        differences.push(format!("the shard: {}, not {}", shown(shard(found)), shown(shard(now))));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Failure::bad_input(format!(
        "--resume: {} holds another study ({}); give the arguments with which it began",
        directory.display(),
        differences.join("; ")
    )))
}

/// The document of an earlier session, if there is one, for the session of `now`.
pub(crate) fn continue_result(
    found: Option<Box<ResultDocument>>,
    now: ResultDocument,
    directory: &Path,
) -> Result<ResultDocument, Failure> {
    let Some(found) = found else { return Ok(now) };
    check_identity(&found, &now, directory)?;
    let (earlier, study) = (found.study.unwrap_or_default(), now.study.unwrap_or_default());
    let sessions = [earlier.sessions, study.sessions.clone()].concat();
    Ok(ResultDocument { study: Some(StudyRecord { sessions, ..study }), ..*found })
}
