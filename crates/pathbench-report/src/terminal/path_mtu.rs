//! The MTU of each path, what the kernel believes, and what to do about it.

use super::Style;
use super::page::{Ink, Line, Page, columns, fitted};
use crate::narrative::path_mtu as words;
use crate::quantity::duration;
use pathbench_record::document::{DirectionMtu, KernelBelief, MtuChange, MtuRecord, MtuStep, PathMtu};

/// Where the words of a path begin, after what they are about.
const WORDS: usize = 13;

/// What `pathbench mtu` found: a block per path, then the steps that put the kernel right, and what changed while it
/// watched.
///
/// No line is longer than the terminal is wide, but for commands, which are never cut.
pub fn mtu(record: &MtuRecord, style: Style) -> String {
    let mut page = Page::new(style);
    let start = Line::new().add(Ink::Strong, "Path MTU").add(Ink::Plain, " to ");
    page.line(start.add(Ink::Strong, &record.server));
    write(&mut page, record);
    page.finish()
}

/// One change, as a line: what a watch prints when it sees it.
pub fn mtu_change(change: &MtuChange, style: Style) -> String {
    let mut page = Page::new(style);
    write_change(&mut page, change);
    page.finish()
}

pub(super) fn write(page: &mut Page, record: &MtuRecord) {
    if record.paths.is_empty() {
        page.blank();
        page.line(Line::new().add(Ink::Bad, "No path was examined."));
    }
    let names = record.paths.iter().map(|path| columns(&fitted(&path.name, 32))).max().unwrap_or(0);
    let ends = record.paths.iter().map(|path| columns(&between(path))).max().unwrap_or(0);
    for (rank, path) in record.paths.iter().enumerate() {
        page.blank();
        write_path(page, path, rank, (names, ends));
    }
    write_steps(page, &record.steps);
    if !record.changes.is_empty() {
        page.heading("Changes", "since the watch began");
        for change in &record.changes {
            write_change(page, change);
        }
    }
    if !record.notes.is_empty() {
        page.heading("Notes", "");
        for note in &record.notes {
            page.paragraph(Line::new().add(Ink::Plain, "  · "), Ink::Plain, note);
        }
    }
}

fn between(path: &PathMtu) -> String {
    format!("{} → {}", path.local, path.remote)
}

fn write_path(page: &mut Page, path: &PathMtu, rank: usize, (names, ends): (usize, usize)) {
    let line = Line::new().add(Ink::Path(rank), &fitted(&path.name, 32)).padded_to(names + 2);
    let found = path.upload.mtu_bytes.is_some() || path.download.mtu_bytes.is_some();
    let ink = if found { Ink::Strong } else { Ink::Bad };
    let (line, mtu) = (line.add(Ink::Plain, &between(path)), words::both_ways(path));
    if line.columns().max(names + ends + 2) + 3 + columns(&mtu) <= page.width() {
        page.line(line.padded_to(names + ends + 5).add(ink, &mtu));
    } else {
        page.line(line);
        page.line(Line::new().padded_to(names + 2).add(ink, &mtu));
    }
    write_way(page, "up", &path.upload);
    write_way(page, "down", &path.download);
    if let Some(kernel) = &path.kernel {
        write_kernel(page, kernel, path);
    }
    for text in &path.disagreements {
        page.paragraph(labelled("", Ink::Warn, "!"), Ink::Plain, text);
    }
    for text in &path.advice {
        page.paragraph(labelled("", Ink::Good, "→"), Ink::Plain, text);
    }
}

/// `  up         ` or, with a sign, `             ! `.
fn labelled(label: &str, ink: Ink, sign: &str) -> Line {
    let line = Line::new().add(Ink::Plain, "  ").add(Ink::Dim, label).padded_to(WORDS);
    if sign.is_empty() { line } else { line.add(ink, sign).add(Ink::Plain, " ") }
}

fn write_way(page: &mut Page, label: &str, way: &DirectionMtu) {
    let line = labelled(label, Ink::Plain, "");
    if way.mtu_bytes.is_none() {
        page.paragraph(line, Ink::Bad, &words::evidence(way));
        return;
    }
    let line = line.add(Ink::Strong, &words::size(way.mtu_bytes)).padded_to(WORDS + 7);
    let mut text = words::evidence(way);
    let circumstances = words::circumstances(way);
    if !circumstances.is_empty() {
        text = format!("{text} ({})", circumstances.join(", "));
    }
    page.paragraph(line, Ink::Plain, &text);
}

fn write_kernel(page: &mut Page, kernel: &KernelBelief, path: &PathMtu) {
    let believed = words::in_force(kernel);
    // A kernel that sends less than passes wastes some; one that sends more gets nothing through.
    let ink = match path.upload.mtu_bytes {
        Some(found) if believed > found => Ink::Bad,
        Some(found) if believed < found => Ink::Warn,
        _ => Ink::Strong,
    };
    let line = labelled("kernel", Ink::Plain, "").add(ink, &believed.to_string()).padded_to(WORDS + 7);
    page.paragraph(line, Ink::Plain, &words::belief(kernel, &path.interface));
    for one in &kernel.connections {
        let ink = if one.stuck { Ink::Bad } else { Ink::Plain };
        let text = format!("{} → {}: {}", one.local, one.remote, words::connection(one));
        page.paragraph(labelled(&one.transport, Ink::Plain, ""), ink, &text);
    }
}

fn write_steps(page: &mut Page, steps: &[MtuStep]) {
    if steps.is_empty() {
        return;
    }
    page.heading("Steps", &words::of_steps(steps));
    for step in steps {
        let (sign, ink) = if step.done { ("✓", Ink::Good) } else { ("·", Ink::Dim) };
        page.copyable_after(
            Line::new().add(Ink::Plain, "  ").add(ink, sign).add(Ink::Plain, " "),
            &step.command,
        );
        if !step.undo.is_empty() {
            page.copyable_after(Line::new().add(Ink::Dim, "      undo: "), &step.undo);
        }
    }
}

fn write_change(page: &mut Page, change: &MtuChange) {
    let ink = match (change.from_bytes, change.to_bytes) {
        (_, None) => Ink::Bad,
        (Some(from), Some(to)) if to < from => Ink::Warn,
        _ => Ink::Good,
    };
    let line = Line::new().add(Ink::Dim, &format!("  {:>8}  ", duration(change.t_ms)));
    page.line(line.add(ink, &words::change(change)));
}
