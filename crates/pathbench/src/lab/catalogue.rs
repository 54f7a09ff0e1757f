//! `lab list`, `lab show`, `lab check`.

use super::keep;
use crate::cli::ScenarioArgs;
use crate::exit::{Exit, Failure};
use pathbench_lab::scenario::{self, Overrides};

pub(crate) fn list() -> Exit {
    let shipped = scenario::builtin();
    let width = shipped.iter().map(|builtin| builtin.name.len()).max().unwrap_or_default();
    println!("Shipped scenarios (pathbench lab show NAME prints one):");
    for builtin in shipped {
        println!("  {:width$}  {}", builtin.name, builtin.description());
    }
    let labs = keep::running_labs();
    if !labs.is_empty() {
        println!("Labs that are up (pathbench lab exec HOST -- CMD works in them):");
        for lab in labs {
            println!("  {lab}");
        }
    }
    Exit::Done
}

pub(crate) fn show(name: &str) -> Result<Exit, Failure> {
    let source = scenario::load(name).map_err(Failure::bad_input)?;
    print!("{}", source.text);
    Ok(Exit::Done)
}

pub(crate) fn check(args: &ScenarioArgs) -> Result<Exit, Failure> {
    let overrides = Overrides::from(&args.overrides);
    let mut refusals = Vec::new();
    for name in &args.scenarios {
        match super::load(name, &overrides) {
            Ok((_, plan)) => {
                let labels: usize = plan.variants.iter().map(|variant| variant.run.labels.len()).sum();
                println!(
                    "{name}: good; {} variants, {} runs",
                    plan.variants.len(),
                    labels * plan.repeat as usize
                );
            }
            Err(failure) => refusals.push(failure.message),
        }
    }
    if refusals.is_empty() { Ok(Exit::Done) } else { Err(Failure::bad_input(refusals.join("\n"))) }
}
