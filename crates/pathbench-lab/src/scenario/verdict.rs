//! Checks expectations against a result.

use super::expect::{
    ComparisonOperator, ExpectationPlan, ExpectationTarget, ExpectedFigure, Subject, applies,
};
use super::fields::{FieldKind, is_field_of, kind_of};
use pathbench_record::document::{Expectation, ResultDocument, RunRecord, Variant};
use pathbench_record::statistics::median;
use serde_json::Value;

impl ExpectedFigure {
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

/// Why an expectation does not hold.
enum Shortfall {
    /// A value that a run has, or lacks.
    Value(String),
    /// No valid run has a value.
    NoRun(String),
}

impl ExpectationPlan {
    /// Whether the expectation holds in every valid run to which it applies. It does not hold if there is no such run,
    /// or if a run lacks the figure.
    pub fn evaluate(&self, document: &ResultDocument) -> Expectation {
        self.judge(document, &[])
    }

    /// As [`Self::evaluate`] for a study of which the runs `unmade` were not made: an expectation about runs of which there
    /// is none, but which were planned, is not judged.
    pub fn judge(&self, document: &ResultDocument, unmade: &[RunRecord]) -> Expectation {
        let runs: Vec<&RunRecord> =
            document.runs.iter().filter(|run| run.valid && applies(&self.when, &run.variant)).collect();
        let (figures, found) = match &self.subject {
            Subject::Each(figure) => (vec![figure], self.each(figure, &runs)),
            Subject::Median(figure) => {
                let found = self.evaluate_variants(&runs, &[figure], |runs| median_of(figure, runs));
                (vec![figure], found)
            }
            Subject::Ratio(dividend, divisor) => {
                let quotient = |runs: &[&RunRecord]| {
                    let (above, below) = (median_of(dividend, runs)?, median_of(divisor, runs)?);
                    if below == 0.0 {
                        return Err(Shortfall::Value(format!("the median of {divisor} is 0")));
                    }
                    Ok(above / below)
                };
                (vec![dividend, divisor], self.evaluate_variants(&runs, &[dividend, divisor], quotient))
            }
        };
        let waits = || {
            let planned = |run: &RunRecord| {
                applies(&self.when, &run.variant) && figures.iter().any(|figure| figure.is_of(run))
            };
            unmade.iter().any(planned)
        };
        let (held, not_judged, found) = match found {
            Ok(found) => (true, false, found),
            Err(Shortfall::NoRun(_)) if waits() => {
                (false, true, "runs that it needs were not made".to_owned())
            }
            Err(Shortfall::Value(found) | Shortfall::NoRun(found)) => (false, false, found),
        };
        Expectation { key: self.key.clone(), expected: self.expected.clone(), found, held, not_judged }
    }

    /// Whether the expectation requires that this run uses only one path, or no multipath connection.
    pub fn expects_one_path(&self, run: &RunRecord) -> bool {
        let Subject::Each(figure) = &self.subject else { return false };
        let accepts = |flag: bool| self.holds(&Value::Bool(flag));
        matches!(figure.field.as_str(), "multipath.used" | "multipath.negotiated")
            && figure.is_of(run)
            && applies(&self.when, &run.variant)
            && accepts(false)
            && !accepts(true)
    }

    /// The value nearest to failing if the expectation holds, else the first value that fails.
    fn each(&self, figure: &ExpectedFigure, runs: &[&RunRecord]) -> Result<String, Shortfall> {
        let runs: Vec<_> = runs.iter().filter(|run| figure.is_of(run)).collect();
        let value_in = |run: &&&RunRecord| {
            let value =
                value_of(figure, run).ok_or_else(|| Shortfall::Value(format!("absent in {}", run.id)))?;
            Ok((value, format!(" in {}", run.id)))
        };
        let shown = self.nearest_to_failing(runs.iter().map(value_in))?;
        let (value, location) = shown.ok_or_else(|| no_run(&figure.runs_in_words()))?;
        Ok(match (runs.len(), value.is_number()) {
            (1, _) => format!("{}{location}", in_words(&value)),
            (count, true) => format!("{}{location}, the furthest of {count} runs", in_words(&value)),
            (count, false) => format!("{} in all {count} runs", in_words(&value)),
        })
    }

