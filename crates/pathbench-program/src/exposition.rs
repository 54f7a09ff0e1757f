//! Metrics in the text format of Prometheus (version 0.0.4), for `GET /metrics` of the agent and the test server.

use std::fmt::Write as _;

pub struct Exposition {
    /// Of all names: `pathbench_agent`.
    prefix: &'static str,
    text: String,
}

impl Exposition {
    /// Begins with the version of Pathbench.
    pub fn new(prefix: &'static str) -> Self {
        let mut exposition = Self { prefix, text: String::new() };
        let version = [(env!("CARGO_PKG_VERSION"), 1.0)];
        exposition.add("build_info", "1, with the version of Pathbench.", Some("version"), version);
        exposition
    }

    pub fn one(&mut self, name: &str, help: &str, value: f64) {
        self.add(name, help, None, [("", value)]);
    }

    /// Values by a label; without samples, the metric has its help and type. A name that ends in `_total` is a counter's.
    pub fn add<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: Option<&str>,
        samples: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        let name = format!("{}_{name}", self.prefix);
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _infallible = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (of, value) in samples {
            let labels = label.map(|label| format!("{{{label}=\"{}\"}}", escaped(of))).unwrap_or_default();
            let _infallible = writeln!(self.text, "{name}{labels} {value}");
        }
    }

    pub fn text(self) -> String {
        self.text
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
