//! All figures of a result, in the order of the report.

use super::comparison::{comparison_of, overview_of};
use super::goodput::timeline_of;
use super::link::links_of;
use super::matrix::matrix_of;
use super::messages::{delay_of, distribution_of};
use super::mobility::mobility_of;
use super::mtu::mtu_of;
use super::packet_sizes::packet_sizes_of;
use super::response::response_of;
use super::selection::Selection;
use crate::chart::Chart;
use crate::pattern::{Kind, Pattern};
use crate::result_set::ResultSet;
use crate::svg::{self, Svg};
use crate::view::{View, variant_text};
use pathbench_record::direction::Direction;
use pathbench_record::document::{RunRecord, Variant};

const MOST_PANELS: usize = 9;

const MOST_VARIANTS: usize = 24;

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The file name without extension.
    pub name: String,
    /// The pattern of the figure, if the result has several.
    pub pattern: Option<String>,
    pub svg: Svg,
    /// The picture in one column for a narrow page, if the page has no panels in its place.
    pub narrow: Option<Svg>,
    /// The paragraphs of the caption, which the picture contains as well.
    pub caption: Vec<String>,
}

/// The figures of all sets, in the order of the report. The sets share the path colours.
pub fn figures(sets: &[ResultSet]) -> Vec<Vec<Figure>> {
    of_views(&View::of_all(sets))
}

pub(crate) fn of_views(views: &[View]) -> Vec<Vec<Figure>> {
    let mut taken = Vec::new();
    let of_view = |(index, view): (usize, &View)| {
        let several = views.len() > 1;
        let prefix = format!("{}-{}-", index + 1, slug(&view.set.document.scenario.name));
        let prefix = if several { prefix } else { String::new() };
        FigureSet { view, prefix, taken: &mut taken, figures: Vec::new() }.filled()
    };
    views.iter().enumerate().map(of_view).collect()
}

struct FigureSet<'a, 'b> {
    view: &'a View<'b>,
    prefix: String,
    taken: &'a mut Vec<String>,
    figures: Vec<Figure>,
}

impl FigureSet<'_, '_> {
    fn filled(mut self) -> Vec<Figure> {
        let view = self.view;
        let patterns = view.patterns();
        let several = patterns.len() > 1;
        let all = Selection::default();
        if several {
            self.add("overview", &all, Some(overview_of(view)));
        }
        if patterns.is_empty() && view.set.document.mtu.is_none() {
            self.add_timelines(&all);
            self.add("comparison", &all, Some(comparison_of(view, Pattern::named("throughput"))));
        }
        for pattern in patterns {
            let name = several.then(|| pattern.name.to_owned());
            self.add_pattern(pattern, &Selection { pattern: name, ..Selection::default() });
        }
        self.figures
    }

    fn add_pattern(&mut self, pattern: Pattern, selection: &Selection) {
        let view = self.view;
        let runs = || view.of_pattern(pattern).flat_map(|group| &group.runs);
        match pattern.kind {
            Kind::Throughput | Kind::Bulk => self.add_timelines(selection),
            Kind::Datagrams => {
                self.add_variants("datagrams", MOST_PANELS, selection, |one| {
                    delay_of(view, one, pattern.kind)
                });
                self.add_timelines(selection);
            }
            Kind::Ping => {}
            Kind::Responsiveness => {
                self.add_variants("response", MOST_PANELS / 3, selection, |one| response_of(view, one));
            }
            Kind::Interactive => {
                self.add_variants("delay", MOST_PANELS, selection, |one| delay_of(view, one, pattern.kind));
                let mut multipath = view.of_pattern(pattern).filter(|group| group.is_multipath());
                let delivered = |run: &&RunRecord| !view.data(run).deliveries.is_empty();
                if multipath.any(|group| group.runs.iter().any(delivered)) {
                    self.add_timelines(selection);
                }
            }
        }
        let has_distribution = match pattern.kind {
            Kind::Ping => runs().any(|run| run.ping.is_some()),
            Kind::Interactive => runs().any(|run| !view.data(run).messages.is_empty()),
            Kind::Throughput | Kind::Bulk | Kind::Responsiveness | Kind::Datagrams => false,
        };
        if has_distribution {
            self.add("distribution", selection, Some(distribution_of(view, pattern)));
        }
        self.add("comparison", selection, Some(comparison_of(view, pattern)));
        self.add("matrix", selection, matrix_of(view, pattern));
        self.add_variants("mtu", MOST_PANELS, selection, |one| mtu_of(view, one));
        // A label has a row per path.
        self.add_variants("packet-sizes", MOST_PANELS / 3, selection, |one| packet_sizes_of(view, one));
        self.add("mobility", selection, mobility_of(view, pattern));
        self.add_variants("links", MOST_PANELS, selection, |one| links_of(view, one));
    }

    fn variants(&self, most: usize, selection: &Selection) -> Vec<Selection> {
        let variants = self.view.variants();
        let panels = self.view.groups.iter().filter(|group| selection.has_pattern(group.pattern));
        if variants.len() < 2 || panels.count() <= most {
            return vec![selection.clone()];
        }
        // The comparison and the tables show the other variants.
        let of = |variant: &Variant| Selection { variant: Some(variant.clone()), ..selection.clone() };
        variants.into_iter().take(MOST_VARIANTS).map(of).collect()
    }

    fn add_variants(
        &mut self,
        name: &str,
        most: usize,
        selection: &Selection,
        chart: impl Fn(&Selection) -> Option<Chart>,
    ) {
        for one in self.variants(most, selection) {
            self.add(name, &one, chart(&one));
        }
    }

    fn add_timelines(&mut self, selection: &Selection) {
        let directions = self.view.directions_of(selection.pattern.as_deref());
        let directions: Vec<Option<Direction>> =
            if directions.len() > 1 { directions.into_iter().map(Some).collect() } else { vec![None] };
        for variant in self.variants(MOST_PANELS, selection) {
            for direction in &directions {
                let one = Selection { direction: *direction, ..variant.clone() };
                let chart = timeline_of(self.view, &one);
                self.add("timeline", &one, Some(chart));
            }
        }
    }

    /// Adds a figure under the name of its selection: `timeline-bulk-<variant>-upload`.
    fn add(&mut self, name: &str, selection: &Selection, chart: Option<Chart>) {
        let Some(chart) = chart else { return };
        let has_panels = ["timeline", "delay"].contains(&name);
        let variant = selection.variant.as_ref().map(|variant| slug(&variant_text(variant)));
        let direction = selection.direction.map(|direction| direction.name().to_owned());
        let pattern = selection.pattern.as_deref().map(slug);
        let parts = [Some(format!("{}{name}", self.prefix)), pattern, variant, direction];
        let name = unique(&parts.into_iter().flatten().collect::<Vec<_>>().join("-"), self.taken);
        let (pattern, svg) = (selection.pattern.clone(), svg::draw(&chart));
        let narrow = (!has_panels).then(|| svg::draw(&chart.narrowed()));
        self.figures.push(Figure { name, pattern, svg, narrow, caption: chart.caption });
    }
}

/// `text` as part of a file's name: lower-case letters, digits and single dashes.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars().take(60) {
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    match slug.trim_end_matches('-') {
        "" => "unnamed".to_owned(),
        slug => slug.to_owned(),
    }
}

fn unique(name: &str, taken: &mut Vec<String>) -> String {
    let mut names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
    let unique = names.find(|name| !taken.contains(name)).unwrap_or_default();
    taken.push(unique.clone());
    unique
}
