//! Parses TOML text into a tree of values with their locations, and reports every line that is not TOML as a mistake.

use super::mistake::{At, Fault, MistakeLog, SourceLocation};
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue, Error};
use toml::{Spanned, de::DeInteger};

#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) value: TomlValue,
    pub(super) location: SourceLocation,
}

#[derive(Debug, Clone)]
pub(super) enum TomlValue {
    Text(String),
    Integer(i128),
    Float(f64),
    Flag(bool),
    Moment(String),
    List(Vec<Item>),
    Table(TomlTable),
}

#[derive(Debug, Clone, Default)]
pub(super) struct TomlTable {
    /// In the order of the file.
    pub(super) fields: Vec<TomlField>,
}

#[derive(Debug, Clone)]
pub(super) struct TomlField {
    pub(super) key: String,
    pub(super) location: SourceLocation,
    pub(super) item: Item,
}

impl TomlValue {
    /// The type with an article, for messages.
    pub(super) const fn noun(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::Moment(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) const fn table(&self) -> Option<&TomlTable> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }
}

impl Item {
    /// The value as JSON, for the record of a result.
    pub(super) fn to_json(&self) -> Json {
        match &self.value {
            TomlValue::Text(text) | TomlValue::Moment(text) => Json::from(text.as_str()),
            TomlValue::Integer(number) => {
                serde_json::Number::from_i128(*number).map_or(Json::Null, Json::Number)
            }
            TomlValue::Float(number) => Json::from(*number),
            TomlValue::Flag(flag) => Json::from(*flag),
            TomlValue::List(items) => items.iter().map(Self::to_json).collect(),
            TomlValue::Table(table) => {
                table.fields.iter().map(|field| (field.key.clone(), field.item.to_json())).collect()
            }
        }
    }

    pub(super) fn written(&self) -> String {
        match &self.value {
            TomlValue::Text(text) => text.clone(),
            TomlValue::Integer(number) => number.to_string(),
            _ => self.to_json().to_string(),
        }
    }

    /// The elements of a list; for any other value, the value itself.
    pub(super) fn elements(&self) -> &[Self] {
        if let TomlValue::List(items) = &self.value { items } else { std::slice::from_ref(self) }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.value.table()?.get("name")?.value.text()
    }
}

impl TomlTable {
    pub(super) fn get(&self, key: &str) -> Option<&Item> {
        self.fields.iter().find(|field| field.key == key).map(|field| &field.item)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Item> {
        self.fields.iter_mut().find(|field| field.key == key).map(|field| &mut field.item)
    }

    pub(super) fn put(&mut self, key: &str, item: Item) {
        match self.get_mut(key) {
            Some(known) => *known = item,
            None => self.fields.push(TomlField { key: key.to_owned(), location: item.location, item }),
        }
    }

    /// The entries under dotted keys: `"a.b" = 1`, `a.b = 1` and `[a] b = 1` are equivalent. A table for which
    /// `is_leaf` is true is a value.
    pub(super) fn flatten(&self, is_leaf: &dyn Fn(&Self) -> bool) -> Vec<TomlField> {
        let mut flat = Vec::new();
        for field in &self.fields {
            match field.item.value.table().filter(|table| !is_leaf(table)) {
                Some(table) => flat.extend(
                    table
                        .flatten(is_leaf)
                        .into_iter()
                        .map(|inner| TomlField { key: format!("{}.{}", field.key, inner.key), ..inner }),
                ),
                None => flat.push(field.clone()),
            }
        }
        flat
    }

    fn from_toml(parsed: &DeTable<'_>, location: SourceLocation) -> Self {
        let mut fields: Vec<_> = parsed
            .iter()
            .map(|(key, value)| TomlField {
                key: key.get_ref().to_string(),
                location: location.part(&key.span()),
                item: Item::from_toml(value, location),
            })
            .collect();
        fields.sort_by_key(|field| field.location);
        Self { fields }
    }
}

impl Item {
    fn from_toml(parsed: &Spanned<DeValue<'_>>, location: SourceLocation) -> Self {
        let value = match parsed.get_ref() {
            DeValue::String(text) => TomlValue::Text(text.to_string()),
            DeValue::Integer(number) => integer(number),
            DeValue::Float(number) => TomlValue::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => TomlValue::Flag(*flag),
            DeValue::Datetime(moment) => TomlValue::Moment(moment.to_string()),
            DeValue::Array(items) => {
                TomlValue::List(items.iter().map(|item| Self::from_toml(item, location)).collect())
            }
            DeValue::Table(table) => TomlValue::Table(TomlTable::from_toml(table, location)),
        };
        Self { value, location: location.part(&parsed.span()) }
    }

