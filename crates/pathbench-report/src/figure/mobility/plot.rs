//! One plot of the mobility figure: cumulative distributions, or points against a diagonal.

use super::scale::Scale;
use crate::figure::lettering;
use crate::palette::{Colour, FRAME, GRID, INK, MUTED, STALL};
use crate::quantity::duration;
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};

/// How upload and download look where colour does not mean a transport.
pub(super) const UPLOAD: Stroke = Stroke { colour: Colour(0x00, 0x72, 0xb2), width: 2.2, dash: None };
pub(super) const DOWNLOAD: Stroke =
    Stroke { colour: Colour(0xd5, 0x5e, 0x00), width: 2.2, dash: Some((6.0, 3.0)) };

pub(super) struct Plot {
    pub(super) title: String,
    pub(super) scale: Scale,
    /// What the horizontal axis counts.
    pub(super) axis: String,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// Cumulative distributions; values below zero are `abrupt`, the value one is `unity`.
    Curves { curves: Vec<Curve>, abrupt: bool, unity: bool },
    /// mptcp, mpquic.
    Pairs { uploads: Vec<[f64; 2]>, downloads: Vec<[f64; 2]> },
}

/// A cumulative distribution.
pub(super) struct Curve {
    /// Finite, in ascending order.
    pub(super) values: Vec<f64>,
    stroke: Stroke,
}

impl Curve {
    pub(super) fn of(mut values: Vec<f64>, stroke: Stroke) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Self { values, stroke }
    }
}

impl Plot {
    pub(super) fn has_content(&self) -> bool {
        match &self.content {
            Content::Curves { curves, .. } => curves.iter().any(|curve| !curve.values.is_empty()),
            Content::Pairs { uploads, downloads } => !uploads.is_empty() || !downloads.is_empty(),
        }
    }

    pub(super) fn draw(&self, svg: &mut Svg, area: Area) {
        let title = TextStyle::new(11.5, MUTED).bold().anchored(Anchor::Middle);
        let middle = area.x + area.width / 2.0;
        svg.text((middle, area.y - 9.0), title, &lettering::fitted(&self.title, 12.5, area.width));
        if let Content::Curves { abrupt: true, .. } = self.content {
            self.shade_abrupt(svg, area);
        }
        self.draw_columns(svg, area);
        match &self.content {
            Content::Curves { curves, unity, .. } => {
                draw_parts(svg, area);
                if *unity {
                    self.mark_unity(svg, area);
                }
                for curve in curves {
                    self.draw_curve(svg, area, curve);
                }
            }
            Content::Pairs { uploads, downloads } => self.draw_pairs(svg, area, uploads, downloads),
        }
        svg.line((area.x, area.bottom()), (area.right(), area.bottom()), Stroke::solid(FRAME, 1.0));
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        svg.text(
            (middle, area.bottom() + 33.0),
            style,
            &lettering::fitted(&self.axis, 10.5, area.width + 40.0),
        );
    }

    fn x(&self, area: Area, value: f64) -> f64 {
        area.x + self.scale.part(value) * area.width
    }

    fn draw_columns(&self, svg: &mut Svg, area: Area) {
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        let mut free = f64::MIN;
        for (value, words) in &self.scale.ticks {
            let x = self.x(area, *value);
            let width = if words.is_some() { 1.0 } else { 0.5 };
            svg.line((x, area.y), (x, area.bottom()), Stroke::solid(GRID, width));
            // Words that would run into the ones before them are left out.
            let Some(words) = words else { continue };
            let half = lettering::width(words, 10.5) / 2.0;
            if x - half > free {
                svg.text((x, area.bottom() + 16.0), style, words);
                free = x + half + 4.0;
            }
        }
    }

    fn shade_abrupt(&self, svg: &mut Svg, area: Area) {
        let zero = self.x(area, 0.0);
        if zero - area.x < 1.0 {
            return;
        }
        svg.rect(Area { width: zero - area.x, ..area }, STALL);
        svg.line((zero, area.y), (zero, area.bottom()), Stroke::solid(INK, 1.0));
        let style = TextStyle::new(10.0, MUTED).anchored(Anchor::Middle);
        if lettering::width("abrupt", 10.0) + 6.0 < zero - area.x {
            svg.text((f64::midpoint(area.x, zero), area.y + 13.0), style, "abrupt");
        }
    }

