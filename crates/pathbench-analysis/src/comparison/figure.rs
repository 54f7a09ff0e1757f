//! The figures by which runs are compared, and their scales.

use super::rule::MARGIN;

/// The figures by which the groups of a pattern are compared: its main figure, and the longest stall of bulk data.
pub fn figures_of(pattern: &str) -> &'static [&'static str] {
    match pattern.split('-').next().unwrap_or_default() {
        "ping" => &["ping_ms"],
        "bulk" => &["fct_ms"],
        "interactive" => &["delay_p95_ms"],
        "responsiveness" => &["self_loaded_p50_ms"],
        "datagrams" => &["datagram_loss", "datagram_jitter_ms"],
        _ => &["goodput_mbps", "stall_ms"],
    }
}

/// Whether a smaller value of the figure is the better one.
pub fn smaller_is_better(figure: &str) -> bool {
    figure != "goodput_mbps"
}

/// The scale on which a figure is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// Positive figures: candidate ÷ baseline, computed from logarithms.
    Ratio,
    /// Figures that can be zero or negative: candidate − baseline. Effects below the smallest difference do not count, even
    /// where they are a large part of the baseline.
    Difference { smallest: f64 },
}

impl Measure {
    /// Stalls are known to 10 ms, and those of up to 20 ms as 0 or 10 ms (docs/metrics.md); a dip is a part of 1.
    pub fn of_figure(figure: &str) -> Self {
        match figure {
            "dip" => Self::Difference { smallest: MARGIN },
            // Parts of 1, often 0.
            "datagram_loss" | "datagram_late_share" => Self::Difference { smallest: 0.001 },
            "stall_ms" | "recovery_ms" | "failback_ms" | "hung_ms" => Self::Difference { smallest: 20.0 },
            _ => Self::Ratio,
        }
    }
}
