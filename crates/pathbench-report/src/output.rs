//! Writing the report and the figures.

use crate::chart::Chart;
use crate::figure::{self, Selection, Windows};
use crate::palette::Paths;
use crate::pattern::{Kind, Pattern};
use crate::svg::{self, Svg};
use crate::view::{View, variant_text};
use crate::{ResultSet, html};
use pathbench_record::direction::Direction;
use pathbench_record::document::{RunRecord, Variant};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// More panels than this in one timeline, and every variant gets its own.
const MOST_PANELS: usize = 9;

const MOST_VARIANTS: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureFormat {
    Svg,
    /// SVG and PNG; needs the feature `png`.
    SvgAndPng,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub html: PathBuf,
    pub figures: Vec<PathBuf>,
}

#[derive(Debug, Error)]
pub enum WriteError {
    #[error("cannot write {}: {source}; is the directory writable, and the disk not full?", path.display())]
    File { path: PathBuf, source: io::Error },
    #[cfg(feature = "png")]
    #[error(transparent)]
    Raster(#[from] crate::raster::RasterError),
    #[error(
        "this pathbench was built without PNG; build it with `cargo build --features png`, or convert the SVG files"
    )]
    NoRasteriser,
}

/// A drawn chart and the name of its files, without extension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) pattern: Option<String>,
    pub(crate) svg: Svg,
}

/// The figures of all sets, in the order of the report; the path colours are shared between the sets.
pub(crate) fn figures(sets: &[ResultSet]) -> Vec<Vec<Named>> {
    let all: Vec<&ResultSet> = sets.iter().collect();
    let paths = Paths::of(&all);
    let mut taken = Vec::new();
    let of_set = |(index, set): (usize, &ResultSet)| {
        let view = View::with_paths(set, paths.clone());
        let several = sets.len() > 1;
        let prefix = format!("{}-{}-", index + 1, slug(&set.document.scenario.name));
        let prefix = if several { prefix } else { String::new() };
        FigureSet { view: &view, prefix, taken: &mut taken, figures: Vec::new() }.filled()
    };
    sets.iter().enumerate().map(of_set).collect()
}

struct FigureSet<'a> {
    view: &'a View<'a>,
    prefix: String,
    taken: &'a mut Vec<String>,
    figures: Vec<Named>,
}

impl FigureSet<'_> {
    fn filled(mut self) -> Vec<Named> {
        let view = self.view;
        let patterns = view.patterns();
        let several = patterns.len() > 1;
        let all = Selection::default();
        if several {
            self.add("overview", &all, Some(figure::overview_of(view)));
        }
        if patterns.is_empty() && view.set.document.mtu.is_none() {
            self.add_timelines(&all);
            self.add("comparison", &all, Some(figure::comparison_of(view, Pattern::named("iperf"))));
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
            Kind::Iperf | Kind::Bulk => self.add_timelines(selection),
            Kind::Ping => {}
            Kind::Interactive => {
                self.add_variants("delay", MOST_PANELS, selection, |one| Some(figure::delay_of(view, one)));
                let mut multipath = view.of_pattern(pattern).filter(|group| group.is_multipath());
                let delivered = |run: &&RunRecord| !view.data(run).deliveries.is_empty();
                if multipath.any(|group| group.runs.iter().any(delivered)) {
                    self.add_timelines(selection);
                }
            }
        }
        let has_distribution = match pattern.kind {
            Kind::Ping => runs().any(|run| run.ping.is_some()),
            Kind::Interactive => view.has_messages_of(pattern.kind),
            Kind::Iperf | Kind::Bulk => false,
        };
        if has_distribution {
            self.add("distribution", selection, Some(figure::distribution_of(view, pattern)));
        }
        self.add("comparison", selection, Some(figure::comparison_of(view, pattern)));
        self.add("matrix", selection, figure::matrix_of(view, pattern));
        self.add_variants("mtu", MOST_PANELS, selection, |one| figure::mtu_of(view, one));
        // A row for every path, of which a label has several.
        self.add_variants("packet-sizes", MOST_PANELS / 3, selection, |one| {
            figure::packet_sizes_of(view, one)
        });
        self.add("mobility", selection, figure::mobility_of(view, pattern));
        self.add_variants("links", MOST_PANELS, selection, |one| figure::links_of(view, one));
    }

    /// The selection as it is, or once for each variant where more than `most` labels are too many for one figure.
    fn variants(&self, most: usize, selection: &Selection) -> Vec<Selection> {
        let variants = self.view.variants();
        let is_wanted = |name: &str| selection.pattern.as_ref().is_none_or(|one| one == name);
        let panels = self.view.groups.iter().filter(|group| is_wanted(group.pattern.name));
        if variants.len() < 2 || panels.count() <= most {
            return vec![selection.clone()];
        }
        // The comparison and the tables have those beyond, too.
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

    /// One timeline, or one per direction and, when there are many panels, per variant.
    fn add_timelines(&mut self, selection: &Selection) {
        let directions = self.view.directions_of(selection.pattern.as_deref());
        let directions: Vec<Option<Direction>> =
            if directions.len() > 1 { directions.into_iter().map(Some).collect() } else { vec![None] };
        for variant in self.variants(MOST_PANELS, selection) {
            for direction in &directions {
                let one = Selection { direction: *direction, ..variant.clone() };
                let chart = figure::timeline_of(self.view, &one, Windows::ROUND);
                self.add("timeline", &one, Some(chart));
            }
        }
    }

    /// Adds a figure under the name of its selection: `timeline-bulk-<variant>-upload`.
    fn add(&mut self, name: &str, selection: &Selection, chart: Option<Chart>) {
        let Some(chart) = chart else { return };
        let variant = selection.variant.as_ref().map(|variant| slug(&variant_text(variant)));
        let direction = selection.direction.map(|direction| direction.name().to_owned());
        let pattern = selection.pattern.as_deref().map(slug);
        let parts = [Some(format!("{}{name}", self.prefix)), pattern, variant, direction];
        let name = unique(&parts.into_iter().flatten().collect::<Vec<_>>().join("-"), self.taken);
        self.figures.push(Named { name, pattern: selection.pattern.clone(), svg: svg::draw(&chart) });
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
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "unnamed".to_owned() } else { slug.to_owned() }
}

