//! Times of subflows at two points of capture, until the clocks are known.

use crate::comparison::{Clocks, FlowTimes};
use pathbench_record::trace::TracedSubflow;

/// The times of a subflow of the result, by its index.
#[derive(Debug)]
pub(super) struct KeptTimes {
    subflow: usize,
    times: FlowTimes,
    turned: bool,
}

impl KeptTimes {
    pub(super) fn new(subflow: usize, mut times: FlowTimes, turned: bool, most: usize) -> Self {
        times.limit(most);
        Self { subflow, times, turned }
    }

    /// Offset and delays, when the clocks are known.
    pub(super) fn complete(&self, subflows: &mut [TracedSubflow], clocks: &Clocks) {
        let subflow = subflows.get_mut(self.subflow);
        let Some(comparison) = subflow.and_then(|subflow| subflow.comparison.as_mut()) else { return };
        let Some(found) = clocks.delays(&self.times) else { return };
        let [mut upload, mut download] = found.delays_ms;
        if self.turned {
            std::mem::swap(&mut upload, &mut download);
        }
        (comparison.upload.delay_ms, comparison.download.delay_ms) = (upload, download);
        comparison.clock_offset_ms = Some(if self.turned { -found.offset_ms } else { found.offset_ms });
        comparison.clock_offset_uncertainty_ms = Some(found.uncertainty_ms);
    }
}
