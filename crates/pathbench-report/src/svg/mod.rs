//! Pictures as SVG: shapes in, deterministic and escaped text out.

mod chart;
mod lettering;

pub(crate) use chart::draw;

use crate::chart::{Anchor, Shape, Stroke};
use crate::palette::{Colour, PAPER};
use crate::quantity::BoundsKind;
use pathbench_record::text::is_deceptive;
use std::fmt::{self, Write as _};

/// Fonts in the order in which a viewer looks for them; the rasteriser has `DejaVu Sans` built in.
const FONTS: &str =
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/// A finished picture, `width` × `height` CSS pixels. `to_string` gives the SVG document.
#[derive(Debug, Clone, PartialEq)]
pub struct Svg {
    width: f64,
    height: f64,
    title: String,
    description: String,
    shapes: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TextStyle {
    pub(crate) size: f64,
    pub(crate) colour: Colour,
    pub(crate) bold: bool,
    pub(crate) anchor: Anchor,
}

impl TextStyle {
    pub(crate) const fn new(size: f64, colour: Colour) -> Self {
        Self { size, colour, bold: false, anchor: Anchor::Start }
    }

    pub(crate) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(crate) const fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Area {
    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

impl Svg {
    /// An empty picture on white paper. `title` and `description` are what a screen reader says.
    pub(crate) fn new(width: f64, title: &str, description: &str) -> Self {
        let (title, description) = (title.to_owned(), description.to_owned());
        Self { width, height: 0.0, title, description, shapes: String::new() }
    }

    pub(crate) fn finished(self, height: f64) -> Self {
        Self { height, ..self }
    }

    pub fn width(&self) -> f64 {
        self.width
    }

    pub fn height(&self) -> f64 {
        self.height
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// `<name attributes/>`, or with a `<title>` in it where there is a tooltip.
    fn element(&mut self, name: &str, attributes: fmt::Arguments<'_>, tooltip: &str) {
        // Writing to a string cannot fail.
        let _ = match tooltip {
            "" => writeln!(self.shapes, "<{name}{attributes}/>"),
            text => writeln!(self.shapes, "<{name}{attributes}><title>{}</title></{name}>", Escaped(text)),
        };
    }

    pub(crate) fn rect(&mut self, area: Area, fill: Colour, tooltip: &str) {
        self.element("rect", format_args!("{} fill=\"{fill}\"", Corners(area)), tooltip);
    }

    pub(crate) fn swatch(&mut self, area: Area, fill: Colour) {
        self.element("rect", format_args!("{} rx=\"2\" fill=\"{fill}\"", Corners(area)), "");
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        self.line_with_tooltip(from, to, stroke, "");
    }

    pub(crate) fn line_with_tooltip(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        stroke: Stroke,
        tooltip: &str,
    ) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(Number);
        let attributes = format_args!(" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"{stroke}");
        self.element("line", attributes, tooltip);
    }

    pub(crate) fn polygon(&mut self, points: &[(f64, f64)], fill: Colour, tooltip: &str) {
        self.element("polygon", format_args!("{} fill=\"{fill}\"", Points(points)), tooltip);
    }

    /// One line through all points, so that its dashes run on.
    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke, tooltip: &str) {
        if points.len() > 1 {
            let attributes =
                format_args!("{} fill=\"none\" stroke-linejoin=\"round\"{stroke}", Points(points));
            self.element("polyline", attributes, tooltip);
        }
    }

    fn segments(&mut self, lines: &[[(f64, f64); 2]], stroke: Stroke) {
        let mut path = String::new();
        for [from, to] in lines {
            let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(Number);
            let _ = write!(path, "M{x1} {y1}L{x2} {y2}");
        }
        if !path.is_empty() {
            self.element("path", format_args!(" d=\"{path}\" fill=\"none\"{stroke}"), "");
        }
    }

    /// The bounds of a median from left to right at height `y`: an interval has arms at its ends, a range has none.
    pub(crate) fn bounds(&mut self, kind: BoundsKind, (low, high): (f64, f64), y: f64, colour: Colour) {
        let mut lines = vec![[(low, y), (high, y)]];
        if kind == BoundsKind::Interval {
            lines.extend([low, high].map(|x| [(x, y - 3.0), (x, y + 3.0)]));
        }
        self.segments(&lines, Stroke::solid(colour, 1.2));
    }

    /// A dot has a thin white rim, so that dots on top of each other can be counted.
    pub(crate) fn point(
        &mut self,
        shape: Shape,
        (x, y): (f64, f64),
        radius: f64,
        colour: Colour,
        tooltip: &str,
    ) {
        let outline = Stroke::solid(colour, 1.6);
        let [left, right, top, bottom] = [x - radius, x + radius, y - radius, y + radius];
        let circle = format!(" cx=\"{}\" cy=\"{}\" r=\"{}\"", Number(x), Number(y), Number(radius));
        match shape {
            Shape::Dot => {
                let rim = Stroke::solid(PAPER, 0.8);
                let attributes = format_args!("{circle} fill=\"{colour}\" fill-opacity=\"0.72\"{rim}");
                self.element("circle", attributes, tooltip);
            }
            Shape::Ring => self.element("circle", format_args!("{circle} fill=\"none\"{outline}"), tooltip),
            Shape::Cross => {
                self.segments(&[[(left, top), (right, bottom)], [(left, bottom), (right, top)]], outline);
            }
            Shape::Triangle => self.polygon(&[(left, bottom), (right, bottom), (x, top)], colour, tooltip),
        }
    }

    pub(crate) fn text(&mut self, at: (f64, f64), style: TextStyle, text: &str) {
        if text.is_empty() {
            return;
        }
        let (x, y, size) = (Number(at.0), Number(at.1), Number(style.size));
        let bold = if style.bold { " font-weight=\"bold\"" } else { "" };
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (colour, text) = (style.colour, Escaped(text));
        let _ = writeln!(
            self.shapes,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{bold}{anchor} fill=\"{colour}\">{text}</text>"
        );
    }

    /// 45° hatching inside `area`, drawn as lines of its own: patterns need ids, which collide in one page.
    pub(crate) fn hatching(&mut self, area: Area, step: f64, stroke: Stroke) {
        self.segments(&hatches(area, step), stroke);
    }
}

/// Lines x − y = constant, aligned to the picture's origin so that neighbouring areas match.
fn hatches(area: Area, step: f64) -> Vec<[(f64, f64); 2]> {
    let first = ((area.x - area.bottom()) / step).ceil() as i64;
    let last = ((area.right() - area.y) / step).floor() as i64;
    let line = |index: i64| {
        let offset = index as f64 * step;
        let (top, bottom) = (area.y.max(area.x - offset), area.bottom().min(area.right() - offset));
        (bottom > top).then_some([(top + offset, top), (bottom + offset, bottom)])
    };
    (first..=last).filter_map(line).collect()
}

/// A coordinate with two decimals and no needless zeros; what is not finite is 0.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.0.clamp(-1e7, 1e7) * 100.0).round();
        let hundredths = if hundredths.is_finite() { hundredths as i64 } else { 0 };
        let sign = if hundredths < 0 { "-" } else { "" };
        let (whole, part) = (hundredths.abs() / 100, hundredths.abs() % 100);
        match (part, part % 10) {
            (0, _) => write!(f, "{sign}{whole}"),
            (_, 0) => write!(f, "{sign}{whole}.{}", part / 10),
            _ => write!(f, "{sign}{whole}.{part:02}"),
        }
    }
}

struct Corners(Area);

impl fmt::Display for Corners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Area { x, y, width, height } = self.0;
        let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(Number);
        write!(f, " x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
    }
}

