//! The `lab` commands, up to the point where the orchestrator takes over.

use crate::cli::{ImportArgs, OverrideArgs, PrivilegeArgs, ScenarioArgs};
use crate::exit::{Exit, Failure};
use crate::output;
use pathbench_host::kernel::{self, MptcpSupport};
use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_host::scheduling;
use pathbench_lab::scenario::{self, Overrides, Plan, Source};
use pathbench_minitopo::{MinitopoFile, import_minitopo};
use pathbench_record::transport::Transport;
use serde::{Deserialize, Serialize};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

pub(crate) mod control;
pub(crate) mod keep;
pub(crate) mod run;

impl From<&OverrideArgs> for Overrides {
    fn from(args: &OverrideArgs) -> Self {
        Self {
            set: args.set.clone(),
            transports: args.transports.clone(),
            repeat: args.repeat,
            seed: args.seed,
            duration: args.duration.map(|duration| duration.to_string()),
        }
    }
}

pub(crate) fn load(name: &str, overrides: &Overrides) -> Result<(Source, Plan), Failure> {
    let source = scenario::load(name).map_err(Failure::bad_input)?;
    let plan = scenario::plan(&source, overrides).map_err(Failure::bad_input)?;
    Ok((source, plan))
}

/// From the command in front to the orchestrator, over its standard input.
#[derive(Debug, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "switches that have nothing to do with each other")]
pub(crate) struct Assignment {
    /// `user-namespace` or `root`.
    pub(crate) privilege: String,
    /// The command in front holds a CPU latency request.
    pub(crate) processors_awake: bool,
    /// One after the other; `lab up` has exactly one.
    pub(crate) jobs: Vec<Job>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) calibrate: bool,
    pub(crate) side_by_side: NonZeroUsize,
    pub(crate) capture: bool,
}

/// One scenario to run. Validated once in front; planning it again here gives the same plan.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) source: Source,
    pub(crate) overrides: Overrides,
    /// Result directory; a default one beside others where `None`.
    pub(crate) out: Option<PathBuf>,
}

/// Checks that this kernel can run the plan, before anything is built.
pub(crate) fn require(plan: &Plan) -> Result<(), Failure> {
    let labels = plan.variants.iter().flat_map(|variant| &variant.run.labels);
    if labels.into_iter().any(|label| label.transport == Transport::Mptcp) {
        let support = kernel::mptcp_support();
        if support != MptcpSupport::Available {
            return Err(Failure::host_cannot(format!("scenario `{}` runs mptcp, but {support}", plan.name)));
        }
    }
    Ok(())
}

/// Moves this single-threaded process into the lab's namespaces and says with which privilege.
pub(crate) fn enter(args: PrivilegeArgs) -> Result<String, Failure> {
    let root = rustix::process::geteuid().is_root();
    if args.as_root && !root {
        return Err(Failure::host_cannot(
            "--as-root needs root: run it with sudo, or leave --as-root out to build the lab in a user namespace",
        ));
    }
    let isolation = if args.as_root || (root && kernel::user_namespaces().is_err()) {
        Isolation::Root
    } else {
        Isolation::User
    };
    // Before the namespace, in which even root could not: the thread that carries emulated links is in a hurry.
    scheduling::permit_precedence();
    enter_lab(isolation).map_err(Failure::host_cannot)?;
    Ok(match isolation {
        Isolation::User => "user-namespace",
        Isolation::Root => "root",
    }
    .to_owned())
}

pub(crate) fn list() -> Result<Exit, Failure> {
    let shipped = scenario::builtin();
    let width = shipped.iter().map(|builtin| builtin.name.len()).max().unwrap_or_default();
    let mut lines = vec!["Shipped scenarios (pathbench lab show NAME prints one):".to_owned()];
    let line = |builtin: &scenario::Builtin| format!("  {:width$}  {}", builtin.name, builtin.description());
    lines.extend(shipped.iter().map(line));
    let labs = keep::running_labs();
    if !labs.is_empty() {
        lines.push("Labs that are up (pathbench lab exec HOST -- CMD works in them):".to_owned());
        lines.extend(labs.iter().map(|lab| format!("  {lab}")));
    }
    output::print(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Done)
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
            Ok((_, plan)) => {
                output::print(&format!(
                    "{name}: good; {} variants, {} runs\n",
                    plan.variants.len(),
                    plan.run_count()
                ))?;
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
    match fs::read(path) {
        Ok(content) => Ok((name, content)),
        Err(error) => {
            Err(Failure::bad_input(format!("cannot read {name}: {error}; give one of minitopo's files")))
        }
    }
}
