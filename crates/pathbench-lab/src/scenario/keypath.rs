//! Key paths (`path.wlan.rate`, `event.0.at`) select values in the tree for the command line, the matrix and misplaced
//! tables.

use super::mistake::{At, Fault, MistakeLog, SourceLocation, choices};
use super::tree::{Item, TomlField, TomlTable, TomlValue};
use serde_json::Map;
use std::borrow::Cow;

/// Lists of named tables: `path.wlan` is the `path` with the `name` `wlan`.
pub(super) const COLLECTIONS: [&str; 4] = ["path", "link", "host", "router"];

fn has_dotted_keys(path: &str) -> bool {
    path == "matrix" || path == "expect" || path.ends_with(".sysctl")
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Sets the value at the key path to `item`, and creates missing tables. Validation checks the item and the last key
/// later.
pub(super) fn set(root: &mut TomlTable, path: &str, item: Item) -> Result<(), Fault> {
    if path.split('.').any(str::is_empty) {
        let remedy = "give keys joined by dots, as in path.wlan.rate";
        return Err((format!("`{path}` is not a key path"), remedy.to_owned()));
    }
    set_in_table(root, "", path, item)
}

fn set_in_table(table: &mut TomlTable, path: &str, rest: &str, item: Item) -> Result<(), Fault> {
    // Keys may contain dots (sysctls): the longest match applies.
    let fits = |field: &&TomlField| {
        rest.strip_prefix(field.key.as_str()).is_some_and(|tail| tail.is_empty() || tail.starts_with('.'))
    };
    let known = table.fields.iter().filter(fits).map(|field| field.key.clone()).max_by_key(String::len);
    let is_new = known.is_none();
    let first = if has_dotted_keys(path) { rest } else { rest.split('.').next().unwrap_or(rest) };
    let key = known.unwrap_or_else(|| first.to_owned());
    let tail = rest[key.len()..].strip_prefix('.');
    if is_new && (tail.is_some() || !path.is_empty()) {
        refuse_new_thing(table, path, &key)?;
    }
    let Some(tail) = tail else {
        table.put(&key, item);
        return Ok(());
    };
    if is_new {
        table.put(&key, Item { value: TomlValue::Table(TomlTable::default()), location: item.location });
    }
    match table.get_mut(&key) {
        Some(known) => set_in_item(known, &join(path, &key), tail, item),
        None => Ok(()),
    }
}

/// Rejects a path, link or router that does not exist. Hosts need no declaration.
fn refuse_new_thing(table: &TomlTable, path: &str, key: &str) -> Result<(), Fault> {
    let named = |collection: &str| collection != "host" && COLLECTIONS.contains(&collection);
    if path.is_empty() && (named(key) || key == "event") {
        return Err((format!("the scenario has no {key}"), format!("add a [[{key}]] to the file")));
    }
    if named(path) {
        return Err(no_such(path, key, table.fields.iter().map(|field| field.key.as_str())));
    }
    Ok(())
}

fn no_such<'a>(collection: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Fault {
    (format!("there is no {collection} `{name}`"), choices(name, &known.collect::<Vec<_>>()))
}

fn set_in_item(target: &mut Item, path: &str, rest: &str, item: Item) -> Result<(), Fault> {
    match &mut target.value {
        TomlValue::Table(table) => set_in_table(table, path, rest, item),
        TomlValue::List(items) => {
            let (segment, tail) = rest.split_once('.').map_or((rest, ""), |(head, tail)| (head, tail));
            let element = element(items, path, segment, item.location)?;
            if tail.is_empty() {
                *element = item;
                return Ok(());
            }
            set_in_item(element, &join(path, segment), tail, item)
        }
        other => {
            let problem = format!("`{path}` is {} and has no keys of its own", other.noun());
            Err((problem, format!("set {path} itself")))
        }
    }
}

