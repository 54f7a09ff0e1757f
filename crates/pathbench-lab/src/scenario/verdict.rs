//! Expectations held against a result.

use super::expect::{Comparison, ExpectationPlan, Figure, Subject, Target};
use super::fields::{FieldKind, is_field_of, kind_of};
use pathbench_record::document::{Expectation, ResultDocument, RunRecord, Variant};
use pathbench_record::statistics::median;
use serde_json::Value;

pub(super) fn applies(when: &Variant, variant: &Variant) -> bool {
    when.iter().all(|(key, value)| variant.get(key) == Some(value))
}

struct Finding {
    found: String,
    held: bool,
}

impl Finding {
    fn not_held(found: impl Into<String>) -> Self {
        Self { found: found.into(), held: false }
    }
}

impl Figure {
    fn is_of(&self, run: &RunRecord) -> bool {
        let meant = match &self.pattern {
            Some(pattern) => *pattern == run.pattern,
            None => is_field_of(&self.field, &run.pattern),
        };
        meant && self.label == run.label
    }

    fn runs_in_words(&self) -> String {
        let of_pattern = self.pattern.as_ref().map_or_else(String::new, |pattern| format!(" {pattern}"));
        format!("{}{of_pattern}", self.label)
    }
}

impl ExpectationPlan {
    /// Whether the expectation held in every valid run that it applies to. It did not hold when there is no such
    /// run, or when a run lacks the figure.
    pub fn evaluate(&self, document: &ResultDocument) -> Expectation {
        let runs: Vec<&RunRecord> =
            document.runs.iter().filter(|run| run.valid && applies(&self.when, &run.variant)).collect();
        let finding = match &self.subject {
            Subject::Each(figure) => self.each(figure, &runs),
            Subject::Median(figure) => self.per_variant(&runs, &[figure], |runs| median_of(figure, runs)),
            Subject::Ratio(dividend, divisor) => self.per_variant(&runs, &[dividend, divisor], |runs| {
                let (above, below) = (median_of(dividend, runs)?, median_of(divisor, runs)?);
                if below == 0.0 {
                    return Err(format!("the median of {divisor} is 0"));
                }
                Ok(above / below)
            }),
        };
        Expectation {
            key: self.key.clone(),
            expected: self.expected.clone(),
            found: finding.found,
            held: finding.held,
        }
    }

    /// Whether it says of this run that it uses one path only, or is no multipath connection at all.
    pub fn expects_one_path(&self, run: &RunRecord) -> bool {
        let Subject::Each(figure) = &self.subject else { return false };
        let says = |flag: bool| self.holds(&Value::Bool(flag));
        matches!(figure.field.as_str(), "multipath.used" | "multipath.negotiated")
            && figure.is_of(run)
            && applies(&self.when, &run.variant)
            && says(false)
            && !says(true)
    }

    fn each(&self, figure: &Figure, runs: &[&RunRecord]) -> Finding {
        let runs: Vec<_> = runs.iter().filter(|run| figure.is_of(run)).collect();
        let Some(first) = runs.first() else {
            return Finding::not_held(format!("no valid run of {}", figure.runs_in_words()));
        };
        // The value to show: the first that fails, else the one that comes nearest to failing.
        let mut shown: Option<(Value, &str)> = None;
        for run in &runs {
            let Some(value) = value_of(figure, run) else {
                return Finding::not_held(format!("absent in {}", run.id));
            };
            if !self.holds(&value) {
                return Finding::not_held(format!("{} in {}", in_words(&value), run.id));
            }
            let is_nearer = shown.as_ref().is_none_or(|(other, _)| self.is_nearer_to_failing(&value, other));
            if is_nearer {
                shown = Some((value, &run.id));
            }
        }
        let (value, id) = shown.unwrap_or((Value::Null, &first.id));
        let found = match (runs.len(), value.is_number()) {
            (1, _) => format!("{} in {id}", in_words(&value)),
            (count, true) => format!("{} in {id}, the furthest of {count} runs", in_words(&value)),
            (count, false) => format!("{} in all {count} runs", in_words(&value)),
        };
        Finding { found, held: true }
    }

