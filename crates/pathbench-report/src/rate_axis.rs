//! The end of an axis of goodput. Data that waited behind a gap reaches the application at once, so that one window can
//! exceed the rate of the links many times: such a window is marked with its value and does not set the scale.

use crate::carriage::capacity_mbps;
use crate::view::View;
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use pathbench_record::statistics::quantile;

/// Windows up to this multiple of the links' rate, or of the percentile, are within the axis.
const HEADROOM: f64 = 1.1;

/// Of the windows with data, where the rate of the links is unknown.
const PERCENTILE: f64 = 0.99;

/// The highest value on the axis of a run with these windows: at most the rate of the links that the run used. `None`
/// without a limit.
pub(crate) fn limit_mbps(
    view: &View,
    run: &RunRecord,
    direction: Option<Direction>,
    windows: &[f64],
) -> Option<f64> {
    let usual = || {
        let carrying: Vec<f64> = windows.iter().copied().filter(|mbps| *mbps > 0.0).collect();
        quantile(&carrying, PERCENTILE)
    };
    Some(capacity_mbps(view, run, direction).or_else(usual)? * HEADROOM)
}

/// The highest window within the limit.
pub(crate) fn end_mbps(view: &View, run: &RunRecord, direction: Option<Direction>, windows: &[f64]) -> f64 {
    let peak = windows.iter().copied().fold(0.0, f64::max);
    limit_mbps(view, run, direction, windows).map_or(peak, |limit| peak.min(limit))
}

/// The value up to which the axis has ticks: the rate of the links where the axis ends above it.
pub(crate) fn nominal_mbps(end_mbps: f64) -> f64 {
    end_mbps / HEADROOM
}

/// A window that exceeds the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Excess {
    pub(crate) window: usize,
    pub(crate) mbps: f64,
}

/// The windows above `end_mbps`; of neighbours the highest.
pub(crate) fn excesses(windows: &[f64], end_mbps: f64) -> Vec<Excess> {
    let mut found: Vec<Excess> = Vec::new();
    let above = |mbps: f64| mbps > end_mbps * (1.0 + 1e-9);
    for (window, &mbps) in windows.iter().enumerate().filter(|(_, mbps)| above(**mbps)) {
        let is_next = window > 0 && above(windows[window - 1]);
        match found.last_mut().filter(|_| is_next) {
            Some(last) if last.mbps < mbps => *last = Excess { window, mbps },
            Some(_) => {}
            None => found.push(Excess { window, mbps }),
        }
    }
    found
}
