//! Conditions under which a candidate fails: `mptcp.goodput_mbps < -5%`.

use crate::list::distinct;
use crate::result_set::ResultSet;
use crate::view::name_of;
use pathbench_analysis::comparison::{FigureChange, changes};
use pathbench_record::document::{Group, Variant};
use pathbench_record::statistics::FEWEST_FOR_INTERVAL;
use pathbench_record::summary::figure_names;
use serde::Serialize;
use std::str::FromStr;
use thiserror::Error;

/// `[LABEL.]FIGURE < CHANGE` or `> CHANGE`. It holds for a group of runs if the whole 95 % confidence interval of the
/// figure's change is beyond CHANGE: results of different sessions differ more than the runs of one, and a median alone
/// would fail every other comparison of equals.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureCondition {
    text: String,
    label: Option<String>,
    figure: String,
    is_below: bool,
    /// A part of the baseline, or in the figure's unit.
    change: f64,
    is_relative: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConditionSyntaxError {
    #[error("there is no `<` or `>` in it; write for instance `goodput_mbps < -5%`")]
    Comparison,
    #[error("`{0}` is no figure; the figures are: {known}", known = figure_names().collect::<Vec<_>>().join(", "))]
    Figure(String),
    #[error(
        "`{0}` is no change; write percent of the baseline (`-5%`) or a number in the figure's unit (`+50`)"
    )]
    FigureChange(String),
}

/// The runs cannot decide the condition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConditionError {
    #[error("`{condition}`: the baseline {baseline} has no valid run with this figure; {remedy}")]
    NoRuns { condition: String, baseline: String, remedy: String },
    #[error(
        "`{condition}`: {group} has {runs} valid runs with this figure in {result}; a verdict needs \
         {FEWEST_FOR_INTERVAL} or more (--repeat)"
    )]
    TooFew { condition: String, group: String, runs: usize, result: String },
    #[error(
        "`{condition}`: the baseline's median of {group} is 0, of which there are no percent; give the change in the \
         figure's unit"
    )]
    OfZero { condition: String, group: String },
}

/// A condition applied to a group of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    pub condition: String,
    /// Number of the result, from 2; the baseline is 1.
    pub result: usize,
    pub figure: String,
    pub pattern: String,
    pub label: String,
    pub variant: Variant,
    /// Candidate − baseline, as a part of the baseline if `is_relative`, else in the figure's unit.
    pub change: f64,
    pub ci95: [f64; 2],
    pub is_relative: bool,
    /// Whether the condition holds: the candidate fails.
    pub holds: bool,
}

impl FromStr for FailureCondition {
    type Err = ConditionSyntaxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let at = text.find(['<', '>']).ok_or(ConditionSyntaxError::Comparison)?;
        let (left, right) = (text[..at].trim(), text[at + 1..].trim());
        // Interface names in labels can contain dots, names of figures cannot.
        let (label, figure) = left.rsplit_once('.').map_or((None, left), |(label, name)| (Some(label), name));
        if !figure_names().any(|known| known == figure) {
            return Err(ConditionSyntaxError::Figure(figure.to_owned()));
        }
        let number = right.strip_suffix('%').map(str::trim_end);
        let wrong = || ConditionSyntaxError::FigureChange(right.to_owned());
        let change: f64 = number.unwrap_or(right).parse().map_err(|_| wrong())?;
        if !change.is_finite() {
            return Err(wrong());
        }
        Ok(Self {
            text: text.trim().to_owned(),
            label: label.map(str::to_owned),
            figure: figure.to_owned(),
            is_below: text[at..].starts_with('<'),
            change: if number.is_some() { change / 100.0 } else { change },
            is_relative: number.is_some(),
        })
    }
}