    /// Names the two sides of one: on which of them which transport was the faster.
    fn mark_unity(&self, svg: &mut Svg, area: Area) {
        let one = self.x(area, 1.0);
        svg.line((one, area.y), (one, area.bottom()), Stroke::solid(INK, 1.0));
        let style = TextStyle::new(10.0, MUTED);
        svg.text((area.x + 6.0, area.y + 13.0), style, "mptcp faster");
        svg.text((area.right() - 6.0, area.bottom() - 7.0), style.anchored(Anchor::End), "mpquic faster");
        legend_of_directions(svg, (area.right() - 96.0, area.bottom() - 52.0), false);
    }

    fn draw_curve(&self, svg: &mut Svg, area: Area, curve: &Curve) {
        let all = curve.values.len() as f64;
        let y = |count: usize| area.bottom() - count as f64 / all * area.height;
        let mut points = vec![(area.x, area.bottom())];
        for (index, value) in curve.values.iter().enumerate() {
            let x = self.x(area, *value);
            points.extend([(x, y(index)), (x, y(index + 1))]);
        }
        points.push((area.right(), area.y));
        svg.polyline(points, curve.stroke);
    }

    fn draw_pairs(&self, svg: &mut Svg, area: Area, uploads: &[[f64; 2]], downloads: &[[f64; 2]]) {
        let y = |value: f64| area.bottom() - self.scale.part(value) * area.height;
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::End);
        for (value, words) in &self.scale.ticks {
            let width = if words.is_some() { 1.0 } else { 0.5 };
            svg.line((area.x, y(*value)), (area.right(), y(*value)), Stroke::solid(GRID, width));
            if let Some(words) = words {
                svg.text((area.x - 6.0, y(*value) + 3.6), style, words);
            }
        }
        let diagonal = Stroke { colour: INK, width: 1.0, dash: Some((4.0, 3.0)) };
        svg.line((area.x, area.bottom()), (area.right(), area.y), diagonal);
        let words = TextStyle::new(10.0, MUTED);
        svg.text((area.x + 6.0, area.y + 13.0), words, "mpquic slower");
        svg.text((area.right() - 6.0, area.bottom() - 7.0), words.anchored(Anchor::End), "mptcp slower");
        let tooltip =
            |[mptcp, mpquic]: &[f64; 2]| format!("mptcp {}, mpquic {}", duration(*mptcp), duration(*mpquic));
        for pair in uploads {
            svg.dot((self.x(area, pair[0]), y(pair[1])), 3.4, UPLOAD.colour, tooltip(pair));
        }
        for pair in downloads {
            let stroke = Stroke::solid(DOWNLOAD.colour, 1.6);
            svg.ring((self.x(area, pair[0]), y(pair[1])), 3.4, stroke, tooltip(pair));
        }
        legend_of_directions(svg, (area.right() - 96.0, area.bottom() - 52.0), true);
    }
}

/// What the two looks mean, within the plot.
fn legend_of_directions(svg: &mut Svg, (x, y): (f64, f64), points: bool) {
    let style = TextStyle::new(10.0, INK);
    for (row, (name, stroke)) in [("upload", UPLOAD), ("download", DOWNLOAD)].into_iter().enumerate() {
        let y = y + row as f64 * 15.0;
        match (points, row) {
            (true, 0) => svg.dot((x + 10.0, y), 3.4, stroke.colour, String::new()),
            (true, _) => svg.ring((x + 10.0, y), 3.4, Stroke::solid(stroke.colour, 1.6), String::new()),
            (false, _) => svg.line((x, y), (x + 20.0, y), stroke),
        }
        svg.text((x + 26.0, y + 3.5), style, name);
    }
}

/// Lines at round parts of all.
fn draw_parts(svg: &mut Svg, area: Area) {
    let style = TextStyle::new(10.5, MUTED).anchored(Anchor::End);
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let y = area.bottom() - percent / 100.0 * area.height;
        svg.line((area.x, y), (area.right(), y), Stroke::solid(GRID, 1.0));
        svg.text((area.x - 6.0, y + 3.6), style, &format!("{percent:.0} %"));
    }
}
