//! `[expect]`: what must hold, read and checked against what a result has.

use super::fields::{FieldKind, PATTERNS, is_field_of, kind_of};
use super::keys;
use super::mistake::{Ledger, MistakeKind};
use super::section::Section;
use super::suggestion::choices;
use super::tree::{Field, Item, Origin, Table, Value};
use pathbench_record::document::Variant;
use serde::Serialize;
use std::fmt;

/// Something that must hold in the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpectationPlan {
    /// As written: `mptcp.stall_ms`, `median(mptcp.goodput_mbps) / median(tcp.goodput_mbps)`.
    pub key: String,
    /// As written: `< 500`.
    pub expected: String,
    pub subject: Subject,
    pub comparison: Comparison,
    pub target: Target,
    /// The matrix keys and values of the variants it applies to; all when empty.
    pub when: Variant,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The figure of each run by itself.
    Each(Figure),
    /// The median over the runs of each variant.
    Median(Figure),
    /// The quotient of two medians, in each variant.
    Ratio(Figure, Figure),
}

/// A figure of the runs of one transport label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// `mptcp`, `tcp@wlan`.
    pub label: String,
    /// Only of this pattern's runs; without it of every pattern's that has the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Path of a field in a run's record: `stall_ms`, `paths.wlan.share`.
    pub field: String,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Some(pattern) => write!(f, "{}.{pattern}.{}", self.label, self.field),
            None => write!(f, "{}.{}", self.label, self.field),
        }
    }
}

/// How a value is compared with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
}

/// What a value is compared with.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Target {
    Flag(bool),
    Number(f64),
    Text(String),
}

pub(super) struct Vocabulary {
    pub(super) labels: Vec<String>,
    pub(super) labels_gone: Vec<String>,
    pub(super) patterns: Vec<&'static str>,
    pub(super) links: Vec<String>,
    pub(super) variants: Vec<Variant>,
    pub(super) variants_changed: bool,
}

/// The expectations, and those that are left out because the command line took away what they speak of.
pub(super) fn read(root: &Section<'_>, words: &Vocabulary) -> (Vec<ExpectationPlan>, Vec<String>) {
    let section = root.section("expect");
    let is_leaf = |table: &Table| table.get("is").is_some();
    let (mut plans, mut left_out) = (Vec::new(), Vec::new());
    for field in section.table.map(|table| table.flattened(&is_leaf)).unwrap_or_default() {
        let items = match &field.item.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&field.item),
        };
        for item in items {
            let reader = Reader { ledger: root.ledger, key: &field, words };
            match reader.expectation(item) {
                Some(Reading::Plan(plan)) => plans.push(*plan),
                Some(Reading::LeftOut(why)) => left_out.push(format!("{}: {why}", field.key)),
                None => {}
            }
        }
    }
    (plans, left_out)
}

enum Reading {
    Plan(Box<ExpectationPlan>),
    LeftOut(String),
}

struct Reader<'a> {
    ledger: &'a Ledger,
    key: &'a Field,
    words: &'a Vocabulary,
}

const KEY_REMEDY: &str =
    "write LABEL.FIELD (\"mptcp.stall_ms\"), \"median(mptcp.goodput_mbps)\", or a quotient of two medians";

