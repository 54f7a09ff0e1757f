//! docs/scenarios.md documents every key, and its samples are valid scenarios.

use pathbench_lab::scenario::{Overrides, ScenarioSource, known_fields, plan};
use pathbench_link::{Engines, Field, LinkParameter, PARAMETERS, ParameterKind, Value, parameter};
use pathbench_record::units::{Rate, Size, Span};
use std::fmt::Display;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");

fn documentation() -> String {
    std::fs::read_to_string(FILE).expect("readable")
}

/// The text between a heading line that starts with `from` and the next that starts with `to`.
fn text_between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no `{from}`"));
    let rest = &text[start..];
    &rest[..rest.find(to).unwrap_or_else(|| panic!("no `{to}` after `{from}`"))]
}

#[test]
fn every_sample_is_a_valid_scenario() {
    let text = documentation();
    let samples: Vec<_> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(samples.len() >= 8, "only {} samples found", samples.len());
    for sample in samples {
        let source = ScenarioSource::from_text("docs/scenarios.md", sample);
        if let Err(mistakes) = plan(&source, &Overrides::default()) {
            panic!("{mistakes}\nin\n{sample}");
        }
    }
}

/// A scenario with a key that is unknown in every table.
const UNKNOWN_KEYS: &str = r#"
name = "x"
unknown = 1
[[path]]
name = "eth"
unknown = 1
upload = { unknown = 1 }
burst_loss = { to_bad = "1%", to_good = "2%", unknown = 1 }
[[path]]
name = "wlan"
loss_bursts = { period = "2s", length = "1s", unknown = 1 }
arq = { unknown = 1 }
policer = { rate = "1mbit", burst = "9kB", unknown = 1 }
rate = "1mbit"
[[router]]
name = "middle"
unknown = 1
[[link]]
name = "up"
ends = [{ node = "client", interface = "up", unknown = 1 }, "middle:down"]
unknown = 1
[[link]]
name = "down"
ends = ["server:down", "middle:up"]
[host.client]
unknown = 1
routes = [{ to = "default", via = "10.83.2.2", unknown = 1 }]
[host.client.mptcp]
unknown = 1
endpoints = [{ path = "eth", flags = ["subflow"], unknown = 1 }]
[[event]]
at = "1s"
path = "eth"
action = "fade"
duration = "2s"
to = { loss = "1%", unknown = 1 }
unknown = 1
[run]
unknown = 1
ping.unknown = 1
bulk.unknown = 1
throughput.unknown = 1
interactive.unknown = 1
responsiveness.unknown = 1
datagrams.unknown = 1
quic.unknown = 1
[expect]
"tcp.completed" = { is = true, unknown = 1 }
"#;

/// The tables of a scenario, by the key path of one, with the keys that they may have.
fn known_keys() -> Vec<(String, Vec<String>)> {
    let mistakes =
        plan(&ScenarioSource::from_text("x.toml", UNKNOWN_KEYS), &Overrides::default()).unwrap_err();
    let unknown = mistakes.0.iter().filter_map(|mistake| {
        let keys = mistake.remedy.split_once("known are ")?.1.split(", ").map(str::to_owned).collect();
        let table = mistake.key.strip_suffix("unknown").expect("every other key is known");
        Some((table.trim_end_matches('.').to_owned(), keys))
    });
    unknown.collect()
}

#[test]
fn every_key_has_a_row_in_the_table_of_its_section() {
    let text = documentation();
    let parameters = text_between(&text, "### Link parameters", "`burst_loss`:");
    let tables = known_keys();
    assert_eq!(tables.len(), 25, "{tables:?}");
    for (table, keys) in tables {
        let section = match table.as_str() {
            "" => text_between(&text, "## The scenario", "## Paths"),
            "path.eth" => text_between(&text, "## Paths", "## Hosts"),
            "host.client" => text_between(&text, "## Hosts", "`[host.NAME.mptcp]`:"),
            "host.client.mptcp" => text_between(&text, "`[host.NAME.mptcp]`:", "Each endpoint:"),
            "host.client.mptcp.endpoints.0" => text_between(&text, "Each endpoint:", "Each route:"),
            "host.client.routes.0" => text_between(&text, "Each route:", "## Links"),
            "link.up" => text_between(&text, "## Links", "An end as a table:"),
            "link.up.ends.0" => text_between(&text, "An end as a table:", "A router has"),
            "event.0" => text_between(&text, "## Events", "| action |"),
            "path.eth.burst_loss" => text_between(&text, "`burst_loss`:", "`loss_bursts`:"),
            "path.wlan.loss_bursts" => text_between(&text, "`loss_bursts`:", "`arq`:"),
            "path.wlan.arq" => text_between(&text, "`arq`:", "`policer`:"),
            "path.wlan.policer" => text_between(&text, "`policer`:", "A link whose ends"),
            "event.0.to" => text_between(&text, "\n`to`:", "name = \"leaving\""),
            "run" => text_between(&text, "## Runs", "`[run.ping]`:"),
            "run.ping" => text_between(&text, "`[run.ping]`:", "`[run.bulk]`:"),
            "run.bulk" => text_between(&text, "`[run.bulk]`:", "`[run.responsiveness]`"),
            "run.responsiveness" => text_between(&text, "`[run.responsiveness]`", "`[run.throughput]`:"),
            "run.throughput" => text_between(&text, "`[run.throughput]`:", "`[run.interactive]`:"),
            "run.interactive" => text_between(&text, "`[run.interactive]`:", "`[run.datagrams]`"),
            "run.datagrams" => text_between(&text, "`[run.datagrams]`", "`[run.quic]`:"),
            "run.quic" => text_between(&text, "`[run.quic]`:", "## Key paths"),
            "expect.\"tcp.completed\"" => text_between(&text, "To let an expectation", "The fields,"),
            // Documented in one sentence, or in the row of the key that holds them.
            "router.middle" | "path.eth.upload" => {
                for key in keys {
                    assert!(text.contains(&format!("`{key}`")), "`{key}` of {table} is not documented");
                }
                continue;
            }
            other => panic!("where is `{other}` documented?"),
        };
        for key in keys {
            // A link parameter has its row in the table of link parameters.
            let section = if parameter(&key).is_some() { parameters } else { section };
            assert!(section.contains(&format!("\n| `{key}` | ")), "`{key}` of {table} has no row");
        }
    }
}

