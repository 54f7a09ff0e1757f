//! The sizes of the packets that really crossed a path's links, as histograms: what left the sending host, and what
//! passed the path's narrowest hop.

mod histogram;

use super::legend;
use super::{Selection, WIDTH, lettering};
use crate::ResultSet;
use crate::carriage::{self, Carriage, Stage};
use crate::palette::{INK, MUTED};
use crate::quantity::{bytes, counted, percent};
use crate::svg::{Anchor, Area, Svg, TextStyle};
use crate::view::{GroupView, View, name_of, variant_text};
use histogram::Scales;
use pathbench_record::direction::Direction;
use pathbench_record::document::{RunLink, RunRecord};

const LEFT: f64 = 58.0;
const RIGHT: f64 = 20.0;
const COLUMN_GAP: f64 = 40.0;
const TITLE_HEIGHT: f64 = 20.0;
/// Over a plot: its numbers, and the labels of its largest bars.
const ABOVE: f64 = 38.0;
const PLOT_HEIGHT: f64 = 62.0;
const BELOW: f64 = 12.0;
/// More rows than this and nobody looks at them.
const MOST_ROWS: usize = 24;

/// Histograms of the packets' lengths, path by path, for the run that stands for each label. `None` when no shown run
/// counted packets.
pub fn packet_sizes(set: &ResultSet, selection: &Selection) -> Option<Svg> {
    packet_sizes_of(&View::new(set), selection)
}

pub(crate) fn packet_sizes_of(view: &View, selection: &Selection) -> Option<Svg> {
    let sheet = Sheet::new(view, selection)?;
    let (_, height) = sheet.draw(view, 10.0);
    Some(sheet.draw(view, height).0)
}

/// One direction of a path in the run that stands for a label.
struct Row<'a> {
    name: String,
    run: &'a str,
    carriage: Carriage<'a>,
    missed: u64,
}

struct Sheet<'a> {
    rows: Vec<Row<'a>>,
    scales: Scales,
    /// Whether any path has a hop of its own.
    hops: bool,
    title: String,
    subtitle: String,
    caption: Vec<String>,
}

fn rows<'a>(view: &View<'a>, group: &GroupView<'a>, selection: &Selection) -> Vec<Row<'a>> {
    let Some(run) = group.representative() else { return Vec::new() };
    let name = match (selection.variant.is_some(), selection.pattern.is_some()) {
        (true, _) => group.label.to_owned(),
        (false, true) => name_of(group.label, None, group.variant),
        (false, false) => group.name(),
    };
    let of = |carriage: Carriage<'a>| {
        let way = if carriage.direction == Direction::Download { ", download" } else { "" };
        Row {
            name: format!("{name} · {}{way}", carriage.path),
            run: &run.id,
            missed: missed(run, &carriage),
            carriage,
        }
    };
    carriage::carriages(view, run).into_iter().map(of).collect()
}

/// Packets that crossed one of the shown links and were not counted.
fn missed(run: &RunRecord, carriage: &Carriage) -> u64 {
    let is_shown = |link: &&RunLink| carriage.stages().any(|stage| stage.link == link.name);
    let links = run.links.iter().filter(is_shown);
    let missed = links.filter_map(|link| link.packet_sizes.as_ref()).map(|sizes| sizes.missed_packets);
    missed.fold(0, u64::saturating_add)
}

impl<'a> Sheet<'a> {
    fn new(view: &View<'a>, selection: &Selection) -> Option<Self> {
        let groups = view.groups.iter().filter(|group| selection.has(group));
        let mut rows: Vec<Row> = groups.flat_map(|group| rows(view, group, selection)).collect();
        if rows.is_empty() {
            return None;
        }
        let all = rows.len();
        rows.truncate(MOST_ROWS);
        let stages = || rows.iter().flat_map(|row| row.carriage.stages());
        let largest = stages().filter_map(|stage| stage.sizes.keys().next_back().copied()).max();
        let most = stages().flat_map(|stage| stage.sizes.values().copied()).max();
        let document = &view.set.document;
        let variant = selection.variant.as_ref().filter(|variant| !variant.is_empty());
        let subtitle = match variant {
            Some(variant) => format!("{} · {}", variant_text(variant), document.scenario.description),
            None => document.scenario.description.clone(),
        };
        let missed = rows.iter().map(|row| row.missed).fold(0, u64::saturating_add);
        let caption = caption(missed, all - rows.len());
        Some(Self {
            scales: Scales::holding(largest.unwrap_or(0), most.unwrap_or(0)),
            hops: rows.iter().any(|row| row.carriage.passed.is_some()),
            rows,
            title: format!("{}: packets on the wire{}", document.scenario.name, selection.of_pattern()),
            subtitle,
            caption: legend::caption_lines(&caption, WIDTH - 40.0),
        })
    }

    fn plot_width(&self) -> f64 {
        if self.hops { (WIDTH - LEFT - RIGHT - COLUMN_GAP) / 2.0 } else { WIDTH - LEFT - RIGHT }
    }

