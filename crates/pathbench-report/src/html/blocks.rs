//! Findings, tables and texts as markup.

use crate::narrative::Tone;
use crate::palette::{PATH_COLOURS, path_colour};
use crate::quantity::percent;
use crate::section::{Block, Cell, Column, Finding, Row, Section, Table, Value};
use maud::{Markup, html};

/// With more findings than this, findings without trouble are folded.
const MOST_FINDINGS: usize = 12;

/// All findings; with `is_folded`, the details of each are in a fold.
pub(super) fn findings(all: &[Finding], is_folded: bool) -> Markup {
    let is_quiet = |one: &&Finding| all.len() > MOST_FINDINGS && one.tone == Tone::Good;
    let (quiet, shown): (Vec<&Finding>, Vec<&Finding>) = all.iter().partition(is_quiet);
    let is_quiet_only = shown.is_empty();
    html! {
        @for one in shown { (finding(one, is_folded)) }
        @if !quiet.is_empty() {
            // Without trouble, these sentences are the answer.
            details.printed open[is_quiet_only && all.len() <= 2 * MOST_FINDINGS] {
                summary { (mark(true)) " " (quiet.len()) " of " (all.len()) " without trouble" }
                div.inside { @for one in quiet { (finding(one, is_folded)) } }
            }
        }
    }
}

pub(super) fn finding(one: &Finding, is_folded: bool) -> Markup {
    let details: Vec<&String> = one.details.iter().filter(|detail| !detail.is_empty()).collect();
    let list = html! { ul { @for detail in &details { li { (detail) } } } };
    html! {
        div.finding.(one.tone.name()) {
            p {
                span.sign aria-hidden="true" { (one.tone.sign()) } " "
                @if !one.subject.is_empty() { b { (one.subject) } " " }
                (prose(&one.text))
            }
            @if !details.is_empty() {
                @if is_folded {
                    details.more.printed { summary { "Details" span.hidden { " of " (one.subject) } } (list) }
                } @else { (list) }
            }
        }
    }
}

pub(super) fn sections(all: impl IntoIterator<Item = Section>) -> Markup {
    html! { @for one in all { section { h2 { (one.title) } (blocks(&one)) } } }
}

pub(super) fn blocks(section: &Section) -> Markup {
    html! {
        // Below the heading: below the blocks it would stand alone.
        @if !section.remark.is_empty() { p.muted.remark { (prose(&section.remark)) } }
        @for block in &section.blocks {
            @match block {
                Block::Findings(all) => { (findings(all, false)) }
                Block::Table(one) => { (table(one, &section.title)) }
                Block::Text(text) => { p { (prose(text)) } }
                Block::Evidence(all) => {
                    @for (one, filter) in all {
                        (finding(one, false))
                        @if !filter.is_empty() { p.muted { "Display filter: " code { (filter) } } }
                    }
                }
                Block::Commands(all) => {
                    ul { @for (done, command, undo) in all { li {
                        (mark(*done)) " " code { (command) }
                        @if !undo.is_empty() { " undo: " code { (undo) } }
                    } } }
                }
            }
        }
    }
}

/// A table in an area that the keyboard can scroll.
pub(super) fn table(table: &Table, name: &str) -> Markup {
    let name = if name.is_empty() { "Table" } else { name };
    html! {
        div.scroll role="group" tabindex="0" aria-label=(name) {
            table {
                caption.hidden { (name) }
                thead { tr { @for one in &table.columns { (heading(one)) } } }
                tbody { @for rows in table.rows.chunk_by(|a, b| a.group == b.group || b.group.is_empty()) {
                    @if !rows[0].group.is_empty() {
                        tr.variant { th scope="colgroup" colspan=(table.columns.len()) { (rows[0].group) } }
                    }
                    @for (index, row) in rows.iter().enumerate() {
                        (table_row(table, row, rows[..index].iter().rev()))
                    }
                } }
            }
        }
    }
}

fn heading(column: &Column) -> Markup {
    html! {
        th class=[column.is_number.then_some("n")] scope="col" {
            @if column.is_title_hidden { span.hidden { (column.title) } } @else { (column.title) }
        }
    }
}

fn table_row<'a>(table: &Table, row: &Row, mut before: impl Iterator<Item = &'a Row>) -> Markup {
    let is_blank = |row: &Row| row.cells.first().is_none_or(|cell| cell.value.shown().is_empty());
    // A row that continues the one above repeats its heading for screen readers.
    let continued =
        before.find(|row| !is_blank(row)).and_then(|row| row.cells.first()).filter(|_| is_blank(row));
    html! {
        tr { @for (index, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
            @if index > 0 { td class=[column.is_number.then_some("n")] { (cell_content(cell)) } }
            @else if let Some(above) = continued { th scope="row" { span.hidden { (above.value.shown()) } } }
            @else if is_blank(row) { td {} }
            @else { th scope="row" { (cell_content(cell)) } }
        } }
        @for (tone, note) in &row.notes {
            tr { td.(tone.name()) colspan=(table.columns.len()) { (note) } }
        }
    }
}

fn cell_content(cell: &Cell) -> Markup {
    let text = cell.value.shown();
    html! {
        @match (&cell.value, cell.tone) {
            (Value::Path { rank, .. }, _) => {
                span.path title=(text) { span.{ "swatch p" (rank % PATH_COLOURS) } {} (text) }
            }
            (Value::Share { rank, part }, _) => { (share(*rank, *part)) }
            (Value::Sign(is_good), _) => { (mark(*is_good)) }
            (_, Some(tone)) => { span.(tone.name()) { (prose(&text)) } }
            (_, None) => { (prose(&text)) }
        }
        @for line in cell.lines() { small { (line) } }
    }
}

/// A bar as a picture: a style attribute would need an exception in the content security policy.
fn share(rank: usize, share: f64) -> Markup {
    let part = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(format!("{part:.1}")) height="10" fill=(path_colour(rank).in_page()) {}
        }
        (percent(share))
    }
}

/// Text with code between backquotes.
pub(super) fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    html! {
        // An unpaired backquote comes from a file; it stays as text.
        @if parts.len().is_multiple_of(2) { (text) }
        @else { @for (index, part) in parts.into_iter().enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        } }
    }
}

/// A yes or no mark, with words for screen readers.
pub(super) fn mark(good: bool) -> Markup {
    let (tone, sign, words) = if good { ("good", "✓", "yes") } else { ("bad", "✗", "no") };
    html! { span.(tone) { span aria-hidden="true" { (sign) } span.hidden { (words) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_trouble_is_not_folded() {
        let of = |tone| (0..20).map(move |_| Finding::new(tone, "tcp", "delivered 1 Mbit/s."));
        let is_open = |all: Vec<Finding>| findings(&all, true).into_string().contains("printed\" open");
        assert!(is_open(of(Tone::Good).collect()));
        assert!(!is_open(of(Tone::Good).chain(of(Tone::Bad)).collect()), "the troubled ones are the answer");
        assert!(!is_open(of(Tone::Good).chain(of(Tone::Good)).collect()), "too many");
    }
}
