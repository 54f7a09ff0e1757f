//! Key paths (`path.wlan.rate`, `event.0.at`): how the command line and the matrix reach into the tree.

use super::suggestion::choices;
use super::tree::{Field, Item, Origin, Table, Value};

/// Tables of named things: `path.wlan` is the one whose `name` is `wlan`.
pub(super) const COLLECTIONS: [&str; 4] = ["path", "link", "host", "router"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadEnd {
    pub(super) problem: String,
    pub(super) remedy: String,
}

fn has_dotted_keys(path: &str) -> bool {
    path == "matrix" || path == "expect" || path.ends_with(".sysctl")
}

/// Puts `item` at the key path, making the tables on the way where they are missing. What is put is not
/// checked, and neither is the last key: that is left to the validation of the whole.
pub(super) fn set(root: &mut Table, path: &str, item: Item) -> Result<(), DeadEnd> {
    if path.split('.').any(str::is_empty) {
        return Err(DeadEnd {
            problem: format!("`{path}` is not a key path"),
            remedy: "give keys joined by dots, as in path.wlan.rate".to_owned(),
        });
    }
    set_in_table(root, "", path, item)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn set_in_table(table: &mut Table, path: &str, rest: &str, item: Item) -> Result<(), DeadEnd> {
    // Keys with dots exist (sysctls): the longest one that fits is meant.
    let matching = |field: &Field| {
        rest.strip_prefix(field.key.as_str()).is_some_and(|tail| tail.is_empty() || tail.starts_with('.'))
    };
    let known = table.fields.iter().filter(|field| matching(field)).max_by_key(|field| field.key.len());
    let known = known.map(|field| field.key.clone());
    let is_new = known.is_none();
    let key = match known {
        Some(key) => key,
        None if has_dotted_keys(path) => rest.to_owned(),
        None => rest.split('.').next().unwrap_or(rest).to_owned(),
    };
    let tail = rest[key.len()..].strip_prefix('.');
    if is_new && (tail.is_some() || !path.is_empty()) {
        refuse_new_thing(table, path, &key)?;
    }
    let here = join(path, &key);
    let Some(tail) = tail else {
        table.put(&key, item);
        return Ok(());
    };
    if is_new {
        let empty = Item { value: Value::Table(Table::default()), origin: item.origin.clone() };
        table.put(&key, empty);
    }
    match table.fields.iter_mut().find(|field| field.key == key) {
        Some(field) => set_in_item(&mut field.item, &here, tail, item),
        None => Ok(()),
    }
}

/// Hosts need no declaration; but a path, link or router that does not exist cannot be changed.
fn refuse_new_thing(table: &Table, path: &str, key: &str) -> Result<(), DeadEnd> {
    let named = |collection: &str| collection != "host" && COLLECTIONS.contains(&collection);
    if path.is_empty() && (named(key) || key == "event") {
        return Err(DeadEnd {
            problem: format!("the scenario has no {key}"),
            remedy: format!("add a [[{key}]] to the file"),
        });
    }
    if named(path) {
        return Err(no_such(path, key, table.fields.iter().map(|field| field.key.as_str())));
    }
    Ok(())
}

fn no_such<'a>(collection: &str, name: &str, known: impl Iterator<Item = &'a str>) -> DeadEnd {
    DeadEnd {
        problem: format!("there is no {collection} `{name}`"),
        remedy: choices(name, &known.collect::<Vec<_>>()),
    }
}

fn set_in_item(target: &mut Item, path: &str, rest: &str, item: Item) -> Result<(), DeadEnd> {
    match &mut target.value {
        Value::Table(table) => set_in_table(table, path, rest, item),
        Value::List(items) => {
            let (segment, tail) =
                rest.split_once('.').map_or((rest, None), |(head, tail)| (head, Some(tail)));
            let index = position(items, path, segment, &item.origin)?;
            let here = join(path, segment);
            match (tail, items.get_mut(index)) {
                (None, Some(element)) => *element = item,
                (Some(tail), Some(element)) => return set_in_item(element, &here, tail, item),
                (_, None) => {}
            }
            Ok(())
        }
        other => Err(DeadEnd {
            problem: format!("`{path}` is {} and has no keys of its own", other.noun()),
            remedy: format!("set {path} itself"),
        }),
    }
}

/// Index of the element that `segment` names. A host which the list lacks is added: hosts of the short form
/// need no declaration.
fn position(items: &mut Vec<Item>, path: &str, segment: &str, origin: &Origin) -> Result<usize, DeadEnd> {
    if !COLLECTIONS.contains(&path) {
        return segment.parse::<usize>().ok().filter(|index| *index < items.len()).ok_or_else(|| DeadEnd {
            problem: format!("`{path}` has no element `{segment}`"),
            remedy: match items.len() {
                0 => "the list is empty".to_owned(),
                1 => "its only element is 0".to_owned(),
                count => format!("its elements are 0 to {}", count - 1),
            },
        });
    }
    let name_of = |item: &Item| match &item.value {
        Value::Table(table) => match table.get("name").map(|name| &name.value) {
            Some(Value::Text(name)) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    let names: Vec<_> = items.iter().map(name_of).collect();
    if let Some(index) = names.iter().position(|name| name.as_deref() == Some(segment)) {
        return Ok(index);
    }
    if path == "host" {
        let name = Item { value: Value::Text(segment.to_owned()), origin: origin.clone() };
        let mut table = Table::default();
        table.put("name", name);
        items.push(Item { value: Value::Table(table), origin: origin.clone() });
        return Ok(items.len() - 1);
    }
    Err(no_such(path, segment, names.iter().flatten().map(String::as_str)))
}
