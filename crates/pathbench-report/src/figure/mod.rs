//! The figures: goodput by path over time, delay over time and as a distribution, and every repetition against every
//! other.

mod axis;
mod comparison;
mod delay;
mod distribution;
mod event;
mod legend;
mod lettering;
mod link;
mod matrix;
mod measure;
mod mobility;
mod mtu;
mod packet_sizes;
mod panel;
mod timeline;

pub use comparison::{comparison, overview};
pub(crate) use comparison::{comparison_of, overview_of};
pub use delay::delay;
pub(crate) use delay::delay_of;
pub use distribution::distribution;
pub(crate) use distribution::distribution_of;
pub use link::links;
pub(crate) use link::links_of;
pub use matrix::matrix;
pub(crate) use matrix::matrix_of;
pub use mobility::mobility;
pub(crate) use mobility::mobility_of;
pub use mtu::mtu;
pub(crate) use mtu::mtu_of;
pub use packet_sizes::packet_sizes;
pub(crate) use packet_sizes::packet_sizes_of;
pub use timeline::timeline;
pub(crate) use timeline::timeline_of;

use crate::view::GroupView;
use pathbench_record::direction::Direction;
use pathbench_record::document::Variant;

/// Width of all figures, in CSS pixels.
pub(crate) const WIDTH: f64 = 900.0;

/// Which part of a result a figure shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Only this variant of the matrix; all when `None`.
    pub variant: Option<Variant>,
    /// Only this pattern; all when `None`.
    pub pattern: Option<String>,
    /// Only the data that went this way; both ways added up when `None`.
    pub direction: Option<Direction>,
}

impl Selection {
    fn has_pattern(&self, group: &GroupView) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern == group.pattern.name)
    }

    fn has(&self, group: &GroupView) -> bool {
        self.has_pattern(group) && self.variant.as_ref().is_none_or(|variant| variant == group.variant)
    }

    /// What a title says of the pattern: `, bulk`.
    fn of_pattern(&self) -> String {
        self.pattern.as_ref().map_or(String::new(), |pattern| format!(", {pattern}"))
    }
}
