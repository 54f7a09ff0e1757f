//! Findings and tables as data, built once from results. The terminal summary and the HTML report render the same
//! sections; the summary omits some.

pub(crate) mod comparisons;
mod content;
pub(crate) mod findings;
pub(crate) mod links;
pub(crate) mod matrix;
pub(crate) mod mtu;
pub(crate) mod paths;
pub(crate) mod response;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod trace;
pub(crate) mod unified_mss;

pub(crate) use content::{Block, Cell, Column, Finding, Items, Row, Section, Table, Value};

use crate::view::View;

/// The sections of a summary that precede its findings.
pub(crate) fn measured(view: &View) -> impl Iterator<Item = Section> {
    let sections = [
        links::servers(view),
        links::reachability(view, false),
        links::links(view, false),
        findings::verdicts(view),
        results::summary(view),
        response::of_groups(view),
        comparisons::comparisons(view),
        paths::handovers(view),
        paths::carried(view, false),
        findings::diagnoses(view),
        findings::limits(view),
    ];
    sections.into_iter().flatten()
}

/// The sections of what went wrong, with only these findings.
pub(crate) fn problems(view: &View) -> impl Iterator<Item = Section> {
    let stories = Section::of_findings("What happened", "", findings::stories(view));
    let sections =
        [stories, findings::diagnoses(view), findings::expectations(view), findings::left_out(view)];
    sections.into_iter().flatten().filter_map(Section::of_problems)
}

/// The sections of a summary that follow its findings.
pub(crate) fn closing(view: &View) -> impl Iterator<Item = Section> {
    [findings::notes(view), findings::expectations(view), findings::left_out(view)].into_iter().flatten()
}
