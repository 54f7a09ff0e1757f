//! The charts, as data: title, caption, plot and table. Each is drawn as SVG, and exported as CSV and JSON.
//!
//! A chart is built from a filter's results. Everybody sees a group by operator or server only if at least
//! [`LEAST_AGENTS`] agents are in it, and a filter by them needs as many.

mod gain;
mod mobile;
mod shape;
mod stable;
pub mod table;
mod transport;
mod usage;

pub use table::{Cell, Table};

use crate::columns::{Columns, Dimension, Filter, Period, Selection};
use crate::viewer::Viewer;
use pathbench_record::time::rfc3339_from_unix;
use pathbench_record::transport::Transport;
use pathbench_report::plot::{self, Hue, Marks, Plot};
use pathbench_report::svg::Svg;
use serde_json::{Value, json};

/// Distinct agents of a group that everybody may see.
pub const LEAST_AGENTS: u64 = 3;

/// Groups of a chart.
const MOST_GROUPS: usize = 12;

/// Points of a course over time.
const MOST_PERIODS: usize = 60;

const EMPTY: &str = "No results with this figure.";
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

const CHARTS: [Entry; 24] = [
    entry("gain", "Gain of multipath", gain::distribution),
    entry("gain-by-network", "Gain by kind of network", |scene, meta| gain::by(scene, meta, Dimension::Kind)),
    entry("gain-by-operator", "Gain by operator", |scene, meta| gain::by(scene, meta, Dimension::Operator)),
    entry("gain-by-server", "Gain by server", |scene, meta| gain::by(scene, meta, Dimension::Server)),
    entry("gain-over-time", "Gain over time", gain::over_time),
    entry("goodput", "Goodput by transport", transport::goodput),
    entry("goodput-over-time", "Goodput over time", transport::goodput_over_time),
    entry("stall", "Longest stall by transport", transport::stall),
    entry("completion-time", "Flow completion time by transport", transport::completion_time),
    entry("max-delay", "Maximum delay by transport", transport::max_delay),
    entry("max-delay-by-network", "Maximum delay by kind of network", transport::max_delay_by_kind),
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
    entry("usage-by-server", "Results by server", |scene, meta| usage::by(scene, meta, Dimension::Server)),
    entry("usage-by-operator", "Results by operator", |scene, meta| {
        usage::by(scene, meta, Dimension::Operator)
    }),
    entry("usage-by-network", "Results by kind of network", |scene, meta| {
        usage::by(scene, meta, Dimension::Kind)
    }),
];

/// Name and title of each chart.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHARTS.iter().map(|one| (one.name, one.title))
}

/// The charts of the front page.
pub const FRONT: [&str; 6] =
    ["gain", "goodput", "stall", "gain-by-network", "mobile-max-delay", "usage-per-day"];

#[derive(Debug, Clone)]
pub(crate) struct Meta {
    name: &'static str,
    title: &'static str,
    caption: Vec<String>,
    x_title: &'static str,
    corners: [&'static str; 2],
    /// What `n` counts.
    noun: &'static str,
}

impl Meta {
    fn caption(mut self, paragraph: &str) -> Self {
        self.caption.push(paragraph.to_owned());
        self
    }

    fn counting(self, noun: &'static str) -> Self {
        Self { noun, ..self }
    }

    fn x(self, x_title: &'static str) -> Self {
        Self { x_title, ..self }
    }

    fn corners(self, upper_left: &'static str, lower_right: &'static str) -> Self {
        Self { corners: [upper_left, lower_right], ..self }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub name: &'static str,
    /// Values that the chart is drawn from.
    pub n: u64,
    pub plot: Plot,
    /// For reading.
    pub table: Table,
    /// For files: all points.
    data: Option<Table>,
}

impl Chart {
    fn new(meta: Meta, n: u64, plot: Plot, table: Table) -> Self {
        let mut caption = meta.caption;
        caption.insert(0, format!("n = {} {}.", table::grouped(n), meta.noun));
        let axes = plot.axes.filter(|_| n > 0);
        let x_title = if plot.x_title.is_empty() { meta.x_title.to_owned() } else { plot.x_title };
        let plot = Plot {
            title: meta.title.to_owned(),
            caption: vec![caption.join(" ")],
            axes,
            x_title,
            corners: meta.corners.map(str::to_owned),
            empty: EMPTY,
            ..plot
        };
        Self { name: meta.name, n, plot, table, data: None }
    }

