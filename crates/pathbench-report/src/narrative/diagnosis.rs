//! Why a path carried nothing, in sentences; what all repetitions say alike is said once.

use super::sentence_list;
use crate::quantity::{counted, duration, range};
use crate::view::{GroupView, View};
use pathbench_record::document::{DiagnosisKind, PathDiagnosis, RunRecord};

/// Whether something is wrong with the path, and not just with the wish to see it used: a spare that was not needed, a
/// path that was not chosen, one that the scenario took away. Of these the remedy says that none is needed.
pub(crate) fn is_trouble(one: &PathDiagnosis) -> bool {
    let is_harmless = matches!(one.kind, DiagnosisKind::Backup | DiagnosisKind::NotChosen);
    !is_harmless && !one.remedy.trim_start().to_lowercase().starts_with("none")
}

pub(crate) const fn title(kind: DiagnosisKind) -> &'static str {
    match kind {
        DiagnosisKind::MtuBlackHole => "MTU black hole suspected",
        DiagnosisKind::Stale => "went silent",
        DiagnosisKind::Backup => "backup, not needed",
        DiagnosisKind::NeverEstablished => "never established",
        DiagnosisKind::NoRoute => "no route",
        DiagnosisKind::NotChosen => "open, but not chosen",
    }
}

/// Path and kind, and when: `path wlan: MTU black hole suspected from 0.2 s on`.
pub(crate) fn finding(one: &PathDiagnosis) -> String {
    format!("path {}: {}{}", one.path, title(one.kind), period(&[one]))
}

/// When it was so: ` from 0.2 s on`, ` from 0.2–0.3 s to 6.3 s`, nothing where it was so all the time.
fn period(all: &[&PathDiagnosis]) -> String {
    let of = |moment: fn(&PathDiagnosis) -> Option<f64>| -> Option<String> {
        let known: Vec<f64> = all.iter().filter_map(|one| moment(one)).filter(|ms| ms.is_finite()).collect();
        let (low, high) =
            known.iter().fold((f64::MAX, f64::MIN), |(low, high), ms| (low.min(*ms), high.max(*ms)));
        (!known.is_empty()).then(|| range(low, high, duration))
    };
    match (of(|one| one.from_ms), of(|one| one.to_ms)) {
        (None, None) => String::new(),
        (Some(from), None) => format!(" from {from} on"),
        (None, Some(to)) => format!(" until {to}"),
        (Some(from), Some(to)) => format!(" from {from} to {to}"),
    }
}

#[derive(Debug)]
pub(crate) struct Finding<'a> {
    pub(crate) path: &'a str,
    pub(crate) kind: DiagnosisKind,
    pub(crate) runs: Vec<&'a RunRecord>,
    all: Vec<&'a PathDiagnosis>,
    of: usize,
}

impl<'a> Finding<'a> {
    pub(crate) fn is_trouble(&self) -> bool {
        self.all.iter().any(|one| is_trouble(one))
    }

    pub(crate) fn period(&self) -> String {
        period(&self.all)
    }

    /// In which repetitions: `r2`, `r1, r3`; nothing when in all of several, or when there is only one.
    pub(crate) fn repetitions(&self) -> Option<String> {
        (self.runs.len() < self.of).then(|| {
            let numbers: Vec<String> = self.runs.iter().map(|run| format!("r{}", run.repetition)).collect();
            sentence_list(&numbers)
        })
    }

    /// In how many: `all 3 runs`, `2 of 3 runs`.
    pub(crate) fn of_runs(&self) -> String {
        match (self.runs.len(), self.of) {
            (1, 1) => "the only run".to_owned(),
            (found, of) if found == of => format!("all {}", counted(of as u32, "run")),
            (found, of) => format!("{found} of {}", counted(of as u32, "run")),
        }
    }

    pub(crate) fn because(&self) -> &'a str {
        self.all.first().map_or("", |one| one.because.trim())
    }

    pub(crate) fn remedy(&self) -> &'a str {
        self.all.first().map_or("", |one| one.remedy.trim())
    }

    /// Without signs and remedy: `path wlan: MTU black hole suspected from 0.2 s on; signs and remedy as above`.
    pub(crate) fn in_short(&self) -> String {
        format!("path {}: {}{}; signs and remedy as above", self.path, title(self.kind), self.period())
    }

    /// All of it: `path wlan: MTU black hole suspected from 0.2 s on: …  Remedy: …`.
    pub(crate) fn sentence(&self) -> String {
        let because = self.because().trim_end_matches('.');
        let because = if because.is_empty() { String::new() } else { format!(": {because}") };
        let remedy = self.remedy().trim_end_matches('.');
        let remedy = if remedy.is_empty() { String::new() } else { format!(" Remedy: {remedy}.") };
        format!("path {}: {}{}{because}.{remedy}", self.path, title(self.kind), self.period())
    }
}

/// What was found in the runs of a group, path by path; what went wrong first.
pub(crate) fn findings<'a>(group: &GroupView<'a>) -> Vec<Finding<'a>> {
    let mut found: Vec<Finding> = Vec::new();
    let runs: Vec<&RunRecord> = group.valid_runs().collect();
    for run in &runs {
        for one in &run.diagnoses {
            let place = found
                .iter()
                .position(|finding| finding.path == one.path && finding.kind == one.kind)
                .unwrap_or_else(|| {
                    found.push(Finding {
                        path: &one.path,
                        kind: one.kind,
                        runs: Vec::new(),
                        all: Vec::new(),
                        of: runs.len(),
                    });
                    found.len() - 1
                });
            let finding = &mut found[place];
            finding.all.push(one);
            if finding.runs.last().is_none_or(|last| last.id != run.id) {
                finding.runs.push(run);
            }
        }
    }
    found.sort_by_key(|finding| !finding.is_trouble());
    found
}

pub(crate) fn of_view<'a, 'b>(view: &'b View<'a>) -> Vec<(&'b GroupView<'a>, Finding<'a>)> {
    let of_group = |group: &'b GroupView<'a>| findings(group).into_iter().map(move |one| (group, one));
    view.groups.iter().flat_map(of_group).collect()
}

pub(crate) fn black_holes(group: &GroupView) -> Vec<String> {
    let found = findings(group).into_iter().filter(|one| one.kind == DiagnosisKind::MtuBlackHole);
    found
        .map(|one| format!("path {}: {}{} in {}", one.path, title(one.kind), one.period(), one.of_runs()))
        .collect()
}