fn of_kind(kind: &ParameterKind) -> String {
    let range = |least: &dyn Display, most: &dyn Display| format!("`\"{least}\"` to `\"{most}\"`");
    match kind {
        ParameterKind::Rate => "rate, `\"8kbit\"` to `\"100gbit\"`".to_owned(),
        ParameterKind::RateSteps => "list of times (to 24 hours) and rates".to_owned(),
        ParameterKind::Time { least, most } => format!("duration, {}", range(&Span(*least), &Span(*most))),
        ParameterKind::Bytes { least, most } => format!("size, {} to {} bytes", Size(*least), Size(*most)),
        ParameterKind::Integer { least, most } => format!("{least} to {most}"),
        ParameterKind::Fraction => "percentage".to_owned(),
        ParameterKind::Flag => "true or false".to_owned(),
        ParameterKind::Queue => "queue".to_owned(),
        ParameterKind::Choice(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
            names.join(", ")
        }
        ParameterKind::Trace(_) => "file, relative to the scenario's directory".to_owned(),
        ParameterKind::Table(_) => "table".to_owned(),
    }
}

fn of_value(value: &Value) -> String {
    match value {
        Value::Rate(bps) => format!("`\"{}\"`", Rate(*bps)),
        Value::Time(time) => format!("`\"{}\"`", Span(*time)),
        Value::Integer(number) => number.to_string(),
        Value::Fraction(fraction) => format!("`\"{}%\"`", fraction * 100.0),
        other => other.json("").1.to_string(),
    }
}

/// The tables of link parameters as `docs/scenarios.md` has them, by the table that has the keys.
fn parameter_tables() -> Vec<(&'static str, String)> {
    let mut text =
        "| key | meaning | type and range | default | engines |\n|---|---|---|---|---|\n".to_owned();
    let mut tables = Vec::new();
    for parameter in PARAMETERS {
        let engines = match parameter.engines {
            Engines::Kernel => "kernel, emulated",
            Engines::Netem => "kernel with netem, emulated",
            Engines::Emulated => "emulated",
        };
        let LinkParameter { key, default, documentation, kind, .. } = parameter;
        let row = format!("| `{key}` | {documentation} | {} | {default} | {engines} |\n", of_kind(kind));
        text.push_str(&row);
        if let ParameterKind::Table(fields) = kind {
            tables.push((*key, table(fields)));
        }
    }
    tables.insert(0, ("", text));
    tables
}

fn table(fields: &[Field]) -> String {
    let row = |field: &Field| {
        let default = field.default.as_ref().map_or_else(|| "must be given".to_owned(), of_value);
        format!("| `{}` | {} | {} | {default} |\n", field.key, field.documentation, of_kind(&field.kind))
    };
    let rows: String = fields.iter().map(row).collect();
    format!("| key | meaning | type and range | default |\n|---|---|---|---|\n{rows}")
}

/// `PATHBENCH_BLESS=1` rewrites them.
#[test]
fn the_tables_of_link_parameters_are_those_of_the_specification() {
    let mut text = documentation();
    for (table, rows) in parameter_tables() {
        let heading =
            if table.is_empty() { "### Link parameters".to_owned() } else { format!("\n`{table}`:") };
        let from = text.find(&heading).unwrap_or_else(|| panic!("no `{heading}`"));
        let begin = from + text[from..].find("\n| ").expect("a table below the heading") + 1;
        let length = text[begin..].find("\n\n").expect("an empty line after the table") + 1;
        text.replace_range(begin..begin + length, &rows);
    }
    if std::env::var_os("PATHBENCH_BLESS").is_some() {
        std::fs::write(FILE, &text).expect("writable");
    }
    assert!(text == documentation(), "docs/scenarios.md differs from crates/pathbench-link/src/parameter.rs");
}

#[test]
fn every_field_of_an_expectation_is_documented() {
    let text = documentation();
    for field in known_fields() {
        assert!(text.contains(&format!("`{field}`")), "`{field}` is not documented");
    }
}
