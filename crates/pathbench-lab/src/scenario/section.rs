//! Reads one table of a scenario, and checks the type and range of every value.

use super::keypath::{COLLECTIONS, join, pattern_name};
use super::mistake::{At, Fault, MistakeLog, choices};
use super::tree::{Item, TomlTable, TomlValue};
use pathbench_record::units::{Percent, QueueLimit, Rate, Size, Span, UnitError};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// A table to read. An absent or invalid value reads as `None`. The ledger receives mistakes and the keys that were
/// read; every other key is a mistake.
#[derive(Debug, Clone)]
pub(super) struct ScenarioSection<'a> {
    pub(super) ledger: &'a MistakeLog,
    /// `None` if the scenario lacks the table.
    pub(super) table: Option<&'a TomlTable>,
    /// Location of the table; of the enclosing table if it is absent.
    pub(super) at: At,
}

impl<'a> ScenarioSection<'a> {
    pub(super) fn whole(table: &'a TomlTable, ledger: &'a MistakeLog) -> Self {
        Self { ledger, table: Some(table), at: At::new(ledger.top(), "") }
    }

    /// Key path and location of `key`; the location of the table if it is absent.
    pub(super) fn locate(&self, key: &str) -> At {
        let item = self.table.and_then(|table| table.get(key));
        At::new(item.map_or(self.at.location, |item| item.location), join(&self.at.key, key))
    }

    fn ask(&self, key: &str, is_of_use: bool) -> Option<&'a Item> {
        let mut asked = self.ledger.asked.borrow_mut();
        if let Some(keys) = asked.get_mut(&self.at.key) {
            if !keys.iter().any(|(known, _)| known == key) {
                keys.push((key.to_owned(), is_of_use));
            }
        } else {
            asked.insert(self.at.key.clone(), vec![(key.to_owned(), is_of_use)]);
        }
        self.table?.get(key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Item> {
        self.ask(key, true)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        self.ledger.wrong(&self.locate(key), problem, remedy);
    }

    /// The value of `key`; adds a fault to the ledger.
    pub(super) fn read<T>(&self, key: &str, value: Result<T, Fault>) -> Option<T> {
        self.ledger.value(&self.locate(key), value)
    }

    /// Reports given keys among `keys`, which are valid elsewhere, as `remedy` explains.
    pub(super) fn refuse(&self, keys: &[&str], problem: &str, remedy: &str) {
        for key in keys {
            if self.ask(key, false).is_some() {
                self.wrong(key, problem, remedy);
            }
        }
    }

    /// Reports every key in this table and in the tables below it that no reader has requested.
    pub(super) fn refuse_unknown_keys(&self) {
        if let Some(table) = self.table {
            refuse_unknown_keys(self.ledger, table, &self.at.key);
        }
    }

    pub(super) fn report_missing(&self, key: &str, example: &str) {
        if !self.ledger.incomplete.get() {
            let at = At::new(self.at.location, join(&self.at.key, key));
            self.ledger.wrong(&at, "is missing", format!("add {key} = {example}"));
        }
    }

    /// Reports `key` if it is absent.
    pub(super) fn require(&self, key: &str, example: &str) {
        if !self.has(key) {
            self.report_missing(key, example);
        }
    }

    fn wrong_type(&self, at: &At, item: &Item, wanted: &str, example: &str) {
        let key = at.key.rsplit('.').next().unwrap_or_default();
        let problem = format!("{} is not {wanted}", item.value.noun());
        self.ledger.wrong(at, problem, format!("give {wanted}, as in {key} = {example}"));
    }

    /// The value at `key`, converted by `read`; reports a value that is not `wanted`.
    fn read_typed<T>(
        &self,
        key: &str,
        (wanted, example): (&str, &str),
        read: impl FnOnce(&'a TomlValue) -> Option<T>,
    ) -> Option<T> {
        let item = self.get(key)?;
        let value = read(&item.value);
        if value.is_none() {
            self.wrong_type(&self.locate(key), item, wanted, example);
        }
        value
    }

    pub(super) fn section(&self, key: &str) -> ScenarioSection<'a> {
        let item = self.get(key);
        let table = item.and_then(|item| item.value.table());
        if let Some(item) = item.filter(|_| table.is_none()) {
            let problem = format!("{} is not a table", item.value.noun());
            self.wrong(key, problem, format!("write it as [{}] with its keys below", self.locate(key).key));
        }
        ScenarioSection { ledger: self.ledger, table, at: self.locate(key) }
    }

    /// The elements of the list at `key`, each of which must be a table; numbered from 0.
    pub(super) fn sections(&self, key: &str) -> Vec<ScenarioSection<'a>> {
        let at = self.locate(key);
        if self.get(key).is_some_and(|item| item.value.table().is_some()) {
            let (problem, remedy) =
                (format!("[{}] is a single table", at.key), format!("write [[{}]]", at.key));
            self.ledger.wrong(&at, problem, remedy);
            return Vec::new();
        }
        let mut sections = Vec::new();
        for (index, item) in self.items(key).into_iter().flatten().enumerate() {
            let own = At::new(item.location, format!("{}.{index}", at.key));
            if let Some(table) = item.value.table() {
                sections.push(ScenarioSection { ledger: self.ledger, table: Some(table), at: own });
            } else {
                let remedy = format!("write each as [[{}]] with its keys below", at.key);
                self.ledger.wrong(&own, format!("{} is not a table", item.value.noun()), remedy);
            }
        }
        sections
    }

