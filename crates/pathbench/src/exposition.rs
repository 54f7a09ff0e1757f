//! Metrics in the text format of Prometheus (version 0.0.4), for `GET /metrics` of the agent and the test server.

use std::fmt::Write as _;

pub(crate) struct Exposition {
    /// Of all names: `pathbench_agent`.
    prefix: &'static str,
    text: String,
}

impl Exposition {
    /// Begins with the version of Pathbench.
    pub(crate) fn new(prefix: &'static str) -> Self {
        let mut exposition = Self { prefix, text: String::new() };
        let version = [(env!("CARGO_PKG_VERSION"), 1.0)];
        exposition.add("build_info", "1, with the version of Pathbench.", Some("version"), version);
        exposition
    }

    pub(crate) fn one(&mut self, name: &str, help: &str, value: f64) {
        self.add(name, help, None, [("", value)]);
    }

    /// Values by a label; without samples, the metric has its help and type. A name that ends in `_total` is a counter's.
    pub(crate) fn add<'a>(
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

    pub(crate) fn text(self) -> String {
        self.text
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Compares the names, types and helps of an exposition with the table in a file of `docs/`.
#[cfg(test)]
pub(crate) fn assert_documented(text: &str, file: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let family = |pair: &[&str]| {
        let (name, help) = pair[0].strip_prefix("# HELP ")?.split_once(' ')?;
        let kind = pair[1].strip_prefix(&format!("# TYPE {name} "))?;
        Some(format!("| `{name}` | {kind} | {help} |"))
    };
    let rows: Vec<String> = lines.windows(2).filter_map(family).collect();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let docs = std::fs::read_to_string(path).unwrap();
    let prefix = rows[0].split_once("_build_info").unwrap().0;
    let documented: Vec<&str> = docs.lines().filter(|line| line.starts_with(prefix)).collect();
    assert_eq!(documented, rows, "the table in docs/{file} shall be\n{}", rows.join("\n"));
}
