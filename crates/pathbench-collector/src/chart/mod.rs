//! The charts, as data: title, caption, plot and table. Each is drawn as SVG, and exported as CSV and JSON.
//!
//! A chart is built from a filter's results. Everybody sees a group by operator or server only if at least
//! [`LEAST_AGENTS`] people are in it, and a filter by them needs as many.

mod document;
mod gain;
mod mobile;
mod scene;
mod shape;
mod stable;
pub mod table;
mod transport;
mod usage;

pub use crate::columns::LEAST_AGENTS;
pub use document::Chart;
pub use scene::Scene;
pub use table::{Cell, DataTable};

use crate::columns::Dimension::{Kind, Operator, Server};
use document::Meta;
use pathbench_report::plot::Plot;

const WITHHELD: &str = "Fewer than 3 agents: not shown, so that no single one can be recognised.";

/// The name of a chart in addresses, its title, and how it is built.
struct Entry {
    name: &'static str,
    title: &'static str,
    build: fn(&Scene, Meta) -> Chart,
}

const fn entry(name: &'static str, title: &'static str, build: fn(&Scene, Meta) -> Chart) -> Entry {
    Entry { name, title, build }
}

const CHARTS: [Entry; 27] = [
    entry("gain-by-direction", "Gain by direction", gain::by_direction),
    entry("gain", "Gain of multipath", gain::distribution),
    entry("gain-by-network", "Gain by kind of network", |scene, meta| gain::quartiles_by(scene, meta, Kind)),
    entry("gain-by-operator", "Gain by operator", |scene, meta| gain::quartiles_by(scene, meta, Operator)),
    entry("gain-by-server", "Gain by server", |scene, meta| gain::quartiles_by(scene, meta, Server)),
    entry("gain-over-time", "Gain over time", gain::over_time),
    entry("goodput", "Goodput by transport", transport::goodput),
    entry("goodput-over-time", "Goodput over time", transport::goodput_over_time),
    entry("stall", "Longest stall by transport", transport::stall),
    entry("completion-time", "Flow completion time by transport", transport::completion_time),
    entry("max-delay", "Maximum delay by transport", transport::max_delay),
    entry("max-delay-by-network", "Maximum delay by kind of network", transport::max_delay_by_kind),
    entry("delay-under-load", "Delay under load by transport", transport::delay_under_load),
    entry("rpm", "Round trips per minute under load by transport", transport::rpm),
    entry("ipv6-reachability", "QUIC over IPv4 and IPv6 on dual-stack hosts", stable::reachability),
    entry("ipv4-ipv6-completion", "Flow completion time, IPv4 ÷ IPv6", stable::completion),
    entry("mptcp-mpquic", "Multipath TCP ÷ Multipath QUIC", stable::ratios),
    entry("second-path-reasons", "Reason for the use of the second path", mobile::reasons),
    entry("handover-duration", "Handover duration", mobile::durations),
    entry("mobile-max-delay", "Maximum delay of each mobile run", mobile::delays),
    entry("max-delay-ratio", "Maximum delay, mptcp ÷ mpquic", mobile::ratio),
    entry("max-delay-scatter", "Maximum delay, mpquic against mptcp", mobile::scatter),
    entry("usage", "Usage", usage::totals),
    entry("usage-per-day", "Results per day", usage::per_day),
    entry("usage-by-server", "Results by server", |scene, meta| usage::counts_by(scene, meta, Server)),
    entry("usage-by-operator", "Results by operator", |scene, meta| usage::counts_by(scene, meta, Operator)),
    entry("usage-by-network", "Results by kind of network", |scene, meta| {
        usage::counts_by(scene, meta, Kind)
    }),
];

/// Name and title of each chart.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHARTS.iter().map(|one| (one.name, one.title))
}

/// The charts of the front page.
pub const FRONT: [&str; 7] =
    ["gain-by-direction", "gain", "goodput", "stall", "gain-by-network", "mobile-max-delay", "usage-per-day"];

impl Scene<'_> {
    /// The chart of this name.
    pub fn chart(&self, name: &str) -> Option<Chart> {
        let entry = CHARTS.iter().find(|one| one.name == name)?;
        let meta = Meta {
            name: entry.name,
            title: entry.title,
            caption: Vec::new(),
            x_title: "",
            corners: ["", ""],
            noun: "values",
        };
        if self.is_withheld {
            let mut chart = Chart::new(meta, 0, Plot::default(), DataTable::default());
            chart.plot.empty = WITHHELD;
            chart.plot.caption.clear();
            return Some(chart);
        }
        Some((entry.build)(self, meta))
    }
}
