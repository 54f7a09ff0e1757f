//! A scenario as a tree of values, each of which knows where it was written.

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file, from 1.
    Line(u32),
    /// An option of the command line, as given: `--set path.wlan.rate=50mbit`.
    Option(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i128),
    Float(f64),
    Flag(bool),
    Moment(String),
    List(Vec<Item>),
    Table(Table),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Table {
    pub(super) fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) origin: Origin,
    pub(super) item: Item,
}

impl Value {
    /// What it is, with its article, for messages.
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
}

impl Item {
    /// The value as JSON, for the record of a result.
    pub(super) fn to_json(&self) -> Json {
        match &self.value {
            Value::Text(text) | Value::Moment(text) => Json::from(text.as_str()),
            Value::Integer(number) => serde_json::Number::from_i128(*number).map_or(Json::Null, Json::Number),
            Value::Float(number) => Json::from(*number),
            Value::Flag(flag) => Json::from(*flag),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Table(table) => {
                table.fields.iter().map(|field| (field.key.clone(), field.item.to_json())).collect()
            }
        }
    }

    pub(super) fn written(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            _ => self.to_json().to_string(),
        }
    }
}

impl Table {
    pub(super) fn get(&self, key: &str) -> Option<&Item> {
        self.fields.iter().find(|field| field.key == key).map(|field| &field.item)
    }

    pub(super) fn put(&mut self, key: &str, item: Item) {
        let origin = item.origin.clone();
        match self.fields.iter_mut().find(|field| field.key == key) {
            Some(field) => *field = Field { key: key.to_owned(), origin, item },
            None => self.fields.push(Field { key: key.to_owned(), origin, item }),
        }
    }

    /// The entries under dotted keys, however they are written: `"a.b" = 1`, `a.b = 1` and `[a] b = 1` are the
    /// same. A table for which `is_leaf` holds is a value of its own.
    pub(super) fn flattened(&self, is_leaf: &dyn Fn(&Table) -> bool) -> Vec<Field> {
        let mut flat = Vec::new();
        for field in &self.fields {
            match &field.item.value {
                Value::Table(table) if !is_leaf(table) => {
                    flat.extend(
                        table
                            .flattened(is_leaf)
                            .into_iter()
                            .map(|inner| Field { key: format!("{}.{}", field.key, inner.key), ..inner }),
                    );
                }
                _ => flat.push(field.clone()),
            }
        }
        flat
    }
}

pub(super) trait Locate {
    fn at(&self, offset: usize) -> Origin;
    /// Called for an integer that is no `i64`.
    fn too_large(&self, offset: usize, digits: &str);
}

/// The tree of a parsed TOML table; keys in the order of the file.
pub(super) fn table(parsed: &DeTable<'_>, locate: &dyn Locate) -> Table {
    let mut entries: Vec<_> = parsed.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let fields = entries.into_iter().map(|(key, value)| Field {
        key: key.get_ref().to_string(),
        origin: locate.at(key.span().start),
        item: item(value.get_ref(), value.span().start, locate),
    });
    Table { fields: fields.collect() }
}

pub(super) fn item(parsed: &DeValue<'_>, offset: usize, locate: &dyn Locate) -> Item {
    let value = match parsed {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(i128::from(parsed.unwrap_or_else(|_| {
                locate.too_large(offset, number.as_str());
                i64::MAX
            })))
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(moment) => Value::Moment(moment.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|inner| item(inner.get_ref(), inner.span().start, locate)).collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, locate)),
    };
    Item { value, origin: locate.at(offset) }
}