    /// Like [`Self::each`], for the value of `figure_of` over the runs of each variant. Ignores variants without a
    /// valid run of any of the labels.
    fn evaluate_variants(
        &self,
        runs: &[&RunRecord],
        figures: &[&ExpectedFigure],
        figure_of: impl Fn(&[&RunRecord]) -> Result<f64, Shortfall>,
    ) -> Result<String, Shortfall> {
        let mut variants: Vec<&Variant> = Vec::new();
        for run in runs.iter().filter(|run| figures.iter().any(|figure| figure.is_of(run))) {
            if !variants.contains(&&run.variant) {
                variants.push(&run.variant);
            }
        }
        let value_with = |variant: &Variant| {
            let own: Vec<_> = runs.iter().copied().filter(|run| run.variant == *variant).collect();
            let location = describe_variant(variant);
            let value = figure_of(&own).map_err(|shortfall| match shortfall {
                Shortfall::Value(why) => Shortfall::Value(format!("{why}{location}")),
                Shortfall::NoRun(why) => Shortfall::NoRun(format!("{why}{location}")),
            })?;
            Ok((Value::from(value), location))
        };
        let shown = self.nearest_to_failing(variants.into_iter().map(value_with))?;
        let labels = || figures.iter().map(|figure| figure.runs_in_words()).collect::<Vec<_>>().join(" or ");
        let (value, location) = shown.ok_or_else(|| no_run(&labels()))?;
        Ok(format!("{}{location}", in_words(&value)))
    }

    /// The value nearest to failing, with its location. An error is the first value that fails or is absent; without one,
    /// the first that no run has.
    fn nearest_to_failing(
        &self,
        values: impl Iterator<Item = Result<(Value, String), Shortfall>>,
    ) -> Result<Option<(Value, String)>, Shortfall> {
        let mut nearest: Option<(Value, String)> = None;
        let mut without_run = None;
        for value in values {
            let (value, location) = match value {
                Err(Shortfall::NoRun(why)) => {
                    without_run.get_or_insert(Shortfall::NoRun(why));
                    continue;
                }
                value => value?,
            };
            if !self.holds(&value) {
                return Err(Shortfall::Value(format!("{}{location}", in_words(&value))));
            }
            if nearest.as_ref().is_none_or(|(other, _)| self.is_nearer_to_failing(&value, other)) {
                nearest = Some((value, location));
            }
        }
        without_run.map_or(Ok(nearest), Err)
    }

    fn holds(&self, value: &Value) -> bool {
        let ordering = match (&self.target, value) {
            (ExpectationTarget::Flag(flag), Value::Bool(value)) => value.cmp(flag),
            (ExpectationTarget::Text(text), Value::String(value)) => value.as_str().cmp(text),
            (ExpectationTarget::Number(number), Value::Number(value)) => {
                match value.as_f64().and_then(|value| value.partial_cmp(number)) {
                    Some(ordering) => ordering,
                    None => return false,
                }
            }
            _ => return false,
        };
        match self.comparison {
            ComparisonOperator::Less => ordering.is_lt(),
            ComparisonOperator::AtMost => ordering.is_le(),
            ComparisonOperator::Greater => ordering.is_gt(),
            ComparisonOperator::AtLeast => ordering.is_ge(),
            ComparisonOperator::Equal => ordering.is_eq(),
            ComparisonOperator::Unequal => ordering.is_ne(),
        }
    }

    fn is_nearer_to_failing(&self, value: &Value, other: &Value) -> bool {
        let (Some(value), Some(other)) = (value.as_f64(), other.as_f64()) else { return false };
        match self.comparison {
            ComparisonOperator::Less | ComparisonOperator::AtMost => value > other,
            ComparisonOperator::Greater | ComparisonOperator::AtLeast => value < other,
            ComparisonOperator::Equal | ComparisonOperator::Unequal => false,
        }
    }
}

fn no_run(of: &str) -> Shortfall {
    Shortfall::NoRun(format!("no valid run of {of}"))
}

fn median_of(figure: &ExpectedFigure, runs: &[&RunRecord]) -> Result<f64, Shortfall> {
    let mut values = Vec::new();
    for run in runs.iter().filter(|run| figure.is_of(run)) {
        match value_of(figure, run).as_ref().and_then(Value::as_f64) {
            Some(value) => values.push(value),
            None => return Err(Shortfall::Value(format!("{} is absent in {}", figure.field, run.id))),
        }
    }
    median(&values).ok_or_else(|| no_run(&figure.runs_in_words()))
}

fn value_of(figure: &ExpectedFigure, run: &RunRecord) -> Option<Value> {
    let record = serde_json::to_value(run).ok()?;
    let found = look_up(&record, &figure.field).filter(|value| !value.is_null()).cloned();
    // The record omits unchanged counters: an absent counter is 0 if the record includes its side.
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

fn describe_variant(variant: &Variant) -> String {
    if variant.is_empty() {
        return String::new();
    }
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs: Vec<_> = variant.iter().map(|(key, value)| format!("{key} = {}", plain(value))).collect();
    format!(" with {}", pairs.join(", "))
}

/// Numbers with at most three decimals, without trailing zeros.
fn in_words(value: &Value) -> String {
    match value {
        Value::Number(number) => {
            let text = number.as_f64().map_or_else(|| number.to_string(), |number| format!("{number:.3}"));
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}