    /// A value of the command line: TOML if valid (`1400`, `true`, `["tcp", "mptcp"]`), else a text.
    pub(super) fn of_option(text: &str, option: SourceLocation) -> Self {
        fn relocate(item: &mut Item, location: SourceLocation) {
            item.location = location;
            match &mut item.value {
                TomlValue::List(items) => items.iter_mut().for_each(|item| relocate(item, location)),
                TomlValue::Table(table) => table.fields.iter_mut().for_each(|field| {
                    field.location = location;
                    relocate(&mut field.item, location);
                }),
                _ => {}
            }
        }
        let mut item = DeValue::parse(text).map_or_else(
            |_| Self { value: TomlValue::Text(text.to_owned()), location: option },
            |parsed| Self::from_toml(&parsed, option),
        );
        relocate(&mut item, option);
        item
    }
}

/// An integer with too many digits becomes a float, which every range rejects.
fn integer(number: &DeInteger<'_>) -> TomlValue {
    let digits = number.as_str();
    let float = |_| TomlValue::Float(digits.parse().unwrap_or(f64::INFINITY));
    i128::from_str_radix(digits, number.radix()).map_or_else(float, TomlValue::Integer)
}

/// The tree of the ledger's file.
///
/// A line that is not TOML is a mistake. If its meaning is clear, the parser corrects it; otherwise the parser omits
/// it, and no key is reported as missing. `None` if the rest is not TOML either, after an unclosed bracket or quote.
pub(super) fn document(text: &str, ledger: &MistakeLog) -> Option<TomlTable> {
    let (parsed, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Some(TomlTable::from_toml(parsed.get_ref(), ledger.top()));
    }
    let repaired = repair(text, errors, ledger);
    let parsed = DeTable::parse(&repaired).ok()?;
    Some(TomlTable::from_toml(parsed.get_ref(), ledger.text(&ledger.file(), repaired.clone())))
}

fn repair(text: &str, mut errors: Vec<Error>, ledger: &MistakeLog) -> String {
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let mut last = None;
    for error in errors {
        let location = ledger.top().part(&error.span().unwrap_or_default());
        let index = ledger.number(location).map_or(0, |number| number as usize - 1);
        // For one mistake, the parser may report several errors in the same line.
        if last.replace(index) == Some(index) {
            continue;
        }
        let line = &lines[index];
        let at = At::new(location, key_of(line));
        let (meant, (problem, remedy)) = guess_fault(line, text).unwrap_or_else(|| {
            let remedy =
                "write key = \"value\", or key = 1, each key once and each text in quotes".to_owned();
            (String::new(), (format!("this is not TOML: {}", error.message()), remedy))
        });
        ledger.wrong(&at, problem, remedy);
        if meant.is_empty() {
            ledger.incomplete.set(true);
        }
        lines[index] = meant;
    }
    lines.join("\n")
}

/// Keys that are lists of tables: `[[path]]`.
const LISTS: [&str; 5] = ["path", "link", "host", "router", "event"];

/// The key before `=` in a line; empty if the text does not look like a key.
fn key_of(line: &str) -> String {
    let key = line.split_once('=').map_or("", |(key, _)| key.trim().trim_matches(['"', '\'']));
    let plain = |c: char| c.is_alphanumeric() || "-_.@*() ".contains(c);
    if key.chars().all(plain) { key.to_owned() } else { String::new() }
}

/// The corrected line and its fault, if both are clear.
fn guess_fault(line: &str, text: &str) -> Option<(String, Fault)> {
    let code = line.split('#').next().unwrap_or(line).trim();
    let Some((key, value)) = code.split_once('=') else {
        let name = code.strip_prefix('[')?.trim_matches(['[', ']']);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return None;
        }
        let list = format!("[[{name}]]");
        if LISTS.contains(&name) && code != list && text.contains(&list) {
            return Some((
                list.clone(),
                (format!("there are several {list}"), format!("write {list} here too")),
            ));
        }
        let closed = if code.starts_with("[[") { list } else { format!("[{name}]") };
        let problem = "the heading has no closing bracket".to_owned();
        return (code != closed).then(|| (closed.clone(), (problem, format!("write {closed}"))));
    };
    let (key, value) = (key.trim(), value.trim());
    let bare = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !key.is_empty() && !key.contains(['"', '\'']) && !key.chars().all(bare) {
        let remedy = format!("write it as \"{key}\"");
        return Some((format!("\"{key}\" = {value}"), ("the key needs quotes".to_owned(), remedy)));
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._:/%+-".contains(c);
    if value.is_empty() {
        let remedy = "give it one, or remove the key".to_owned();
        return Some((String::new(), ("the key has no value".to_owned(), remedy)));
    }
    if !value.chars().all(is_word) || DeValue::parse(value).is_ok() {
        return None;
    }
    let remedy = format!("write it as \"{value}\"");
    Some((format!("{key} = \"{value}\""), (format!("`{value}` has no quotes"), remedy)))
}