struct Points<'a>(&'a [(f64, f64)]);

impl fmt::Display for Points<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(" points=\"")?;
        for (index, (x, y)) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{},{}", Number(*x), Number(*y))?;
        }
        f.write_str("\"")
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Stroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " stroke=\"{}\" stroke-width=\"{}\"", self.colour, Number(self.width))?;
        if let Some((on, off)) = self.dash {
            write!(f, " stroke-dasharray=\"{} {}\"", Number(on), Number(off))?;
        }
        Ok(())
    }
}

/// Text safe as XML content and inside double-quoted attributes; deceptive characters, and with them those that XML 1.0
/// forbids, become spaces.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                deceptive if is_deceptive(deceptive) => f.write_char(' ')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (Number(self.width), Number(self.height));
        let (title, description) = (Escaped(&self.title), Escaped(&self.description));
        write!(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"")?;
        write!(f, " viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\"")?;
        writeln!(f, " font-family=\"{FONTS}\">\n<title>{title}</title>\n<desc>{description}</desc>")?;
        writeln!(f, "<rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>")?;
        writeln!(f, "{}</svg>", self.shapes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::INK;

    #[test]
    fn text_is_escaped_and_control_characters_go() {
        let mut svg = Svg::new(10.0, "a\"b", "c&d");
        svg.text((1.0, 2.0), TextStyle::new(9.0, INK), "<script>alert('1')</script>\u{1b}[0m");
        let text = svg.to_string();
        assert!(text.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; [0m"));
        assert!(text.contains("aria-label=\"a&quot;b\""));
        assert!(!text.contains("<script>"));
    }

    #[test]
    fn numbers_are_short_and_always_numbers() {
        let shown = |value: f64| Number(value).to_string();
        assert_eq!(shown(1.0), "1");
        assert_eq!(shown(-0.5), "-0.5");
        assert_eq!(shown(-0.001), "0");
        assert_eq!(shown(2.345_6), "2.35");
        assert_eq!(shown(2.05), "2.05");
        assert_eq!(shown(f64::NAN), "0");
        assert_eq!(shown(f64::INFINITY), "10000000");
    }

    #[test]
    fn hatching_stays_inside() {
        let lines = hatches(Area { x: 10.0, y: 20.0, width: 33.0, height: 7.0 }, 5.0);
        assert!(lines.len() >= 7);
        for (x, y) in lines.iter().flatten() {
            assert!((10.0..=43.0).contains(x) && (20.0..=27.0).contains(y), "({x}, {y}) lies outside");
        }
    }
}