    fn draw(&self, view: &View, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let mut y = legend::heading(&mut svg, 20.0, WIDTH - 40.0, &self.title, &self.subtitle);
        let bold = TextStyle::new(11.5, MUTED).bold().anchored(Anchor::Middle);
        let (first, second) = (LEFT, LEFT + self.plot_width() + COLUMN_GAP);
        if self.hops {
            svg.text((first + self.plot_width() / 2.0, y + 10.0), bold, "what left the sending host");
            svg.text((second + self.plot_width() / 2.0, y + 10.0), bold, "what passed the hop");
            y += 18.0;
        }
        for (index, row) in self.rows.iter().enumerate() {
            let last = index + 1 == self.rows.len();
            Self::draw_title(&mut svg, row, y);
            let area =
                Area { x: first, y: y + TITLE_HEIGHT + ABOVE, width: self.plot_width(), height: PLOT_HEIGHT };
            let plots = [
                (row.carriage.sent, area, "not counted at the sending host"),
                (row.carriage.passed, Area { x: second, ..area }, "the path has no hop of its own"),
            ];
            for (index, (stage, area, otherwise)) in
                plots.into_iter().enumerate().take(1 + usize::from(self.hops))
            {
                if let Some(stage) = stage {
                    self.draw_stage(&mut svg, view, &row.carriage, (stage, area), (index == 0, last));
                } else {
                    let middle = (area.x + area.width / 2.0, area.y + area.height / 2.0 + 4.0);
                    let style = TextStyle::new(11.0, MUTED).anchored(Anchor::Middle);
                    svg.text(middle, style, otherwise);
                }
            }
            y += TITLE_HEIGHT + ABOVE + PLOT_HEIGHT + BELOW;
        }
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        svg.text((WIDTH / 2.0, y + 18.0), style, "length of the IP packet, bytes (logarithmic)");
        y += 34.0;
        legend::rule(&mut svg, 20.0, y, WIDTH - 40.0);
        y += 20.0 + legend::caption(&mut svg, (20.0, y + 20.0), &self.caption);
        (svg, y)
    }

    fn draw_title(svg: &mut Svg, row: &Row, y: f64) {
        let room = WIDTH - LEFT - RIGHT;
        let name = lettering::fitted(&row.name, 13.0 * 1.12, room);
        svg.text((LEFT, y + 14.0), TextStyle::new(13.0, INK).bold(), &name);
        let at = lettering::width(&name, 13.0 * 1.12) + 8.0;
        let run = lettering::fitted(row.run, 10.5, room - at);
        svg.text((LEFT + at, y + 14.0), TextStyle::new(10.5, MUTED), &run);
    }

    fn draw_stage(
        &self,
        svg: &mut Svg,
        view: &View,
        carriage: &Carriage,
        (stage, area): (Stage, Area),
        (first, last): (bool, bool),
    ) {
        let numbers = lettering::fitted(&numbers(&stage, area.width), 10.5, area.width);
        svg.text((area.x, area.y - ABOVE + 12.0), TextStyle::new(10.5, MUTED), &numbers);
        let colour = view.paths.colour(carriage.path);
        histogram::draw(svg, &stage, area, &self.scales, (colour, first, last));
    }
}

/// Packets and bytes, and whose bytes they were, as far as there is `room`: `wlan (MTU 9000): 3830 packets, 34.3 MB;
/// 9000: 98 %, 52: 1.2 %`.
fn numbers(stage: &Stage, room: f64) -> String {
    let packets = stage.packets();
    if packets == 0 {
        return format!("{}: no packet", stage.link);
    }
    let mtu = stage.mtu_bytes.map_or(String::new(), |bytes| format!(" (MTU {bytes})"));
    let counted = counted(u32::try_from(packets).unwrap_or(u32::MAX), "packet");
    let mut text = format!("{}{mtu}: {counted}, {}", stage.link, bytes(stage.bytes()));
    for (index, (size, part)) in stage.by_bytes().into_iter().take(4).enumerate() {
        let sign = if index == 0 { ';' } else { ',' };
        let longer = format!("{text}{sign} {size}: {}", percent(part));
        if (index > 0 && part < 0.005) || lettering::width(&longer, 10.5) > room {
            break;
        }
        text = longer;
    }
    text
}

fn caption(missed: u64, left_out: usize) -> Vec<String> {
    let mut sentences = vec![
        "Lengths of IP packets, headers included, counted where they crossed the link and not by the kernel that sent them; \
         super-packets of segmentation offload count as the segments they become. Height: packets of this length \
         (logarithmic). Percentages: part of the bytes in packets of a length. Directions that carried acknowledgements only are left out. Each row is one run, the one of \
         median goodput."
            .to_owned(),
    ];
    if missed > 0 {
        sentences.push(format!(
            "{} crossed and could not be counted, since the machine was too busy.",
            counted(u32::try_from(missed).unwrap_or(u32::MAX), "packet")
        ));
    }
    if left_out > 0 {
        sentences.push(format!("{} not shown.", counted(left_out as u32, "more row")));
    }
    vec![sentences.join(" ")]
}