impl FailureCondition {
    /// Applies the condition to each group with the figure; result `number` is the candidate.
    ///
    /// # Errors
    /// [`ConditionError`] if a group of the baseline cannot be judged: nothing passes without a judgement.
    pub(super) fn judge(
        &self,
        baseline: &ResultSet,
        candidate: &ResultSet,
        number: usize,
    ) -> Result<Vec<Judgement>, ConditionError> {
        let changes =
            changes(&baseline.document.runs, &candidate.document.runs, &self.figure, self.is_relative);
        let mut judged = Vec::new();
        let has_figure = |group: &&Group| group.figures.contains_key(&self.figure);
        for group in baseline.valid_groups().filter(|group| self.is_of(group)).filter(has_figure) {
            let is_same = |change: &&FigureChange| {
                change.pattern == group.pattern
                    && change.label == group.label
                    && *change.variant == group.variant
            };
            let name = name_of(&group.label, Some(&group.pattern), &group.variant);
            match changes.iter().find(is_same) {
                Some(change) => judged.push(self.judgement(change, name, [baseline, candidate], number)?),
                None => return Err(self.too_few(name, 0, candidate)),
            }
        }
        if judged.is_empty() {
            return Err(ConditionError::NoRuns {
                condition: self.text.clone(),
                baseline: baseline.location(),
                remedy: self.remedy(baseline),
            });
        }
        Ok(judged)
    }

    fn judgement(
        &self,
        change: &FigureChange,
        group: String,
        sets: [&ResultSet; 2],
        number: usize,
    ) -> Result<Judgement, ConditionError> {
        if let Some((runs, set)) = change.runs.into_iter().zip(sets).find(|(n, _)| *n < FEWEST_FOR_INTERVAL) {
            return Err(self.too_few(group, runs, set));
        }
        let Some((shift, Some(ci95))) = change.change else {
            return Err(ConditionError::OfZero { condition: self.text.clone(), group });
        };
        let holds = if self.is_below { ci95[1] < self.change } else { ci95[0] > self.change };
        Ok(Judgement {
            condition: self.text.clone(),
            result: number,
            pattern: change.pattern.to_owned(),
            label: change.label.to_owned(),
            variant: change.variant.clone(),
            change: shift,
            ci95,
            is_relative: self.is_relative,
            holds,
            figure: self.figure.clone(),
        })
    }

    fn too_few(&self, group: String, runs: usize, set: &ResultSet) -> ConditionError {
        ConditionError::TooFew { condition: self.text.clone(), group, runs, result: set.location() }
    }

    fn is_of(&self, group: &Group) -> bool {
        self.label.as_ref().is_none_or(|wanted| *wanted == group.label)
    }

    fn remedy(&self, baseline: &ResultSet) -> String {
        let labels = distinct(baseline.valid_groups().map(|group| group.label.as_str()));
        match &self.label {
            Some(label) if !labels.contains(&label.as_str()) => {
                format!("it has no `{label}`, but {}", labels.join(", "))
            }
            _ => "its patterns have other figures".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        for (text, label, figure, is_below, change, is_relative) in [
            ("goodput_mbps < -5%", None, "goodput_mbps", true, -0.05, true),
            ("mptcp.goodput_mbps<-5 %", Some("mptcp"), "goodput_mbps", true, -0.05, true),
            ("tcp@eth0.100.stall_ms > +50", Some("tcp@eth0.100"), "stall_ms", false, 50.0, false),
        ] {
            let read: FailureCondition = text.parse().unwrap();
            assert_eq!((read.label.as_deref(), read.figure.as_str()), (label, figure), "{text}");
            assert_eq!(
                (read.is_below, read.change, read.is_relative),
                (is_below, change, is_relative),
                "{text}"
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "`<` or `>`"),
            ("goodput_mbps = 5%", "`<` or `>`"),
            ("goodput < -5%", "`goodput` is no figure; the figures are: goodput_mbps"),
            ("goodput_mbps < five", "`five` is no change"),
            ("goodput_mbps < -inf%", "no change"),
            ("goodput_mbps < ", "no change"),
            ("goodput_mbps <= -5%", "`= -5%` is no change"),
        ] {
            let error = text.parse::<FailureCondition>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
