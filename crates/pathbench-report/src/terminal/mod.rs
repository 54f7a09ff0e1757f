//! Renders the summary of a result for the terminal.

mod chart;
mod definitions;

pub mod live;
mod notices;
mod page;
mod table;

use crate::compare::{self, ComparedResults};
use crate::list::distinct;
use crate::narrative::{self, headline, path_mtu};
use crate::quantity::{counted, duration, joined_facts};
use crate::result_set::ResultSet;
use crate::section::{self, Block, Finding, Section, findings, mtu as mtu_sections};
use crate::view::{View, override_text};
pub use definitions::definitions;
pub use notices::{Notice, NoticeGroup, notices};
pub use page::Style;
use page::{Ink, Line, Page, fitted};
use pathbench_record::document::{MtuChange, MtuRecord, MtuStep};
use pathbench_record::trace::TraceDocument;

const MOST_FINDINGS: usize = 12;
const MOST_EVIDENCE: usize = 20;

/// The summary of a result: the scenario, whether multipath was used, the figures per label, the bytes per path, a
/// small timeline, findings and notes.
///
/// No line is longer than the terminal is wide, except commands and file names.
pub fn summary(set: &ResultSet, style: Style) -> String {
    let view = View::new(set);
    let mut page = Page::new(style);
    write_findings(&mut page, headline::of_document(&set.document).as_slice());
    write_question(&mut page, &view);
    if let Some(record) = &set.document.mtu {
        write_sections(&mut page, mtu_sections::sections(record));
    }
    if set.document.mtu.is_none() || !set.document.runs.is_empty() {
        write_sections(&mut page, section::measured(&view));
        chart::write_goodput(&mut page, &view);
        chart::write_delays(&mut page, &view);
        let stories = Section::of_findings("What happened", "", findings::stories(&view));
        let none = || Section::new("No run was made.", "", Vec::new());
        write_sections(&mut page, [stories.unwrap_or_else(none)]);
    }
    write_sections(&mut page, section::closing(&view));
    write_files(&mut page, set);
    page.text
}

/// The headline, whether multipath was used, and problems.
pub fn brief(set: &ResultSet, style: Style) -> String {
    let view = View::new(set);
    let mut page = Page::new(style);
    write_findings(&mut page, headline::of_document(&set.document).as_slice());
    if let Some(record) = &set.document.mtu {
        write_sections(&mut page, mtu_sections::sections(record));
    }
    write_sections(&mut page, findings::verdicts(&view));
    write_sections(&mut page, section::problems(&view));
    page.text.trim_start_matches('\n').to_owned()
}

/// The result of `pathbench mtu`: the paths, the steps that correct the kernel's state, and changes during the watch.
pub fn mtu(record: &MtuRecord, style: Style) -> String {
    let mut page = Page::new(style);
    write_sections(&mut page, mtu_sections::sections(record));
    page.text.trim_start().to_owned()
}

pub fn mtu_change(change: &MtuChange, style: Style) -> String {
    let mut page = Page::new(style);
    let ink = match (change.from_bytes, change.to_bytes) {
        (_, None) => Ink::Bad,
        (Some(from), Some(to)) if to < from => Ink::Warn,
        _ => Ink::Good,
    };
    let line = Line::new(Ink::Dim, &format!("  {:>8}  ", duration(change.t_ms)));
    page.line(line.add(ink, &path_mtu::change(change)));
    page.text
}

