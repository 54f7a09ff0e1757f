//! Figures as SVG.

mod chart;
mod lettering;
mod picture;
mod plot;

pub(crate) use chart::draw;
pub use picture::Svg;
