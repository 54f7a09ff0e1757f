//! Reading one table of a scenario: every value with its type, its range and its mistakes.

use super::mistake::{Ledger, MistakeKind};
use super::suggestion::{choices, nearest};
use super::tree::{Item, Origin, Table, Value};
use pathbench_record::units::{Percent, QueueLimit, Rate, Size, Span, UnitError};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// A table being read. A value that is absent or wrong reads as `None`; what is wrong goes to the ledger.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    pub(super) ledger: &'a Ledger,
    /// `None` when the scenario does not have it.
    pub(super) table: Option<&'a Table>,
    /// Where the table is written; of what encloses it when it is absent.
    pub(super) origin: Origin,
    pub(super) path: String,
}

impl<'a> Section<'a> {
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Item> {
        self.table?.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn origin_of(&self, key: &str) -> Origin {
        self.get(key).map_or_else(|| self.origin.clone(), |item| item.origin.clone())
    }

    pub(super) fn wrong(
        &self,
        kind: MistakeKind,
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.ledger.add(kind, &self.origin_of(key), self.key(key), problem, remedy);
    }

    /// Reports every key that is not in `known`; `noun` says whose keys they are.
    pub(super) fn only(&self, noun: &str, known: &[&str]) {
        for field in self.table.iter().flat_map(|table| &table.fields) {
            let key = field.key.as_str();
            if !known.contains(&key) {
                let problem = format!("{noun} has no key `{key}`");
                self.ledger.add(
                    MistakeKind::UnknownKey,
                    &field.origin,
                    self.key(key),
                    problem,
                    choices(key, known),
                );
            }
        }
    }

    fn wrong_type(&self, key: &str, item: &Item, wanted: &str, example: &str) {
        let problem = format!("{} is not {wanted}", item.value.noun());
        let remedy = format!("give {wanted}, as in {} = {example}", key.rsplit('.').next().unwrap_or(key));
        self.ledger.add(MistakeKind::Type, &item.origin, self.key(key), problem, remedy);
    }

    pub(super) fn section(&self, key: &str) -> Section<'a> {
        let item = self.get(key);
        let table = match item.map(|item| &item.value) {
            Some(Value::Table(table)) => Some(table),
            Some(_) => {
                self.wrong(
                    MistakeKind::Type,
                    key,
                    format!("{} is not a table", item.map_or("this", |item| item.value.noun())),
                    format!("write it as [{}] with its keys below", self.key(key)),
                );
                None
            }
            None => None,
        };
        Section { ledger: self.ledger, table, origin: self.origin_of(key), path: self.key(key) }
    }

