//! The lab's orchestrator: PID 1 of the lab's PID namespace. When it ends, the kernel kills all processes of the lab.

use crate::command::lab::{Job, LabAssignment, StudyCourse, submitted};
use crate::live::{self, LiveOutput};
use crate::progress::{ProgressDisplay, StudyDisplay};
use crate::result::{self, host_record, remove_empty};
use crate::study;
use pathbench_host::namespace::set_parent_death_signal_kill;
use pathbench_lab::agent::AgentLauncher;
use pathbench_lab::channel;
use pathbench_lab::scenario::ScenarioPlan;
use pathbench_lab::study::{StudyError, StudyMember, StudyOptions, conduct, first_document, run_ids};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::signals;
use pathbench_record::directory::{ResultDirectory, ResultWriter, Resumed};
use pathbench_record::document::{Expectation, HostRecord, ResultDocument, RunRecord};
use pathbench_record::time::{Clock, SharedClock, WallClock};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) mod keep;

pub(crate) fn orchestrate(clock: &SharedClock) -> Result<Exit, Failure> {
    // Both the parent-death signal and the close of the socket report the end of the foreground command.
    set_parent_death_signal_kill().map_err(Failure::failed)?;
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?);
    let assignment: LabAssignment = channel::receive(&control).map_err(|error| {
        Failure::failed(format!("this command is started by `pathbench lab run`: {error}"))
    })?;
    end_with(control);
    let stop = signals::stop_flag(live::restore_terminal);
    let live = LiveOutput::begin(assignment.live, &stop, clock);
    let ended = run_all(assignment, &stop, &live, clock);
    live.end(ended, Vec::new())
}

/// One scenario of the study with its result.
struct Scenario {
    plan: ScenarioPlan,
    /// `None` if all of its runs were made earlier.
    writer: Option<ResultWriter>,
    directory: PathBuf,
    document: ResultDocument,
}

fn run_all(
    mut assignment: LabAssignment,
    stop: &Arc<AtomicBool>,
    live: &LiveOutput,
    clock: &SharedClock,
) -> Result<Exit, Failure> {
    let started = clock.rfc3339();
    let jobs = std::mem::take(&mut assignment.jobs);
    let course = &assignment.study;
    let options = StudyOptions {
        launcher: launcher(),
        calibrate: assignment.calibrate,
        jobs: assignment.side_by_side,
        shard: course.shard,
        until_ci_percent: course.until_ci_percent,
        time_limit: course.time_limit,
        retry_invalid: course.retry_invalid,
        capture: assignment.capture,
        wall_offset_ns: clock.wall_offset_ns(),
        host: HostRecord {
            processors_awake: assignment.processors_awake,
            ..host_record(&assignment.privilege, started)
        },
        stop: Arc::clone(stop),
    };
    let prepare = |job| prepare(job, course.resume, &options);
    let mut scenarios = jobs.into_iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
    make_runs(&mut scenarios, &options, &assignment, live, clock)?;
    let mut exit = Exit::Done;
    let mut resumptions = Resumptions::new(course, scenarios.len());
    for Scenario { plan, writer, directory, document } in scenarios {
        if let Some(writer) = writer {
            writer.finish(&document).map_err(Failure::failed)?;
        }
        submitted::record(&directory);
        result::present(&directory, assignment.presented.unless_live(live), assignment.no_report)?;
        live.result(&document, &directory);
        resumptions.note(&document, &directory);
        if exit == Exit::Done {
            exit = verdict(&plan, &document);
        }
    }
    Ok(if stop.load(Ordering::Relaxed) { Exit::Failed } else { exit })
}

/// Prints the commands that continue the study: one for all scenarios whose results are in one directory, else one for each.
struct Resumptions<'a> {
    course: &'a StudyCourse,
    scenarios: usize,
    is_noted: bool,
}

impl<'a> Resumptions<'a> {
    const fn new(course: &'a StudyCourse, scenarios: usize) -> Self {
        Self { course, scenarios, is_noted: false }
    }

    fn note(&mut self, document: &ResultDocument, directory: &Path) {
        let command = &self.course.command;
        match (&self.course.out, self.scenarios) {
            (_, 1) => {
                study::note_resumption(document, command, directory);
            }
            (Some(out), _) if !self.is_noted => {
                self.is_noted = study::note_resumption(document, command, out);
            }
            (Some(_), _) => {}
            (None, _) => {
                let command = pathbench_report::command::arguments(document).unwrap_or_default();
                let command: Vec<_> = command.into_iter().map(Into::into).collect();
                study::note_resumption(document, &command, directory);
            }
        }
    }
}

