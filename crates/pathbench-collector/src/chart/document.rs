//! A chart as data: caption, plot and table.

use super::table::{DataTable, grouped};
use pathbench_report::plot::{self, Marks, Plot};
use pathbench_report::svg::Svg;
use serde_json::{Value, json};

const EMPTY: &str = "No results with this figure.";

#[derive(Debug, Clone)]
pub(super) struct Meta {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) caption: Vec<String>,
    pub(super) x_title: &'static str,
    pub(super) corners: [&'static str; 2],
    /// The items that `n` counts.
    pub(super) noun: &'static str,
}

impl Meta {
    pub(super) fn caption(mut self, paragraph: &str) -> Self {
        self.caption.push(paragraph.to_owned());
        self
    }

    pub(super) fn counting(self, noun: &'static str) -> Self {
        Self { noun, ..self }
    }

    pub(super) fn x(self, x_title: &'static str) -> Self {
        Self { x_title, ..self }
    }

    pub(super) fn corners(self, upper_left: &'static str, lower_right: &'static str) -> Self {
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
    pub table: DataTable,
    /// For files: all points.
    data: Option<DataTable>,
}

impl Chart {
    pub(super) fn new(meta: Meta, n: u64, plot: Plot, table: DataTable) -> Self {
        let mut caption = meta.caption;
        caption.insert(0, format!("n = {} {}.", grouped(n), meta.noun));
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

    pub(super) fn with_data(self, data: DataTable) -> Self {
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
