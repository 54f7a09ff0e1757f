//! Tables of paths: which path carried the bytes, and handovers between paths.

use super::{Cell, Column, Row, Section, Table, Value, label_of, number, words};
use crate::narrative::{REASONS, reason_title};
use crate::quantity::{Unit, bytes, distribution, percent};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{HandoverRecord, HandoverSummary, MobilitySummary, PathRecord};

/// Which path carried the bytes: a row per label and path. Among several patterns the summary shows those that fill the
/// paths.
pub(crate) fn carried(view: &View, all: bool) -> Option<Section> {
    let mut rows = Vec::new();
    let is_shown = |group: &&GroupView| {
        all || !group.among_patterns || (!group.pattern.is_of_messages() && group.is_multipath())
    };
    for group in view.groups.iter().filter(is_shown) {
        let paths = group.representative().map_or(&[][..], |run| run.paths.as_slice());
        for (index, path) in paths.iter().enumerate() {
            let share = group.summary.and_then(|one| one.shares.get(&path.name)).copied();
            let label = if index == 0 { label_of(group) } else { String::new() };
            let mut cells = vec![Cell::text(label)];
            cells.extend(path_cells(view, path, share.unwrap_or(path.share)));
            rows.push(Row::of_variant(group.variant, cells));
        }
    }
    let columns = std::iter::once(words("transport")).chain(path_columns()).collect();
    let remark = "median share of the bytes that arrived; the rest from the run below";
    Section::of_table("Paths", remark, Table { columns, rows })
}

pub(super) fn path_columns() -> Vec<Column> {
    vec![
        words("path"),
        words("share"),
        number("arrived"),
        number("sent").in_report_only(),
        number("resent"),
        number("retransmitted").in_report_only(),
        number("control").in_report_only(),
        number("RTT"),
        number("MSS"),
        number("path MTU").in_report_only(),
        words("addresses").in_report_only(),
        words("at the end").in_report_only(),
    ]
}

pub(super) fn path_cells(view: &View, path: &PathRecord, share: f64) -> Vec<Cell> {
    let rank = view.paths.rank(&path.name);
    let lost = path.lost_bytes.map_or(String::new(), |lost| format!("{} lost", bytes(lost)));
    let control = path.control_bytes.filter(|control| *control > path.bytes_delivered / 50);
    let control = control.map(|control| format!("control {}", bytes(control)));
    let mut state = vec![path.state.clone()];
    state.extend((path.subflows > 1).then(|| format!("{} subflows", path.subflows)));
    state.extend((path.backup == Some(true)).then(|| "backup".to_owned()));
    vec![
        Cell::path(view, &path.name).below(if path.backup == Some(true) { "backup" } else { "" }),
        Cell::new(Value::Share { rank, part: share }),
        Cell::bytes(path.bytes_delivered).below(control.unwrap_or_default()),
        Cell::bytes(path.bytes_sent),
        resent(path),
        Cell::bytes(path.retransmitted_bytes).below(lost),
        Cell::bytes(path.control_bytes),
        Cell::quantity(Some(path.rtt_ms).filter(|rtt| *rtt > 0.0), Unit::Duration),
        Cell::size(path.mss_bytes),
        Cell::size(path.pmtu_bytes),
        Cell::text(format!("{} → {}", path.local, path.remote)),
        Cell::text(state.join(", ")),
    ]
}

pub(super) fn resent(path: &PathRecord) -> Cell {
    let part = path.retransmitted_bytes as f64 / path.bytes_sent as f64;
    Cell::quantity((path.bytes_sent > 0).then_some(part), Unit::Percent)
}

/// Why the second path came into use, and how long both paths were in use.
pub(crate) fn handovers(view: &View) -> Option<Section> {
    let summaries = &view.set.document.summary.mobility;
    let rows = summaries
        .iter()
        .flat_map(|summary| summary.handovers.iter().map(move |one| handover_row(view, summary, one)));
    let columns = vec![
        words("transport"),
        words("from → to"),
        words("in"),
        words("why"),
        words("last received after"),
        words("last sent after").in_report_only(),
        number("abrupt"),
    ];
    let remark = "how often and why the second path came into use; how long after its first data the last packet \
                  came over the first path";
    let mut section = Section::of_table("Handovers", remark, Table { columns, rows: rows.collect() })?;
    let ratios = summaries.iter().flat_map(|summary| {
        summary.max_delay_ratios.iter().map(move |(direction, ratios)| {
            let faster = ratios.iter().filter(|ratio| **ratio < 1.0).count() as u64;
            let cells = vec![
                Cell::text(direction.clone()).below(variant_text(&summary.variant)),
                Cell::count(ratios.len() as u64),
                Cell::median(distribution(ratios).as_ref(), Unit::Ratio, ""),
                Cell::count(faster),
            ];
            Row::new(cells)
        })
    });
    let rows: Vec<Row> = ratios.collect();
    if !rows.is_empty() {
        let columns = vec![
            words("slowest message, mptcp ÷ mpquic"),
            number("repetitions"),
            words("median"),
            number("mptcp faster in"),
        ];
        section.blocks.push(super::Block::Table(Table { columns, rows }));
    }
    Some(section)
}

fn handover_row(view: &View, summary: &MobilitySummary, one: &HandoverSummary) -> Row {
    let runs = view.set.document.runs.iter();
    let runs = runs.filter(|run| run.valid && run.variant == summary.variant && run.label == one.label);
    let handovers: Vec<&HandoverRecord> = runs.filter_map(|run| run.handover.as_ref()).collect();
    let spread = |of: fn(&HandoverRecord) -> Option<f64>| {
        let values: Vec<f64> = handovers.iter().filter_map(|handover| of(handover)).collect();
        Cell::median(distribution(&values).as_ref(), Unit::Duration, "")
    };
    let part = |runs: u32| percent(f64::from(runs) / f64::from(one.handovers.max(1)));
    let reasons = REASONS.iter().filter_map(|reason| {
        let runs = *one.reasons.get(reason)?;
        Some(format!("{} {runs} ({})", reason_title(*reason), part(runs)))
    });
    let between = handovers.first();
    Row::of_variant(
        &summary.variant,
        vec![
            Cell::text(&*one.label),
            between.map_or_else(Cell::absent, |first| Cell::text(format!("{} → {}", first.from, first.to))),
            Cell::text(format!("{} of {}", one.handovers, one.runs)),
            Cell::text(reasons.collect::<Vec<_>>().join(", ")),
            spread(|handover| handover.duration_received_ms),
            spread(|handover| handover.duration_sent_ms),
            Cell::count(one.abrupt),
        ],
    )
}
