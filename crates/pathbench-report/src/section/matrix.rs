//! The matrix: every variant and label in one table, with a row per path.

use super::results::main_cell;
use super::{Cell, Row, Section, Table, number, words};
use crate::narrative::diagnosis;
use crate::pattern::{GOODPUT, Kind, Pattern};
use crate::quantity::Unit;
use crate::view::{GroupView, View, short_key, value_text};
use std::collections::BTreeSet;

/// A column per key of the matrix; `None` for a result without variants.
pub(crate) fn matrix(view: &View, pattern: Pattern) -> Option<Section> {
    if view.variants().len() < 2 || !pattern.fills_paths() {
        return None;
    }
    let keys: BTreeSet<&String> = view.variants().into_iter().flat_map(|variant| variant.keys()).collect();
    let has_diagnoses = view.of_pattern(pattern).any(|group| !diagnosis::findings(group).is_empty());
    let mut columns: Vec<_> = keys.iter().map(|key| words(short_key(key))).collect();
    columns.extend([words("transport"), words("goodput"), words("path"), words("share")]);
    columns.extend([number("MSS"), number("path MTU"), number("resent")]);
    columns.extend(has_diagnoses.then(|| words("diagnosis")));
    let mut rows = Vec::new();
    let mut last = None;
    for group in view.of_pattern(pattern) {
        let is_first = last != Some(group.variant);
        last = Some(group.variant);
        rows.extend(group_rows(view, group, &keys, (is_first, has_diagnoses)));
    }
    let several = view.patterns().len() > 1;
    let title = if several { format!("The matrix, {}", pattern.name) } else { "The matrix".to_owned() };
    let remark = "Goodput: median over the valid runs, with its 95 % CI, or the range of fewer than six. Per path, in \
                  the run of median goodput: its part of the bytes that arrived, sending MSS and path MTU at the end, \
                  and the part of the bytes sent that were sent again.";
    Section::of_table(title, remark, Table { columns, rows })
}

/// A row per path; variant, label, goodput and diagnosis stand in the first one.
fn group_rows(
    view: &View,
    group: &GroupView,
    keys: &BTreeSet<&String>,
    (is_first, has_diagnoses): (bool, bool),
) -> Vec<Row> {
    let paths = group.representative().map_or(&[][..], |run| run.paths.as_slice());
    let diagnoses = diagnosis::findings(group).into_iter().map(|one| {
        let runs = one.repetitions().map_or(String::new(), |_| format!(", {}", one.of_runs()));
        format!("{}: {}{}{runs}", one.path, diagnosis::title(one.kind), one.period())
    });
    let diagnoses: Vec<String> = diagnoses.collect();
    let row = |index: usize| {
        let leads = index == 0;
        let of_variant = |key: &&String| {
            let value = group.variant.get(*key).filter(|_| leads && is_first);
            Cell::text(value.map_or(String::new(), value_text))
        };
        let mut cells: Vec<Cell> = keys.iter().map(of_variant).collect();
        cells.push(Cell::text(if leads { group.label } else { "" }));
        cells.push(match (leads, group.pattern.kind) {
            (false, _) => Cell::text(""),
            (true, Kind::Iperf) => main_cell(group),
            (true, _) => Cell::median(group.figure(GOODPUT.name), Unit::Rate, ""),
        });
        match paths.get(index) {
            None => cells.extend((0..5).map(|_| Cell::absent())),
            Some(path) => {
                let share = group.summary.and_then(|one| one.shares.get(&path.name)).copied();
                cells.extend([
                    Cell::path(view, &path.name),
                    Cell::quantity(share.unwrap_or(path.share), Unit::Percent),
                    Cell::size(path.mss_bytes),
                    Cell::size(path.pmtu_bytes),
                    super::paths::resent(path),
                ]);
            }
        }
        let words = if leads { diagnoses.join("; ") } else { String::new() };
        cells.extend(has_diagnoses.then(|| Cell::text(words).bad(true)));
        Row::new(cells)
    };
    (0..paths.len().max(1)).map(row).collect()
}
