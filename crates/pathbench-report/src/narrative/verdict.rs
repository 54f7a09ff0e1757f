//! Was multipath really used: the verdict over the repetitions of a label.

use crate::ResultSet;
use crate::quantity::counted;
use crate::view::{GroupView, View, name_of};
use pathbench_record::document::Variant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub variant: Variant,
    pub label: String,
    /// The pattern, where the result has several.
    pub pattern: Option<String>,
    pub used: u32,
    pub of: u32,
    pub text: String,
}

impl Verdict {
    /// The label, with its pattern where there are several, and its variant where there is one.
    pub fn name(&self) -> String {
        name_of(&self.label, self.pattern.as_deref(), &self.variant)
    }

    /// Whether multipath was used in every valid run, and there was one.
    pub fn holds(&self) -> bool {
        self.of > 0 && self.used == self.of
    }
}

/// The verdicts on all labels that asked for multipath. Where a result has patterns that fill the paths, those that
/// only send messages are not judged: one path is enough for them.
pub fn multipath(set: &ResultSet) -> Vec<Verdict> {
    verdicts(&View::new(set))
}

pub(crate) fn verdicts(view: &View) -> Vec<Verdict> {
    let fills = view.patterns().iter().any(|pattern| !pattern.is_of_messages());
    let judged = |group: &&GroupView| group.is_multipath() && !(fills && group.pattern.is_of_messages());
    view.groups.iter().filter(judged).map(verdict).collect()
}

fn verdict(group: &GroupView) -> Verdict {
    let of = group.valid();
    let used = group.valid_runs().filter(|run| run.multipath.used).count() as u32;
    let mut reasons: Vec<&str> = Vec::new();
    for run in group.valid_runs().filter(|run| run.multipath.used == (used == of)) {
        let reason = run.multipath.reason.trim();
        if !reason.is_empty() && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    // When it was used everywhere, one run's words on how that is known are enough.
    reasons.truncate(if used == of { 1 } else { 3 });
    let because = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    let text = match (used, of) {
        (_, 0) => "no valid run to judge by".to_owned(),
        (0, 1) => format!("not used{because}"),
        (0, _) => format!("not used in any of {}{because}", counted(of, "run")),
        (1, 1) => format!("used{because}"),
        _ if used == of => format!("used in all {}{because}", counted(of, "run")),
        _ => format!("used in {used} of {}; not in the others{because}", counted(of, "run")),
    };
    Verdict {
        variant: group.variant.clone(),
        label: group.label.to_owned(),
        pattern: group.said_pattern().map(str::to_owned),
        used,
        of,
        text,
    }
}
