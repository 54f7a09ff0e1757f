//! An examination of path MTUs (`pathbench mtu`): what passes, the kernel's state, the steps that correct it.

use super::{Block, Cell, Finding, Row, Section, Table, number, words};
use crate::narrative::{Tone, path_mtu as text};
use crate::quantity::duration;
use pathbench_record::document::{DirectionMtu, KernelBelief, MtuRecord, PathMtu};

pub(crate) fn sections(record: &MtuRecord) -> Vec<Section> {
    let title = format!("The MTU of each path to {}", record.server);
    if record.paths.is_empty() {
        let none = vec![Finding::new(Tone::Bad, "", "No path was examined.")];
        return vec![Section::new(title, "", vec![Block::Findings(none)])];
    }
    let columns = vec![words("path"), words(""), number("MTU"), words("how it is known")];
    let rows = record.paths.iter().enumerate().flat_map(|(rank, path)| rows(rank, path)).collect();
    let mut blocks = vec![Block::Table(Table { columns, rows })];
    let findings = record.paths.iter().flat_map(|path| {
        let subject = format!("{}:", path.name);
        let wrong = path.disagreements.iter().map({
            let subject = subject.clone();
            move |text| Finding::new(Tone::Mixed, &*subject, &**text)
        });
        wrong.chain(path.advice.iter().map(move |text| Finding::new(Tone::Neutral, &*subject, &**text)))
    });
    let findings: Vec<Finding> = findings.collect();
    blocks.extend((!findings.is_empty()).then_some(Block::Findings(findings)));
    let mut sections = vec![Section::new(title, text::headline(record), blocks)];
    if !record.steps.is_empty() {
        let steps = record.steps.iter().map(|step| (step.done, step.command.clone(), step.undo.clone()));
        let commands = Block::Commands(steps.collect());
        sections.push(Section::new("Steps", text::of_steps(&record.steps), vec![commands]));
    }
    let changes = record.changes.iter();
    let changes = changes.map(|one| Finding::new(Tone::Neutral, duration(one.t_ms), text::change(one)));
    sections.extend(Section::of_findings("Changes", "since the watch began", changes.collect()));
    let notes = record.notes.iter().map(|note| Finding::new(Tone::Neutral, "", &**note));
    sections.extend(Section::of_findings("Notes", "", notes.collect()));
    sections
}

/// Upload, download, the kernel's state and live connections of a path.
fn rows(rank: usize, path: &PathMtu) -> Vec<Row> {
    let mut rows = vec![direction("up", &path.upload), direction("down", &path.download)];
    if let Some(kernel) = &path.kernel {
        rows.extend(kernel_rows(kernel, path));
    }
    let name = Cell::new(super::Value::Path { name: path.name.clone(), rank });
    let interface = if path.interface == path.name { String::new() } else { path.interface.clone() };
    let names = [name.below(path.local.clone()).below(format!("→ {}", path.remote)).below(interface)];
    let names = names.into_iter().chain(std::iter::repeat_with(|| Cell::text("")));
    rows.into_iter()
        .zip(names)
        .map(|(cells, name)| Row::new(std::iter::once(name).chain(cells).collect()))
        .collect()
}

fn direction(label: &str, found: &DirectionMtu) -> Vec<Cell> {
    let mtu = found.mtu_bytes.map_or_else(Cell::absent, Cell::count);
    let circumstances = text::circumstances(found).join(", ");
    let circumstances = if circumstances.is_empty() { circumstances } else { format!(" ({circumstances})") };
    let known = Cell::text(format!("{}{circumstances}", text::evidence(found)));
    vec![Cell::text(label), mtu, known.bad(found.mtu_bytes.is_none())]
}

fn kernel_rows(kernel: &KernelBelief, path: &PathMtu) -> Vec<Vec<Cell>> {
    let in_force = text::in_force(kernel);
    // A kernel that sends less than the path takes wastes some; one that sends more gets nothing through.
    let tone = match path.upload.mtu_bytes {
        Some(found) if in_force > found => Some(Tone::Bad),
        Some(found) if in_force < found => Some(Tone::Mixed),
        _ => None,
    };
    let state = Cell { tone, ..Cell::count(in_force) };
    let mut rows =
        vec![vec![Cell::text("kernel"), state, Cell::text(text::route_state(kernel, &path.interface))]];
    rows.extend(kernel.connections.iter().map(|one| {
        let words = format!("{} → {}: {}", one.local, one.remote, text::connection(one));
        vec![Cell::text(&*one.transport), Cell::size(one.pmtu_bytes), Cell::text(words).bad(one.stuck)]
    }));
    rows
}
