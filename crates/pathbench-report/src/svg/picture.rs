//! Pictures as SVG: shapes in, deterministic and escaped text out.

use super::lettering;
use crate::chart::{Anchor, Shape, Stroke, TextStyle};
use crate::palette::{Colour, PAPER};
use crate::quantity::BoundsKind;
use pathbench_record::text::is_deceptive;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

/// Fonts in the viewer's order of search; the rasteriser has `DejaVu Sans` built in.
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
    /// Length of `shapes` and height of the picture without the caption; a page has the caption as text.
    body: Option<(usize, f64)>,
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
    pub(crate) fn new(width: f64, title: &str, description: &str) -> Self {
        let (title, description) = (title.to_owned(), description.to_owned());
        Self { width, height: 0.0, title, description, shapes: String::new(), body: None }
    }

    /// Shapes drawn from now on, below `y`, are the caption.
    pub(crate) fn begin_caption(&mut self, y: f64) {
        self.body = Some((self.shapes.len(), y));
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

    /// `<name attributes/>`; with a tooltip, the element contains a `<title>`.
    fn element(&mut self, name: &str, attributes: &str, tooltip: &str) {
        // Writing to a string cannot fail.
        let _ = match tooltip {
            "" => writeln!(self.shapes, "<{name}{attributes}/>"),
            text => writeln!(self.shapes, "<{name}{attributes}><title>{}</title></{name}>", escaped(text)),
        };
    }

    pub(crate) fn rect(&mut self, area: Area, fill: Colour, tooltip: &str) {
        self.element("rect", &format!("{} fill=\"{fill}\"", corners(area)), tooltip);
    }

    pub(crate) fn swatch(&mut self, area: Area, fill: Colour) {
        self.element("rect", &format!("{} rx=\"2\" fill=\"{fill}\"", corners(area)), "");
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke, tooltip: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        let attributes = format!(" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"{stroke}");
        self.element("line", &attributes, tooltip);
    }

    pub(crate) fn polygon(&mut self, corners: &[(f64, f64)], fill: Colour, tooltip: &str) {
        self.element("polygon", &format!("{} fill=\"{fill}\"", points(corners)), tooltip);
    }

    /// One line through all points, with continuous dashes.
    pub(crate) fn polyline(&mut self, corners: &[(f64, f64)], stroke: Stroke, tooltip: &str) {
        if corners.len() > 1 {
            let attributes = format!("{} fill=\"none\" stroke-linejoin=\"round\"{stroke}", points(corners));
            self.element("polyline", &attributes, tooltip);
        }
    }

    fn segments(&mut self, lines: &[[(f64, f64); 2]], stroke: Stroke) {
        let numbers = lines.iter().map(|[from, to]| [from.0, from.1, to.0, to.1].map(number));
        let path: Vec<String> = numbers.map(|[x1, y1, x2, y2]| format!("M{x1} {y1}L{x2} {y2}")).collect();
        if !path.is_empty() {
            let path = path.concat();
            self.element("path", &format!(" d=\"{path}\" fill=\"none\"{stroke}"), "");
        }
    }

    /// The axes of an area that the page can zoom.
    pub(crate) fn begin_axes(&mut self) {
        self.shapes.push_str("<g class=\"axes\">\n");
    }

    pub(crate) fn end_axes(&mut self) {
        self.shapes.push_str("</g>\n");
    }

    /// An area with its own coordinates, whose values and units the script of the page reads.
    pub(crate) fn begin_zoom(&mut self, area: Area, axes: [(f64, f64, &str); 2]) {
        let [x, y] = axes.map(|(low, high, unit)| format!("{low} {high} {}", escaped(unit)));
        let (width, height) = (number(area.width), number(area.height));
        let _ = writeln!(
            self.shapes,
            "<svg class=\"zoom\"{} viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" data-x=\"{x}\" data-y=\"{y}\">",
            corners(area)
        );
    }

    pub(crate) fn end_zoom(&mut self) {
        self.shapes.push_str("</svg>\n");
    }

    /// Lines as one shape. Their width does not change with the zoom.
    pub(crate) fn path(
        &mut self,
        runs: impl Iterator<Item = Vec<(f64, f64)>>,
        stroke: Stroke,
        tooltip: &str,
    ) {
        let mut path = RelativePath::default();
        runs.for_each(|run| path.run(&run));
        let d = path.data;
        let fixed =
            " stroke-linecap=\"round\" stroke-linejoin=\"round\" vector-effect=\"non-scaling-stroke\"";
        self.element("path", &format!(" d=\"{d}\" fill=\"none\"{stroke}{fixed}"), tooltip);
    }

    /// The bounds of a median from left to right at height `y`: an interval has arms at its ends, a range has none.
    pub(crate) fn bounds(&mut self, kind: BoundsKind, (low, high): (f64, f64), y: f64, colour: Colour) {
        let mut lines = vec![[(low, y), (high, y)]];
        if kind == BoundsKind::Interval {
            lines.extend([low, high].map(|x| [(x, y - 3.0), (x, y + 3.0)]));
        }
        self.segments(&lines, Stroke::solid(colour, 1.2));
    }

    /// A dot with a thin rim in the colour of the paper, so that overlapping dots can be counted.
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
        let circle = format!(" cx=\"{}\" cy=\"{}\" r=\"{}\"", number(x), number(y), number(radius));
        match shape {
            Shape::Dot => {
                let rim = Stroke::solid(PAPER, 0.8);
                let attributes = format!("{circle} fill=\"{colour}\"{rim}");
                self.element("circle", &attributes, tooltip);
            }
            Shape::Ring => self.element("circle", &format!("{circle} fill=\"none\"{outline}"), tooltip),
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
        let (x, y, size) = (number(at.0), number(at.1), number(style.size));
        let bold = if style.bold { " font-weight=\"bold\"" } else { "" };
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (colour, text) = (style.colour, escaped(text));
        let _ = writeln!(
            self.shapes,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{bold}{anchor} fill=\"{colour}\">{text}</text>"
        );
    }

    /// `text` cut to `limit` pixels.
    pub(crate) fn text_within(&mut self, at: (f64, f64), style: TextStyle, text: &str, limit: f64) {
        let widening = if style.bold { lettering::BOLD } else { 1.0 };
        self.text(at, style, &lettering::fitted(text, style.size * widening, limit));
    }

    /// 45° hatching inside `area`, drawn as individual lines: SVG patterns need ids, which collide within one page.
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

/// The data of a path in relative coordinates, which are short.
#[derive(Default)]
struct RelativePath {
    data: String,
    /// The current point, in hundredths.
    at: (i64, i64),
}

impl RelativePath {
    fn run(&mut self, points: &[(f64, f64)]) {
        for (index, (x, y)) in points.iter().enumerate() {
            let to = ((number(*x) * 100.0).round() as i64, (number(*y) * 100.0).round() as i64);
            let (dx, dy) = (to.0 - self.at.0, to.1 - self.at.1);
            self.at = to;
            let [x, y] = [dx, dy].map(|hundredths| hundredths as f64 / 100.0);
            let _ = match (index, dx, dy) {
                (0, ..) => write!(self.data, "m{x} {y}"),
                (_, _, 0) => write!(self.data, "h{x}"),
                (_, 0, _) => write!(self.data, "v{y}"),
                _ => write!(self.data, "l{x} {y}"),
            };
        }
    }
}

/// A coordinate with two decimals; NaN is 0.
fn number(value: f64) -> f64 {
    // The sum has no negative zero.
    if value.is_nan() { 0.0 } else { (value.clamp(-1e7, 1e7) * 100.0).round() / 100.0 + 0.0 }
}

fn corners(Area { x, y, width, height }: Area) -> String {
    let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(number);
    format!(" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

fn points(corners: &[(f64, f64)]) -> String {
    let corners: Vec<String> =
        corners.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    format!(" points=\"{}\"", corners.join(" "))
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Stroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " stroke=\"{}\" stroke-width=\"{}\"", self.colour, number(self.width))?;
        if let Some((on, off)) = self.dash {
            write!(f, " stroke-dasharray=\"{} {}\"", number(on), number(off))?;
        }
        Ok(())
    }
}

/// Text safe as XML content and inside double-quoted attributes. Deceptive characters, including those that XML 1.0
/// forbids, become spaces.
fn escaped(text: &str) -> String {
    let text =
        text.replace(is_deceptive, " ").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

impl Svg {
    /// The picture for a page: without the caption, with custom properties as colours. `id` must be unique in the page.
    pub fn in_page(&self, id: &str) -> String {
        let (length, height) = self.body.unwrap_or((self.shapes.len(), self.height));
        let (width, height) = (number(self.width), number(height));
        let (id, title, description) = (escaped(id), escaped(&self.title), escaped(&self.description));
        let shapes = with_custom_properties(&self.shapes[..length]);
        format!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-description\" font-family=\"{FONTS}\">\n<title \
             id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-description\">{description}</desc>\n{shapes}</svg>"
        )
    }
}

/// Replaces the colours of attributes. Text contains no double quote that is not escaped.
fn with_custom_properties(shapes: &str) -> String {
    const BEFORE: &str = "=\"#";
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let (mut replaced, mut rest) = (String::with_capacity(shapes.len() * 5 / 4), shapes);
    while let Some(at) = rest.find(BEFORE) {
        let (before, colour) = rest.split_at(at + BEFORE.len());
        let (Some(hex), Some(after)) = (colour.get(..6), colour.get(6..)) else { break };
        replaced.push_str(&before[..before.len() - 1]);
        let name = known.entry(hex).or_insert_with(|| {
            let rgb = u32::from_str_radix(hex, 16).map(Colour::from_rgb);
            rgb.map_or_else(|_| format!("#{hex}"), Colour::in_page)
        });
        replaced.push_str(name);
        rest = after;
    }
    replaced + rest
}

/// A style sheet with which a viewer draws the colours of these shapes on dark paper, if the reader prefers it. A style
/// sheet has precedence over attributes; a renderer without style sheets draws the attributes.
fn dark_style(shapes: &[&str]) -> String {
    let mut rules = String::new();
    for attribute in ["fill", "stroke"] {
        let before = format!(" {attribute}=\"#");
        let used =
            shapes.iter().flat_map(|shapes| shapes.split(&before).skip(1)).filter_map(|rest| rest.get(..6));
        for hex in used.collect::<BTreeSet<&str>>() {
            let dark =
                u32::from_str_radix(hex, 16).ok().and_then(|rgb| Colour::from_rgb(rgb).on_dark_paper());
            if let Some(dark) = dark {
                let _ = write!(rules, "[{attribute}=\"#{hex}\"]{{{attribute}:{dark}}}");
            }
        }
    }
    format!("<style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>\n")
}

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (number(self.width), number(self.height));
        let (title, description) = (escaped(&self.title), escaped(&self.description));
        write!(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"")?;
        write!(f, " viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\"")?;
        writeln!(f, " font-family=\"{FONTS}\">\n<title>{title}</title>\n<desc>{description}</desc>")?;
        let paper = format!("<rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>\n");
        writeln!(f, "{}{paper}{}</svg>", dark_style(&[&paper, &self.shapes]), self.shapes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_always_numbers() {
        let shown = |value: f64| number(value).to_string();
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
