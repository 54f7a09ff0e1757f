//! Tables of latency under load.

use super::content::{Cell, Items, Section};
use crate::list::distinct;
use crate::pattern::Kind;
use crate::quantity::{Unit, duration};
use crate::view::View;
use pathbench_record::document::{PhaseResponse, ResponseDelay, ResponsivenessRecord, RunRecord, Variant};
use pathbench_record::response::{LoadPhase, ProbeKind};

const REMARK: &str = "median of the probes of the measured part of each phase; below it their 95th percentile. \
                      self: on the loaded connection; foreign: on a new connection; PATH: UDP datagrams";

struct Line<'a> {
    label: String,
    variant: &'a Variant,
    record: &'a ResponsivenessRecord,
    phase: LoadPhase,
    figures: &'a PhaseResponse,
}

/// The phases of the run that represents each group.
pub(crate) fn of_groups(view: &View) -> Option<Section> {
    let groups = view.groups.iter().filter(|group| group.pattern.kind == Kind::Responsiveness);
    let runs = groups.filter_map(|group| Some((group.label.to_owned(), group.representative()?)));
    table(runs.collect())?.section("Latency under load", REMARK)
}

pub(super) fn of_run(run: &RunRecord) -> Option<Section> {
    table(vec![(String::new(), run)])?.section("Latency under load", REMARK)
}

fn table(runs: Vec<(String, &RunRecord)>) -> Option<Items<Line<'_>>> {
    let lines: Vec<Line<'_>> = runs.into_iter().flat_map(|(label, run)| lines(&label, run)).collect();
    let paths = distinct(lines.iter().flat_map(|line| line.record.path.keys().map(String::as_str)));
    let has_label = lines.iter().any(|line| !line.label.is_empty());
    (!lines.is_empty()).then(|| {
        let mut rows = Items::new(lines).grouped(|line| line.variant);
        if has_label {
            rows = rows.words("transport", |line| Cell::text(line.label.clone()));
        }
        rows = rows
            .words("phase", |line| Cell::text(line.phase.name()))
            .number("download", |line| Cell::quantity(line.figures.download_mbps, Unit::Rate))
            .number("upload", |line| Cell::quantity(line.figures.upload_mbps, Unit::Rate))
            .number("self", |line| delay(line, ProbeKind::Own, None))
            .number("foreign", |line| delay(line, ProbeKind::Foreign, None));
        for path in paths {
            rows = rows.number(path, |line| delay(line, ProbeKind::Path, Some(path)));
        }
        rows.number("set-up", |line| Cell::quantity(line.figures.foreign_setup_ms, Unit::Duration))
            .in_report_only()
            .number("RPM", |line| {
                line.figures.rpm.map_or_else(Cell::absent, |rpm| Cell::count(rpm.round() as u64))
            })
            .without_empty_columns()
    })
}

fn lines<'a>(label: &str, run: &'a RunRecord) -> Vec<Line<'a>> {
    let Some(record) = &run.responsiveness else { return Vec::new() };
    record
        .phases
        .iter()
        .map(|(phase, figures)| Line {
            label: label.to_owned(),
            variant: &run.variant,
            record,
            phase: *phase,
            figures,
        })
        .collect()
}

fn delay(line: &Line<'_>, kind: ProbeKind, path: Option<&str>) -> Cell {
    let found = line.record.delays(kind, path).and_then(|phases| phases.get(&line.phase));
    let Some(ResponseDelay { sent, lost, p50_ms, p95_ms, .. }) = found else { return Cell::absent() };
    let below = p95_ms.map_or(String::new(), duration);
    let missing = if *lost > 0 { format!("{lost} of {sent} lost") } else { String::new() };
    match p50_ms {
        Some(median) => Cell::quantity(*median, Unit::Duration).with_line(below).with_line(missing),
        None => Cell::text("no answer").with_line(missing).bad(true),
    }
}
