//! Paths that carried nothing, and why.

use super::page::{Ink, Line, Page};
use crate::narrative::diagnosis;
use crate::view::{GroupView, View, name_of};
use pathbench_record::document::Variant;

/// Findings beyond this are left to the report.
const MOST_FINDINGS: usize = 12;

/// A line per label, path and kind, once for all repetitions that say the same.
pub(super) fn write(page: &mut Page, view: &View) {
    let mut findings = diagnosis::of_view(view);
    if findings.is_empty() {
        return;
    }
    // What is wrong comes before what is as it was asked for; within both the groups keep their order.
    findings.sort_by_key(|(_, one)| !one.is_trouble());
    page.heading("Paths that carried nothing", "for a second or more, and why");
    let mut told: Vec<(String, &str)> = Vec::new();
    for (group, one) in findings.iter().take(MOST_FINDINGS) {
        let (mark, ink) = if one.is_trouble() { ("✗", Ink::Bad) } else { ("·", Ink::Dim) };
        let start = Line::new().add(Ink::Plain, "  ").add(ink, mark).add(Ink::Plain, " ");
        let repetitions = one.repetitions().map_or(String::new(), |which| format!(" {which}"));
        // What differs in nothing but its numbers is told once.
        let signs = (one.because().chars().filter(|c| !c.is_ascii_digit()).collect(), one.remedy());
        let sentence = if told.last() == Some(&signs) { one.in_short() } else { one.sentence() };
        told.push(signs);
        page.paragraph(start, Ink::Plain, &format!("{}{repetitions}: {sentence}", said(group)));
    }
    if findings.len() > MOST_FINDINGS {
        page.more(findings.len() - MOST_FINDINGS);
    }
}

/// The label, with its pattern where there are several and its variant where there is one.
fn said(group: &GroupView) -> String {
    let name = name_of(group.label, group.said_pattern(), &Variant::new());
    let variant = crate::view::variant_text(group.variant);
    if variant.is_empty() { name } else { format!("{name} ({variant})") }
}
