//! docs/scenarios.md documents every key, and what it shows as a scenario is one.

use pathbench_lab::scenario::{Overrides, Source, known_fields, known_keys, plan};
use pathbench_link::parameter;

pathbench_kerneltest::privilege_independent!();

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");

fn documentation() -> String {
    std::fs::read_to_string(FILE).expect("readable")
}

/// The text between a heading line that starts with `from` and the next that starts with `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
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
        let source = Source::from_text("docs/scenarios.md", sample);
        if let Err(mistakes) = plan(&source, &Overrides::default()) {
            panic!("{mistakes}\nin\n{sample}");
        }
    }
}

#[test]
fn every_key_has_a_row_in_the_table_of_its_section() {
    let text = documentation();
    let parameters = between(&text, "### Link parameters", "`burst_loss`:");
    for (table, keys) in known_keys() {
        let section = match table {
            "scenario" => between(&text, "## The scenario", "## Paths"),
            "path" => between(&text, "## Paths", "## Hosts"),
            "host" => between(&text, "## Hosts", "`[host.NAME.mptcp]`:"),
            "mptcp" => between(&text, "`[host.NAME.mptcp]`:", "Each endpoint:"),
            "endpoint" => between(&text, "Each endpoint:", "Each route:"),
            "route" => between(&text, "Each route:", "## Links"),
            "link" => between(&text, "## Links", "An end as a table:"),
            "end" => between(&text, "An end as a table:", "A router has"),
            "event" => between(&text, "## Events", "| action |"),
            "burst_loss" => between(&text, "`burst_loss`:", "`loss_bursts`:"),
            "loss_bursts" => between(&text, "`loss_bursts`:", "`arq`:"),
            "arq" => between(&text, "`arq`:", "A link whose ends"),
            "to" => between(&text, "\n`to`:", "name = \"leaving\""),
            "run" => between(&text, "## Runs", "`[run.ping]`:"),
            "ping" => between(&text, "`[run.ping]`:", "`[run.bulk]`:"),
            "bulk" => between(&text, "`[run.bulk]`:", "`[run.iperf]`:"),
            "iperf" => between(&text, "`[run.iperf]`:", "`[run.interactive]`:"),
            "interactive" => between(&text, "`[run.interactive]`:", "`[run.quic]`:"),
            "quic" => between(&text, "`[run.quic]`:", "## Key paths"),
            "expectation" => between(&text, "To let an expectation", "The fields,"),
            // Documented in one sentence, or in the row of the key that holds them.
            "router" | "upload, download, forward, reverse" => {
                for key in keys {
                    assert!(text.contains(&format!("`{key}`")), "`{key}` of {table} is not documented");
                }
                continue;
            }
            other => panic!("where is `{other}` documented?"),
        };
        for key in keys {
            // A link parameter has its row in the table of link parameters.
            let section = if parameter(key).is_some() { parameters } else { section };
            assert!(section.contains(&format!("\n| `{key}` | ")), "`{key}` of {table} has no row");
        }
    }
}

/// Written anew with `PATHBENCH_BLESS=1`.
#[test]
fn the_tables_of_link_parameters_are_those_of_the_specification() {
    let mut text = documentation();
    for (table, rows) in pathbench_link::documentation() {
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
