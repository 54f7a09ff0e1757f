//! One direction of one link: its rate above, its queue below.

use super::trace::{Stretch, Trace};
use crate::figure::axis::{Axis, TimeScale};
use crate::palette::{ALARM, Colour, FRAME, GRID, INK, MUTED};
use crate::quantity::{counted, percent, plain, rate};
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};

const RATE_HEIGHT: f64 = 66.0;
const GAP: f64 = 15.0;
const QUEUE_HEIGHT: f64 = 30.0;
/// A red stroke of dropped packets.
const DROP: f64 = 6.0;
/// Height of a panel.
pub(super) const HEIGHT: f64 = RATE_HEIGHT + GAP + QUEUE_HEIGHT;

pub(super) const IN_FORCE: Stroke = Stroke { colour: INK, width: 1.2, dash: None };
pub(super) const LOSS: Stroke = Stroke { colour: ALARM, width: 1.4, dash: Some((2.0, 2.0)) };

/// The scales that all panels share.
#[derive(Debug)]
pub(super) struct Scales {
    pub(super) time: TimeScale,
    pub(super) rate: Axis,
    pub(super) rate_unit: (&'static str, f64),
    /// Kilobytes.
    pub(super) queue: Axis,
}

/// Draws `trace` within `place`; `last` says whether the time axis has its numbers.
pub(super) fn draw(
    svg: &mut Svg,
    trace: &Trace,
    place: Area,
    scales: &Scales,
    (colour, last): (Colour, bool),
) {
    let above = Area { height: RATE_HEIGHT, ..place };
    let queue = Area { y: above.bottom() + GAP, height: QUEUE_HEIGHT, ..place };
    draw_grid(svg, above, queue, scales, last);
    let steps = |value: &dyn Fn(&Stretch) -> f64, area: Area| -> Vec<(f64, f64)> {
        let corner = |stretch: &Stretch| {
            let y = area.bottom() - value(stretch).clamp(0.0, 1.0) * area.height;
            [(scales.time.x(area, stretch.from_ms), y), (scales.time.x(area, stretch.until_ms), y)]
        };
        trace.stretches.iter().flat_map(corner).collect()
    };
    let filled = |svg: &mut Svg, mut points: Vec<(f64, f64)>, area: Area, colour: Colour| {
        let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else { return };
        points.extend([(last.0, area.bottom()), (first.0, area.bottom())]);
        svg.polygon(points, colour);
    };
    let part = |mbps: f64| scales.rate.part(mbps / scales.rate_unit.1);
    filled(svg, steps(&|one| part(one.delivered_mbps), above), above, colour);
    filled(svg, steps(&|one| scales.queue.part(one.queue_kb), queue), queue, colour.paler(0.35));
    draw_in_force(svg, trace, above, scales);
    draw_loss(svg, trace, above, scales);
    draw_drops(svg, trace, queue, scales);
    for area in [above, queue] {
        svg.line((area.x, area.bottom()), (area.right(), area.bottom()), Stroke::solid(FRAME, 1.0));
    }
    if trace.stretches.is_empty() {
        let middle = (above.x + above.width / 2.0, above.y + above.height / 2.0 + 4.0);
        svg.text(middle, TextStyle::new(11.0, MUTED).anchored(Anchor::Middle), "no sample");
    }
}

fn draw_grid(svg: &mut Svg, rate: Area, queue: Area, scales: &Scales, last: bool) {
    let small = TextStyle::new(10.0, MUTED);
    for (area, axis, unit) in [(rate, &scales.rate, scales.rate_unit.0), (queue, &scales.queue, "kB")] {
        for tick in &axis.ticks {
            let y = area.bottom() - axis.part(*tick) * area.height;
            svg.line((area.x, y), (area.right(), y), Stroke::solid(GRID, 1.0));
            let end = axis.ticks.last() == Some(tick);
            let number = axis.number(*tick);
            let words = if end { format!("{number} {unit}") } else { number };
            if end || axis.ticks.len() > 2 || *tick > 0.0 {
                svg.text((area.x - 5.0, y + 3.5), small.anchored(Anchor::End), &words);
            }
        }
    }
    for tick in &scales.time.axis.ticks {
        let x = scales.time.x(queue, tick * scales.time.unit.1);
        svg.line((x, queue.bottom()), (x, queue.bottom() + 4.0), Stroke::solid(FRAME, 1.0));
        if last {
            let at = (x, queue.bottom() + 15.0);
            svg.text(at, small.anchored(Anchor::Middle), &scales.time.axis.number(*tick));
        }
    }
}

/// The rate in force, broken where there is none or it is beyond the scale; how far beyond is said in words.
fn draw_in_force(svg: &mut Svg, trace: &Trace, area: Area, scales: &Scales) {
    let y = |mbps: f64| area.bottom() - scales.rate.part(mbps / scales.rate_unit.1) * area.height;
    let most = scales.rate.max * scales.rate_unit.1 * 1.000_001;
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut beyond = 0.0_f64;
    for stretch in &trace.stretches {
        match stretch.rate_mbps {
            Some(mbps) if mbps <= most => points.extend([
                (scales.time.x(area, stretch.from_ms), y(mbps)),
                (scales.time.x(area, stretch.until_ms), y(mbps)),
            ]),
            other => {
                beyond = beyond.max(other.unwrap_or_default());
                if !points.is_empty() {
                    svg.polyline(std::mem::take(&mut points), IN_FORCE);
                }
            }
        }
    }
    if !points.is_empty() {
        svg.polyline(points, IN_FORCE);
    }
    if beyond > 0.0 {
        let words = format!("rate in force up to {}", plain(&rate(beyond)));
        svg.text((area.x, area.y - 4.0), TextStyle::new(10.0, INK), &words);
    }
}

/// Loss in force between nothing and the most there was, which is said in words.
fn draw_loss(svg: &mut Svg, trace: &Trace, area: Area, scales: &Scales) {
    let most = trace.peak_loss();
    if most <= 0.0 {
        return;
    }
    let y = |stretch: &Stretch| area.bottom() - stretch.loss.unwrap_or_default() / most * area.height;
    let points = trace.stretches.iter().flat_map(|stretch| {
        [
            (scales.time.x(area, stretch.from_ms), y(stretch)),
            (scales.time.x(area, stretch.until_ms), y(stretch)),
        ]
    });
    svg.polyline(points.collect(), LOSS);
    let style = TextStyle::new(10.0, ALARM).anchored(Anchor::End);
    svg.text((area.right(), area.y - 4.0), style, &format!("loss up to {}", percent(most)));
}

fn draw_drops(svg: &mut Svg, trace: &Trace, area: Area, scales: &Scales) {
    for stretch in trace.stretches.iter().filter(|stretch| stretch.dropped > 0) {
        let x = scales.time.x(area, stretch.until_ms);
        let tooltip =
            format!("{} dropped", counted(u32::try_from(stretch.dropped).unwrap_or(u32::MAX), "packet"));
        svg.line_with_tooltip(
            (x, area.y - GAP + 1.0),
            (x, area.y - GAP + 1.0 + DROP),
            Stroke::solid(ALARM, 1.4),
            tooltip,
        );
    }
}
