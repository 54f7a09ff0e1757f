//! Comparisons of repeated measurements: rank statistics with exact intervals, and the rule that turns them into a
//! verdict. No assumption on the distribution of the figures; pure.

mod correction;
mod description;
mod estimate;
mod figure;
mod null;
mod rule;
mod study;

pub use correction::{holm, largest_family};
pub use description::{cliffs_delta, jains_index};
pub use estimate::{Estimate, paired, unpaired};
pub use figure::{Measure, figures_of, smaller_is_better};
pub use rule::{MARGIN, Rule, judge, repetitions_needed};
pub use study::{FigureChange, MOST_COMPARISONS, across, changes, complete, of_runs, summarise_runs};
