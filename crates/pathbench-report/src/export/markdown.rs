//! The summary's findings and tables as Markdown, for an issue or a document.

use crate::compare::{self, ComparedResults};
use crate::result_set::ResultSet;
use crate::section::{self, Block, Cell, Finding, Section, Table, findings, mtu};
use crate::view::View;
use pathbench_record::text;

pub(super) fn summary(set: &ResultSet, name: &str) -> String {
    let view = View::new(set);
    let scenario = &set.document.scenario;
    let mut page = format!("## {}\n", escaped(name));
    for paragraph in [&scenario.name, &scenario.description] {
        if !paragraph.is_empty() {
            page.extend(["\n", &escaped(paragraph), "\n"]);
        }
    }
    let of_mtu = set.document.mtu.as_ref().map(mtu::sections).into_iter().flatten();
    let stories = Section::of_findings("What happened", "", findings::stories(&view));
    let sections = section::measured(&view).chain(stories).chain(section::closing(&view));
    for section in of_mtu.chain(sections) {
        page += &of_section(&section);
    }
    page
}

/// Results compared with the first of them, for a pull request.
pub fn comparison(compared: &ComparedResults, sets: &[ResultSet]) -> String {
    let sets: Vec<&ResultSet> = sets.iter().collect();
    let headline = of_finding(&compare::headline(compared));
    let sections = compare::sections(compared, &sets);
    let sections = sections.iter().map(of_section);
    format!("## Pathbench: {}\n\n{headline}{}", escaped(&compared.baseline.scenario), lines(sections))
}

fn of_section(section: &Section) -> String {
    let mut text = format!("\n### {}\n", escaped(&section.title));
    if !section.remark.is_empty() {
        text.extend(["\n", &escaped(&section.remark), "\n"]);
    }
    for block in &section.blocks {
        text.push('\n');
        text += &match block {
            Block::Findings(findings) => lines(findings.iter().map(of_finding)),
            Block::Table(table) => of_table(table),
            Block::Text(words) => escaped(words) + "\n",
            Block::Evidence(all) => lines(all.iter().map(|(finding, filter)| {
                format!("{}  display filter: {}\n", of_finding(finding), escaped(filter))
            })),
            Block::Commands(commands) => {
                lines(commands.iter().map(|(_, command, _)| format!("    {}\n", plain(command))))
            }
        };
    }
    text
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect()
}

fn of_finding(finding: &Finding) -> String {
    let details = lines(finding.details.iter().map(|detail| format!("  {}\n", escaped(detail))));
    let subject = escaped(finding.subject.trim_end_matches(':'));
    let subject = if subject.is_empty() { subject } else { format!("**{subject}**: ") };
    format!("- {subject}{}\n{details}", escaped(&finding.text))
}

fn of_table(table: &Table) -> String {
    let is_shown: Vec<bool> = table.columns.iter().map(|column| !column.in_report_only).collect();
    let has_groups = table.rows.iter().any(|row| !row.group.is_empty());
    let row = |cells: Vec<String>, group: &str| {
        let group = has_groups.then(|| escaped(group));
        let cells = cells.into_iter().zip(&is_shown).filter(|(_, is_shown)| **is_shown).map(|(cell, _)| cell);
        format!("| {} |\n", group.into_iter().chain(cells).collect::<Vec<_>>().join(" | "))
    };
    let titles = table.columns.iter().map(|column| escaped(&column.title)).collect();
    let rule = table.columns.iter().map(|column| if column.is_number { "---:" } else { "---" }.to_owned());
    let mut text = row(titles, "variant");
    text += &row(rule.collect(), "---");
    text.extend(table.rows.iter().map(|one| row(one.cells.iter().map(of_cell).collect(), &one.group)));
    text
}

fn of_cell(cell: &Cell) -> String {
    let lines = [cell.value.shown()].into_iter().chain(cell.lines());
    lines.map(|line| escaped(&line)).collect::<Vec<_>>().join("<br>")
}

/// One line without control characters.
fn plain(words: &str) -> String {
    text::printable(words, usize::MAX)
}

/// Text that Markdown shows as it is: names come from files.
fn escaped(words: &str) -> String {
    let mut text = String::new();
    for character in plain(words).chars() {
        match character {
            '<' => text.push_str("&lt;"),
            '&' => text.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '>' | '$' | '@' => {
                text.push('\\');
                text.push(character);
            }
            other => text.push(other),
        }
    }
    text
}
