//! Renders tables for the terminal.

use super::page::{Ink, Line, PATHS, Page, clean, fitted, with_units_held};
use crate::narrative::Tone;
use crate::section::{Cell, Column, Row, Table, Value};
use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, presets};

const MOST_ROWS: usize = 24;
/// Below this width a table is a list: words of columns would be broken.
const NARROWEST: usize = 64;
const BAR: usize = 12;
/// Marks the first line of each row, without width.
const ROW_MARK: char = '\u{2060}';

pub(super) fn write(page: &mut Page, table: &Table) {
    let is_filled = |index: usize| {
        table
            .rows
            .iter()
            .filter_map(|row| row.cells.get(index))
            .any(|cell| !matches!(cell.value, Value::Absent))
    };
    let columns = table.columns.iter().enumerate();
    let shown = columns.filter(|(index, column)| !column.in_report_only && is_filled(*index));
    let shown: Vec<usize> = shown.map(|(index, _)| index).collect();
    if page.style.width < NARROWEST {
        return write_list(page, table, &shown);
    }
    let mut drawn = comfy_table::Table::new();
    drawn
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(page.style.width.saturating_sub(2)).unwrap_or(u16::MAX));
    if page.style.colour {
        drawn.enforce_styling().style_text_only();
    } else {
        drawn.force_no_tty();
    }
    let title = |column: &Column| if column.is_title_hidden { String::new() } else { clean(&column.title) };
    let titles = shown.iter().map(|index| inked(&title(&table.columns[*index]), Ink::Dim));
    drawn.set_header(titles.collect::<Vec<_>>());
    for row in table.rows.iter().take(MOST_ROWS) {
        add(&mut drawn, row, &shown);
    }
    for (position, index) in shown.iter().enumerate() {
        if let Some(column) = drawn.column_mut(position) {
            column.set_padding((0, 2));
            if table.columns[*index].is_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    write_lines(page, &drawn.trim_fmt(), &table.rows);
    if table.rows.len() > MOST_ROWS {
        page.more(table.rows.len() - MOST_ROWS);
    }
}

/// A paragraph for each row: its first cell, then the others with the titles of their columns.
fn write_list(page: &mut Page, table: &Table, shown: &[usize]) {
    let mut group = "";
    let mut heading = String::new();
    for row in table.rows.iter().take(MOST_ROWS) {
        if row.group != group && !row.group.is_empty() {
            page.paragraph(Line::new(Ink::Plain, "  "), Ink::Strong, &row.group);
        }
        group = &row.group;
        let mut parts = Vec::new();
        for (position, index) in shown.iter().enumerate() {
            let (Some(cell), Some(column)) = (row.cells.get(*index), table.columns.get(*index)) else {
                continue;
            };
            let text = clean(&cell.value.shown().replace('`', ""));
            if matches!(cell.value, Value::Absent) || text.is_empty() {
                continue;
            }
            let text = cell.lines().fold(text, |text, line| format!("{text} ({line})"));
            match position {
                0 => heading = text,
                _ if column.is_title_hidden => parts.push(text),
                _ => parts.push(format!("{} {text}", column.title)),
            }
        }
        // A row that continues the one above has no heading.
        let start = Line::new(Ink::Plain, "  ").add(Ink::Strong, &heading).add(Ink::Plain, " ");
        page.paragraph(start, Ink::Plain, &parts.join(" · "));
        write_notes(page, Some(row));
    }
    if table.rows.len() > MOST_ROWS {
        page.more(table.rows.len() - MOST_ROWS);
    }
}

/// The table's lines, with the groups above their rows and the notes below.
fn write_lines(page: &mut Page, text: &str, rows: &[Row]) {
    let mut rows = rows.iter();
    let (mut row, mut group): (Option<&Row>, &str) = (None, "");
    for line in text.lines() {
        if line.contains(ROW_MARK) {
            write_notes(page, row);
            row = rows.next();
            let next = row.map_or("", |row| row.group.as_str());
            if next != group && !next.is_empty() {
                page.paragraph(Line::new(Ink::Plain, "  "), Ink::Strong, next);
            }
            group = next;
        }
        page.ready(&format!("  {}", line.replace(ROW_MARK, "")));
    }
    write_notes(page, row);
}

fn write_notes(page: &mut Page, row: Option<&Row>) {
    for (tone, note) in row.iter().flat_map(|row| &row.notes) {
        page.paragraph(Line::new(Ink::Plain, "      "), Ink::from_tone(*tone), note);
    }
}

fn add(drawn: &mut comfy_table::Table, row: &Row, shown: &[usize]) {
    let cells = shown.iter().filter_map(|index| row.cells.get(*index)).enumerate();
    let cells = cells.map(|(position, cell)| {
        let (ink, text) = value(cell, position == 0);
        let mark = if position == 0 { String::from(ROW_MARK) } else { String::new() };
        let lines =
            std::iter::once(format!("{mark}{text}")).chain(cell.lines().map(|line| fitted(&line, 48)));
        inked(&lines.map(|line| with_units_held(&line)).collect::<Vec<_>>().join("\n"), ink)
    });
    drawn.add_row(cells.collect::<Vec<_>>());
}

fn value(cell: &Cell, is_first: bool) -> (Ink, String) {
    let text = clean(&cell.value.shown().replace('`', ""));
    let ink = match &cell.value {
        Value::Absent => Ink::Dim,
        Value::Path { rank, .. } => return (Ink::Path(*rank), fitted(&text, 16)),
        Value::Share { rank, part } => {
            return (Ink::Path(*rank), format!("{} {text:>5}", bar(*part)));
        }
        Value::Sign(is_good) => Ink::from_tone(if *is_good { Tone::Good } else { Tone::Bad }),
        _ => cell.tone.map_or(if is_first { Ink::Strong } else { Ink::Plain }, Ink::from_tone),
    };
    (ink, if is_first { fitted(&text, 32) } else { text })
}

fn inked(text: &str, ink: Ink) -> comfy_table::Cell {
    let cell = comfy_table::Cell::new(text);
    match ink {
        Ink::Plain => cell,
        Ink::Strong => cell.add_attribute(Attribute::Bold),
        Ink::Dim => cell.add_attribute(Attribute::Dim),
        Ink::Good => cell.fg(Color::DarkGreen),
        Ink::Warn => cell.fg(Color::DarkYellow),
        Ink::Bad => cell.fg(Color::DarkRed).add_attribute(Attribute::Bold),
        Ink::Path(rank) => cell.fg(PATHS[rank % PATHS.len()].1),
    }
}

fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let part = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (part * 8.0 * BAR as f64).round() as usize;
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    format!("{bar:<BAR$}")
}
