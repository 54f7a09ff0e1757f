//! Elements of several pages.

use crate::chart::{Cell, DataTable};
use maud::{Markup, html};
use pathbench_api::name::Name;
use pathbench_record::time::rfc3339_from_unix;

/// A table in an area that the keyboard can scroll.
pub(super) fn table(table: &DataTable, name: &str) -> Markup {
    let is_number = |index: usize| table.rows.iter().all(|row| row.get(index).is_none_or(Cell::is_number));
    html! {
        div.scroll role="group" tabindex="0" aria-label=(name) {
            table {
                caption.hidden { (name) }
                thead { tr { @for (index, (_, heading)) in table.columns.iter().enumerate() {
                    th class=[is_number(index).then_some("n")] scope="col" { (heading) }
                } } }
                tbody { @for row in &table.rows { tr { @for (index, cell) in row.iter().enumerate() {
                    @if index == 0 { th scope="row" { (cell.shown()) } }
                    @else { td class=[is_number(index).then_some("n")] { (cell.shown()) } }
                } } } }
            }
        }
    }
}

pub(super) fn name(name: Option<&Name>) -> &str {
    name.map_or("–", Name::as_str)
}

/// `2026-10-25 14:05` of a Unix time in milliseconds.
pub(super) fn time(ms: u64) -> String {
    let text = rfc3339_from_unix(i64::try_from(ms / 1000).unwrap_or(i64::MAX).min(253_402_300_799));
    text.chars().take(16).map(|character| if character == 'T' { ' ' } else { character }).collect()
}
