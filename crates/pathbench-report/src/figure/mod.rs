//! Builds charts from results: goodput by path over time, delay over time and as a distribution, every repetition against
//! every other, emulated links, packet sizes.

mod comparison;
mod delay;
mod distribution;
mod goodput;
mod link;
mod link_trace;
mod matrix;
mod measure;
mod mobility;
mod mtu;
mod packet_sizes;
mod path_sizes;

pub(crate) use comparison::{comparison_of, overview_of};
pub(crate) use delay::delay_of;
pub(crate) use distribution::distribution_of;
pub(crate) use goodput::{Windows, timeline_of};
pub(crate) use link::links_of;
pub(crate) use matrix::matrix_of;
pub(crate) use mobility::mobility_of;
pub(crate) use mtu::mtu_of;
pub(crate) use packet_sizes::packet_sizes_of;

use crate::ResultSet;
use crate::chart::Chart;
use crate::pattern::{Kind, Pattern};
use crate::quantity::counted;
use crate::svg::{self, Svg};
use crate::view::{GroupView, View, name_of, variant_text};
use pathbench_record::direction::Direction;
use pathbench_record::document::{RunRecord, Variant};

/// Which part of a result a figure shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    pub variant: Option<Variant>,
    pub pattern: Option<String>,
    /// Only data in this direction; both added up when `None`.
    pub direction: Option<Direction>,
}

impl Selection {
    fn has_pattern(&self, group: &GroupView) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern == group.pattern.name)
    }

    fn has(&self, group: &GroupView) -> bool {
        self.has_pattern(group) && self.variant.as_ref().is_none_or(|variant| variant == group.variant)
    }

    pub(crate) fn runs<'a>(
        &self,
        view: &'a View<'a>,
    ) -> impl Iterator<Item = (&'a GroupView<'a>, &'a RunRecord)> {
        let groups = view.groups.iter().filter(|group| self.has(group));
        groups.filter_map(|group| Some((group, group.representative()?)))
    }

    /// A group's name without what title and subtitle of the chart say.
    fn name(&self, group: &GroupView) -> String {
        match (self.variant.is_some(), self.pattern.is_some()) {
            (true, _) => group.label.to_owned(),
            (false, true) => name_of(group.label, None, group.variant),
            (false, false) => group.name(),
        }
    }

    /// A chart with title and subtitle: `failover, bulk: goodput by path`.
    fn chart(&self, view: &View, what: &str) -> Chart {
        let scenario = &view.set.document.scenario;
        let pattern = self.pattern.as_ref().map_or(String::new(), |pattern| format!(", {pattern}"));
        let subtitle = match self.variant.as_ref().filter(|variant| !variant.is_empty()) {
            Some(variant) => format!("{} · {}", variant_text(variant), scenario.description),
            None => scenario.description.clone(),
        };
        Chart { title: format!("{}{pattern}: {what}", scenario.name), subtitle, ..Chart::default() }
    }
}

/// Which of a group's runs is shown, and why: `01-mptcp-r1 · median of 3 valid runs`.
fn chosen(group: &GroupView, run: &RunRecord) -> String {
    let why = match (run.valid, group.valid()) {
        (false, _) => "not valid".to_owned(),
        (true, 1) => "the only valid run".to_owned(),
        (true, valid) => format!("median of {}", counted(valid, "valid run")),
    };
    format!("{} · {why}", run.id)
}

/// `3 more rows are not shown.`, where there are any.
fn left_out(count: usize, noun: &str) -> Option<String> {
    (count > 0).then(|| format!("{} not shown.", counted(count as u32, &format!("more {noun}"))))
}

/// Goodput of each path over time, with events, subflows and silences: one facet per label and variant.
pub fn timeline(set: &ResultSet, selection: &Selection) -> Svg {
    svg::draw(&timeline_of(&View::new(set), selection, Windows::ROUND))
}

/// Every valid repetition of every label as a dot, and the median: the figures of the result's first pattern.
pub fn comparison(set: &ResultSet) -> Svg {
    let view = View::new(set);
    let pattern = view.patterns().first().copied().unwrap_or(Pattern::named("iperf"));
    svg::draw(&comparison_of(&view, pattern))
}

/// The main figure of every pattern, transport by transport.
pub fn overview(set: &ResultSet) -> Svg {
    svg::draw(&overview_of(&View::new(set)))
}

/// The delay of every message over time, by label and direction.
pub fn delay(set: &ResultSet, selection: &Selection) -> Svg {
    svg::draw(&delay_of(&View::new(set), selection))
}

/// Which part of all messages, or of all pings, was answered within which time. `None` when the result has neither.
pub fn distribution(set: &ResultSet) -> Option<Svg> {
    let view = View::new(set);
    let of = |kind: Kind| view.patterns().into_iter().find(|pattern| pattern.kind == kind);
    let pattern = of(Kind::Interactive).or_else(|| of(Kind::Ping))?;
    Some(svg::draw(&distribution_of(&view, pattern)))
}

/// Rate in force, delivered rate, queue and drops of each emulated link. `None` when no link was emulated.
pub fn links(set: &ResultSet, selection: &Selection) -> Option<Svg> {
    links_of(&View::new(set), selection).as_ref().map(svg::draw)
}

/// Median goodput of every label in every variant, stacked by the paths' shares. `None` for a result without variants, or
/// with patterns of messages only.
pub fn matrix(set: &ResultSet) -> Option<Svg> {
    let view = View::new(set);
    view.patterns().into_iter().find_map(|pattern| matrix_of(&view, pattern)).as_ref().map(svg::draw)
}

/// Distributions of the handover's duration and of the largest delay of each run, and mptcp against mpquic. `None` when
/// the result has no handover.
pub fn mobility(set: &ResultSet) -> Option<Svg> {
    let view = View::new(set);
    view.patterns().into_iter().find_map(|pattern| mobility_of(&view, pattern)).as_ref().map(svg::draw)
}

/// MSS, path MTU, arrived bytes, retransmissions and back-off of every path over time. `None` when packet sizes are the
/// same on all paths, do not change, and packets were not counted.
pub fn mtu(set: &ResultSet, selection: &Selection) -> Option<Svg> {
    mtu_of(&View::new(set), selection).as_ref().map(svg::draw)
}

/// Histograms of the packets' lengths, path by path. `None` when no shown run counted packets.
pub fn packet_sizes(set: &ResultSet, selection: &Selection) -> Option<Svg> {
    packet_sizes_of(&View::new(set), selection).as_ref().map(svg::draw)
}