/// Creates the result of a scenario, or opens the unfinished one.
fn prepare(Job { plan, out }: Job, resume: bool, options: &StudyOptions) -> Result<Scenario, Failure> {
    let document = first_document(&plan, options);
    match study::open(out.as_deref(), resume, &plan.name, &options.host.started)? {
        Resumed::Finished(found) => {
            let directory = out.unwrap_or_default();
            study::check_identity(&found, &document, &directory)?;
            Ok(Scenario { plan, writer: None, directory, document: *found })
        }
        Resumed::Unfinished(writer, found) => {
            let directory = writer.path.clone();
            let document = study::continue_result(found, document, &directory)?;
            Ok(Scenario { plan, writer: Some(writer), directory, document })
        }
    }
}

/// Makes the missing runs of all scenarios in one order.
fn make_runs(
    scenarios: &mut [Scenario],
    options: &StudyOptions,
    assignment: &LabAssignment,
    live: &LiveOutput,
    clock: &SharedClock,
) -> Result<(), Failure> {
    let title = scenarios.iter().map(|one| one.plan.name.as_str()).collect::<Vec<_>>().join(", ");
    let seed = scenarios.first().map_or(0, |one| one.plan.seed);
    let earlier: usize = scenarios.iter().map(|one| planned_runs_made(&one.document)).sum();
    let all: usize = scenarios.iter().map(|one| run_ids(&one.plan, options.shard).len()).sum();
    let runs = all.saturating_sub(earlier);
    live.start(&title, seed, &options.host.started, runs, live.interval());
    let mut progress = ProgressDisplay::new(assignment.quiet, live.clone());
    let mut study = StudyDisplay::new(&mut progress, &title, runs, earlier, assignment.side_by_side);
    let clock: Arc<dyn Clock> = Arc::<dyn WallClock>::clone(clock);
    let mut directories = Vec::new();
    let mut members = Vec::new();
    let mut indexes = Vec::new();
    for (index, Scenario { plan, writer, directory, document }) in scenarios.iter_mut().enumerate() {
        if let Some(writer) = writer {
            members.push(StudyMember { plan, writer, document: document.clone() });
            directories.push(directory.clone());
            indexes.push(index);
        }
    }
    let conducted = conduct(members, options, &clock, &mut study);
    progress.end();
    let documents = conducted.map_err(|error| broken_off(&error, &directories))?;
    for (index, document) in indexes.into_iter().zip(documents) {
        scenarios[index].document = document;
    }
    Ok(())
}

fn planned_runs_made(document: &ResultDocument) -> usize {
    document.runs.iter().filter(|run| run.retry_of.is_none()).count()
}

/// Ends this process, and with it the lab, when the other end of `control` closes.
fn end_with(mut control: UnixStream) {
    std::thread::spawn(move || {
        let mut nothing = [0; 1];
        while matches!(control.read(&mut nothing), Ok(1..)) {}
        live::restore_terminal();
        std::process::exit(i32::from(Exit::Failed.code()));
    });
}

pub(crate) fn launcher() -> AgentLauncher {
    AgentLauncher { program: "/proc/self/exe".into(), arguments: vec!["__host".into()] }
}

/// The failure of an aborted study, with the number of finished runs; directories without any are removed.
fn broken_off(error: &StudyError, directories: &[PathBuf]) -> Failure {
    let exit = if error.is_incapable() { Exit::HostCannot } else { Exit::Failed };
    let mut lines = vec![error.to_string()];
    for directory in directories {
        let finished = ResultDirectory::open(directory).map_or(0, |result| result.document.runs.len());
        if finished > 0 {
            let shown = directory.display();
            lines.push(format!(
                "finished runs are kept ({finished}): pathbench report {shown} shows them, --resume {shown} continues"
            ));
        } else {
            remove_empty(directory);
        }
    }
    Failure { exit, message: lines.join("\n") }
}

fn verdict(plan: &ScenarioPlan, document: &ResultDocument) -> Exit {
    let valid = || document.runs.iter().filter(|run| run.valid);
    // An expectation that does not hold decides the exit code.
    let is_expected =
        |run: &RunRecord| plan.expectations.iter().any(|expected| expected.expects_one_path(run));
    if document.summary.expectations.iter().any(Expectation::failed) {
        Exit::ExpectationNotHeld
    } else if valid().next().is_none() {
        Exit::Failed
    } else if valid().any(|run| needed_multipath_in_vain(run) && !is_expected(run)) {
        Exit::MultipathNotUsed
    } else {
        Exit::Done
    }
}

/// Whether a multipath transport fell back, or used one path only for bulk data. A scheduler intentionally sends a
/// few messages or a short download over the better path.
fn needed_multipath_in_vain(run: &RunRecord) -> bool {
    let multipath = &run.multipath;
    multipath.requested
        && (!multipath.negotiated || (!multipath.used && run.pattern.starts_with("throughput")))
}

/// The process of a lab host: its agent, with the control socket as standard input.
pub(crate) fn serve_host(clock: &SharedClock) -> Result<Exit, Failure> {
    // Ctrl-C signals the whole process group; the orchestrator ends the agents.
    signals::ignore_interrupts();
    let channel = std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?;
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    pathbench_lab::agent::serve(&UnixStream::from(channel), &clock).map_err(Failure::failed)?;
    Ok(Exit::Done)
}