    /// Of a chart whose values are counted several times.
    fn set_n(&mut self, n: u64) {
        let words = |n| format!("n = {} ", table::grouped(n));
        if let Some(caption) = self.plot.caption.first_mut() {
            *caption = caption.replacen(&words(self.n), &words(n), 1);
        }
        self.n = n;
    }

    fn with_data(self, data: Table) -> Self {
        Self { data: Some(data), ..self }
    }

    pub fn title(&self) -> &str {
        &self.plot.title
    }

    pub fn caption(&self) -> &str {
        self.plot.caption.first().map_or("", String::as_str)
    }

    pub fn svg(&self) -> Svg {
        plot::draw(&self.plot)
    }

    pub fn csv(&self) -> String {
        self.data.as_ref().unwrap_or(&self.table).csv()
    }

    pub fn json(&self) -> Value {
        let series = self.plot.series.iter().filter_map(|series| {
            let points = match &series.marks {
                Marks::Line(points) | Marks::Course(points) | Marks::Points(points) => points,
                Marks::Columns(..) | Marks::Bars(_) => return None,
            };
            Some(json!({ "name": series.name, "points": points }))
        });
        json!({
            "name": self.name,
            "title": self.title(),
            "caption": self.caption(),
            "n": self.n,
            "table": self.table.json(),
            "series": series.collect::<Vec<_>>(),
        })
    }
}

/// The results of a filter.
pub struct Scene<'a> {
    columns: &'a Columns,
    selection: Selection,
    transports: Vec<Transport>,
    viewer: Viewer,
    is_withheld: bool,
}

impl<'a> Scene<'a> {
    pub fn new(columns: &'a Columns, filter: &Filter) -> Self {
        let selection = columns.select(filter);
        let is_named = filter.operator.is_some() || filter.server.is_some() || filter.text.is_some();
        let is_withheld = filter.viewer == Viewer::Everybody
            && is_named
            && !selection.is_empty()
            && columns.distinct(&selection).0 < LEAST_AGENTS;
        let is_wanted = |one: &Transport| filter.transports.is_empty() || filter.transports.contains(one);
        let transports = Transport::ALL.into_iter().filter(is_wanted).collect();
        Self { columns, selection, transports, viewer: filter.viewer, is_withheld }
    }

    /// Results.
    pub fn results(&self) -> usize {
        self.selection.len()
    }

    pub const fn columns(&self) -> &Columns {
        self.columns
    }

    pub const fn selection(&self) -> &Selection {
        &self.selection
    }

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
            let mut chart = Chart::new(meta, 0, Plot::default(), Table::default());
            chart.plot.empty = WITHHELD;
            chart.plot.caption.clear();
            return Some(chart);
        }
        Some((entry.build)(self, meta))
    }

    /// The values of a dimension with most results, in alphabetical order.
    pub fn members(&self, dimension: Dimension, most: usize) -> Vec<String> {
        let least = self.least_agents(dimension);
        let members = self.columns.members(&self.selection, dimension, (least, most)).members;
        let mut names: Vec<String> = members.into_iter().map(|one| one.name).collect();
        names.sort();
        names
    }

    const fn least_agents(&self, dimension: Dimension) -> u64 {
        match (self.viewer, dimension) {
            (Viewer::Everybody, Dimension::Operator | Dimension::Server) => LEAST_AGENTS,
            _ => 0,
        }
    }

    fn shows(&self, transport: Transport) -> bool {
        self.transports.contains(&transport)
    }

    fn period(&self) -> Option<Period> {
        Some(Period::covering(self.columns.span_s(&self.selection)?, MOST_PERIODS))
    }
}

fn hue(transport: Transport) -> Hue {
    Hue::Transport(transport)
}

/// `2026-10-25` of a Unix time in seconds.
fn day(at_s: f64) -> String {
    rfc3339_from_unix(at_s as i64).chars().take(10).collect()
}
