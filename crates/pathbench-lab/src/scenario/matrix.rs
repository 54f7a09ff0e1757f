//! `[matrix]`: every combination of the values of its keys.

use super::keypath;
use super::mistake::{At, Fault};
use super::section::ScenarioSection;
use super::tree::{Item, TomlField, TomlTable, TomlValue};
use pathbench_record::document::Variant;

/// A larger matrix is a typing error: with runs of 10 s, one repetition would take hours.
const MOST_VARIANTS: usize = 1_000;

/// Keys that apply to the whole result, not to one variant.
const GLOBAL: [&str; 8] = [
    "name",
    "description",
    "expect",
    "matrix",
    "run.repeat",
    "run.warm_up",
    "run.seed",
    "run.sample_interval",
];

pub(super) struct MatrixCell {
    pub(super) variant: Variant,
    pub(super) table: TomlTable,
}

struct Dimension {
    key: String,
    values: Vec<Item>,
}

/// All combinations in file order, the last key varying fastest; without a matrix, the scenario itself. Reports and
/// omits invalid keys of the matrix.
pub(super) fn expand(root: &ScenarioSection<'_>, base: &TomlTable) -> Vec<MatrixCell> {
    let section = root.section("matrix");
    let fields = section.table.map(|table| table.flatten(&|_| false)).unwrap_or_default();
    let mut dimensions: Vec<Dimension> = Vec::new();
    for field in fields {
        let at = At::new(field.location, section.locate(&field.key).key);
        let is_known = dimensions.iter().any(|known| known.key == field.key);
        let twice = || Err(("is given twice".to_owned(), "remove one of the two".to_owned()));
        let values = if is_known { twice() } else { dimension(base, &field) };
        dimensions.extend(root.ledger.value(&at, values).map(|values| Dimension { key: field.key, values }));
    }
    let count = dimensions.iter().try_fold(1_usize, |count, next| count.checked_mul(next.values.len()));
    if count.is_none_or(|count| count > MOST_VARIANTS) {
        let sizes: Vec<_> = dimensions.iter().map(|dimension| dimension.values.len().to_string()).collect();
        let problem = format!("{} values make too many combinations", sizes.join(" × "));
        root.wrong("matrix", problem, format!("vary less at once: at most {MOST_VARIANTS} combinations"));
        dimensions.clear();
    }
    combinations(base, &dimensions)
}

fn dimension(base: &TomlTable, field: &TomlField) -> Result<Vec<Item>, Fault> {
    let TomlValue::List(values) = &field.item.value else {
        let problem = format!("{} is not a list of values", field.item.value.noun());
        return Err((problem, "give the values to go through, as in [0, 1, 2]".to_owned()));
    };
    let Some(first) = values.first() else {
        let remedy = "give the values to go through, or remove the key";
        return Err(("the list is empty, so nothing would run".to_owned(), remedy.to_owned()));
    };
    let is_below = |global: &&&str| {
        field.key.strip_prefix(**global).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(global) = GLOBAL.iter().find(is_below) {
        let problem = format!("`{global}` holds for the whole scenario and cannot vary");
        return Err((problem, "vary keys of paths, links, hosts, events or run".to_owned()));
    }
    let json: Vec<_> = values.iter().map(Item::to_json).collect();
    if let Some(twice) = (1..json.len()).find(|index| json[..*index].contains(&json[*index])) {
        let problem = format!("`{}` is there twice", values[twice].written());
        return Err((problem, "remove one; run.repeat says how often each runs".to_owned()));
    }
    // Whether the key exists does not depend on the value.
    keypath::set(&mut base.clone(), &field.key, first.clone())?;
    Ok(values.clone())
}

fn combinations(base: &TomlTable, dimensions: &[Dimension]) -> Vec<MatrixCell> {
    let mut cells = vec![MatrixCell { variant: Variant::new(), table: base.clone() }];
    for Dimension { key, values } in dimensions {
        let with = |cell: &MatrixCell, value: &Item| {
            let mut cell = MatrixCell { variant: cell.variant.clone(), table: cell.table.clone() };
            cell.variant.insert(key.clone(), value.to_json());
            // The key exists in the base; if an earlier key has removed it, validation reports that.
            let _closed = keypath::set(&mut cell.table, key, value.clone());
            cell
        };
        let with_all = |cell: &MatrixCell| values.iter().map(|value| with(cell, value)).collect::<Vec<_>>();
        cells = cells.iter().flat_map(with_all).collect();
    }
    cells
}