/// The commands for a shell, and in comments the commands that undo them, in reverse order.
pub fn mtu_script(steps: &[MtuStep]) -> String {
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
        lines.push("# undo:".to_owned());
        lines.extend(undoing.into_iter().map(|line| format!("# {line}")));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The analysis of packet captures: captures, totals, connections with their subflows, findings.
pub fn trace(document: &TraceDocument, style: Style) -> String {
    let mut page = Page::new(style);
    write_sections(&mut page, section::trace::summary(document));
    page.text.trim_start_matches('\n').to_owned()
}

/// Results compared with the first of them.
pub fn comparison(compared: &ComparedResults, sets: &[ResultSet], style: Style) -> String {
    let mut page = Page::new(style);
    write_findings(&mut page, &[compare::headline(compared)]);
    let sets: Vec<&ResultSet> = sets.iter().collect();
    write_sections(&mut page, compare::sections(compared, &sets));
    page.text.trim_start_matches('\n').to_owned()
}

fn write_question(page: &mut Page, view: &View) {
    let document = &view.set.document;
    let scenario = &document.scenario;
    let start = Line::new(Ink::Strong, &fitted(&scenario.name, 40)).add(Ink::Plain, "  ");
    page.paragraph(start, Ink::Plain, &scenario.description);
    let mut parts = Vec::new();
    match (view.patterns().as_slice(), document.runs.first()) {
        ([_, _, ..], _) => {
            let names: Vec<&str> = view.patterns().iter().map(|pattern| pattern.name).collect();
            parts.push(names.join(", "));
        }
        (_, Some(run)) => parts.push(narrative::traffic(run)),
        _ => {}
    }
    let labels = distinct(view.groups.iter().map(|group| group.label));
    if (1..=8).contains(&labels.len()) {
        parts.push(labels.join(", "));
    }
    // An examination of path MTUs has no runs and no seed.
    if document.mtu.is_none() || !document.runs.is_empty() {
        parts.push(counted(document.runs.len(), "run"));
        parts.push(format!("seed {}", document.seed));
    }
    if !document.host.kernel.is_empty() {
        parts.push(format!("Linux {}", document.host.kernel));
    }
    parts.extend(scenario.overrides.iter().map(|(key, value)| override_text(key, value)));
    page.paragraph(Line::default(), Ink::Dim, &joined_facts(&parts));
}

fn write_sections(page: &mut Page, sections: impl IntoIterator<Item = Section>) {
    for section in sections {
        page.heading(&section.title, &section.remark);
        for block in &section.blocks {
            match block {
                Block::Findings(findings) => write_findings(page, findings),
                Block::Table(one) => table::write(page, one),
                Block::Text(text) => page.paragraph(Line::new(Ink::Plain, "  "), Ink::Plain, text),
                Block::Commands(commands) => write_commands(page, commands),
                Block::Evidence(all) => write_evidence(page, all),
            }
        }
    }
}

fn write_findings(page: &mut Page, findings: &[Finding]) {
    let many = findings.len() > MOST_FINDINGS;
    let shown: Vec<&Finding> =
        findings.iter().filter(|one| !many || one.tone != narrative::Tone::Good).collect();
    for one in shown.iter().take(MOST_FINDINGS) {
        let start = Line::new(Ink::Plain, "  ").add(Ink::from_tone(one.tone), one.tone.sign());
        let text = format!("{} {}", one.subject, one.text);
        page.paragraph(start.add(Ink::Plain, " "), Ink::Plain, text.trim_start());
        // The table of results has the first detail.
        for detail in one.details.iter().skip(1) {
            page.paragraph(Line::new(Ink::Plain, "    "), Ink::Dim, detail);
        }
    }
    if shown.len() > MOST_FINDINGS {
        page.more(shown.len() - MOST_FINDINGS);
    } else if shown.len() < findings.len() {
        let others = findings.len() - shown.len();
        let text = format!("  {others} of {} without trouble; their figures are above", findings.len());
        page.line(Line::new(Ink::Dim, &text));
    }
}

fn write_commands(page: &mut Page, commands: &[(bool, String, String)]) {
    for (done, command, undo) in commands {
        let (sign, ink) = if *done { ("✓", Ink::Good) } else { ("·", Ink::Dim) };
        page.copyable(Line::new(Ink::Plain, "  ").add(ink, sign).add(Ink::Plain, " "), command);
        if !undo.is_empty() {
            page.copyable(Line::new(Ink::Dim, "      undo: "), undo);
        }
    }
}

fn write_evidence(page: &mut Page, all: &[(Finding, String)]) {
    for (finding, filter) in all.iter().take(MOST_EVIDENCE) {
        write_findings(page, std::slice::from_ref(finding));
        if !filter.is_empty() {
            page.copyable(Line::new(Ink::Dim, "    filter: "), filter);
        }
    }
    if all.len() > MOST_EVIDENCE {
        page.more(all.len() - MOST_EVIDENCE);
    }
}

fn write_files(page: &mut Page, set: &ResultSet) {
    let Some(directory) = &set.directory else { return };
    page.text.push('\n');
    let report = directory.join("report.html");
    if report.is_file() {
        page.copyable(Line::new(Ink::Plain, "Report   "), &report.display().to_string());
    }
    page.copyable(Line::new(Ink::Plain, "Results  "), &directory.display().to_string());
}