    /// Holds `figure_of` each variant's runs against the target. Variants without a valid run of any of the
    /// labels do not count.
    fn per_variant(
        &self,
        runs: &[&RunRecord],
        figures: &[&Figure],
        figure_of: impl Fn(&[&RunRecord]) -> Result<f64, String>,
    ) -> Finding {
        let is_meant = |run: &&&RunRecord| figures.iter().any(|figure| figure.is_of(run));
        let mut variants: Vec<&Variant> = Vec::new();
        for run in runs.iter().filter(is_meant) {
            if !variants.contains(&&run.variant) {
                variants.push(&run.variant);
            }
        }
        let labels: Vec<_> = figures.iter().map(|figure| figure.runs_in_words()).collect();
        let mut shown: Option<(f64, String)> = None;
        for variant in variants {
            let own: Vec<_> = runs.iter().copied().filter(|run| run.variant == *variant).collect();
            let place = described(variant);
            let value = match figure_of(&own) {
                Ok(value) => value,
                Err(why) => return Finding::not_held(format!("{why}{place}")),
            };
            if !self.holds(&Value::from(value)) {
                return Finding::not_held(format!("{}{place}", number_in_words(value)));
            }
            let is_nearer = shown.as_ref().is_none_or(|(other, _)| {
                self.is_nearer_to_failing(&Value::from(value), &Value::from(*other))
            });
            if is_nearer {
                shown = Some((value, place));
            }
        }
        match shown {
            Some((value, place)) => {
                Finding { found: format!("{}{place}", number_in_words(value)), held: true }
            }
            None => Finding::not_held(format!("no valid run of {}", labels.join(" or "))),
        }
    }

    fn holds(&self, value: &Value) -> bool {
        let ordering = match (&self.target, value) {
            (Target::Flag(flag), Value::Bool(value)) => value.cmp(flag),
            (Target::Text(text), Value::String(value)) => value.as_str().cmp(text),
            (Target::Number(number), Value::Number(value)) => {
                match value.as_f64().and_then(|value| value.partial_cmp(number)) {
                    Some(ordering) => ordering,
                    None => return false,
                }
            }
            _ => return false,
        };
        match self.comparison {
            Comparison::Less => ordering.is_lt(),
            Comparison::AtMost => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::AtLeast => ordering.is_ge(),
            Comparison::Equal => ordering.is_eq(),
            Comparison::Unequal => ordering.is_ne(),
        }
    }

    fn is_nearer_to_failing(&self, value: &Value, other: &Value) -> bool {
        let (Some(value), Some(other)) = (value.as_f64(), other.as_f64()) else { return false };
        match self.comparison {
            Comparison::Less | Comparison::AtMost => value > other,
            Comparison::Greater | Comparison::AtLeast => value < other,
            Comparison::Equal | Comparison::Unequal => false,
        }
    }
}

fn median_of(figure: &Figure, runs: &[&RunRecord]) -> Result<f64, String> {
    let mut values = Vec::new();
    for run in runs.iter().filter(|run| figure.is_of(run)) {
        match value_of(figure, run).as_ref().and_then(Value::as_f64) {
            Some(value) => values.push(value),
            None => return Err(format!("{} is absent in {}", figure.field, run.id)),
        }
    }
    median(&values).ok_or_else(|| format!("no valid run of {}", figure.runs_in_words()))
}

fn value_of(figure: &Figure, run: &RunRecord) -> Option<Value> {
    let record = serde_json::to_value(run).ok()?;
    let found = look_up(&record, &figure.field).filter(|value| !value.is_null()).cloned();
    // Counters that did not change are not in the record, provided that whoever counts is there at all.
    let segments = if figure.field.starts_with("links.") { 4 } else { 2 };
    let side = figure.field.split('.').take(segments).collect::<Vec<_>>().join(".");
    let links: Vec<&str> = run.links.iter().map(|link| link.name.as_str()).collect();
    match kind_of(&figure.field, &links) {
        Ok(FieldKind::Counter) if found.is_none() && look_up(&record, &side).is_some() => {
            Some(Value::from(0))
        }
        _ => found,
    }
}

/// Follows a dotted path through objects (longest key first) and lists (by `name`, by `direction`, by index).
fn look_up<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if path.is_empty() {
        return Some(value);
    }
    match value {
        Value::Object(fields) => {
            let rest_after = |key: &str| match path.strip_prefix(key)? {
                "" => Some(""),
                rest => rest.strip_prefix('.'),
            };
            let (key, rest) = fields
                .keys()
                .filter_map(|key| Some((key, rest_after(key)?)))
                .max_by_key(|(key, _)| key.len())?;
            look_up(fields.get(key)?, &path[path.len() - rest.len()..])
        }
        Value::Array(items) => {
            let (segment, rest) = path.split_once('.').unwrap_or((path, ""));
            let is_it = |item: &&Value| {
                ["name", "direction"].iter().any(|key| item.get(key).and_then(Value::as_str) == Some(segment))
            };
            let by_index = || items.get(segment.parse::<usize>().ok()?);
            look_up(items.iter().find(is_it).or_else(by_index)?, rest)
        }
        _ => None,
    }
}

fn described(variant: &Variant) -> String {
    if variant.is_empty() {
        return String::new();
    }
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs: Vec<_> = variant.iter().map(|(key, value)| format!("{key} = {}", plain(value))).collect();
    format!(" with {}", pairs.join(", "))
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), number_in_words),
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}

/// At most three decimal places, none that say nothing.
fn number_in_words(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
