//! Renders the summary of a result for the terminal.

mod chart;
mod page;
mod table;

use crate::ResultSet;
use crate::narrative::{self, path_mtu};
use crate::quantity::{counted, duration};
use crate::section::{Block, Finding, Section, findings, links, mtu as mtu_sections, paths, results};
use crate::view::{View, override_text};
use page::{Ink, Line, Page, fitted};
use pathbench_record::document::{MtuChange, MtuRecord};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it shows colours (the caller honours `NO_COLOR`).
    pub colour: bool,
    /// Its width in columns; taken for 80 when it is less.
    pub width: usize,
}

/// Findings beyond this are left to the report.
const MOST_FINDINGS: usize = 12;

/// The summary of a result: what was asked, whether multipath was used, the figures per label, which path carried the
/// bytes, a small timeline, findings and notes.
///
/// No line is longer than the terminal is wide, except commands and names of files.
pub fn summary(set: &ResultSet, style: Style) -> String {
    let view = View::new(set);
    let mut page = Page::new(style);
    write_question(&mut page, &view);
    if let Some(record) = &set.document.mtu {
        write_sections(&mut page, mtu_sections::sections(record));
    }
    if set.document.mtu.is_none() || !set.document.runs.is_empty() {
        let sections = [
            links::servers(&view),
            links::reachability(&view, false),
            links::links(&view, false),
            findings::verdicts(&view),
            results::summary(&view),
            paths::handovers(&view),
            paths::carried(&view, false),
            findings::diagnoses(&view),
        ];
        write_sections(&mut page, sections.into_iter().flatten());
        chart::write_goodput(&mut page, &view);
        chart::write_delays(&mut page, &view);
        let stories = Section::of_findings("What happened", "", findings::stories(&view));
        let none = || Section::new("No run was made.", "", Vec::new());
        write_sections(&mut page, [stories.unwrap_or_else(none)]);
    }
    let sections = [findings::notes(&view), findings::expectations(&view), findings::invalid(&view)];
    write_sections(&mut page, sections.into_iter().flatten());
    write_files(&mut page, set);
    page.finish()
}

/// What `pathbench mtu` found: the paths, then the steps that correct the kernel's state, and what changed meanwhile.
pub fn mtu(record: &MtuRecord, style: Style) -> String {
    let mut page = Page::new(style);
    write_sections(&mut page, mtu_sections::sections(record));
    page.finish().trim_start().to_owned()
}

pub fn mtu_change(change: &MtuChange, style: Style) -> String {
    let mut page = Page::new(style);
    let ink = match (change.from_bytes, change.to_bytes) {
        (_, None) => Ink::Bad,
        (Some(from), Some(to)) if to < from => Ink::Warn,
        _ => Ink::Good,
    };
    let line = Line::new().add(Ink::Dim, &format!("  {:>8}  ", duration(change.t_ms)));
    page.line(line.add(ink, &path_mtu::change(change)));
    page.finish()
}

fn write_question(page: &mut Page, view: &View) {
    let document = &view.set.document;
    let scenario = &document.scenario;
    let start = Line::new().add(Ink::Strong, &fitted(&scenario.name, 40)).add(Ink::Plain, "  ");
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
    let mut labels: Vec<&str> = Vec::new();
    for (_, label) in view.labels() {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    if (1..=8).contains(&labels.len()) {
        parts.push(labels.join(", "));
    }
    // An examination of path MTUs has no runs, and nothing random.
    if document.mtu.is_none() || !document.runs.is_empty() {
        parts.push(counted(document.runs.len() as u32, "run"));
        parts.push(format!("seed {}", document.seed));
    }
    if !document.host.kernel.is_empty() {
        parts.push(format!("Linux {}", document.host.kernel));
    }
    parts.extend(scenario.overrides.iter().map(|(key, value)| override_text(key, value)));
    // Parts stay whole; lines break between them.
    let parts: Vec<String> = parts.iter().map(|part| part.replace(' ', "\u{a0}")).collect();
    page.paragraph(Line::new(), Ink::Dim, &parts.join(" · "));
}

fn write_sections(page: &mut Page, sections: impl IntoIterator<Item = Section>) {
    for section in sections {
        page.heading(&section.title, &section.remark);
        for block in &section.blocks {
            match block {
                Block::Findings(findings) => write_findings(page, findings),
                Block::Table(one) => table::write(page, one),
                Block::Text(text) => page.paragraph(Line::new().add(Ink::Plain, "  "), Ink::Plain, text),
                Block::Commands(commands) => write_commands(page, commands),
            }
        }
    }
}

fn write_findings(page: &mut Page, findings: &[Finding]) {
    let many = findings.len() > MOST_FINDINGS;
    let shown: Vec<&Finding> =
        findings.iter().filter(|one| !many || one.tone != narrative::Tone::Good).collect();
    for one in shown.iter().take(MOST_FINDINGS) {
        let start = Line::new().add(Ink::Plain, "  ").add(Ink::of(one.tone), one.tone.sign());
        let text = format!("{} {}", one.subject, one.text);
        page.paragraph(start.add(Ink::Plain, " "), Ink::Plain, text.trim_start());
        // The first detail is in the table of results.
        for detail in one.details.iter().skip(1) {
            page.paragraph(Line::new().add(Ink::Plain, "    "), Ink::Dim, detail);
        }
    }
    if shown.len() > MOST_FINDINGS {
        page.more(shown.len() - MOST_FINDINGS);
    } else if shown.len() < findings.len() {
        let others = findings.len() - shown.len();
        let text = format!("  {others} of {} without trouble; their figures are above", findings.len());
        page.line(Line::new().add(Ink::Dim, &text));
    }
}

fn write_commands(page: &mut Page, commands: &[(bool, String, String)]) {
    for (done, command, undo) in commands {
        let (sign, ink) = if *done { ("✓", Ink::Good) } else { ("·", Ink::Dim) };
        page.copyable(Line::new().add(Ink::Plain, "  ").add(ink, sign).add(Ink::Plain, " "), command);
        if !undo.is_empty() {
            page.copyable(Line::new().add(Ink::Dim, "      undo: "), undo);
        }
    }
}

fn write_files(page: &mut Page, set: &ResultSet) {
    let Some(directory) = &set.directory else { return };
    page.blank();
    let report = directory.join("report.html");
    if report.is_file() {
        page.copyable(Line::new().add(Ink::Plain, "Report   "), &report.display().to_string());
    }
    page.copyable(Line::new().add(Ink::Plain, "Results  "), &directory.display().to_string());
}
