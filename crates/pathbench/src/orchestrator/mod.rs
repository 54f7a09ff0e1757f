//! The lab's orchestrator: PID 1 of the lab's PID namespace. When it ends, the kernel kills all processes of the lab.

use crate::clock::{MonotonicClock, unix_seconds, wall_offset_ns};
use crate::exit::{Exit, Failure};
use crate::lab::{Assignment, Job};
use crate::progress::{Progress, StudyProgress};
use crate::report::{self, create_result, host_record, remove_empty};
use crate::signals;
use pathbench_host::namespace::set_parent_death_signal_kill;
use pathbench_lab::agent::AgentLauncher;
use pathbench_lab::channel;
use pathbench_lab::scenario::{self, Plan};
use pathbench_lab::study::{StudyError, StudyOptions, conduct};
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::{HostRecord, ResultDocument, RunRecord};
use pathbench_record::time::Clock;
use pathbench_record::time::rfc3339_from_unix;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) mod keep;

pub(crate) fn orchestrate() -> Result<Exit, Failure> {
    // Both the parent-death signal and the close of the socket report the end of the foreground command.
    set_parent_death_signal_kill().map_err(Failure::failed)?;
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?);
    let assignment: Assignment = channel::receive(&control).map_err(|error| {
        Failure::failed(format!("this command is started by `pathbench lab run`: {error}"))
    })?;
    end_with(control);
    let stop = signals::stop_flag();
    let mut exit = Exit::Done;
    for job in &assignment.jobs {
        let of_job = run(job, &assignment, &stop)?;
        if exit == Exit::Done {
            exit = of_job;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::Failed);
        }
    }
    Ok(exit)
}

/// Ends this process, and with it the lab, when the other end of `control` closes.
fn end_with(mut control: UnixStream) {
    std::thread::spawn(move || {
        let mut nothing = [0; 1];
        while matches!(control.read(&mut nothing), Ok(1..)) {}
        std::process::exit(i32::from(Exit::Failed.code()));
    });
}

pub(crate) fn launcher() -> AgentLauncher {
    AgentLauncher { program: "/proc/self/exe".into(), arguments: vec!["__host".into()] }
}

fn run(job: &Job, assignment: &Assignment, stop: &Arc<AtomicBool>) -> Result<Exit, Failure> {
    let plan = scenario::plan(&job.source, &job.overrides).map_err(Failure::bad_input)?;
    let started = rfc3339_from_unix(unix_seconds() as i64);
    let mut writer = create_result(job.out.as_deref(), &plan.name, &started)?;
    let options = StudyOptions {
        launcher: launcher(),
        calibrate: assignment.calibrate,
        jobs: assignment.side_by_side,
        capture: assignment.capture,
        wall_offset_ns: wall_offset_ns(),
        host: HostRecord {
            processors_awake: assignment.processors_awake,
            ..host_record(&assignment.privilege, started)
        },
        stop: Arc::clone(stop),
    };
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let mut progress = Progress::new(assignment.quiet);
    let mut study = StudyProgress::new(&mut progress, &plan, assignment.side_by_side);
    let conducted = conduct(&plan, &options, &clock, &mut writer, &mut study);
    progress.end();
    let directory = writer.path.clone();
    let document = conducted.map_err(|error| broken_off(&error, &directory))?;
    writer.finish(&document).map_err(Failure::failed)?;
    report::present(&directory, assignment.json, false)?;
    Ok(verdict(&plan, &document))
}

/// The failure of an aborted study, with the number of finished runs; without any, the directory is removed.
fn broken_off(error: &StudyError, directory: &Path) -> Failure {
    let exit = if error.is_incapable() { Exit::HostCannot } else { Exit::Failed };
    let finished = ResultDirectory::open(directory).map_or(0, |result| result.document.runs.len());
    if finished > 0 {
        let shown = directory.display();
        let message =
            format!("{error}\nfinished runs are kept ({finished}): pathbench report {shown} shows them");
        return Failure { exit, message };
    }
    remove_empty(directory);
    Failure { exit, message: error.to_string() }
}

fn verdict(plan: &Plan, document: &ResultDocument) -> Exit {
    let valid = || document.runs.iter().filter(|run| run.valid);
    // An expectation that does not hold decides the exit code.
    let is_expected =
        |run: &RunRecord| plan.expectations.iter().any(|expected| expected.expects_one_path(run));
    if document.summary.expectations.iter().any(|expectation| !expectation.held) {
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
pub(crate) fn serve_host() -> Result<Exit, Failure> {
    // Ctrl-C signals the whole process group; the orchestrator ends the agents.
    signals::ignore_interrupts();
    let channel = std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    pathbench_lab::agent::serve(&UnixStream::from(channel), &clock).map_err(Failure::failed)?;
    Ok(Exit::Done)
}
