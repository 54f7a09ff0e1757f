//! `[[host]]` and `[host.NAME]` in one file. To TOML, `[host.client]` after a `[[host]]` is a table inside that
//! last host; a person means the host `client`. Before anything else is read, such tables are put where they
//! are meant to be.

use super::keypath::COLLECTIONS;
use super::keys;
use super::mistake::{Ledger, MistakeKind};
use super::tree::{Field, Item, Table, Value};

/// Moves tables that are named like something declared in the same list into what they name. A table
/// `[host.NAME]` of a host that the list lacks becomes one: hosts need no declaration.
pub(super) fn gather(tree: &mut Table, ledger: &Ledger) {
    for field in tree.fields.iter_mut().filter(|field| COLLECTIONS.contains(&field.key.as_str())) {
        let known = match field.key.as_str() {
            "path" => keys::path(),
            "link" => keys::link(),
            "host" => keys::HOST.to_vec(),
            _ => keys::ROUTER.to_vec(),
        };
        single(field, ledger);
        if let Value::List(items) = &mut field.item.value {
            gather_list(&field.key, items, &known, ledger);
        }
    }
}

/// `[path]` with a name, where `[[path]]` is meant.
fn single(field: &mut Field, ledger: &Ledger) {
    if name_of(&field.item).is_none() {
        return;
    }
    let problem = format!("[{}] is a single table", field.key);
    let remedy = format!("write [[{0}]], or [{0}.NAME] without a name", field.key);
    ledger.add(MistakeKind::Type, &field.origin, field.key.as_str(), problem, remedy);
    let origin = field.item.origin.clone();
    let value = std::mem::replace(&mut field.item.value, Value::List(Vec::new()));
    field.item.value = Value::List(vec![Item { value, origin }]);
}

fn gather_list(collection: &str, items: &mut Vec<Item>, known: &[&str], ledger: &Ledger) {
    let names: Vec<_> = items.iter().map(|item| name_of(item).map(str::to_owned)).collect();
    let is_declared = |name: &str| names.iter().flatten().any(|known| known == name);
    let mut astray: Vec<Field> = Vec::new();
    for item in items.iter_mut() {
        let Value::Table(table) = &mut item.value else { continue };
        let (stay, go) = std::mem::take(&mut table.fields).into_iter().partition(|field| {
            let is_table = matches!(field.item.value, Value::Table(_));
            let has_place = collection == "host" || is_declared(&field.key);
            known.contains(&field.key.as_str()) || !is_table || !has_place
        });
        table.fields = stay;
        astray.extend::<Vec<_>>(go);
    }
    for field in astray {
        let home = items.iter_mut().find(|item| name_of(item) == Some(field.key.as_str()));
        match (home.map(|item| &mut item.value), field.item.value) {
            (Some(Value::Table(home)), Value::Table(table)) => {
                merge(home, table, &format!("{collection}.{}", field.key), ledger);
            }
            (_, value) => {
                let mut item = Item { value, origin: field.item.origin };
                if let Value::Table(table) = &mut item.value {
                    let name = Item { value: Value::Text(field.key), origin: field.origin };
                    table.put("name", name);
                }
                items.push(item);
            }
        }
    }
}

fn name_of(item: &Item) -> Option<&str> {
    let Value::Table(table) = &item.value else { return None };
    match &table.get("name")?.value {
        Value::Text(name) => Some(name),
        _ => None,
    }
}

fn merge(home: &mut Table, more: Table, path: &str, ledger: &Ledger) {
    for field in more.fields {
        let key = format!("{path}.{}", field.key);
        match home.fields.iter_mut().find(|known| known.key == field.key) {
            None => home.fields.push(field),
            Some(known) => match (&mut known.item.value, field.item.value) {
                (Value::Table(known), Value::Table(table)) => merge(known, table, &key, ledger),
                _ => ledger.add(
                    MistakeKind::Duplicate,
                    &field.origin,
                    key,
                    "is given twice",
                    "remove one of the two",
                ),
            },
        }
    }
}
