//! Metrics in the text format of OpenMetrics 1.0, for `GET /metrics`.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
pub use prometheus_client::metrics::{MetricType, histogram::Histogram};
use prometheus_client::registry::Registry;
use std::fmt;

/// `Content-Type` of an exposition.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric of a program; its name is without the program's prefix and without the suffix of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricType,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Metric {
    /// The suffixes of its samples' names.
    pub const fn suffixes(self) -> &'static [&'static str] {
        match self.kind {
            MetricType::Counter => &["_total"],
            MetricType::Histogram => &["_bucket", "_sum", "_count"],
            MetricType::Info => &["_info"],
            _ => &[""],
        }
    }
}

/// The metric `build_info` of every program.
pub const BUILD: Metric = metric("build", MetricType::Info, &["version"], "The version of Pathbench.");

pub const fn metric(
    name: &'static str,
    kind: MetricType,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, help }
}

/// Samples of a program's metrics. A metric without samples has its help and type.
#[derive(Debug)]
pub struct Exposition {
    /// Of all names: `pathbench_agent`.
    prefix: &'static str,
    metrics: Vec<(Metric, Vec<Sample>)>,
}

#[derive(Debug)]
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Number(f64),
    Histogram(Histogram),
}

impl Exposition {
    /// Has the program's version and nothing else yet.
    pub fn new(prefix: &'static str, metrics: &[Metric]) -> Self {
        let metrics = [BUILD].iter().chain(metrics).map(|metric| (*metric, Vec::new())).collect();
        let mut exposition = Self { prefix, metrics };
        exposition.add(BUILD.name, &[env!("CARGO_PKG_VERSION")], 1.0);
        exposition
    }

    /// Adds a sample with its labels in the order of the list.
    pub fn add(&mut self, name: &str, labels: &[&str], value: f64) {
        self.add_value(name, labels, Value::Number(value));
    }

    pub fn add_histogram(&mut self, name: &str, labels: &[&str], histogram: &Histogram) {
        self.add_value(name, labels, Value::Histogram(histogram.clone()));
    }

    /// A name that is not in the list, or with other labels, is a fault of the program: it has no sample.
    fn add_value(&mut self, name: &str, labels: &[&str], value: Value) {
        let listed = self.metrics.iter_mut().find(|(metric, _)| metric.name == name);
        let listed = listed.filter(|(metric, _)| metric.labels.len() == labels.len());
        debug_assert!(listed.is_some(), "{name} {labels:?}");
        if let Some((metric, samples)) = listed {
            let labels =
                metric.labels.iter().copied().zip(labels.iter().map(|&label| label.to_owned())).collect();
            samples.push(Sample { labels, value });
        }
    }

    pub fn text(self) -> String {
        let mut registry = Registry::with_prefix(self.prefix);
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        let _infallible = text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (metric, samples) in &self.metrics {
            let mut encoder = encoder.encode_descriptor(metric.name, metric.help, None, metric.kind)?;
            for sample in samples {
                sample.encode(metric.kind, &mut encoder)?;
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, kind: MetricType, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        if kind == MetricType::Info {
            return encoder.encode_info(&self.labels);
        }
        let encoder = encoder.encode_family(&self.labels)?;
        match (&self.value, kind) {
            (Value::Histogram(histogram), _) => histogram.encode(encoder),
            (Value::Number(value), MetricType::Counter) => ConstCounter::new(*value as u64).encode(encoder),
            // Gauges are counts, too, save times in seconds.
            (Value::Number(value), _) if value.fract() == 0.0 => {
                ConstGauge::new(*value as i64).encode(encoder)
            }
            (Value::Number(value), _) => ConstGauge::new(*value).encode(encoder),
        }
    }
}
