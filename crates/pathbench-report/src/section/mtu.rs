//! An examination of path MTUs (`pathbench mtu`): the MTUs, the kernel's state, the steps that correct it.

use super::content::{Block, Cell, Finding, Items, Section, Value};
use crate::narrative::{Tone, path_mtu as text};
use crate::quantity::duration;
use pathbench_record::document::{DirectionMtu, KernelPathState, MtuRecord, PathMtu};

pub(crate) fn sections(record: &MtuRecord) -> Vec<Section> {
    let title = format!("The MTU of each path to {}", record.server);
    if record.paths.is_empty() {
        let none = vec![Finding::new(Tone::Bad, "", "No path was examined.")];
        return vec![Section::new(title, "", vec![Block::Findings(none)])];
    }
    let rows = Items::new(record.paths.iter().enumerate().flat_map(|(rank, path)| rows(rank, path)))
        .words("path", |row| row[0].clone())
        .words("direction", |row| row[1].clone())
        .with_hidden_title()
        .number("MTU", |row| row[2].clone())
        .words("how it is known", |row| row[3].clone());
    let mut blocks = vec![Block::Table(rows.table)];
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

/// Upload, download, the kernel's state and live connections of a path, with its name in the first row.
fn rows(rank: usize, path: &PathMtu) -> Vec<[Cell; 4]> {
    let mut rows = vec![direction("up", &path.upload), direction("down", &path.download)];
    rows.extend(path.kernel.iter().flat_map(|kernel| kernel_rows(kernel, path)));
    let interface = if path.interface == path.name { String::new() } else { path.interface.clone() };
    let name = Cell::new(Value::Path { name: path.name.clone(), rank }).with_line(path.local.clone());
    rows[0][0] = name.with_line(format!("→ {}", path.remote)).with_line(interface);
    rows
}

fn direction(label: &str, found: &DirectionMtu) -> [Cell; 4] {
    let mtu = found.mtu_bytes.map_or_else(Cell::absent, Cell::count);
    let circumstances = text::circumstances(found).join(", ");
    let circumstances = if circumstances.is_empty() { circumstances } else { format!(" ({circumstances})") };
    let known = Cell::text(format!("{}{circumstances}", text::evidence(found)));
    [Cell::text(""), Cell::text(label), mtu, known.bad(found.mtu_bytes.is_none())]
}

fn kernel_rows(kernel: &KernelPathState, path: &PathMtu) -> Vec<[Cell; 4]> {
    let in_force = text::in_force(kernel);
    // A kernel MTU below the path MTU wastes capacity; above it, packets are dropped.
    let tone = match path.upload.mtu_bytes {
        Some(found) if in_force > found => Some(Tone::Bad),
        Some(found) if in_force < found => Some(Tone::Mixed),
        _ => None,
    };
    let state = Cell { tone, ..Cell::count(in_force) };
    let route = Cell::text(text::route_state(kernel, &path.interface));
    let mut rows = vec![[Cell::text(""), Cell::text("kernel"), state, route]];
    rows.extend(kernel.connections.iter().map(|one| {
        let words = format!("{} → {}: {}", one.local, one.remote, text::connection(one));
        let (transport, words) = (Cell::text(&*one.transport), Cell::text(words).bad(one.stuck));
        [Cell::text(""), transport, Cell::size(one.pmtu_bytes), words]
    }));
    rows
}
