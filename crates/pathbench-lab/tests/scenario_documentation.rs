//! docs/scenarios.md documents every key, and what it shows as a scenario is one.

use pathbench_lab::scenario::{Overrides, Source, known_fields, known_keys, plan};

pathbench_kerneltest::privilege_independent!();

fn documentation() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md"))
        .expect("readable")
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
            assert!(section.contains(&format!("\n| `{key}` | ")), "`{key}` of {table} has no row");
        }
    }
}

#[test]
fn every_field_of_an_expectation_is_documented() {
    let text = documentation();
    for field in known_fields() {
        assert!(text.contains(&format!("`{field}`")), "`{field}` is not documented");
    }
}