/// The element named by `segment`. Adds a missing host, because hosts of the short form need no declaration.
fn element<'i>(
    items: &'i mut Vec<Item>,
    path: &str,
    segment: &str,
    location: SourceLocation,
) -> Result<&'i mut Item, Fault> {
    let count = items.len();
    if !COLLECTIONS.contains(&path) {
        let known = match count {
            0 => "the list is empty".to_owned(),
            1 => "its only element is 0".to_owned(),
            _ => format!("its elements are 0 to {}", count - 1),
        };
        let element = segment.parse::<usize>().ok().and_then(|index| items.get_mut(index));
        return element.ok_or_else(|| (format!("`{path}` has no element `{segment}`"), known));
    }
    let index = items.iter().position(|item| item.name() == Some(segment));
    if index.is_none() && path != "host" {
        return Err(no_such(path, segment, items.iter().filter_map(Item::name)));
    }
    if index.is_none() {
        let mut table = TomlTable::default();
        table.put("name", Item { value: TomlValue::Text(segment.to_owned()), location });
        items.push(Item { value: TomlValue::Table(table), location });
    }
    Ok(&mut items[index.unwrap_or(count)])
}

/// Replaces the pattern alias `iperf` at the beginning of the text: `iperf-upload`, `iperf.rate`.
pub(super) fn pattern_name(name: &str) -> Cow<'_, str> {
    match name.strip_prefix("iperf") {
        Some(rest) if rest.is_empty() || rest.starts_with(['-', '.']) => {
            Cow::Owned(format!("throughput{rest}"))
        }
        _ => Cow::Borrowed(name),
    }
}

/// Replaces the alias after `run.` in a key path.
fn without_alias(path: &str) -> Cow<'_, str> {
    path.strip_prefix("run.").map_or(path.into(), |rest| format!("run.{}", pattern_name(rest)).into())
}

/// Replaces the alias in all keys below `parent`: `[run.iperf]`, and key paths in the matrix and in expectations.
fn replace_alias(table: &mut TomlTable, parent: &str, ledger: &MistakeLog) {
    for field in &mut table.fields {
        let key = if parent == "run" { pattern_name(&field.key) } else { without_alias(&field.key) };
        field.key = key.into_owned();
        let elements = match &mut field.item.value {
            TomlValue::List(items) => items.as_mut_slice(),
            _ => std::slice::from_mut(&mut field.item),
        };
        for item in elements {
            if let TomlValue::Table(inner) = &mut item.value {
                replace_alias(inner, &field.key, ledger);
            }
        }
    }
    let mut aliased = table.fields.iter().filter(|field| parent == "run" && field.key == "throughput");
    if let (Some(_), Some(second)) = (aliased.next(), aliased.next()) {
        let remedy = "remove one of the two: iperf is an alias of throughput";
        ledger.wrong(&At::new(second.location, "run.throughput"), "is given twice", remedy);
    }
}

/// Keys whose values are tables inside a named element.
const INNER_TABLES: [&str; 10] = [
    "sysctl",
    "mptcp",
    "upload",
    "download",
    "forward",
    "reverse",
    "burst_loss",
    "loss_bursts",
    "arq",
    "policer",
];

