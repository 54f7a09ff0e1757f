//! The runs shown in a figure, and the sentences about those left out.

use crate::chart::Chart;
use crate::narrative;
use crate::pattern::Pattern;
use crate::quantity::counted;
use crate::view::{GroupView, View, name_of, variant_text};
use pathbench_record::direction::Direction;
use pathbench_record::document::{RunRecord, Variant};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selection {
    pub(crate) variant: Option<Variant>,
    pub(crate) pattern: Option<String>,
    /// Only data in this direction; the sum of both if `None`.
    pub(crate) direction: Option<Direction>,
}

impl Selection {
    pub(crate) fn has_pattern(&self, pattern: Pattern) -> bool {
        self.pattern.as_ref().is_none_or(|wanted| wanted == pattern.name)
    }

    pub(super) fn has(&self, group: &GroupView) -> bool {
        self.has_pattern(group.pattern)
            && self.variant.as_ref().is_none_or(|variant| variant == group.variant)
    }

    pub(crate) fn runs<'a>(
        &self,
        view: &'a View<'a>,
    ) -> impl Iterator<Item = (&'a GroupView<'a>, &'a RunRecord)> {
        let groups = view.groups.iter().filter(|group| self.has(group));
        groups.filter_map(|group| Some((group, group.representative()?)))
    }

    /// A group's name without the parts that are in the title and subtitle of the chart.
    pub(crate) fn name(&self, group: &GroupView) -> String {
        match (self.variant.is_some(), self.pattern.is_some()) {
            (true, _) => group.label.to_owned(),
            (false, true) => name_of(group.label, None, group.variant),
            (false, false) => group.name(),
        }
    }

    /// A chart with title and subtitle: `failover, bulk: goodput by path`.
    pub(super) fn chart(&self, view: &View, what: &str) -> Chart {
        let pattern = self.pattern.as_ref().map_or(String::new(), |pattern| format!(", {pattern}"));
        let mut chart = Chart::from_view(view, &format!("{pattern}: {what}"));
        if let Some(variant) = self.variant.as_ref().filter(|variant| !variant.is_empty()) {
            chart.subtitle = format!("{} · {}", variant_text(variant), chart.subtitle);
        }
        chart
    }
}

/// The shown run of a group, and why it was chosen: `01-mptcp-r1 · median of 3 valid runs`.
pub(super) fn chosen(group: &GroupView, run: &RunRecord) -> String {
    let why = match (run.valid, group.valid()) {
        (false, _) => "not valid".to_owned(),
        (true, 1) => "the only valid run".to_owned(),
        (true, valid) => format!("median of {}", counted(valid, "valid run")),
    };
    format!("{} · {why}", run.id)
}

/// `3 more rows not shown.`, or nothing.
pub(super) fn left_out(count: usize, noun: &str) -> String {
    let noun = format!("more {noun}");
    if count > 0 { format!("{} not shown.", counted(count, &noun)) } else { String::new() }
}

/// The encrypted labels, where the labels differ in encryption.
pub(super) fn encrypted(view: &View) -> String {
    narrative::encryption(view).map_or(String::new(), |note| note + ".")
}

/// The sentences that are not empty.
pub(super) fn paragraph(sentences: &[&str]) -> String {
    let sentences: Vec<&str> = sentences.iter().copied().filter(|one| !one.is_empty()).collect();
    sentences.join(" ")
}
