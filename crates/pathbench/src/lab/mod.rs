//! The `lab` commands, up to the point where the orchestrator takes over.

pub(crate) mod assignment;
pub(crate) mod catalogue;
pub(crate) mod control;
pub(crate) mod import;
pub(crate) mod isolation;
pub(crate) mod keep;
pub(crate) mod run;

use crate::cli::OverrideArgs;
use crate::exit::Failure;
use pathbench_lab::scenario::{self, Overrides, Plan, Source};

impl From<&OverrideArgs> for Overrides {
    fn from(args: &OverrideArgs) -> Self {
        Self {
            set: args.set.clone(),
            transports: args.transports.clone(),
            repeat: args.repeat,
            seed: args.seed,
            duration: args.duration.clone(),
        }
    }
}

/// The scenario of that name or path, validated in full.
pub(crate) fn load(name: &str, overrides: &Overrides) -> Result<(Source, Plan), Failure> {
    let source = scenario::load(name).map_err(Failure::bad_input)?;
    let plan = scenario::plan(&source, overrides).map_err(Failure::bad_input)?;
    Ok((source, plan))
}
