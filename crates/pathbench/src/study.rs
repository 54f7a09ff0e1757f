//! A study of `lab run` or `test`: its options, and its result, which another command can continue.

use crate::result::create_result;
use clap::Args;
use pathbench_lab::study::is_interrupted;
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::directory::{ResultWriter, Resumed};
use pathbench_record::document::{
    DEFAULT_RETRIES, ResultDocument, Shard, StopReason, StudyRecord, identity_differences,
};
use pathbench_record::statistics::FEWEST_FOR_INTERVAL;
use pathbench_record::units::Span;
use pathbench_report::command::quote;
use std::collections::BTreeSet;
use std::ffi::OsString;
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
    /// Repeat a run that is not valid up to N times, at the end of its repetition; all attempts stay in the result
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RETRIES, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retry_invalid: u32,
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

/// Options whose value is not shown: what a command prints is kept in logs.
const SECRET: [&str; 2] = ["--token", "--collector-token"];
/// Options that `--resume` replaces.
const REPLACED: [&str; 2] = ["--out", "--resume"];

/// The command that continues the study in `directory`, quoted for a POSIX shell, from the command line that began it;
/// without values of secret options, which a remark names. `None` if the shell cannot be given the arguments as text.
pub(crate) fn resume_command(command: &[OsString], directory: &Path) -> Option<String> {
    let mut arguments = command.iter().map(|argument| argument.to_str().map(str::to_owned));
    let program = arguments.next()??;
    // The program that a process of its own kind has started.
    let program = if program.starts_with("/proc/") { "pathbench".to_owned() } else { program };
    let (mut kept, mut rest, mut omitted) = (vec![program], Vec::new(), BTreeSet::new());
    while let Some(argument) = arguments.next() {
        let argument = argument?;
        if argument == "--" {
            rest.push(argument);
            rest.extend(arguments.by_ref().collect::<Option<Vec<_>>>()?);
            break;
        }
        let (name, value) =
            argument.split_once('=').map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        let secret = SECRET.iter().find(|secret| **secret == name);
        omitted.extend(secret);
        if secret.is_some() || REPLACED.contains(&name) {
            if value.is_none() {
                arguments.next();
            }
            continue;
        }
        kept.push(argument);
    }
    kept.push(format!("--resume={}", directory.to_str()?));
    let line = quote(&[kept, rest].concat())?;
    let omitted: Vec<&str> = omitted.into_iter().copied().collect();
    Some(if omitted.is_empty() { line } else { format!("{line}    # and {}", omitted.join(" and ")) })
}

/// Prints how the study of `document` is continued; false if it has no further runs to make.
pub(crate) fn note_resumption(document: &ResultDocument, command: &[OsString], directory: &Path) -> bool {
    let stopped = document.study.as_ref().and_then(|study| study.stopped);
    if !stopped.is_some_and(StopReason::is_resumable) {
        return false;
    }
    match resume_command(command, directory) {
        Some(line) => output::note(format_args!("continue with:\n  {line}")),
        None => output::note(format_args!(
            "continue with the same command line and --resume {} instead of --out",
            directory.display()
        )),
    }
    true
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;
    use std::process::Command;

    fn command(arguments: &[&str]) -> Vec<OsString> {
        arguments.iter().map(OsString::from).collect()
    }

    /// The words into which a shell divides the command.
    fn words(line: &str) -> Vec<String> {
        let script = format!("printf '%s\\0' {line}");
        let shown = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(shown.status.success(), "{line}: {shown:?}");
        let text = String::from_utf8(shown.stdout).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_that_resumes_has_the_arguments_of_the_first() {
        for (given, expected) in [
            (&["pathbench", "lab", "run", "hello"][..], &["pathbench", "lab", "run", "hello"][..]),
            (
                &[
                    "./pathbench",
                    "lab",
                    "run",
                    "my lab's.toml",
                    "--out",
                    "old",
                    "--set",
                    "description=a $(b) `c` \"d\"",
                ],
                &["./pathbench", "lab", "run", "my lab's.toml", "--set", "description=a $(b) `c` \"d\""],
            ),
            (&["p", "lab", "run", "x", "--out=old", "--resume=old"], &["p", "lab", "run", "x"]),
            (&["/proc/self/exe", "test", "s", "--resume", "--out"], &["pathbench", "test", "s"]),
            (&["p", "test", "", "*", "~", "!x"], &["p", "test", "", "*", "~", "!x"]),
        ] {
            for directory in ["results/a b", "-x", "it's $HOME"] {
                let line = resume_command(&command(given), Path::new(directory)).unwrap();
                let resume = format!("--resume={directory}");
                assert_eq!(words(&line), [expected, &[&resume]].concat(), "{line}");
            }
        }
        let given = command(&["p", "lab", "run", "--repeat", "3", "--", "--out", "-x.toml"]);
        let line = resume_command(&given, Path::new("d")).unwrap();
        assert_eq!(line, "p lab run --repeat 3 --resume=d -- --out -x.toml");
    }

    #[test]
    fn secrets_are_named_and_not_shown() {
        let given = command(&["p", "test", "s", "--token", "geheim", "--collector-token=geheim", "--tls"]);
        let line = resume_command(&given, Path::new("d")).unwrap();
        assert_eq!(line, "p test s --tls --resume=d    # and --collector-token and --token");
        assert_eq!(words(&line), ["p", "test", "s", "--tls", "--resume=d"]);
    }

    #[test]
    fn arguments_that_cannot_be_shown_have_no_command() {
        for argument in
            [OsString::from_vec(vec![b'x', 0xff]), OsString::from("a\u{202e}b"), OsString::from("a\nb")]
        {
            let given = [command(&["p", "lab", "run"]), vec![argument]].concat();
            assert_eq!(resume_command(&given, Path::new("d")), None, "{given:?}");
        }
    }
}
