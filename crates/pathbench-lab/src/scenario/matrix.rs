//! `[matrix]`: every combination of the values that it gives to keys.

use super::keypath;
use super::keys;
use super::mistake::MistakeKind;
use super::section::Section;
use super::tree::{Field, Item, Table, Value};
use pathbench_record::document::Variant;

/// More is a slip of the keyboard: at ten seconds a run, it would take hours to run each once.
const MOST_VARIANTS: usize = 1_000;

/// Keys that say something about the whole result, not about one variant of it.
const GLOBAL: [&str; 7] =
    ["name", "description", "expect", "matrix", "run.repeat", "run.seed", "run.sample_interval"];

pub(super) struct Cell {
    pub(super) variant: Variant,
    pub(super) table: Table,
}

struct Dimension {
    key: String,
    values: Vec<Item>,
}

/// All combinations in file order, the last key varying fastest; the scenario itself when there is no matrix.
/// Keys of the matrix that are mistakes are reported and left out.
pub(super) fn expand(root: &Section<'_>, base: &Table) -> Vec<Cell> {
    let section = root.section(keys::MATRIX);
    let fields = section.table.map(|table| table.flattened(&|_| false)).unwrap_or_default();
    let mut dimensions: Vec<Dimension> = Vec::new();
    for field in fields {
        let key = section.key(&field.key);
        if dimensions.iter().any(|known| known.key == field.key) {
            let problem = "is given twice";
            root.ledger.add(MistakeKind::Duplicate, &field.origin, key, problem, "remove one of the two");
        } else if let Some(dimension) = dimension(root, base, field, &key) {
            dimensions.push(dimension);
        }
    }
    let count = dimensions.iter().try_fold(1_usize, |count, next| count.checked_mul(next.values.len()));
    if count.is_none_or(|count| count > MOST_VARIANTS) {
        let sizes: Vec<_> = dimensions.iter().map(|dimension| dimension.values.len().to_string()).collect();
        let problem = format!("{} values make too many combinations", sizes.join(" × "));
        let remedy = format!("vary less at once: at most {MOST_VARIANTS} combinations");
        root.wrong(MistakeKind::Value, keys::MATRIX, problem, remedy);
        dimensions.clear();
    }
    combinations(base, &dimensions)
}

fn dimension(root: &Section<'_>, base: &Table, field: Field, key: &str) -> Option<Dimension> {
    let wrong = |kind, problem: String, remedy: String| {
        root.ledger.add(kind, &field.origin, key, problem, remedy);
        None
    };
    let Value::List(values) = &field.item.value else {
        let problem = format!("{} is not a list of values", field.item.value.noun());
        return wrong(
            MistakeKind::Type,
            problem,
            "give the values to go through, as in [0, 1, 2]".to_owned(),
        );
    };
    if values.is_empty() {
        let remedy = "give the values to go through, or remove the key".to_owned();
        return wrong(MistakeKind::Value, "the list is empty, so nothing would run".to_owned(), remedy);
    }
    let is_below = |global: &str| {
        field.key.strip_prefix(global).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(global) = GLOBAL.iter().find(|global| is_below(global)) {
        let problem = format!("`{global}` holds for the whole scenario and cannot vary");
        return wrong(
            MistakeKind::Value,
            problem,
            "vary keys of paths, links, hosts, events or run".to_owned(),
        );
    }
    if let Some(twice) = (1..values.len()).find(|index| {
        values[..*index].iter().any(|earlier| {
            earlier.value == values[*index].value || earlier.to_json() == values[*index].to_json()
        })
    }) {
        let problem = format!("`{}` is there twice", values[twice].written());
        return wrong(
            MistakeKind::Duplicate,
            problem,
            "remove one; run.repeat says how often each runs".to_owned(),
        );
    }
    // Whether the key leads anywhere does not depend on the value.
    if let Err(end) = keypath::set(&mut base.clone(), &field.key, values[0].clone()) {
        return wrong(MistakeKind::Reference, end.problem, end.remedy);
    }
    Some(Dimension { values: values.clone(), key: field.key })
}

fn combinations(base: &Table, dimensions: &[Dimension]) -> Vec<Cell> {
    let mut cells = vec![Cell { variant: Variant::new(), table: base.clone() }];
    for dimension in dimensions {
        let mut next = Vec::with_capacity(cells.len() * dimension.values.len());
        for cell in &cells {
            for value in &dimension.values {
                let mut table = cell.table.clone();
                // It led somewhere in the base; should an earlier key have closed the way, validation sees the rest.
                if keypath::set(&mut table, &dimension.key, value.clone()).is_ok() {
                    let mut variant = cell.variant.clone();
                    variant.insert(dimension.key.clone(), value.to_json());
                    next.push(Cell { variant, table });
                }
            }
        }
        cells = next;
    }
    cells
}
