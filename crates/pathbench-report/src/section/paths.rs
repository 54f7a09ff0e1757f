//! Tables of paths: which path carried the bytes, and handovers between paths.

use super::content::{Cell, Items, Section, label_of};
use crate::narrative::reason_title;
use crate::quantity::{Unit, bytes, distribution, percent};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{HandoverRecord, LabelHandovers, MobilitySummary, PathRecord, Variant};

/// Which path carried the bytes: a row per label and path. If a result has several patterns, the summary shows only
/// those that fill the paths.
pub(crate) fn carried<'a>(view: &'a View<'a>, all: bool) -> Option<Section> {
    let is_shown = |group: &&GroupView| {
        all || !group.among_patterns || (!group.pattern.is_of_messages() && group.is_multipath())
    };
    let of_group = |group: &'a GroupView<'a>| {
        let paths = group.representative().into_iter().flat_map(|run| &run.paths);
        paths.enumerate().map(move |(index, path)| {
            let share = group.summary.and_then(|one| one.shares.get(&path.name)).copied();
            let label = if index == 0 { label_of(group) } else { String::new() };
            let evenness = group.summary.and_then(|one| one.jains_index).filter(|_| index == 0);
            Carried { label, variant: group.variant, path, share: share.unwrap_or(path.share), evenness }
        })
    };
    let rows = Items::new(view.groups.iter().filter(is_shown).flat_map(of_group))
        .grouped(|one| one.variant)
        .words("transport", |one| Cell::text(&*one.label));
    let mut rows = path_columns(view, rows);
    if view.groups.iter().any(|group| group.summary.is_some_and(|one| one.jains_index.is_some())) {
        rows = rows.words("Jain's index", |one| {
            one.evenness.map_or_else(Cell::absent, |index| Cell::text(format!("{index:.3}")))
        });
    }
    rows.section("Paths", "median share of the bytes that arrived; the rest from the run below")
}

/// A path with its share of the bytes that arrived.
pub(super) struct Carried<'a> {
    pub(super) label: String,
    pub(super) variant: &'a Variant,
    pub(super) path: &'a PathRecord,
    pub(super) share: f64,
    /// Jain's index of the label's paths.
    pub(super) evenness: Option<f64>,
}

pub(super) fn path_columns<'a>(view: &View, rows: Items<Carried<'a>>) -> Items<Carried<'a>> {
    let is_backup = |path: &PathRecord| path.backup == Some(true);
    let control = |path: &PathRecord| {
        let control = path.control_bytes.filter(|control| *control > path.bytes_delivered / 50);
        control.map_or(String::new(), |control| format!("control {}", bytes(control)))
    };
    rows.words("path", |Carried { path, .. }| {
        Cell::path(view, &path.name).with_line(if is_backup(path) { "backup" } else { "" })
    })
    .words("share", |one| Cell::share(view, &one.path.name, one.share))
    .number("arrived", |one| Cell::bytes(one.path.bytes_delivered).with_line(control(one.path)))
    .number("sent", |one| Cell::bytes(one.path.bytes_sent))
    .in_report_only()
    .number("retr", |one| resent(one.path))
    .number("retransmitted", |Carried { path, .. }| {
        let lost = path.lost_bytes.map_or(String::new(), |lost| format!("{} lost", bytes(lost)));
        Cell::bytes(path.retransmitted_bytes).with_line(lost)
    })
    .in_report_only()
    .number("control", |one| Cell::bytes(one.path.control_bytes))
    .in_report_only()
    .number("RTT", |one| Cell::quantity(Some(one.path.rtt_ms).filter(|rtt| *rtt > 0.0), Unit::Duration))
    .number("MSS", |one| Cell::size(one.path.mss_bytes))
    .number("path MTU", |one| Cell::size(one.path.pmtu_bytes))
    .in_report_only()
    .words("addresses", |one| Cell::text(format!("{} → {}", one.path.local, one.path.remote)))
    .in_report_only()
    .words("at the end", |Carried { path, .. }| {
        let mut state = vec![path.state.clone()];
        state.extend((path.subflows > 1).then(|| format!("{} subflows", path.subflows)));
        state.extend(is_backup(path).then(|| "backup".to_owned()));
        Cell::text(state.join(", "))
    })
    .in_report_only()
}

pub(super) fn resent(path: &PathRecord) -> Cell {
    let part = path.retransmitted_bytes as f64 / path.bytes_sent as f64;
    Cell::quantity((path.bytes_sent > 0).then_some(part), Unit::Percent)
}

pub(crate) fn handovers(view: &View) -> Option<Section> {
    let summaries = &view.set.document.summary.mobility;
    let handovers = |summary: &MobilitySummary, one: &LabelHandovers| -> Vec<&HandoverRecord> {
        let runs = view.set.document.runs.iter();
        let runs = runs.filter(|run| run.valid && run.variant == summary.variant && run.label == one.label);
        runs.filter_map(|run| run.handover.as_ref()).collect()
    };
    let all = summaries.iter().flat_map(|summary| {
        summary.handovers.iter().map(move |one| (&summary.variant, one, handovers(summary, one)))
    });
    let remark = "how often and why the second path came into use; how long after its first data the last packet \
                  came over the first path";
    let mut section = Items::new(all)
        .grouped(|(variant, ..)| variant)
        .words("transport", |(_, one, _)| Cell::text(&*one.label))
        .words("from → to", |(.., all)| match all.first() {
            Some(first) => Cell::text(format!("{} → {}", first.from, first.to)),
            None => Cell::absent(),
        })
        .words("in", |(_, one, _)| Cell::text(format!("{} of {}", one.handovers, one.runs)))
        .words("why", |(_, one, _)| {
            let part = |runs: u32| percent(f64::from(runs) / f64::from(one.handovers.max(1)));
            let reasons = one.reasons.iter();
            let reasons =
                reasons.map(|(reason, runs)| format!("{} {runs} ({})", reason_title(*reason), part(*runs)));
            Cell::text(reasons.collect::<Vec<_>>().join(", "))
        })
        .words("last received after", |(.., all)| median_of(all, |one| one.duration_received_ms))
        .words("last sent after", |(.., all)| median_of(all, |one| one.duration_sent_ms))
        .in_report_only()
        .number("abrupt", |(_, one, _)| Cell::count(one.abrupt))
        .section("Handovers", remark)?;
    let ratios = summaries.iter().flat_map(|summary| {
        let ratios = summary.max_delay_ratios.iter();
        ratios.map(move |(direction, ratios)| (&summary.variant, direction, ratios))
    });
    let ratios = Items::new(ratios)
        .words("slowest message, mptcp ÷ mpquic", |(variant, direction, _)| {
            Cell::text(direction.as_str()).with_line(variant_text(variant))
        })
        .number("repetitions", |(.., ratios)| Cell::count(ratios.len() as u64))
        .words("median", |(.., ratios)| Cell::median(distribution(ratios).as_ref(), Unit::Ratio, ""))
        .number("mptcp faster in", |(.., ratios)| {
            Cell::count(ratios.iter().filter(|ratio| **ratio < 1.0).count() as u64)
        });
    section.blocks.extend(ratios.section("", "").into_iter().flat_map(|found| found.blocks));
    Some(section)
}

fn median_of(all: &[&HandoverRecord], figure: fn(&HandoverRecord) -> Option<f64>) -> Cell {
    let values: Vec<f64> = all.iter().filter_map(|one| figure(one)).collect();
    Cell::median(distribution(&values).as_ref(), Unit::Duration, "")
}
