//! The structure of the Grafana dashboards, and the names of their metrics.

use pathbench_collector::metrics::{METRICS, PREFIX};
use pathbench_program::exposition::{BUILD, Metric, MetricType};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn dashboard(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().unwrap()
}

#[test]
fn every_panel_has_a_place_a_source_and_a_query() {
    for name in ["collector.json", "results.json"] {
        let dashboard = dashboard(name);
        let source = dashboard["templating"]["list"][0]["query"].as_str().unwrap();
        let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
        for panel in panels(&dashboard) {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
            assert!(!panel["description"].as_str().unwrap().is_empty(), "{title}");
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
            assert!(x + w <= 24 && w > 0 && h > 0, "{title}");
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(cells.insert(cell), "{title} covers another panel");
            }
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{title}");
            let references: BTreeSet<&str> =
                targets.iter().map(|one| one["refId"].as_str().unwrap()).collect();
            assert_eq!(references.len(), targets.len(), "{title}");
            for target in targets {
                assert_eq!(target["datasource"]["type"], source, "{title}");
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
                let query = target.get("expr").or(target.get("rawSql")).unwrap().as_str().unwrap();
                assert!(!query.is_empty(), "{title}");
            }
        }
    }
}

/// Names of metrics in an expression, with a histogram's suffix.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let is_part = |character: char| character == '_' || character.is_ascii_alphanumeric();
    expression.split(move |character| !is_part(character)).filter(|name| name.starts_with("pathbench_"))
}

/// The metric of a sample.
fn find(sample: &str) -> Option<Metric> {
    let name = sample.strip_prefix(PREFIX)?.strip_prefix('_')?;
    [BUILD]
        .into_iter()
        .chain(METRICS)
        .find(|one| name.strip_prefix(one.name).is_some_and(|suffix| one.suffixes().contains(&suffix)))
}

#[test]
fn metrics_exist_and_each_of_them_is_shown() {
    let dashboard = dashboard("collector.json");
    let mut shown = BTreeSet::new();
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            for name in names(expression) {
                let metric = find(name).unwrap_or_else(|| panic!("{name} in {expression}"));
                shown.insert(metric.name);
                if metric.kind == MetricType::Counter {
                    let counted = ["rate(", "increase("].map(|function| format!("{function}{name}"));
                    assert!(counted.iter().any(|text| expression.contains(text)), "{expression}");
                }
                // Labels that the expression groups by are labels of its metric.
                for by in expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
                    let labels = by.split(", ").filter(|label| *label != "le");
                    labels
                        .for_each(|label| assert!(metric.labels.contains(&label), "{label} in {expression}"));
                }
            }
        }
    }
    let missing: Vec<&str> =
        METRICS.iter().map(|one| one.name).filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn queries_read_bounded_time_and_the_tables_of_results() {
    let dashboard = dashboard("results.json");
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["rawSql"].as_str().unwrap();
            // The macros become 32-bit constants: milliseconds overflow them.
            for bound in ["$__unixEpochFrom() * 1000::bigint", "$__unixEpochTo() * 1000::bigint"] {
                assert!(query.contains(bound), "{query}");
            }
            assert!(query.contains("FROM results") && !query.contains(';'), "{query}");
            let has_bound = query.contains("LIMIT") || query.contains("GROUP BY");
            assert!(has_bound, "{query}");
        }
    }
}

#[test]
fn a_single_path_transport_counts_once_a_result_and_pattern_with_its_best_path() {
    let dashboard = dashboard("results.json");
    let queries = panels(&dashboard).iter().map(|panel| panel["targets"][0]["rawSql"].as_str().unwrap());
    let medians: Vec<&str> = queries.filter(|query| query.contains("percentile_cont")).collect();
    assert_eq!(medians.len(), 4);
    for query in medians {
        let best =
            if query.contains("'goodput_mbps'") { "max((g -> 'figures'" } else { "min((g -> 'figures'" };
        assert!(query.contains(best) && query.contains("GROUP BY 1, 2, 3, 4, 5)"), "{query}");
    }
}