fn unique(name: &str, taken: &mut Vec<String>) -> String {
    let mut unique = name.to_owned();
    let mut number = 2;
    while taken.contains(&unique) {
        unique = format!("{name}-{number}");
        number += 1;
    }
    taken.push(unique.clone());
    unique
}

/// Writes `report.html` and every figure in `format` into `out`, which is created where it does not exist.
///
/// `timeline.svg` and `comparison.svg` for a plain result; `delay.svg` and `distribution.svg` where messages were sent;
/// `matrix.svg` where a matrix has variants;
/// `mtu.svg` where paths differ in their packets' sizes or change them; `packet-sizes.svg` where packets were counted;
/// `mobility.svg` where there were handovers; `links.svg` where links were emulated;
/// `timeline-upload.svg`, `timeline-download.svg` where data went both ways; `timeline-<variant>.svg` where a matrix
/// has many variants. With several patterns `overview.svg`, and the pattern in each other name:
/// `timeline-bulk.svg`. Each name is prefixed with the result's number and name where there are several results.
///
/// # Errors
/// [`WriteError`], naming the file.
pub fn write(sets: &[ResultSet], out: &Path, format: FigureFormat) -> Result<Written, WriteError> {
    if format == FigureFormat::SvgAndPng && !crate::PNG_AVAILABLE {
        return Err(WriteError::NoRasteriser);
    }
    let store = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).map_err(|source| WriteError::File { path: path.to_owned(), source })
    };
    fs::create_dir_all(out).map_err(|source| WriteError::File { path: out.to_owned(), source })?;
    let figures = figures(sets);
    let html = out.join("report.html");
    store(&html, html::page(sets, &figures).as_bytes())?;
    let mut written = Vec::new();
    for figure in figures.iter().flatten() {
        let svg = out.join(format!("{}.svg", figure.name));
        store(&svg, figure.svg.to_string().as_bytes())?;
        written.push(svg);
        #[cfg(feature = "png")]
        if format == FigureFormat::SvgAndPng {
            let png = out.join(format!("{}.png", figure.name));
            store(&png, &crate::raster::png(&figure.svg, crate::raster::FILE_SCALE)?)?;
            written.push(png);
        }
    }
    Ok(Written { html, figures: written })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_harmless_and_unique() {
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("<script>"), "script");
        assert_eq!(slug("µ"), "unnamed");
        assert_eq!(slug("tcp_mtu_probing=2, wlan.icmp=off"), "tcp-mtu-probing-2-wlan-icmp-off");
        let mut taken = Vec::new();
        let names: Vec<String> = (0..3).map(|_| unique("timeline", &mut taken)).collect();
        assert_eq!(names, ["timeline", "timeline-2", "timeline-3"]);
    }
}
