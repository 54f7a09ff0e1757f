//! One histogram: a bar for each length, both scales logarithmic.

use crate::carriage::Stage;
use crate::figure::lettering;
use crate::palette::{Colour, FRAME, GRID, INK, MUTED};
use crate::quantity::counted;
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};
use std::collections::BTreeMap;

/// Where a length scale begins: the smallest IP packet of TCP has 40 bytes.
const SHORTEST: f64 = 36.0;
/// Lengths within a bar's width are one bar.
const BAR: f64 = 5.0;
/// How much of a power of ten a bar of one packet is high.
const FOOT: f64 = 0.35;
/// Lengths that people know.
const KNOWN: [u32; 8] = [52, 100, 256, 576, 1500, 4096, 9000, 65_535];
/// Bars with their length over them.
const MOST_LABELS: usize = 5;

/// The scales that all histograms share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scales {
    longest: f64,
    /// The highest power of ten.
    powers: i32,
}

impl Scales {
    pub(super) fn holding(longest: u32, most: u64) -> Self {
        let longest = [1700.0, 10_400.0, 72_000.0].into_iter().find(|end| f64::from(longest) < *end);
        let powers = (most.max(1) as f64).log10().ceil() as i32;
        Self { longest: longest.unwrap_or(72_000.0), powers: powers.max(1) }
    }

    fn x(self, area: Area, length: f64) -> f64 {
        let part = (length.max(1.0) / SHORTEST).log10() / (self.longest / SHORTEST).log10();
        area.x + part.clamp(0.0, 1.0) * area.width
    }

    fn y(self, area: Area, count: f64) -> f64 {
        let part = (count.max(1.0).log10() + FOOT) / (f64::from(self.powers) + FOOT);
        area.bottom() - part.clamp(0.0, 1.0) * area.height
    }
}

/// A bar: the lengths within its width.
#[derive(Debug, Clone)]
struct Bar {
    x: f64,
    packets: u64,
    bytes: f64,
    /// The length of most of its bytes.
    length: u32,
    largest: f64,
    lengths: usize,
}

/// Draws `stage` in `area`; `first` says whether the counts have their numbers, `last` whether the lengths have.
pub(super) fn draw(
    svg: &mut Svg,
    stage: &Stage,
    area: Area,
    scales: &Scales,
    (colour, first, last): (Colour, bool, bool),
) {
    let small = TextStyle::new(10.0, MUTED);
    for power in 0..=scales.powers {
        let y = scales.y(area, 10f64.powi(power));
        svg.line((area.x, y), (area.right(), y), Stroke::solid(GRID, 1.0));
        let shown = scales.powers < 4 || power % 2 == scales.powers % 2;
        if first && shown {
            svg.text((area.x - 5.0, y + 3.5), small.anchored(Anchor::End), &count_words(power));
        }
    }
    for length in KNOWN.into_iter().filter(|length| f64::from(*length) < scales.longest) {
        let x = scales.x(area, f64::from(length));
        svg.line((x, area.y), (x, area.bottom()), Stroke::solid(GRID, 0.6));
        svg.line((x, area.bottom()), (x, area.bottom() + 3.0), Stroke::solid(FRAME, 1.0));
        if last {
            svg.text((x, area.bottom() + 14.0), small.anchored(Anchor::Middle), &length.to_string());
        }
    }
    let bars = bars(stage, area, *scales);
    for bar in &bars {
        let y = scales.y(area, bar.packets as f64);
        let place = Area { x: bar.x - BAR / 2.0, y, width: BAR, height: area.bottom() - y };
        svg.rect_with_tooltip(place, colour, tooltip(bar));
    }
    svg.line((area.x, area.bottom()), (area.right(), area.bottom()), Stroke::solid(FRAME, 1.0));
    label(svg, &bars, area, *scales);
    if bars.is_empty() {
        let middle = (area.x + area.width / 2.0, area.y + area.height / 2.0 + 4.0);
        svg.text(middle, TextStyle::new(11.0, MUTED).anchored(Anchor::Middle), "no packet");
    }
}

