//! What the command line changes in a scenario.

use super::keypath::{self, DeadEnd};
use super::keys;
use super::mistake::{Ledger, MistakeKind};
use super::syntax;
use super::tree::{Item, Origin, Table, Value};
use serde_json::Map;

/// Changes to a scenario from the command line. They are validated with the rest of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Overrides {
    /// `--set KEY=VALUE`: key path and value. The value is TOML where it is TOML, else a text.
    pub set: Vec<(String, String)>,
    /// `--transports`: in place of `run.transports`.
    pub transports: Option<Vec<String>>,
    /// `--repeat`: in place of `run.repeat`.
    pub repeat: Option<u32>,
    /// `--seed`: in place of `run.seed`.
    pub seed: Option<u64>,
    /// `--duration`: in place of `run.duration`.
    pub duration: Option<String>,
}

/// What was put into the tree: key path → value, for the record.
pub(super) type Record = Map<String, serde_json::Value>;

impl Overrides {
    /// Key paths and values, `--set` first, so that the options made for a key have the last word.
    fn items(&self) -> Vec<(String, Item)> {
        let mut items = Vec::new();
        for (key, text) in &self.set {
            items.push((key.clone(), syntax::value(text, &format!("--set {key}={text}"))));
        }
        let mut put = |key: &str, option: String, value: &dyn Fn(&Origin) -> Value| {
            let origin = Origin::Option(option);
            items.push((key.to_owned(), Item { value: value(&origin), origin }));
        };
        if let Some(labels) = &self.transports {
            put("run.transports", format!("--transports {}", labels.join(",")), &|origin| {
                let text =
                    |label: &String| Item { value: Value::Text(label.clone()), origin: origin.clone() };
                Value::List(labels.iter().map(text).collect())
            });
        }
        if let Some(repeat) = self.repeat {
            put("run.repeat", format!("--repeat {repeat}"), &|_| Value::Integer(repeat.into()));
        }
        if let Some(seed) = self.seed {
            put("run.seed", format!("--seed {seed}"), &|_| Value::Integer(seed.into()));
        }
        if let Some(duration) = &self.duration {
            put("run.duration", format!("--duration {duration}"), &|_| Value::Text(duration.clone()));
        }
        items
    }
}

/// Puts the overrides into the tree. A key that the matrix varies is varied no longer.
pub(super) fn apply(tree: &mut Table, overrides: &Overrides, ledger: &Ledger) -> Record {
    let mut record = Record::new();
    for (key, item) in overrides.items() {
        let (origin, json) = (item.origin.clone(), item.to_json());
        if let Err(DeadEnd { problem, remedy }) = keypath::set(tree, &key, item) {
            ledger.add(MistakeKind::Reference, &origin, key, problem, remedy);
            continue;
        }
        if let Some(matrix) = tree.fields.iter_mut().find(|field| field.key == keys::MATRIX)
            && let Value::Table(matrix) = &mut matrix.item.value
        {
            forget(matrix, &key);
        }
        record.insert(key, json);
    }
    record
}

fn forget(table: &mut Table, key: &str) {
    table.fields.retain(|field| field.key != key);
    for field in &mut table.fields {
        let rest = key.strip_prefix(field.key.as_str()).and_then(|rest| rest.strip_prefix('.'));
        if let (Some(rest), Value::Table(inner)) = (rest, &mut field.item.value) {
            forget(inner, rest);
        }
    }
}