/// Moves misplaced tables before other code reads the tree. In TOML, `[host.client]` after a `[[host]]` is a table
/// inside that last host, but the author means the host `client`. A table with the name of a declared element of the
/// same list is moved into that element. A table `[host.NAME]` of an undeclared host becomes a host, because hosts need
/// no declaration.
///
/// The alias `iperf` becomes `throughput`.
pub(super) fn gather(tree: &mut TomlTable, ledger: &MistakeLog) {
    replace_alias(tree, "", ledger);
    let mut misplaced = Vec::new();
    for field in tree.fields.iter_mut().filter(|field| COLLECTIONS.contains(&field.key.as_str())) {
        let collection = field.key.clone();
        if field.item.name().is_some() {
            let remedy = format!("write [[{collection}]], or [{collection}.NAME] without a name");
            let at = At::new(field.location, &collection);
            ledger.wrong(&at, format!("[{collection}] is a single table"), remedy);
            field.item.value = TomlValue::List(vec![field.item.clone()]);
        }
        let TomlValue::List(items) = &mut field.item.value else { continue };
        let names: Vec<String> = items.iter().filter_map(|item| item.name().map(str::to_owned)).collect();
        for item in items {
            let TomlValue::Table(table) = &mut item.value else { continue };
            let is_misplaced = |field: &mut TomlField| {
                field.item.value.table().is_some()
                    && !INNER_TABLES.contains(&field.key.as_str())
                    && (collection == "host" || names.contains(&field.key))
            };
            let moved = table.fields.extract_if(.., is_misplaced);
            misplaced.extend(moved.map(|field| (join(&collection, &field.key), field.item)));
        }
    }
    for (path, item) in misplaced {
        let fields = item.value.table().map(|table| table.flatten(&|_| false)).unwrap_or_default();
        for field in fields {
            let at = At::new(field.location, join(&path, &field.key));
            ledger.value(&at, set(tree, &at.key, field.item));
        }
    }
}

/// Changes to a scenario from the command line. They are validated with the rest of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// `--set KEY=VALUE`: key path and value. A value that is not valid TOML is a text.
    pub set: Vec<(String, String)>,
    /// `--transports`: replaces `run.transports`.
    pub transports: Option<Vec<String>>,
    /// `--repeat`: replaces `run.repeat`.
    pub repeat: Option<u32>,
    /// `--warm-up`: replaces `run.warm_up`.
    pub warm_up: Option<u32>,
    /// `--seed`: replaces `run.seed`.
    pub seed: Option<u64>,
    /// `--duration`: replaces `run.duration`.
    pub duration: Option<String>,
}

impl Overrides {
    /// Key paths, options as given, and values. `--set` comes first, so that the dedicated options override it.
    fn options(&self) -> Vec<(String, String, String)> {
        let set = self.set.iter().map(|(key, value)| {
            (without_alias(key).into_owned(), format!("--set {key}={value}"), value.clone())
        });
        let run = |key: &str, value: String| (format!("run.{key}"), format!("--{key} {value}"), value);
        let transports = self.transports.as_ref().map(|labels| {
            let option = format!("--transports {}", labels.join(","));
            ("run.transports".to_owned(), option, format!("{labels:?}"))
        });
        set.chain(transports)
            .chain(self.repeat.map(|repeat| run("repeat", repeat.to_string())))
            .chain(self.warm_up.map(|warm_up| {
                ("run.warm_up".to_owned(), format!("--warm-up {warm_up}"), warm_up.to_string())
            }))
            .chain(self.seed.map(|seed| run("seed", seed.to_string())))
            .chain(self.duration.clone().map(|duration| run("duration", duration)))
            .collect()
    }

    /// Applies the overrides to the tree and returns their values by key path for the record. The matrix no longer
    /// varies an overridden key.
    pub(super) fn apply(&self, tree: &mut TomlTable, ledger: &MistakeLog) -> Map<String, serde_json::Value> {
        let mut record = Map::new();
        for (key, option, value) in self.options() {
            let item = Item::of_option(&value, ledger.text("", option));
            let (at, json) = (At::new(item.location, &key), item.to_json());
            let Some(()) = ledger.value(&at, set(tree, &key, item)) else { continue };
            if let Some(Item { value: TomlValue::Table(matrix), .. }) = tree.get_mut("matrix") {
                forget(matrix, &key);
            }
            record.insert(key, json);
        }
        record
    }
}

fn forget(table: &mut TomlTable, key: &str) {
    table.fields.retain(|field| field.key != key);
    for field in &mut table.fields {
        let rest = key.strip_prefix(field.key.as_str()).and_then(|rest| rest.strip_prefix('.'));
        if let (Some(rest), TomlValue::Table(inner)) = (rest, &mut field.item.value) {
            forget(inner, rest);
        }
    }
}
