//! `lab list`, `lab show`, `lab check`.

use super::keep;
use crate::cli::ScenarioArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use pathbench_lab::scenario::{self, Overrides};

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
        match super::load(name, &overrides) {
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
