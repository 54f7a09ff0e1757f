//! Pictures as SVG: shapes in, deterministic and escaped text out.

mod chart;
mod lettering;

pub(crate) use chart::draw;

use crate::chart::{Anchor, Shape as PointShape, Stroke};
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
    shapes: Vec<Shape>,
}

/// The look of a text.
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

/// An axis-parallel rectangle.
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

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Rect { area: Area, fill: Colour, radius: f64, tooltip: String },
    Line { from: (f64, f64), to: (f64, f64), stroke: Stroke, tooltip: String },
    Polygon { points: Vec<(f64, f64)>, fill: Colour, tooltip: String },
    Segments { lines: Vec<[(f64, f64); 2]>, stroke: Stroke },
    Polyline { points: Vec<(f64, f64)>, stroke: Stroke, tooltip: String },
    Circle { centre: (f64, f64), radius: f64, fill: Option<Colour>, stroke: Stroke, tooltip: String },
    Text { at: (f64, f64), style: TextStyle, text: String },
}

impl Svg {
    /// An empty picture on white paper. `title` and `description` are what a screen reader says.
    pub(crate) fn new(width: f64, title: &str, description: &str) -> Self {
        Self {
            width,
            height: 0.0,
            title: title.to_owned(),
            description: description.to_owned(),
            shapes: Vec::new(),
        }
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

    pub(crate) fn rect(&mut self, area: Area, fill: Colour, tooltip: &str) {
        self.shapes.push(Shape::Rect { area, fill, radius: 0.0, tooltip: tooltip.to_owned() });
    }

    pub(crate) fn swatch(&mut self, area: Area, fill: Colour) {
        self.shapes.push(Shape::Rect { area, fill, radius: 2.0, tooltip: String::new() });
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
        self.shapes.push(Shape::Line { from, to, stroke, tooltip: tooltip.to_owned() });
    }

    pub(crate) fn polygon(&mut self, points: Vec<(f64, f64)>, fill: Colour, tooltip: &str) {
        self.shapes.push(Shape::Polygon { points, fill, tooltip: tooltip.to_owned() });
    }

    fn segments(&mut self, lines: Vec<[(f64, f64); 2]>, stroke: Stroke) {
        if !lines.is_empty() {
            self.shapes.push(Shape::Segments { lines, stroke });
        }
    }

    /// One line through all points, so that its dashes run on.
    pub(crate) fn polyline(&mut self, points: Vec<(f64, f64)>, stroke: Stroke, tooltip: &str) {
        if points.len() > 1 {
            self.shapes.push(Shape::Polyline { points, stroke, tooltip: tooltip.to_owned() });
        }
    }

    /// The bounds of a median from left to right at height `y`: an interval has arms at its ends, a range has none.
    pub(crate) fn bounds(&mut self, kind: BoundsKind, (low, high): (f64, f64), y: f64, colour: Colour) {
        let mut lines = vec![[(low, y), (high, y)]];
        if kind == BoundsKind::Interval {
            lines.extend([low, high].map(|x| [(x, y - 3.0), (x, y + 3.0)]));
        }
        self.segments(lines, Stroke::solid(colour, 1.2));
    }

    /// A point; a dot has a thin white rim, so that dots on top of each other can be counted.
    pub(crate) fn point(
        &mut self,
        shape: PointShape,
        (x, y): (f64, f64),
        radius: f64,
        colour: Colour,
        tooltip: &str,
    ) {
        let outline = Stroke::solid(colour, 1.6);
        match shape {
            PointShape::Dot | PointShape::Ring => {
                let is_dot = shape == PointShape::Dot;
                self.shapes.push(Shape::Circle {
                    centre: (x, y),
                    radius,
                    fill: is_dot.then_some(colour),
                    stroke: if is_dot { Stroke::solid(PAPER, 0.8) } else { outline },
                    tooltip: tooltip.to_owned(),
                });
            }
            PointShape::Cross => {
                let [left, right, top, bottom] = [x - radius, x + radius, y - radius, y + radius];
                let lines = vec![[(left, top), (right, bottom)], [(left, bottom), (right, top)]];
                self.segments(lines, outline);
            }
            PointShape::Triangle => {
                let corners = vec![(x - radius, y + radius), (x + radius, y + radius), (x, y - radius)];
                self.polygon(corners, colour, tooltip);
            }
        }
    }

    pub(crate) fn text(&mut self, at: (f64, f64), style: TextStyle, text: &str) {
        if !text.is_empty() {
            self.shapes.push(Shape::Text { at, style, text: text.to_owned() });
        }
    }

    /// 45° hatching inside `area`, drawn as lines of its own: patterns need ids, which collide in one page.
    pub(crate) fn hatching(&mut self, area: Area, step: f64, stroke: Stroke) {
        let mut lines = Vec::new();
        // Lines x − y = constant, aligned to the picture's origin so that neighbouring areas match.
        let first = ((area.x - area.bottom()) / step).ceil() as i64;
        let last = ((area.right() - area.y) / step).floor() as i64;
        for index in first..=last {
            let offset = index as f64 * step;
            let top = (area.y).max(area.x - offset);
            let bottom = (area.bottom()).min(area.right() - offset);
            if bottom > top {
                lines.push([(top + offset, top), (bottom + offset, bottom)]);
            }
        }
        self.segments(lines, stroke);
    }
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

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
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

impl fmt::Display for Stroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " stroke=\"{}\" stroke-width=\"{}\"", self.colour, Number(self.width))?;
        if let Some((on, off)) = self.dash {
            write!(f, " stroke-dasharray=\"{} {}\"", Number(on), Number(off))?;
        }
        Ok(())
    }
}

