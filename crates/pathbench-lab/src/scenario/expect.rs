//! `[expect]`: conditions on the result, checked against the fields of results.

use super::fields::{FieldKind, PATTERNS, is_field_of, kind_of};
use super::keypath::pattern_name;
use super::mistake::{At, Fault, choices};
use super::section::ScenarioSection;
use super::tree::{Item, TomlTable, TomlValue};
use pathbench_record::document::Variant;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A condition on the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectationPlan {
    /// As in the file: `mptcp.stall_ms`, `median(mptcp.goodput_mbps) / median(tcp.goodput_mbps)`.
    pub key: String,
    /// As in the file: `< 500`.
    pub expected: String,
    pub subject: Subject,
    pub comparison: ComparisonOperator,
    pub target: ExpectationTarget,
    /// Matrix keys and values of the variants to which it applies; empty: all variants.
    pub when: Variant,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// The figure of each run separately.
    Each(ExpectedFigure),
    /// The median over the runs of each variant.
    Median(ExpectedFigure),
    /// The quotient of two medians, in each variant.
    Ratio(ExpectedFigure, ExpectedFigure),
}

/// A figure of the runs of one transport label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedFigure {
    /// `mptcp`, `tcp@wlan`.
    pub label: String,
    /// Selects the runs of this pattern; `None`: of every pattern with the field.
    pub pattern: Option<String>,
    /// Path of a field in a run's record: `stall_ms`, `paths.wlan.share`.
    pub field: String,
}

impl fmt::Display for ExpectedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Some(pattern) => write!(f, "{}.{pattern}.{}", self.label, self.field),
            None => write!(f, "{}.{}", self.label, self.field),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComparisonOperator {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
}

/// The target of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ExpectationTarget {
    Flag(bool),
    Number(f64),
    Text(String),
}

pub(super) struct Vocabulary {
    pub(super) labels: Vec<String>,
    pub(super) labels_removed: Vec<String>,
    pub(super) patterns: Vec<&'static str>,
    pub(super) links: Vec<String>,
    pub(super) variants: Vec<Variant>,
    pub(super) variants_changed: bool,
}

/// The expectations, and the expectations omitted because the command line removed their transport or pattern.
pub(super) fn read(root: &ScenarioSection<'_>, words: &Vocabulary) -> (Vec<ExpectationPlan>, Vec<String>) {
    let section = root.section("expect");
    let is_leaf = |table: &TomlTable| table.get("is").is_some();
    let (mut plans, mut left_out) = (Vec::new(), Vec::new());
    for field in section.table.map(|table| table.flatten(&is_leaf)).unwrap_or_default() {
        for item in field.item.elements() {
            let key = format!("expect.\"{}\"", field.key);
            let at = |location| At::new(location, &key);
            let reader = Reader {
                root,
                key: field.key.trim(),
                key_at: at(field.location),
                item_at: at(item.location),
                words,
            };
            match reader.expectation(item) {
                Some(Ok(plan)) => plans.push(plan),
                Some(Err(why)) => left_out.push(format!("{}: {why}", field.key)),
                None => {}
            }
        }
    }
    (plans, left_out)
}

pub(super) fn applies(when: &Variant, variant: &Variant) -> bool {
    when.iter().all(|(key, value)| variant.get(key) == Some(value))
}

struct Reader<'a> {
    root: &'a ScenarioSection<'a>,
    key: &'a str,
    key_at: At,
    item_at: At,
    words: &'a Vocabulary,
}

const KEY_REMEDY: &str =
    "write LABEL.FIELD (\"mptcp.stall_ms\"), \"median(mptcp.goodput_mbps)\", or a quotient of two medians";

