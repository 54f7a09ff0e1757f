//! The matrix: every variant and label in one table, with a row per path.

use super::content::{Cell, Items, Section};
use super::results::main_cell;
use crate::narrative::diagnosis;
use crate::pattern::{GOODPUT, Kind, Pattern};
use crate::quantity::Unit;
use crate::view::{GroupView, View, short_key, value_text};
use pathbench_record::document::PathRecord;
use std::collections::BTreeSet;

pub(crate) fn matrix(view: &View, pattern: Pattern) -> Option<Section> {
    if view.variants().len() < 2 || !pattern.fills_paths() {
        return None;
    }
    let keys: BTreeSet<&String> = view.variants().into_iter().flat_map(|variant| variant.keys()).collect();
    let mut last = None;
    let mut items = Vec::new();
    for group in view.of_pattern(pattern) {
        let is_first = last != Some(group.variant);
        last = Some(group.variant);
        let paths = group.representative().map_or(&[][..], |run| run.paths.as_slice());
        let row = |index| Item {
            group,
            path: paths.get(index),
            leads: index == 0,
            is_first: is_first && index == 0,
        };
        items.extend((0..paths.len().max(1)).map(row));
    }
    let mut rows = Items::new(items);
    for key in keys {
        rows = rows.words(short_key(key), |one| {
            let value = one.group.variant.get(key).filter(|_| one.is_first);
            Cell::text(value.map_or(String::new(), value_text))
        });
    }
    let of_path = |one: &Item, cell: &dyn Fn(&PathRecord) -> Cell| one.path.map_or_else(Cell::absent, cell);
    rows = rows
        .words("transport", |one| Cell::text(if one.leads { one.group.label } else { "" }))
        .words("goodput", |one| match (one.leads, one.group.pattern.kind) {
            (false, _) => Cell::text(""),
            (true, Kind::Throughput) => main_cell(one.group),
            (true, _) => Cell::median(one.group.figure(GOODPUT.name), Unit::Rate, ""),
        })
        .words("path", |one| of_path(one, &|path| Cell::path(view, &path.name)))
        .words("share", |one| {
            of_path(one, &|path| {
                let share = one.group.summary.and_then(|group| group.shares.get(&path.name)).copied();
                Cell::quantity(share.unwrap_or(path.share), Unit::Percent)
            })
        })
        .number("MSS", |one| of_path(one, &|path| Cell::size(path.mss_bytes)))
        .number("path MTU", |one| of_path(one, &|path| Cell::size(path.pmtu_bytes)))
        .number("retr", |one| of_path(one, &super::paths::resent));
    if view.of_pattern(pattern).any(|group| !diagnosis::findings(group).is_empty()) {
        rows = rows.words("diagnosis", |one| {
            Cell::text(if one.leads { diagnoses(one.group) } else { String::new() }).bad(true)
        });
    }
    let several = view.patterns().len() > 1;
    let title = if several { format!("The matrix, {}", pattern.name) } else { "The matrix".to_owned() };
    let remark = "Goodput: median over the valid runs, with its 95 % CI, or the range of fewer than six. Per path, in \
                  the run of median goodput: its part of the bytes that arrived, sending MSS and path MTU at the end, \
                  and the part of the bytes sent that were sent again.";
    rows.section(title, remark)
}

/// A row per path. The group's first row has label, goodput and diagnosis; the variant's first group has the variant.
struct Item<'a> {
    group: &'a GroupView<'a>,
    path: Option<&'a PathRecord>,
    leads: bool,
    is_first: bool,
}

fn diagnoses(group: &GroupView) -> String {
    let diagnoses = diagnosis::findings(group).into_iter().map(|one| {
        let runs = one.repetitions().map_or(String::new(), |_| format!(", {}", one.of_runs()));
        format!("{}: {}{}{runs}", one.path, diagnosis::title(one.kind), one.period())
    });
    diagnoses.collect::<Vec<_>>().join("; ")
}