fn close(f: &mut fmt::Formatter<'_>, name: &str, tooltip: &str) -> fmt::Result {
    if tooltip.is_empty() {
        return f.write_str("/>\n");
    }
    writeln!(f, "><title>{}</title></{name}>", Escaped(tooltip))
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rect { area, fill, radius, tooltip } => {
                let Area { x, y, width, height } = *area;
                let (width, height) = (Number(width.max(0.0)), Number(height.max(0.0)));
                write!(
                    f,
                    "<rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\"",
                    Number(x),
                    Number(y)
                )?;
                if *radius > 0.0 {
                    write!(f, " rx=\"{}\"", Number(*radius))?;
                }
                write!(f, " fill=\"{fill}\"")?;
                close(f, "rect", tooltip)
            }
            Self::Line { from, to, stroke, tooltip } => {
                let ((x1, y1), (x2, y2)) = (*from, *to);
                write!(f, "<line x1=\"{}\" y1=\"{}\" x2=\"{}\"", Number(x1), Number(y1), Number(x2))?;
                write!(f, " y2=\"{}\"{stroke}", Number(y2))?;
                close(f, "line", tooltip)
            }
            Self::Polygon { points, fill, tooltip } => {
                f.write_str("<polygon points=\"")?;
                write_points(f, points)?;
                write!(f, "\" fill=\"{fill}\"")?;
                close(f, "polygon", tooltip)
            }
            Self::Polyline { points, stroke, tooltip } => {
                f.write_str("<polyline points=\"")?;
                write_points(f, points)?;
                write!(f, "\" fill=\"none\" stroke-linejoin=\"round\"{stroke}")?;
                close(f, "polyline", tooltip)
            }
            Self::Segments { lines, stroke } => {
                f.write_str("<path d=\"")?;
                for [(x1, y1), (x2, y2)] in lines {
                    write!(f, "M{} {}L{} {}", Number(*x1), Number(*y1), Number(*x2), Number(*y2))?;
                }
                writeln!(f, "\" fill=\"none\"{stroke}/>")
            }
            Self::Circle { centre, radius, fill, stroke, tooltip } => {
                let (x, y) = *centre;
                write!(f, "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"", Number(x), Number(y), Number(*radius))?;
                match fill {
                    Some(colour) => write!(f, " fill=\"{colour}\" fill-opacity=\"0.72\"")?,
                    None => f.write_str(" fill=\"none\"")?,
                }
                write!(f, "{stroke}")?;
                close(f, "circle", tooltip)
            }
            Self::Text { at, style, text } => write_text(f, *at, *style, text),
        }
    }
}

fn write_points(f: &mut fmt::Formatter<'_>, points: &[(f64, f64)]) -> fmt::Result {
    for (index, (x, y)) in points.iter().enumerate() {
        let gap = if index == 0 { "" } else { " " };
        write!(f, "{gap}{},{}", Number(*x), Number(*y))?;
    }
    Ok(())
}

fn write_text(f: &mut fmt::Formatter<'_>, at: (f64, f64), style: TextStyle, text: &str) -> fmt::Result {
    write!(f, "<text x=\"{}\" y=\"{}\" font-size=\"{}\"", Number(at.0), Number(at.1), Number(style.size))?;
    if style.bold {
        f.write_str(" font-weight=\"bold\"")?;
    }
    match style.anchor {
        Anchor::Start => {}
        Anchor::Middle => f.write_str(" text-anchor=\"middle\"")?,
        Anchor::End => f.write_str(" text-anchor=\"end\"")?,
    }
    writeln!(f, " fill=\"{}\">{}</text>", style.colour, Escaped(text))
}

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (Number(self.width), Number(self.height));
        write!(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"")?;
        write!(f, " viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\"", Escaped(&self.title))?;
        writeln!(f, " font-family=\"{FONTS}\">")?;
        writeln!(f, "<title>{}</title>", Escaped(&self.title))?;
        writeln!(f, "<desc>{}</desc>", Escaped(&self.description))?;
        writeln!(f, "<rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>")?;
        for shape in &self.shapes {
            write!(f, "{shape}")?;
        }
        f.write_str("</svg>\n")
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
        let area = Area { x: 10.0, y: 20.0, width: 33.0, height: 7.0 };
        let mut svg = Svg::new(100.0, "", "");
        svg.hatching(area, 5.0, Stroke::solid(INK, 1.0));
        let Some(Shape::Segments { lines, .. }) = svg.shapes.last() else { panic!("no hatching") };
        assert!(lines.len() >= 7);
        for (x, y) in lines.iter().flatten() {
            assert!((10.0..=43.0).contains(x) && (20.0..=27.0).contains(y), "({x}, {y}) lies outside");
        }
    }
}