impl Reader<'_> {
    /// The expectation, or the reason why it is omitted; `None` for a mistake.
    fn expectation(&self, item: &Item) -> Option<Result<ExpectationPlan, String>> {
        let ledger = self.root.ledger;
        let (value, when) = self.value_and_when(item)?;
        let subject = ledger.value(&self.key_at, self.subject());
        let value_at = At::new(value.location, &self.key_at.key);
        let kind = subject.as_ref().map(|(_, kind)| *kind);
        let compared = kind.and_then(|kind| ledger.value(&value_at, comparison(value, kind)));
        let when = ledger.value(&self.key_at, conditions(when))?;
        let ((subject, _), (comparison, target)) = (subject?, compared?);
        if let Some(removed) = self.find_removed(&subject) {
            return Some(Err(format!("{removed} does not run")));
        }
        if !self.words.variants.iter().any(|variant| applies(&when, variant)) {
            if self.words.variants_changed {
                return Some(Err("no variant that it applies to runs".to_owned()));
            }
            let remedy = "name keys of [matrix] and values that they have there";
            ledger.wrong(&self.item_at, "`when` fits no variant of the matrix", remedy);
            return None;
        }
        let key = self.key.to_owned();
        Some(Ok(ExpectationPlan { key, expected: value.written(), subject, comparison, target, when }))
    }

    fn value_and_when<'i>(&self, item: &'i Item) -> Option<(&'i Item, Option<&'i Item>)> {
        let TomlValue::Table(table) = &item.value else { return Some((item, None)) };
        let section =
            ScenarioSection { ledger: self.root.ledger, table: Some(table), at: self.item_at.clone() };
        section.require("is", "\"< 500\"");
        section.has("when");
        section.refuse_unknown_keys();
        Some((table.get("is")?, table.get("when")))
    }

    fn subject(&self) -> Result<(Subject, FieldKind), Fault> {
        let median = |text: &str| {
            let inner = text.trim().strip_prefix("median(")?.strip_suffix(')')?;
            Some(inner.trim().to_owned())
        };
        if let Some((dividend, divisor)) = self.key.split_once(" / ") {
            let (Some(dividend), Some(divisor)) = (median(dividend), median(divisor)) else {
                return Err(("a quotient takes two medians".to_owned(), KEY_REMEDY.to_owned()));
            };
            let ratio = Subject::Ratio(self.number(&dividend)?, self.number(&divisor)?);
            return Ok((ratio, FieldKind::Number));
        }
        if let Some(inner) = median(self.key) {
            return Ok((Subject::Median(self.number(&inner)?), FieldKind::Number));
        }
        let (figure, kind) = self.figure(self.key)?;
        Ok((Subject::Each(figure), kind))
    }

    fn number(&self, text: &str) -> Result<ExpectedFigure, Fault> {
        let (figure, kind) = self.figure(text)?;
        if !matches!(kind, FieldKind::Number | FieldKind::Counter) {
            let problem = format!("`{figure}` is not a number, so it has no median");
            return Err((problem, "compare it without median( )".to_owned()));
        }
        Ok(figure)
    }

    fn figure(&self, text: &str) -> Result<(ExpectedFigure, FieldKind), Fault> {
        let Some((label, field)) = text.split_once('.') else {
            return Err((format!("`{text}` names no figure of a run"), KEY_REMEDY.to_owned()));
        };
        let known: Vec<_> =
            self.words.labels.iter().chain(&self.words.labels_removed).map(String::as_str).collect();
        if !known.contains(&label) {
            let problem = format!("`{label}` is not among the transports of the run");
            return Err((problem, choices(label, &known)));
        }
        let links: Vec<_> = self.words.links.iter().map(String::as_str).collect();
        let field = pattern_name(field);
        let (pattern, field) = without_pattern(&field, &links);
        let kind = kind_of(field, &links)?;
        self.require_pattern_with(pattern, field)?;
        let pattern = pattern.map(str::to_owned);
        Ok((ExpectedFigure { label: label.to_owned(), pattern, field: field.to_owned() }, kind))
    }

    /// Checks that the named pattern has the field, or without a name that at least one pattern of the run has it.
    fn require_pattern_with(&self, pattern: Option<&str>, field: &str) -> Result<(), Fault> {
        let patterns = pattern.map_or_else(|| self.words.patterns.clone(), |pattern| vec![pattern]);
        // If the command line changed the patterns, other code omits the expectation.
        let is_left_out = pattern.is_none() && self.words.variants_changed;
        if is_left_out || patterns.iter().any(|pattern| is_field_of(field, pattern)) {
            return Ok(());
        }
        let all: Vec<&str> = PATTERNS.into_iter().filter(|pattern| is_field_of(field, pattern)).collect();
        let problem = format!("a run of {} has no `{field}`", patterns.join(", "));
        Err((problem, format!("{} can have it", all.join(", "))))
    }

    fn find_removed(&self, subject: &Subject) -> Option<String> {
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
}