fn count_words(power: i32) -> String {
    match power {
        0..=2 => 10_u32.pow(power as u32).to_string(),
        3..=5 => format!("{}k", 10_u32.pow(power as u32 - 3)),
        6..=8 => format!("{}M", 10_u32.pow(power as u32 - 6)),
        _ => format!("10^{power}"),
    }
}

fn tooltip(bar: &Bar) -> String {
    let packets = counted(u32::try_from(bar.packets).unwrap_or(u32::MAX), "packet");
    if bar.lengths == 1 {
        format!("{packets} of {} bytes", bar.length)
    } else {
        format!("{packets} of {} lengths about {} bytes", bar.lengths, bar.length)
    }
}

fn bars(stage: &Stage, area: Area, scales: Scales) -> Vec<Bar> {
    let mut bars: BTreeMap<i64, Bar> = BTreeMap::new();
    for (length, packets) in stage.sizes.iter().filter(|(_, packets)| **packets > 0) {
        let x = scales.x(area, f64::from(*length));
        let bytes = f64::from(*length) * *packets as f64;
        let place = ((x - area.x) / (BAR + 1.0)).floor() as i64;
        let bar = bars.entry(place).or_insert(Bar {
            x,
            packets: 0,
            bytes: 0.0,
            length: *length,
            largest: 0.0,
            lengths: 0,
        });
        bar.packets = bar.packets.saturating_add(*packets);
        bar.bytes += bytes;
        bar.lengths += 1;
        if bytes > bar.largest {
            (bar.largest, bar.length, bar.x) = (bytes, *length, x);
        }
    }
    bars.into_values().collect()
}

/// Writes the lengths over the bars that carry most bytes, and over the highest one, where there is room.
fn label(svg: &mut Svg, bars: &[Bar], area: Area, scales: Scales) {
    let mut order: Vec<&Bar> = bars.iter().collect();
    order.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let highest = bars.iter().max_by_key(|bar| bar.packets);
    let chosen = order.first().copied().into_iter().chain(highest).chain(order.iter().skip(1).copied());
    let mut taken: Vec<Area> = Vec::new();
    for bar in chosen {
        if taken.len() >= MOST_LABELS {
            break;
        }
        let text = bar.length.to_string();
        let width = lettering::width(&text, 10.5);
        let top = scales.y(area, bar.packets as f64);
        // Over the bar; where a neighbour is in the way beginning or ending with it, or a little to the left.
        let aside = (width - BAR) / 2.0;
        let place = [0.0, -aside, aside, -aside - 16.0].into_iter().find_map(|shift| {
            let x = (bar.x + shift).clamp(area.x + width / 2.0, area.right() + 10.0 - width / 2.0);
            let place = Area { x: x - width / 2.0 - 2.0, y: top - 14.0, width: width + 4.0, height: 12.0 };
            (!is_hidden(bar, place, bars) && taken.iter().all(|one| is_apart(one, &place))).then_some(place)
        });
        if let Some(place) = place {
            let style = TextStyle::new(10.5, INK).bold().anchored(Anchor::Middle);
            svg.text((place.x + place.width / 2.0, top - 4.0), style, &text);
            taken.push(place);
        }
    }
}

fn is_apart(one: &Area, other: &Area) -> bool {
    other.right() < one.x || one.right() < other.x || other.bottom() < one.y || one.bottom() < other.y
}

/// Whether the label of `bar` would stand in front of a higher bar, and seem to be that one's.
fn is_hidden(bar: &Bar, place: Area, bars: &[Bar]) -> bool {
    bars.iter().any(|other| {
        let near = other.x + BAR / 2.0 > place.x && other.x - BAR / 2.0 < place.right();
        other.length != bar.length && near && other.packets > bar.packets
    })
}
