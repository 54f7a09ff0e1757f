//! The figures: goodput by path over time, and every repetition against every other.

mod axis;
mod comparison;
mod legend;
mod lettering;
mod panel;
mod timeline;

pub use comparison::comparison;
pub(crate) use comparison::comparison_of;
pub use timeline::timeline;
pub(crate) use timeline::timeline_of;

use pathbench_record::document::Variant;
use pathbench_record::event::Direction;

/// Width of all figures, in CSS pixels.
pub(crate) const WIDTH: f64 = 900.0;

/// Which part of a result a figure shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Only this variant of the matrix; all when `None`.
    pub variant: Option<Variant>,
    /// Only the data that went this way; both ways added up when `None`.
    pub direction: Option<Direction>,
}
