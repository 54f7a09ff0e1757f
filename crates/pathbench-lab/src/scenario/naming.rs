//! Names of paths, links, nodes and interfaces, and the tables that are found by name.

use super::mistake::{Ledger, MistakeKind};
use super::section::Section;
use super::tree::{Origin, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameOf {
    Scenario,
    /// Also becomes an interface in the wire room; no dots, since key paths have dots.
    Link,
    Node,
    /// `dev_valid_name` of the kernel (net/core/dev.c) allows more; what is left out only makes trouble.
    Interface,
}

/// IFNAMSIZ (linux/if.h) less the final zero.
const LONGEST_INTERFACE: usize = 15;

impl NameOf {
    pub(super) fn fault(self, name: &str) -> Option<(String, String)> {
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
            return Some((format!("`{name}` will not do as {noun}"), remedy));
        }
        if matches!(self, Self::Link | Self::Interface) && ["lo", "all", "default"].contains(&name) {
            let remedy = "choose another; lo, all and default mean something to the kernel".to_owned();
            return Some((format!("`{name}` is reserved"), remedy));
        }
        None
    }

    pub(super) fn check(self, name: &str, ledger: &Ledger, origin: &Origin, key: &str) {
        if let Some((problem, remedy)) = self.fault(name) {
            ledger.add(MistakeKind::Value, origin, key, problem, remedy);
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Named<'a> {
    /// Empty when it has none, which is a mistake that has been reported.
    pub(super) name: String,
    pub(super) name_origin: Origin,
    pub(super) section: Section<'a>,
}

/// The things of one sort, in file order: `[[path]]` tables with a `name`, or tables `[path.NAME]`.
pub(super) fn collection<'a>(root: &Section<'a>, key: &str, sort: NameOf) -> Vec<Named<'a>> {
    let Some(item) = root.get(key) else { return Vec::new() };
    let found = match &item.value {
        Value::Table(table) => table.fields.iter().filter_map(|field| tabled(root, key, field)).collect(),
        Value::List(_) => root.sections(key).into_iter().map(|section| listed(key, section)).collect(),
        other => {
            let problem = format!("{} is not a table", other.noun());
            root.wrong(
                MistakeKind::Type,
                key,
                problem,
                format!("write each as [[{key}]] with its keys below"),
            );
            Vec::new()
        }
    };
    for named in found.iter().filter(|named: &&Named<'_>| !named.name.is_empty()) {
        let key = named.section.key("name");
        sort.check(&named.name, root.ledger, &named.name_origin, &key);
    }
    found
}

/// An element of `[[path]]`.
fn listed<'a>(key: &str, section: Section<'a>) -> Named<'a> {
    let name = section.required_text("name", key).unwrap_or_default().to_owned();
    if section.has("name") && name.is_empty() && section.text("name", key).is_some() {
        section.wrong(MistakeKind::Value, "name", "an empty text is no name", "give it one");
    }
    let path = if name.is_empty() { section.path.clone() } else { format!("{key}.{name}") };
    let name_origin = section.origin_of("name");
    Named { name, name_origin, section: Section { path, ..section } }
}

/// A table `[path.NAME]`.
fn tabled<'a>(root: &Section<'a>, key: &str, field: &'a super::tree::Field) -> Option<Named<'a>> {
    let parent = root.section(key);
    // Says so itself when it is not a table.
    let section = parent.section(&field.key);
    section.table?;
    if section.text("name", &field.key).is_some_and(|name| name != field.key) {
        let remedy = format!("leave the name out; [{key}.{}] has one", field.key);
        section.wrong(MistakeKind::Conflict, "name", "the table is already named by its heading", remedy);
    }
    Some(Named { name: field.key.clone(), name_origin: field.origin.clone(), section })
}

pub(super) fn no_name_twice<'a>(named: impl Iterator<Item = &'a Named<'a>>) {
    let mut seen: Vec<&Named<'_>> = Vec::new();
    for this in named.filter(|named| !named.name.is_empty()) {
        match seen.iter().find(|other| other.name == this.name) {
            Some(other) => {
                let place = match &other.name_origin {
                    Origin::Line(line) => format!("on line {line}"),
                    Origin::Option(option) => format!("by {option}"),
                };
                let problem = format!("the name `{}` is already taken {place}", this.name);
                let key = this.section.key("name");
                let remedy = "choose another";
                this.section.ledger.add(MistakeKind::Duplicate, &this.name_origin, key, problem, remedy);
            }
            None => seen.push(this),
        }
    }
}
