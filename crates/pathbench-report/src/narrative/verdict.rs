//! The tone of a finding, whether the repetitions of a label used multipath, and which labels are encrypted.

use super::claim::is_spare_unneeded;
use crate::list::distinct;
use crate::quantity::counted;
use crate::view::{GroupView, View, name_of};
use pathbench_record::document::{RunRecord, Variant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Mixed,
    Bad,
    Neutral,
}

impl Tone {
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Mixed => "!",
            Self::Bad => "✗",
            Self::Neutral => "·",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Mixed => "mixed",
            Self::Bad => "bad",
            Self::Neutral => "neutral",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) variant: Variant,
    pub(crate) label: String,
    pub(crate) pattern: Option<String>,
    pub(crate) used: u32,
    pub(crate) of: u32,
    pub(crate) text: String,
    /// Whether the runs that did not use multipath left a backup alone that they did not need.
    pub(crate) is_spare_unneeded: bool,
}

impl Verdict {
    pub(crate) fn name(&self) -> String {
        name_of(&self.label, self.pattern.as_deref(), &self.variant)
    }

    pub(crate) fn holds(&self) -> bool {
        self.of > 0 && self.used == self.of
    }

    pub(crate) fn tone(&self) -> Tone {
        match self.holds() {
            true => Tone::Good,
            false if self.is_spare_unneeded => Tone::Neutral,
            false => Tone::Bad,
        }
    }
}

/// The verdicts on all labels that requested multipath. If a result has patterns that fill the paths, patterns that
/// only send messages are not judged: one path is enough for them.
pub(crate) fn verdicts(view: &View) -> Vec<Verdict> {
    let fills = view.patterns().iter().any(|pattern| !pattern.is_of_messages());
    let judged = |group: &&GroupView| group.is_multipath() && !(fills && group.pattern.is_of_messages());
    view.groups.iter().filter(judged).map(verdict).collect()
}

fn verdict(group: &GroupView) -> Verdict {
    let of = group.valid();
    let used = group.valid_runs().filter(|run| run.multipath.used).count() as u32;
    let spare = group.valid_runs().filter(|run| is_spare_unneeded(run)).count() as u32;
    let agreeing = group.valid_runs().filter(|run| run.multipath.used == (used == of));
    let reasons = agreeing.map(|run| run.multipath.reason.trim()).filter(|reason| !reason.is_empty());
    let mut reasons = distinct(reasons);
    // If all runs used multipath, the reason of one run is enough.
    reasons.truncate(if used == of { 1 } else { 3 });
    let because = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    let text = match (used, of) {
        (_, 0) => "no valid run".to_owned(),
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
        is_spare_unneeded: of > 0 && used + spare == of,
    }
}

/// The note that encrypted and clear-text transports are not directly comparable. `None` if a result's labels do not
/// differ in encryption.
pub(crate) fn encryption(view: &View) -> Option<String> {
    let labels = |encrypted: bool| -> Vec<&str> {
        let runs = view.groups.iter().flat_map(|group| &group.runs);
        distinct(runs.filter(|run| run.encrypted == encrypted).map(|run| run.label.as_str()))
    };
    let (clear, encrypted) = (labels(false), labels(true));
    if clear.is_empty() || encrypted.is_empty() {
        return None;
    }
    let (clear, encrypted) = (clear.join(", "), encrypted.join(", "));
    Some(format!("{clear} in clear text, {encrypted} encrypted: not directly comparable"))
}

pub(crate) fn encryption_of(run: &RunRecord) -> String {
    match (&run.encryption, run.encrypted) {
        (Some(suite), true) => suite.clone(),
        (None, true) => "encrypted".to_owned(),
        (_, false) => "clear text".to_owned(),
    }
}
