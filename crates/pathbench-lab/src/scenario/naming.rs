//! Names of paths, links, nodes and interfaces, and the named tables.

use super::mistake::{At, Fault, MistakeLog};
use super::section::ScenarioSection;
use super::tree::{TomlField, TomlValue};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameOf {
    Scenario,
    /// Also the name of an interface in the fabric namespace. Has no dots, because key paths have dots.
    Link,
    Node,
    /// `dev_valid_name` of the kernel (net/core/dev.c) allows more characters, which would need quotes elsewhere.
    Interface,
}

/// IFNAMSIZ (linux/if.h) less the final zero.
const LONGEST_INTERFACE: usize = 15;

impl NameOf {
    pub(super) fn fault(self, name: &str) -> Option<Fault> {
        let (noun, longest, dots) = match self {
            Self::Scenario => ("the name of a scenario", 64, true),
            Self::Link => ("the name of a path or link", LONGEST_INTERFACE, false),
            Self::Node => ("the name of a host or router", 32, false),
            Self::Interface => ("the name of an interface", LONGEST_INTERFACE, true),
        };
        let letters = if dots { "letters, digits, `-`, `_` and `.`" } else { "letters, digits, `-` and `_`" };
        let remedy = format!("give 1 to {longest} {letters}, the first a letter or digit");
        let count = name.chars().count();
        if name.is_empty() {
            return Some(("an empty text is no name".to_owned(), remedy));
        }
        if count > longest {
            return Some((format!("`{name}` has {count} characters"), remedy));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || (dots && c == '.');
        if !name.chars().all(legal) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Some((format!("`{name}` is not valid as {noun}"), remedy));
        }
        if matches!(self, Self::Link | Self::Interface) && ["lo", "all", "default"].contains(&name) {
            let remedy = "choose another; lo, all and default are special names in the kernel".to_owned();
            return Some((format!("`{name}` is reserved"), remedy));
        }
        None
    }

    pub(super) fn check(self, name: &str, ledger: &MistakeLog, at: &At) {
        if let Some((problem, remedy)) = self.fault(name) {
            ledger.wrong(at, problem, remedy);
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Named<'a> {
    /// Empty for a missing name, which has been reported as a mistake.
    pub(super) name: String,
    pub(super) name_at: At,
    pub(super) section: ScenarioSection<'a>,
}

/// The named tables of one kind, in file order: `[[path]]` with a `name`, or `[path.NAME]`.
pub(super) fn collection<'a>(root: &ScenarioSection<'a>, key: &str, sort: NameOf) -> Vec<Named<'a>> {
    let Some(item) = root.get(key) else { return Vec::new() };
    let found: Vec<Named<'a>> = match &item.value {
        TomlValue::Table(table) => {
            table.fields.iter().filter_map(|field| read_tabled(root, key, field)).collect()
        }
        TomlValue::List(_) => {
            root.sections(key).into_iter().map(|section| read_listed(key, section)).collect()
        }
        other => {
            let problem = format!("{} is not a table", other.noun());
            root.wrong(key, problem, format!("write each as [[{key}]] with its keys below"));
            Vec::new()
        }
    };
    for named in found.iter().filter(|named| !named.name.is_empty()) {
        sort.check(&named.name, root.ledger, &named.name_at);
    }
    found
}

/// An element of `[[path]]`.
fn read_listed<'a>(key: &str, mut section: ScenarioSection<'a>) -> Named<'a> {
    let given = section.required_text("name", key);
    if given == Some("") {
        section.wrong("name", "an empty text is no name", "give it one");
    }
    let name = given.unwrap_or_default().to_owned();
    if !name.is_empty() {
        section.at.key = format!("{key}.{name}");
        section.get("name");
    }
    Named { name_at: section.locate("name"), name, section }
}

/// A table `[path.NAME]`.
fn read_tabled<'a>(root: &ScenarioSection<'a>, key: &str, field: &TomlField) -> Option<Named<'a>> {
    // Reports a value that is not a table.
    let section = root.section(key).section(&field.key);
    section.table?;
    if section.text("name", &field.key).is_some_and(|name| name != field.key) {
        let remedy = format!("leave the name out; [{key}.{}] has one", field.key);
        section.wrong("name", "the table is already named by its heading", remedy);
    }
    let name_at = At::new(field.location, section.locate("name").key);
    Some(Named { name: field.key.clone(), name_at, section })
}

pub(super) fn no_name_twice<'a>(ledger: &MistakeLog, named: impl Iterator<Item = (&'a str, &'a At)>) {
    let mut seen: Vec<(&str, &At)> = Vec::new();
    for (name, at) in named.filter(|(name, _)| !name.is_empty()) {
        if let Some((_, other)) = seen.iter().find(|(other, _)| *other == name) {
            let line = ledger.number(other.location).map(|line| format!(" on line {line}"));
            let problem = format!("the name `{name}` is already taken{}", line.unwrap_or_default());
            ledger.wrong(at, problem, "choose another");
        } else {
            seen.push((name, at));
        }
    }
}
