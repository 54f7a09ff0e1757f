//! A plan as a shell script with comments, and as a JSON document.

use super::arguments::SetupArgs;
use pathbench_check::setup::{Medium, Role, SetupPath, SetupPlan};
use serde::Serialize;
use std::path::PathBuf;

/// The plan as a shell script: commands with their reasons and their undo; `done`: the commands were applied.
pub(super) fn script(plan: &SetupPlan, done: bool) -> String {
    let mut lines: Vec<String> = plan.paths.iter().map(|path| format!("# path {}", describe(path))).collect();
    lines.extend(plan.notes.iter().map(|note| format!("# note: {note}")));
    lines.extend(plan.why_withheld().map(|why| format!("# missing: {why}")));
    if plan.steps.is_empty() {
        let ending = if plan.is_incomplete {
            "# nothing to do here, but this host is not set up: another program has to act, as the notes say"
        } else if plan.withheld.is_empty() {
            "# nothing to do: this host is set up"
        } else {
            "# nothing to do"
        };
        lines.push(ending.to_owned());
        return lines.join("\n") + "\n";
    }
    for step in &plan.steps {
        lines.push(format!("# {}", step.reason));
        lines.extend(step.change.commands.iter().cloned());
    }
    lines.push(if done { "# undo: pathbench setup --undo, or" } else { "# undo:" }.to_owned());
    let undo = plan.steps.iter().rev().flat_map(|step| &step.change.undo_commands);
    lines.extend(undo.map(|command| format!("#   {command}")));
    lines.join("\n") + "\n"
}

fn describe(path: &SetupPath) -> String {
    let addresses: Vec<String> = path.addresses.iter().map(|at| at.address.to_string()).collect();
    let medium = match path.medium {
        Some(Medium::Wired) => " (wired)",
        Some(Medium::Wifi) => " (Wi-Fi)",
        Some(Medium::Cellular) => " (cellular)",
        None => "",
    };
    let backup = if path.backup { ", backup" } else { "" };
    format!("{}{medium}: {}{backup}", path.interface, addresses.join(", "))
}

#[derive(Debug, Serialize)]
pub(super) struct SetupDocument<'a> {
    schema: &'static str,
    role: Role,
    applied: bool,
    paths: &'a [SetupPath],
    steps: Vec<Step<'a>>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    files: &'a [PathBuf],
}

#[derive(Debug, Serialize)]
struct Step<'a> {
    reason: &'a str,
    commands: &'a [String],
    undo: &'a [String],
}

impl<'a> SetupDocument<'a> {
    pub(super) fn new(plan: &'a SetupPlan, args: &SetupArgs, files: &'a [PathBuf]) -> Self {
        let step = |step: &'a pathbench_check::setup::SetupStep| Step {
            reason: &step.reason,
            commands: &step.change.commands,
            undo: &step.change.undo_commands,
        };
        Self {
            schema: "pathbench.setup/1",
            role: args.role,
            applied: args.apply,
            paths: &plan.paths,
            steps: plan.steps.iter().map(step).collect(),
            notes: &plan.notes,
            files,
        }
    }
}