    /// The elements of the list at `key`, each of which must be a table; numbered from 0.
    pub(super) fn sections(&self, key: &str) -> Vec<Section<'a>> {
        if matches!(self.get(key).map(|item| &item.value), Some(Value::Table(_))) {
            let own = self.key(key);
            self.wrong(
                MistakeKind::Type,
                key,
                format!("[{own}] is a single table"),
                format!("write [[{own}]]"),
            );
            return Vec::new();
        }
        let mut sections = Vec::new();
        for (index, item) in self.items(key).into_iter().flatten().enumerate() {
            let path = format!("{}.{index}", self.key(key));
            match &item.value {
                Value::Table(table) => sections.push(Section {
                    ledger: self.ledger,
                    table: Some(table),
                    origin: item.origin.clone(),
                    path,
                }),
                other => self.ledger.add(
                    MistakeKind::Type,
                    &item.origin,
                    path,
                    format!("{} is not a table", other.noun()),
                    format!("write each as [[{}]] with its keys below", self.key(key)),
                ),
            }
        }
        sections
    }

    /// The elements of the list at `key`; `None` when there is no list.
    pub(super) fn items(&self, key: &str) -> Option<&'a [Item]> {
        let item = self.get(key)?;
        if let Value::List(items) = &item.value {
            return Some(items);
        }
        self.wrong_type(key, item, "a list", "[…]");
        None
    }

    pub(super) fn text(&self, key: &str, example: &str) -> Option<&'a str> {
        let item = self.get(key)?;
        if let Value::Text(text) = &item.value {
            return Some(text);
        }
        self.wrong_type(key, item, "a text", &format!("\"{example}\""));
        None
    }

    /// The text at `key`, which must be there.
    pub(super) fn required_text(&self, key: &str, example: &str) -> Option<&'a str> {
        if !self.has(key) {
            self.missing(key, &format!("\"{example}\""));
        }
        self.text(key, example)
    }

    pub(super) fn missing(&self, key: &str, example: &str) {
        self.ledger.add(
            MistakeKind::Missing,
            &self.origin,
            self.key(key),
            "is missing",
            format!("add {key} = {example}"),
        );
    }

    pub(super) fn texts(&self, key: &str, example: &str) -> Option<Vec<(&'a str, Origin)>> {
        let item = self.get(key)?;
        let items = match &item.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(item),
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(text) => texts.push((text.as_str(), item.origin.clone())),
                _ => self.wrong_type(key, item, "a text or a list of texts", &format!("[\"{example}\"]")),
            }
        }
        Some(texts)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        let item = self.get(key)?;
        if let Value::Flag(flag) = item.value {
            return Some(flag);
        }
        self.wrong_type(key, item, "true or false", "true");
        None
    }

    pub(super) fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let item = self.get(key)?;
        let Value::Integer(number) = item.value else {
            self.wrong_type(key, item, "a whole number without quotes", &range.start().to_string());
            return None;
        };
        let number = u64::try_from(number).ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.out_of_range(key, item, range.start(), range.end());
        }
        number
    }

    fn out_of_range(&self, key: &str, item: &Item, least: impl Display, most: impl Display) {
        let problem = format!("`{}` is out of range", item.written());
        self.wrong(MistakeKind::Value, key, problem, format!("give {least} to {most}"));
    }

    pub(super) fn number(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let item = self.get(key)?;
        let number = match item.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => {
                self.wrong_type(key, item, "a number without quotes", &range.end().to_string());
                return None;
            }
        };
        if !range.contains(&number) {
            self.out_of_range(key, item, range.start(), range.end());
            return None;
        }
        Some(number)
    }

    pub(super) fn choice<T: Copy>(&self, key: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(key, known.first().map_or("", |(name, _)| name))?;
        let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            let problem = format!("`{text}` is not one of its values");
            self.wrong(MistakeKind::Value, key, problem, choices(text, &names));
        }
        found
    }

    fn quantity<T>(&self, key: &str, example: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr<Err = UnitError> + PartialOrd + Display,
    {
        let item = self.get(key)?;
        let text = match &item.value {
            Value::Text(text) => text.clone(),
            // Without quotes there can be no unit; the parser of the quantity says so, or takes it.
            Value::Integer(_) | Value::Float(_) => item.written(),
            _ => {
                self.wrong_type(key, item, "a text with a number and its unit", &format!("\"{example}\""));
                return None;
            }
        };
        match text.parse::<T>() {
            Ok(quantity) if range.contains(&quantity) => Some(quantity),
            Ok(_) => {
                self.out_of_range(key, item, as_written(range.start()), as_written(range.end()));
                None
            }
            Err(error) => {
                self.wrong(MistakeKind::Value, key, error.problem, error.remedy);
                None
            }
        }
    }

    pub(super) fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let range = Span(*range.start())..=Span(*range.end());
        self.quantity(key, "10ms", range).map(|span| span.0)
    }

    pub(super) fn rate_bps(&self, key: &str) -> Option<u64> {
        self.quantity(key, "50mbit", Rate(8_000)..=Rate(100_000_000_000)).map(|rate| rate.0)
    }

    pub(super) fn bytes(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.quantity(key, "256kB", Size(*range.start())..=Size(*range.end())).map(|size| size.0)
    }

    pub(super) fn fraction(&self, key: &str) -> Option<f64> {
        self.quantity(key, "0.1%", Percent::whole(0)..=Percent::whole(100)).map(Percent::fraction)
    }

    pub(super) fn queue(&self, key: &str) -> Option<QueueLimit> {
        let text = match &self.get(key)?.value {
            Value::Integer(number) => number.to_string(),
            _ => self.text(key, "100ms")?.to_owned(),
        };
        let queue = text.parse::<QueueLimit>();
        match queue {
            Ok(queue) => {
                let is_empty = match queue {
                    QueueLimit::Time(time) => time.is_zero(),
                    QueueLimit::Packets(packets) => packets == 0,
                    QueueLimit::Bytes(bytes) => bytes == 0,
                };
                if is_empty {
                    let remedy = "give at least one packet (\"1p\"), or leave it out for \"100ms\"";
                    self.wrong(MistakeKind::Value, key, "a queue that holds nothing passes nothing", remedy);
                    return None;
                }
                Some(queue)
            }
            Err(error) => {
                self.wrong(MistakeKind::Value, key, error.problem, error.remedy);
                None
            }
        }
    }

    /// The value of `key` as the name of one of `known` things; `noun` says of what sort.
    pub(super) fn reference(&self, key: &str, noun: &str, known: &[&str]) -> Option<&'a str> {
        let text = self.text(key, known.first().copied().unwrap_or("name"))?;
        if known.contains(&text) {
            return Some(text);
        }
        self.wrong(MistakeKind::Reference, key, format!("there is no {noun} `{text}`"), choices(text, known));
        None
    }
}

/// A quantity as it stands in a file: in quotes when it has a unit.
fn as_written(quantity: &impl Display) -> String {
    let text = quantity.to_string();
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { format!("\"{text}\"") }
}

/// The remedy for a name that is known elsewhere but not here.
pub(super) fn did_you_mean(given: &str, known: &[&str]) -> Option<String> {
    nearest(given, known).map(|name| format!("did you mean `{name}`?"))
}
