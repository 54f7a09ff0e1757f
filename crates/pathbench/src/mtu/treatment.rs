//! What would put the kernel right, path by path.

use super::examination::Examination;
use super::judgement;
use pathbench_host::path_mtu::{KernelPathState, Plan, PlannedStep, plan};
use pathbench_record::document::{MtuStep, PathMtu};

/// The changes for one path, given what the kernel believes now; `Err` says in words why there can be none.
pub(super) fn plan_for(
    examination: &Examination,
    state: &KernelPathState,
    record: &PathMtu,
) -> Result<Plan, String> {
    if examination.found.is_none() || !examination.is_answered() {
        return Ok(Plan::default());
    }
    let target = judgement::target_bytes(record)?;
    let stuck = &examination.stuck;
    let needs_route =
        record.kernel.as_ref().is_some_and(|kernel| judgement::needs_route(record, kernel, target));
    if !needs_route && stuck.is_empty() {
        return Ok(Plan::default());
    }
    let tells = !judgement::is_path_silent(record);
    // What ICMP taught the kernel once is forgotten after some minutes, and where nobody tells it anew, the route has to.
    let lasting = KernelPathState { cached: state.cached.filter(|_| tells), ..state.clone() };
    plan(&lasting, target, stuck).map_err(|error| format!("{}: {error}", examination.path.name))
}

/// The steps of a path's plan as they stand in the result, a command each.
pub(super) fn records(path: &str, steps: &[PlannedStep], done: bool) -> Vec<MtuStep> {
    let of_step = |step: &PlannedStep| {
        let last = step.commands.len().saturating_sub(1);
        let undo_of = |index: usize| {
            let rest = step.undo_commands.get(index..).unwrap_or_default();
            if index == last { rest.join("; ") } else { rest.first().cloned().unwrap_or_default() }
        };
        let record = |(index, command): (usize, &String)| MtuStep {
            path: path.to_owned(),
            command: command.clone(),
            undo: undo_of(index),
            done,
        };
        step.commands.iter().enumerate().map(record).collect::<Vec<_>>()
    };
    steps.iter().flat_map(of_step).collect()
}

/// The commands to be pasted into a shell, and in comments those that take them back, the last one first.
pub(super) fn script(steps: &[MtuStep]) -> String {
    let mut lines = Vec::new();
    let mut path = None;
    for step in steps {
        if path != Some(&step.path) {
            lines.push(format!("# path {}", step.path));
            path = Some(&step.path);
        }
        lines.push(step.command.clone());
    }
    let undoing: Vec<&str> =
        steps.iter().rev().map(|step| step.undo.as_str()).filter(|undo| !undo.is_empty()).collect();
    if !undoing.is_empty() {
        lines.push("# to take it back:".to_owned());
        lines.extend(undoing.into_iter().map(|line| format!("# {line}")));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(path: &str, command: &str, undo: &str) -> MtuStep {
        MtuStep { path: path.to_owned(), command: command.to_owned(), undo: undo.to_owned(), done: false }
    }

    #[test]
    fn a_script_does_it_and_says_how_to_take_it_back_in_reverse() {
        let steps = [
            step(
                "wlan",
                "ip route add 10.0.2.1 dev wlan table 1001 mtu 1500",
                "ip route delete 10.0.2.1 table 1001",
            ),
            step("wlan", "ip mptcp endpoint delete id 2", ""),
            step("wlan", "ip mptcp endpoint add 10.0.1.2 id 2 subflow", ""),
            step("lte", "ip route replace default dev lte mtu 1400", "ip route replace default dev lte"),
        ];
        assert_eq!(
            script(&steps),
            "# path wlan\n\
             ip route add 10.0.2.1 dev wlan table 1001 mtu 1500\n\
             ip mptcp endpoint delete id 2\n\
             ip mptcp endpoint add 10.0.1.2 id 2 subflow\n\
             # path lte\n\
             ip route replace default dev lte mtu 1400\n\
             # to take it back:\n\
             # ip route replace default dev lte\n\
             # ip route delete 10.0.2.1 table 1001\n"
        );
        assert_eq!(script(&[]), "");
    }
}