fn conditions(when: Option<&Item>) -> Result<Variant, Fault> {
    match when.map(|item| &item.value) {
        None => Ok(Variant::new()),
        Some(TomlValue::Table(table)) => {
            let flat = table.flatten(&|_| false);
            Ok(flat.into_iter().map(|field| (field.key, field.item.to_json())).collect())
        }
        Some(other) => {
            let remedy = "write when = { \"run.throughput.direction\" = \"upload\" }";
            Err((format!("`when` is {}, not a table", other.noun()), remedy.to_owned()))
        }
    }
}

fn comparison(item: &Item, kind: FieldKind) -> Result<(ComparisonOperator, ExpectationTarget), Fault> {
    let (comparison, target) = match &item.value {
        TomlValue::Flag(flag) => (ComparisonOperator::Equal, ExpectationTarget::Flag(*flag)),
        TomlValue::Integer(number) => (ComparisonOperator::Equal, ExpectationTarget::Number(*number as f64)),
        TomlValue::Float(number) => (ComparisonOperator::Equal, ExpectationTarget::Number(*number)),
        TomlValue::Text(text) => parse_comparison(text),
        other => {
            let remedy = "give true, false, a number or \"< 500\"";
            return Err((format!("{} cannot be compared with", other.noun()), remedy.to_owned()));
        }
    };
    let ordered = !matches!(comparison, ComparisonOperator::Equal | ComparisonOperator::Unequal);
    let remedy = match (kind, &target) {
        (FieldKind::Flag, ExpectationTarget::Flag(_))
        | (FieldKind::Number | FieldKind::Counter, ExpectationTarget::Number(_)) => None,
        (FieldKind::Text, ExpectationTarget::Text(_)) if !ordered => None,
        (FieldKind::Flag, _) => Some("give true or false without quotes"),
        (FieldKind::Number | FieldKind::Counter, _) => {
            Some("give a number, or a comparison with one, as in \"< 500\" (its unit is in the field's name)")
        }
        (FieldKind::Text, _) => Some("give a text, or \"!= TEXT\""),
    };
    if let Some(remedy) = remedy {
        return Err((format!("`{}` cannot be compared with it", item.written()), remedy.to_owned()));
    }
    if matches!(target, ExpectationTarget::Number(number) if !number.is_finite()) {
        let problem = format!("`{}` is no number to compare with", item.written());
        return Err((problem, "give a finite one".to_owned()));
    }
    Ok((comparison, target))
}

/// Splits `PATTERN.FIELD`. `ping.median_ms` is a field without a pattern, `ping.ping.median_ms` has both.
fn without_pattern<'f>(field: &'f str, links: &[&str]) -> (Option<&'f str>, &'f str) {
    match field.split_once('.') {
        Some((pattern, rest)) if PATTERNS.contains(&pattern) && kind_of(field, links).is_err() => {
            (Some(pattern), rest)
        }
        _ => (None, field),
    }
}

/// Parses `< 500`, `>= 1.9`, `== open`, or a text without an operator.
fn parse_comparison(text: &str) -> (ComparisonOperator, ExpectationTarget) {
    // The longer operators first: `<=` begins with `<`.
    let operators = [
        ("<=", ComparisonOperator::AtMost),
        (">=", ComparisonOperator::AtLeast),
        ("==", ComparisonOperator::Equal),
        ("!=", ComparisonOperator::Unequal),
        ("<", ComparisonOperator::Less),
        (">", ComparisonOperator::Greater),
    ];
    let text = text.trim();
    for (operator, comparison) in operators {
        if let Some(rest) = text.strip_prefix(operator) {
            return (comparison, target(rest.trim(), true));
        }
    }
    (ComparisonOperator::Equal, target(text, false))
}

fn target(text: &str, after_operator: bool) -> ExpectationTarget {
    let as_text = || ExpectationTarget::Text(text.to_owned());
    match text {
        "true" | "false" if after_operator => ExpectationTarget::Flag(text == "true"),
        _ => text.parse().map_or_else(|_| as_text(), ExpectationTarget::Number),
    }
}
