//! Pictures as PNG with built-in fonts: the same bytes on every machine.

use crate::svg::Svg;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

const REGULAR: &[u8] = include_bytes!("../assets/DejaVuSans.subset.ttf");
const BOLD: &[u8] = include_bytes!("../assets/DejaVuSans-Bold.subset.ttf");

pub(crate) const FILE_SCALE: f32 = 2.0;

/// The maximum number of pixels of a picture; a larger picture is scaled down.
const MOST_PIXELS: f64 = 40e6;

#[derive(Debug, Error)]
pub enum RasterError {
    #[error("the figure `{title}` cannot be drawn: {source}")]
    Svg { title: String, source: usvg::Error },
    #[error("no picture of {width} × {height} pixels can be made")]
    Size { width: u32, height: u32 },
    #[error("the PNG cannot be written: {reason}")]
    Encoding { reason: String },
}

fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut database = fontdb::Database::new();
        database.load_font_data(REGULAR.to_vec());
        database.load_font_data(BOLD.to_vec());
        database.set_sans_serif_family("DejaVu Sans");
        Arc::new(database)
    };
    Arc::clone(FONTS.get_or_init(load))
}

/// `svg` as PNG, `scale` pixels per CSS pixel.
///
/// # Errors
/// [`RasterError`] when the picture has no size or there is no memory for it.
pub fn png(svg: &Svg, scale: f32) -> Result<Vec<u8>, RasterError> {
    let options =
        usvg::Options { fontdb: fonts(), font_family: "DejaVu Sans".to_owned(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(&svg.to_string(), &options)
        .map_err(|source| RasterError::Svg { title: svg.title().to_owned(), source })?;
    let wanted = f64::from(scale.clamp(0.1, 8.0));
    let scale = wanted.min((MOST_PIXELS / (svg.width() * svg.height()).max(1.0)).sqrt());
    let (width, height) = ((svg.width() * scale).ceil() as u32, (svg.height() * scale).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or(RasterError::Size { width, height })?;
    resvg::render(&tree, Transform::from_scale(scale as f32, scale as f32), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| RasterError::Encoding { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::TextStyle;
    use crate::palette::INK;

    fn drawn(text: &str, bold: bool) -> Vec<u8> {
        let mut svg = Svg::new(40.0, "", "").finished(30.0);
        let style = TextStyle::new(16.0, INK);
        svg.text((10.0, 20.0), if bold { style.bold() } else { style }, text);
        png(&svg, 1.0).expect("a small picture")
    }

    #[test]
    fn the_font_has_every_character_that_figures_use() {
        let signs = "▼▲◆→←–…·×÷≥≤≠≈±−µ%§°äöüßéñ✓✗█▁○●";
        for bold in [false, true] {
            let (missing, blank) = (drawn("\u{e000}", bold), drawn(" ", bold));
            for character in ('!'..='~').chain(signs.chars()) {
                let picture = drawn(&character.to_string(), bold);
                assert!(picture != missing && picture != blank, "no glyph for {character:?}, bold: {bold}");
            }
        }
    }

    #[test]
    fn bold_is_another_font() {
        assert_ne!(drawn("mptcp", false), drawn("mptcp", true));
    }

    #[test]
    fn a_huge_picture_is_scaled_down() {
        let svg = Svg::new(900.0, "", "").finished(200_000.0);
        let bytes = png(&svg, 2.0).expect("a picture");
        let side = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        assert!(u64::from(side(16)) * u64::from(side(20)) <= 41_000_000);
    }
}