    /// The elements of the list at `key`; `None` if there is no list.
    pub(super) fn items(&self, key: &str) -> Option<&'a [Item]> {
        self.read_typed(key, ("a list", "[…]"), |value| match value {
            TomlValue::List(items) => Some(items.as_slice()),
            _ => None,
        })
    }

    pub(super) fn text(&self, key: &str, example: &str) -> Option<&'a str> {
        self.read_typed(key, ("a text", &format!("\"{example}\"")), TomlValue::text)
    }

    /// The text at `key`, which is mandatory.
    pub(super) fn required_text(&self, key: &str, example: &str) -> Option<&'a str> {
        self.require(key, &format!("\"{example}\""));
        self.text(key, example)
    }

    /// A text, or the texts of a list.
    pub(super) fn texts(&self, key: &str, example: &str) -> Option<Vec<(&'a str, At)>> {
        let mut texts = Vec::new();
        for item in self.get(key)?.elements() {
            let at = At::new(item.location, self.locate(key).key);
            match item.value.text() {
                Some(text) => texts.push((text, at)),
                None => self.wrong_type(&at, item, "a text or a list of texts", &format!("[\"{example}\"]")),
            }
        }
        Some(texts)
    }

    /// Like [`Self::texts`], each converted by `read`. At least one must be given, without duplicates.
    pub(super) fn set<T: PartialEq + Display>(
        &self,
        key: &str,
        examples: [&str; 2],
        mut read: impl FnMut(&str, &At) -> Result<Vec<T>, Fault>,
    ) -> Option<Vec<T>> {
        let texts = self.texts(key, examples[0])?;
        if self.get(key).is_some_and(|item| item.elements().is_empty()) {
            let remedy = format!("give some, as in [\"{}\", \"{}\"]", examples[0], examples[1]);
            self.wrong(key, format!("names no {}", key.trim_end_matches('s')), remedy);
        }
        let mut found: Vec<T> = Vec::new();
        for (text, at) in texts {
            let remedy = "remove one; run.repeat says how often each runs";
            for meant in self.ledger.value(&at, read(text, &at)).into_iter().flatten() {
                if !found.contains(&meant) {
                    found.push(meant);
                } else if meant.to_string() == pattern_name(text) || text.ends_with("@*") {
                    self.ledger.wrong(&at, format!("`{meant}` is there twice"), remedy);
                } else {
                    let problem = format!("`{text}` holds `{meant}`, which is there already");
                    self.ledger.wrong(&at, problem, remedy);
                }
            }
        }
        Some(found)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.read_typed(key, ("true or false", "true"), |value| match value {
            TomlValue::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let example = range.start().to_string();
        let number =
            self.read_typed(key, ("a whole number without quotes", &example), |value| match value {
                TomlValue::Integer(number) => Some(*number),
                _ => None,
            })?;
        let range = i128::from(*range.start())..=i128::from(*range.end());
        self.check_range(key, number, &range, ToString::to_string).map(|number| number as u64)
    }

    /// Like [`Self::integer`], for ranges within 32 bits.
    pub(super) fn count(&self, key: &str, range: RangeInclusive<u64>) -> Option<u32> {
        self.integer(key, range).map(|count| count as u32)
    }

    pub(super) fn number(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let example = range.end().to_string();
        let number = self.read_typed(key, ("a number without quotes", &example), |value| match value {
            TomlValue::Integer(number) => Some(*number as f64),
            TomlValue::Float(number) => Some(*number),
            _ => None,
        })?;
        self.check_range(key, number, &range, ToString::to_string)
    }

    fn check_range<T: PartialOrd>(
        &self,
        key: &str,
        value: T,
        range: &RangeInclusive<T>,
        written: impl Fn(&T) -> String,
    ) -> Option<T> {
        if range.contains(&value) {
            return Some(value);
        }
        let problem = format!("`{}` is out of range", self.get(key).map(Item::written).unwrap_or_default());
        self.wrong(key, problem, format!("give {} to {}", written(range.start()), written(range.end())));
        None
    }

    pub(super) fn choice<T: Copy>(&self, key: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(key, known.first().map_or("", |(name, _)| name))?;
        let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let fault = || (format!("`{text}` is not one of its values"), choices(text, &names()));
        self.read(key, found.ok_or_else(fault))
    }

    /// A quantity with its unit. A value without quotes has no unit; the parser of the quantity reports that or accepts
    /// the number.
    fn unit<T: FromStr<Err = UnitError>>(&self, key: &str, example: &str) -> Option<T> {
        let item = self.get(key)?;
        let example = format!("\"{example}\"");
        self.read_typed(key, ("a text with a number and its unit", &example), |value| match value {
            TomlValue::Text(_) | TomlValue::Integer(_) | TomlValue::Float(_) => Some(()),
            _ => None,
        })?;
        self.read(key, item.written().parse().map_err(|error: UnitError| (error.problem, error.remedy)))
    }

    fn quantity<T>(&self, key: &str, example: &str, range: &RangeInclusive<T>) -> Option<T>
    where
        T: FromStr<Err = UnitError> + PartialOrd + Display,
    {
        self.check_range(key, self.unit(key, example)?, range, |quantity| {
            // In the format of a scenario file: with quotes if it has a unit.
            let text = quantity.to_string();
            if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { format!("\"{text}\"") }
        })
    }

    pub(super) fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.quantity(key, "10ms", &(Span(*range.start())..=Span(*range.end()))).map(|span| span.0)
    }

    pub(super) fn rate_bps(&self, key: &str) -> Option<u64> {
        self.quantity(key, "50mbit", &(Rate(8_000)..=Rate(100_000_000_000))).map(|rate| rate.0)
    }

    pub(super) fn bytes(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.quantity(key, "256kB", &(Size(*range.start())..=Size(*range.end()))).map(|size| size.0)
    }

    pub(super) fn fraction(&self, key: &str) -> Option<f64> {
        self.quantity(key, "0.1%", &(Percent::whole(0)..=Percent::whole(100))).map(Percent::fraction)
    }

    pub(super) fn queue(&self, key: &str) -> Option<QueueLimit> {
        let queue = self.unit(key, "100ms")?;
        if matches!(queue, QueueLimit::Time(Duration::ZERO) | QueueLimit::Packets(0) | QueueLimit::Bytes(0)) {
            let remedy = "give at least one packet (\"1p\"), or leave it out for \"100ms\"";
            self.wrong(key, "a queue of size 0 passes no packets", remedy);
            return None;
        }
        Some(queue)
    }

    /// The value of `key`, which must be one of the `known` names; `noun` is their kind.
    pub(super) fn reference(&self, key: &str, noun: &str, known: &[&str]) -> Option<&'a str> {
        let text = self.text(key, known.first().copied().unwrap_or("name"))?;
        let fault = || (format!("there is no {noun} `{text}`"), choices(text, known));
        self.read(key, known.contains(&text).then_some(text).ok_or_else(fault))
    }
}

fn refuse_unknown_keys(ledger: &MistakeLog, table: &TomlTable, path: &str) {
    let Some(asked) = ledger.asked.borrow().get(path).cloned() else { return };
    for field in &table.fields {
        let key = join(path, &field.key);
        if !asked.iter().any(|(known, _)| *known == field.key) {
            let known: Vec<&str> =
                asked.iter().filter(|(_, is_of_use)| *is_of_use).map(|(known, _)| known.as_str()).collect();
            let problem = format!("there is no key `{}` here", field.key);
            ledger.wrong(&At::new(field.location, key), problem, choices(&field.key, &known));
            continue;
        }
        if let Some(table) = field.item.value.table() {
            refuse_unknown_keys(ledger, table, &key);
            continue;
        }
        for (index, item) in field.item.elements().iter().enumerate() {
            let name = item.name().filter(|_| COLLECTIONS.contains(&key.as_str()));
            let own = name.map_or_else(|| format!("{key}.{index}"), |name| join(&key, name));
            if let Some(table) = item.value.table() {
                refuse_unknown_keys(ledger, table, &own);
            }
        }
    }
}
