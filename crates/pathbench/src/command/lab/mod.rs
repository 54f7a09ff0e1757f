//! The `lab` commands, until the orchestrator takes over.

use crate::cli::{ImportArgs, OverrideArgs, PrivilegeArgs, ScenarioArgs};
use crate::live::LiveMode;
use crate::result::Presentation;
use pathbench_host::kernel::{self, MptcpSupport};
use pathbench_host::namespace::{Isolation, enter_lab, try_user_namespace};
use pathbench_host::scheduling;
use pathbench_lab::scenario::{self, Overrides, ScenarioPlan};
use pathbench_minitopo::{MinitopoFile, import_minitopo};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::document::Shard;
use pathbench_record::file;
use pathbench_record::transport::Transport;
use pathbench_report::quantity::counted;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) mod control;
pub(crate) mod import_trace;
pub(crate) mod keep;
pub(crate) mod run;
pub(crate) mod submitted;

impl From<&OverrideArgs> for Overrides {
    fn from(args: &OverrideArgs) -> Self {
        Self {
            set: args.set.clone(),
            transports: args.transports.clone(),
            repeat: args.repeat,
            warm_up: None,
            seed: args.seed,
            duration: args.duration.map(|duration| duration.to_string()),
        }
    }
}

pub(crate) fn load(name: &str, overrides: &Overrides) -> Result<ScenarioPlan, Failure> {
    let source = scenario::load(name).map_err(Failure::bad_input)?;
    scenario::plan(&source, overrides).map_err(Failure::bad_input)
}

/// Sent by the foreground command to the orchestrator over its standard input.
#[derive(Debug, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "switches that have nothing to do with each other")]
pub(crate) struct LabAssignment {
    /// `user-namespace` or `root`.
    pub(crate) privilege: String,
    /// Whether the foreground command holds a CPU latency request.
    pub(crate) processors_awake: bool,
    /// The scenarios of one study.
    pub(crate) jobs: Vec<Job>,
    pub(crate) study: StudyCourse,
    pub(crate) presented: Presentation,
    pub(crate) live: LiveMode,
    pub(crate) quiet: bool,
    pub(crate) calibrate: bool,
    pub(crate) side_by_side: NonZeroUsize,
    pub(crate) capture: bool,
    /// Write no report.html and no figures.
    pub(crate) no_report: bool,
}

/// How the study begins, continues and ends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StudyCourse {
    /// Continue the results in the jobs' directories.
    pub(crate) resume: bool,
    pub(crate) shard: Option<Shard>,
    pub(crate) until_ci_percent: Option<f64>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) retry_invalid: u32,
    /// The directory that the user gave for the results.
    pub(crate) out: Option<PathBuf>,
    /// The command line, which a message repeats.
    pub(crate) command: Vec<OsString>,
}

/// One scenario to run, which the foreground command has planned.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) plan: ScenarioPlan,
    /// Result directory; `None`: a default directory.
    pub(crate) out: Option<PathBuf>,
}

/// Checks that this kernel can run the plan before anything is built.
pub(crate) fn require(plan: &ScenarioPlan) -> Result<(), Failure> {
    let labels = plan.variants.iter().flat_map(|variant| &variant.run.labels);
    if labels.into_iter().any(|label| label.transport == Transport::Mptcp) {
        let support = kernel::mptcp_support();
        if support != MptcpSupport::Available {
            return Err(Failure::host_cannot(format!("scenario `{}` runs mptcp, but {support}", plan.name)));
        }
    }
    Ok(())
}

/// Moves this single-threaded process into the lab's namespaces; returns the privilege.
pub(crate) fn enter(args: PrivilegeArgs) -> Result<String, Failure> {
    let root = rustix::process::geteuid().is_root();
    if args.as_root && !root {
        return Err(Failure::host_cannot(
            "--as-root needs root: run it with sudo, or leave --as-root out to build the lab in a user namespace",
        ));
    }
    let isolation = if args.as_root || (root && try_user_namespace().is_err()) {
        Isolation::Root
    } else {
        Isolation::User
    };
    // Before the namespace is entered, where root lacks the privilege for the threads of emulated links.
    scheduling::permit_precedence();
    enter_lab(isolation).map_err(Failure::host_cannot)?;
    Ok(match isolation {
        Isolation::User => "user-namespace",
        Isolation::Root => "root",
    }
    .to_owned())
}

pub(crate) fn show(name: &str) -> Result<Exit, Failure> {
    let source = scenario::load(name).map_err(Failure::bad_input)?;
    output::print(&source.text)?;
    Ok(Exit::Done)
}

pub(crate) fn check(args: &ScenarioArgs) -> Result<Exit, Failure> {
    let overrides = Overrides::from(&args.overrides);
    let mut refusals = Vec::new();
    for name in &args.scenarios {
        match load(name, &overrides) {
            Ok(plan) => {
                let variants = counted(plan.variants.len() as u32, "variant");
                let runs = counted(plan.run_count() as u32, "run");
                output::print(&format!("{name}: good; {variants}, {runs}\n"))?;
                for left_out in &plan.left_out {
                    output::print(&format!("  expectation left out: {left_out}\n"))?;
                }
            }
            Err(failure) => refusals.push(failure.message),
        }
    }
    if refusals.is_empty() { Ok(Exit::Done) } else { Err(Failure::bad_input(refusals.join("\n"))) }
}

const READABLE: u32 = 0o666;

pub(crate) fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let (topology, content) = read(&args.topology)?;
    let experiment = args.experiment.as_deref().map(read).transpose()?;
    let file = MinitopoFile { name: &topology, content: &content };
    let traffic = experiment.as_ref().map(|(name, content)| MinitopoFile { name, content });
    let text = import_minitopo(file, traffic).map_err(Failure::bad_input)?;
    match &args.out {
        None => output::print(&text)?,
        Some(out) => output::create_file(out, READABLE, &text)?,
    }
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = path.display().to_string();
    match file::read_named(path, file::SMALL_FILE_BYTES) {
        Ok(content) => Ok((name, content)),
        Err(error) => {
            Err(Failure::bad_input(format!("cannot read {name}: {error}; give one of minitopo's files")))
        }
    }
}
