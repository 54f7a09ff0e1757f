//! `lab run`: validates everything, enters the namespaces, starts the orchestrator, waits.

use super::{Job, LabAssignment, StudyCourse, enter, load, require, submitted};
use crate::cli::RunArgs;
use crate::live::LiveMode;
use crate::result::Presentation;
use pathbench_host::scheduling::CpuLatencyRequest;
use pathbench_lab::channel;
use pathbench_lab::scenario::{LinkEngine, Overrides, ScenarioPlan};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{diagnostics, signals};
use pathbench_record::time::SharedClock;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn run(args: &RunArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    if let Some(submitted) = submitted::run(&args.submit, clock)? {
        return Ok(submitted);
    }
    let jobs = plan(args)?;
    let privilege = enter(args.privilege)?;
    // Processors in deep sleep states delay links, timers and programs. The result records a failure of this request.
    let latency = CpuLatencyRequest::zero().ok();
    let assignment = LabAssignment {
        privilege,
        processors_awake: latency.is_some(),
        jobs,
        study: StudyCourse {
            resume: args.study.resume.is_some(),
            shard: args.study.shard,
            until_ci_percent: args.study.until_ci,
            time_limit: args.study.time_limit.map(|limit| limit.0),
            retry_invalid: args.study.retry_invalid,
            out: args.out.clone().or_else(|| args.study.resume.clone()),
            command: std::env::args_os().collect(),
        },
        presented: Presentation::from_flags(args.json, args.brief),
        live: LiveMode::from_flags(args.json_stream, args.tui),
        quiet: args.quiet,
        calibrate: !args.no_calibration,
        side_by_side: args.jobs,
        capture: args.capture,
        no_report: args.no_report,
    };
    orchestrate(&assignment)
}

/// The scenarios to run, or all mistakes in them.
pub(crate) fn plan(args: &RunArgs) -> Result<Vec<Job>, Failure> {
    let scenarios = &args.scenario.scenarios;
    if args.json && scenarios.len() > 1 {
        return Err(Failure::bad_input(
            "--json prints one document: run one scenario at a time with it, or read the run.json files",
        ));
    }
    let given = Overrides::from(&args.scenario.overrides);
    let repeat = given.repeat.or_else(|| args.study.most_repetitions());
    let overrides = Overrides { repeat, warm_up: args.study.warm_up, ..given };
    let out = args.out.as_deref().or(args.study.resume.as_deref());
    let mut jobs = Vec::new();
    let mut refusals = Vec::new();
    let mut names = Vec::new();
    for name in scenarios {
        match load(name, &overrides) {
            Ok(plan) => {
                require(&plan)?;
                if args.capture {
                    require_emulated(&plan)?;
                }
                let subject = format!("scenario `{}`", plan.name);
                args.study.validate(&subject, plan.repeat).map_err(Failure::bad_input)?;
                if out.is_some() && names.contains(&plan.name) {
                    return Err(Failure::bad_input(format!(
                        "with --out each scenario gets a directory of its name, and `{}` is given twice: \
                         leave one out, or raise --repeat",
                        plan.name
                    )));
                }
                names.push(plan.name.clone());
                let own =
                    |out: &Path| if scenarios.len() > 1 { out.join(&plan.name) } else { out.to_owned() };
                let out = out.map(own);
                jobs.push(Job { plan, out });
            }
            Err(failure) => refusals.push(failure.message),
        }
    }
    if !refusals.is_empty() {
        return Err(Failure::bad_input(refusals.join("\n")));
    }
    Ok(jobs)
}

/// Checks that the plan has a link to capture from: only emulated links record every packet's fate.
fn require_emulated(plan: &ScenarioPlan) -> Result<(), Failure> {
    let mut links = plan.variants.iter().flat_map(|variant| &variant.topology.links);
    if links.any(|link| link.engine == LinkEngine::Emulated) {
        return Ok(());
    }
    let name = plan.variants[0].topology.links.first().map_or("NAME", |link| link.name.as_str());
    Err(Failure::bad_input(format!(
        "--capture: scenario `{}` has no emulated link; make one with --set path.{name}.engine=emulated",
        plan.name
    )))
}

/// Starts the orchestrator as the first process of the new PID namespace and waits for its end. The socket pair stays
/// open meanwhile; its close notifies the orchestrator that this process has ended.
fn orchestrate(assignment: &LabAssignment) -> Result<Exit, Failure> {
    let (ours, theirs) = UnixStream::pair().map_err(Failure::failed)?;
    let start = || {
        let child = Command::new("/proc/self/exe")
            .arg("__orchestrate")
            .envs(diagnostics::environment())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        channel::send(&ours, assignment).map_err(io::Error::other)?;
        Ok(child)
    };
    let status = signals::wait_forwarding(start)
        .map_err(|error| Failure::failed(format!("cannot start the lab's orchestrator: {error}")))?;
    // The orchestrator has printed the reason for its exit code.
    match status.code() {
        Some(code) => Ok(Exit::from_code(code)),
        None => Err(Failure::failed(format!(
            "the lab's orchestrator was killed ({status}); the lab has ended with it"
        ))),
    }
}
