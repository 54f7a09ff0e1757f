//! Sentences about paths without data, with the reason; repetitions with the same diagnosis share a sentence.

use crate::list::grouped;
use crate::quantity::{counted, duration, range};
use crate::view::{GroupView, View};
use pathbench_record::document::{DiagnosisKind, PathDiagnosis, RunRecord};

/// Whether the path has a fault. An unneeded backup, a path that was not chosen and a path that the scenario took
/// down have none: their remedy begins with "none".
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
        DiagnosisKind::InitialPath => "initial path, dead when the connection was to open",
    }
}

pub(crate) fn finding(one: &PathDiagnosis) -> String {
    format!("path {}: {}{}", one.path, title(one.kind), period(&[one]))
}

/// The period of the diagnoses: ` from 0.2 s on`, ` from 0.2–0.3 s to 6.3 s`, empty for the whole run.
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

    pub(crate) fn repetitions(&self) -> Option<String> {
        (self.runs.len() < self.of).then(|| {
            let numbers: Vec<String> = self.runs.iter().map(|run| format!("r{}", run.repetition)).collect();
            sentence_list(&numbers)
        })
    }

    pub(crate) fn of_runs(&self) -> String {
        match (self.runs.len(), self.of) {
            (1, 1) => "the only run".to_owned(),
            (found, of) if found == of => format!("all {}", counted(of, "run")),
            (found, of) => format!("{found} of {}", counted(of, "run")),
        }
    }

    pub(crate) fn because(&self) -> &'a str {
        self.all.first().map_or("", |one| one.because.trim())
    }

    pub(crate) fn remedy(&self) -> &'a str {
        self.all.first().map_or("", |one| one.remedy.trim())
    }

    pub(crate) fn in_short(&self) -> String {
        format!("path {}: {}{}; signs and remedy as above", self.path, title(self.kind), self.period())
    }

    pub(crate) fn sentence(&self) -> String {
        let because = self.because().trim_end_matches('.');
        let because = if because.is_empty() { String::new() } else { format!(": {because}") };
        let remedy = self.remedy().trim_end_matches('.');
        let remedy = if remedy.is_empty() { String::new() } else { format!(" Remedy: {remedy}.") };
        format!("path {}: {}{}{because}.{remedy}", self.path, title(self.kind), self.period())
    }
}

fn sentence_list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub(crate) fn findings<'a>(group: &GroupView<'a>) -> Vec<Finding<'a>> {
    let of = group.valid() as usize;
    let all = group.valid_runs().flat_map(|run| run.diagnoses.iter().map(move |one| (run, one)));
    let all = grouped(all, |(_, one)| (one.path.as_str(), one.kind)).into_iter();
    let finding = |((path, kind), found): (_, Vec<(&'a RunRecord, &'a PathDiagnosis)>)| {
        let (mut runs, all): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        runs.dedup_by_key(|run| &run.id);
        Finding { path, kind, runs, all, of }
    };
    let mut found: Vec<Finding> = all.map(finding).collect();
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