impl Reader<'_> {
    fn wrong(
        &self,
        kind: MistakeKind,
        origin: &Origin,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.ledger.add(kind, origin, format!("expect.\"{}\"", self.key.key), problem, remedy);
    }

    fn expectation(&self, item: &Item) -> Option<Reading> {
        let (value, when) = self.value_and_when(item)?;
        let subject = self.subject();
        let target = self.comparison(value, subject.as_ref().map(|(_, kind)| *kind));
        let when = self.when(when)?;
        let ((subject, _), (comparison, target)) = (subject?, target?);
        if let Some(gone) = self.gone(&subject) {
            return Some(Reading::LeftOut(format!("{gone} does not run")));
        }
        let applies = self.words.variants.iter().any(|variant| super::verdict::applies(&when, variant));
        if !applies && self.words.variants_changed {
            return Some(Reading::LeftOut("no variant that it applies to runs".to_owned()));
        }
        if !applies {
            let remedy = "name keys of [matrix] and values that they have there";
            self.wrong(MistakeKind::Reference, &item.origin, "`when` fits no variant of the matrix", remedy);
            return None;
        }
        Some(Reading::Plan(Box::new(ExpectationPlan {
            key: self.key.key.clone(),
            expected: value.written(),
            subject,
            comparison,
            target,
            when,
        })))
    }

    fn value_and_when<'i>(&self, item: &'i Item) -> Option<(&'i Item, Option<&'i Item>)> {
        let Value::Table(table) = &item.value else { return Some((item, None)) };
        let path = format!("expect.\"{}\"", self.key.key);
        let section = Section { ledger: self.ledger, table: Some(table), origin: item.origin.clone(), path };
        section.only("an expectation", &keys::EXPECT);
        if !section.has("is") {
            section.missing("is", "\"< 500\"");
        }
        Some((table.get("is")?, table.get("when")))
    }

    fn when(&self, when: Option<&Item>) -> Option<Variant> {
        match when.map(|item| &item.value) {
            None => Some(Variant::new()),
            Some(Value::Table(table)) => {
                let flat = table.flattened(&|_| false);
                Some(flat.into_iter().map(|field| (field.key, field.item.to_json())).collect())
            }
            Some(other) => {
                let problem = format!("`when` is {}, not a table", other.noun());
                let remedy = "write when = { \"run.iperf.direction\" = \"upload\" }";
                self.wrong(MistakeKind::Type, &self.key.origin, problem, remedy);
                None
            }
        }
    }

    fn subject(&self) -> Option<(Subject, FieldKind)> {
        let text = self.key.key.trim();
        let median = |text: &str| {
            let inner = text.trim().strip_prefix("median(")?.strip_suffix(')')?;
            Some(inner.trim().to_owned())
        };
        if let Some((dividend, divisor)) = text.split_once(" / ") {
            let (Some(dividend), Some(divisor)) = (median(dividend), median(divisor)) else {
                let problem = "a quotient takes two medians";
                self.wrong(MistakeKind::Value, &self.key.origin, problem, KEY_REMEDY);
                return None;
            };
            let both = [self.number(&dividend), self.number(&divisor)];
            let [Some(dividend), Some(divisor)] = both else { return None };
            return Some((Subject::Ratio(dividend, divisor), FieldKind::Number));
        }
        if let Some(inner) = median(text) {
            return Some((Subject::Median(self.number(&inner)?), FieldKind::Number));
        }
        let (figure, kind) = self.figure(text)?;
        Some((Subject::Each(figure), kind))
    }

    fn number(&self, text: &str) -> Option<Figure> {
        let (figure, kind) = self.figure(text)?;
        if !matches!(kind, FieldKind::Number | FieldKind::Counter) {
            let problem = format!("`{figure}` is not a number, so it has no median");
            self.wrong(MistakeKind::Type, &self.key.origin, problem, "compare it without median( )");
            return None;
        }
        Some(figure)
    }

    fn figure(&self, text: &str) -> Option<(Figure, FieldKind)> {
        let origin = &self.key.origin;
        let Some((label, field)) = text.split_once('.') else {
            self.wrong(MistakeKind::Value, origin, format!("`{text}` names no figure of a run"), KEY_REMEDY);
            return None;
        };
        let known: Vec<_> =
            self.words.labels.iter().chain(&self.words.labels_gone).map(String::as_str).collect();
        let label_is_known = known.contains(&label);
        if !label_is_known {
            let problem = format!("`{label}` is not among the transports of the run");
            self.wrong(MistakeKind::Reference, origin, problem, choices(label, &known));
        }
        let links: Vec<_> = self.words.links.iter().map(String::as_str).collect();
        let (pattern, field) = without_pattern(field, &links);
        match kind_of(field, &links) {
            Ok(kind) if label_is_known && self.is_had_by_a_pattern(pattern, field) => {
                let pattern = pattern.map(str::to_owned);
                Some((Figure { label: label.to_owned(), pattern, field: field.to_owned() }, kind))
            }
            Ok(_) => None,
            Err((problem, remedy)) => {
                self.wrong(MistakeKind::Reference, origin, problem, remedy);
                None
            }
        }
    }

    fn is_had_by_a_pattern(&self, pattern: Option<&str>, field: &str) -> bool {
        let has = |pattern: &&str| is_field_of(field, pattern);
        let all: Vec<&str> = PATTERNS.into_iter().filter(has).collect();
        let patterns = pattern.map_or_else(|| self.words.patterns.clone(), |_| Vec::new());
        if pattern.is_some_and(|pattern| is_field_of(field, pattern)) || patterns.iter().any(has) {
            return true;
        }
        // A pattern that the command line chose instead leaves its expectations out, which is not for here.
        if pattern.is_none() && self.words.variants_changed {
            return true;
        }
        let of = pattern.map_or_else(|| patterns.join(", "), str::to_owned);
        let problem = format!("a run of {of} has no `{field}`");
        self.wrong(
            MistakeKind::Reference,
            &self.key.origin,
            problem,
            format!("{} can have it", all.join(", ")),
        );
        false
    }

    fn gone(&self, subject: &Subject) -> Option<String> {
        let figures = match subject {
            Subject::Each(figure) | Subject::Median(figure) => vec![figure],
            Subject::Ratio(dividend, divisor) => vec![dividend, divisor],
        };
        figures.into_iter().find_map(|figure| {
            if !self.words.labels.contains(&figure.label) {
                return Some(format!("`{}`", figure.label));
            }
            let runs = |pattern: &str| self.words.patterns.contains(&pattern);
            if let Some(pattern) = &figure.pattern {
                return (!runs(pattern)).then(|| format!("`{pattern}`"));
            }
            let had = PATTERNS.into_iter().any(|known| runs(known) && is_field_of(&figure.field, known));
            (!had).then(|| format!("a pattern with `{}`", figure.field))
        })
    }

    fn comparison(&self, item: &Item, kind: Option<FieldKind>) -> Option<(Comparison, Target)> {
        let (comparison, target) = match &item.value {
            Value::Flag(flag) => (Comparison::Equal, Target::Flag(*flag)),
            Value::Integer(number) => (Comparison::Equal, Target::Number(*number as f64)),
            Value::Float(number) => (Comparison::Equal, Target::Number(*number)),
            Value::Text(text) => compared(text),
            other => {
                let problem = format!("{} cannot be compared with", other.noun());
                self.wrong(
                    MistakeKind::Type,
                    &item.origin,
                    problem,
                    "give true, false, a number or \"< 500\"",
                );
                return None;
            }
        };
        let ordered = !matches!(comparison, Comparison::Equal | Comparison::Unequal);
        let remedy = match (kind?, &target) {
            (FieldKind::Flag, Target::Flag(_))
            | (FieldKind::Number | FieldKind::Counter, Target::Number(_)) => None,
            (FieldKind::Text, Target::Text(_)) if !ordered => None,
            (FieldKind::Flag, _) => Some("give true or false without quotes"),
            (FieldKind::Number | FieldKind::Counter, _) => Some(
                "give a number, or a comparison with one, as in \"< 500\" (its unit is in the field's name)",
            ),
            (FieldKind::Text, _) => Some("give a text, or \"!= TEXT\""),
        };
        if let Some(remedy) = remedy {
            let problem = format!("`{}` cannot be compared with it", item.written());
            self.wrong(MistakeKind::Type, &item.origin, problem, remedy);
            return None;
        }
        if matches!(target, Target::Number(number) if !number.is_finite()) {
            let problem = format!("`{}` is no number to compare with", item.written());
            self.wrong(MistakeKind::Value, &item.origin, problem, "give a finite one");
            return None;
        }
        Some((comparison, target))
    }
}

/// Takes the pattern off `PATTERN.FIELD`. `ping.median_ms` is a field, `ping.ping.median_ms` names both.
fn without_pattern<'f>(field: &'f str, links: &[&str]) -> (Option<&'f str>, &'f str) {
    match field.split_once('.') {
        Some((pattern, rest)) if PATTERNS.contains(&pattern) && kind_of(field, links).is_err() => {
            (Some(pattern), rest)
        }
        _ => (None, field),
    }
}

/// `< 500`, `>= 1.9`, `== open`, or a text alone.
fn compared(text: &str) -> (Comparison, Target) {
    // The longer operators first: `<=` begins with `<`.
    let operators = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let text = text.trim();
    for (operator, comparison) in operators {
        if let Some(rest) = text.strip_prefix(operator) {
            return (comparison, target(rest.trim(), true));
        }
    }
    (Comparison::Equal, target(text, false))
}

fn target(text: &str, after_operator: bool) -> Target {
    let as_text = || Target::Text(text.to_owned());
    match text {
        "true" | "false" if after_operator => Target::Flag(text == "true"),
        _ => text.parse().map_or_else(|_| as_text(), Target::Number),
    }
}
