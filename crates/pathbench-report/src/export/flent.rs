//! Goodput of a run as a Flent data file, version 4 (`flent/resultset.py` and `flent/tests/tcp_nup.conf` of Flent 2).
//!
//! Flent draws series that its tests know. Those of `tcp_nup` and `tcp_ndown` are a series per stream and their sum; here a
//! stream is a path. The metadata has the real transport and the names of the paths.

use crate::result_set::{Paths, ResultSet};
use crate::run_data::RunData;
use crate::series::{Grid, Series, end_ms, series};
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use serde_json::{Map, Value, json};

/// Most windows of a run; they are 100 ms long, and longer in runs of more than 200 s.
const MOST_WINDOWS: usize = 2000;

/// The data file of one direction; `None` without a delivery in that direction.
pub(super) fn file(set: &ResultSet, run: &RunRecord, data: &RunData, direction: Direction) -> Option<Value> {
    let grid = Grid::covering(end_ms(data), MOST_WINDOWS);
    let goodput = series(run, data, Some(direction), grid, &Paths::from_sets(&[set]));
    if goodput.paths.is_empty() {
        return None;
    }
    let (test, streams) = match direction {
        Direction::Upload => ("tcp_nup", "upload_streams"),
        Direction::Download => ("tcp_ndown", "download_streams"),
    };
    let windows = goodput.grid.windows();
    let seconds: Vec<f64> = (0..windows).map(|window| goodput.grid.edge_ms(window) / 1000.0).collect();
    let mut results = Map::new();
    let mut raw = Map::new();
    let stream = |number: usize| format!("TCP {}::{number}", direction.name());
    let rows =
        goodput.paths.iter().enumerate().map(|(index, layer)| (stream(index + 1), layer.values.clone()));
    for (name, values) in rows.chain([(format!("TCP {} sum", direction.name()), goodput.total_mbps())]) {
        let points = seconds.iter().zip(&values).map(|(t, value)| json!({"t": t, "val": value}));
        raw.insert(name.clone(), points.collect());
        results.insert(name, json!(values));
    }
    Some(json!({
        "version": 4,
        "x_values": seconds,
        "results": results,
        "raw_values": raw,
        "metadata": metadata(set, run, &goodput, test, streams),
    }))
}

fn metadata(set: &ResultSet, run: &RunRecord, goodput: &Series, test: &str, streams: &str) -> Value {
    let host = &set.document.host;
    // Flent demands microseconds.
    let time = host.started.trim_end_matches('Z').split('.').next().unwrap_or_default();
    let time = if time.is_empty() { "1970-01-01T00:00:00" } else { time };
    let paths: Vec<&str> = goodput.paths.iter().map(|one| one.path.as_deref().unwrap_or("unknown")).collect();
    let named = paths.iter().enumerate().map(|(index, path)| format!("{}: {path}", index + 1));
    let validity = if run.valid { "" } else { ", not valid" };
    let title = format!(
        "{} {} ({}{validity}; {})",
        run.label,
        run.pattern,
        run.id,
        named.collect::<Vec<_>>().join(", ")
    );
    json!({
        "NAME": test,
        "TITLE": title,
        "NOTE": run.invalid_because.join("; "),
        "TIME": format!("{time}.000000Z"),
        "LOCAL_HOST": "client",
        "HOST": "server",
        "LENGTH": goodput.grid.until_ms() / 1000.0,
        "TOTAL_LENGTH": goodput.grid.until_ms() / 1000.0,
        "STEP_SIZE": goodput.grid.window_ms / 1000.0,
        "KERNEL_RELEASE": host.kernel,
        "DATA_FILENAME": run.id,
        "TEST_PARAMETERS": { streams: paths.len() },
        "PATHBENCH": {
            "scenario": set.document.scenario.name, "transport": run.label, "paths": paths, "variant": run.variant,
            "repetition": run.repetition, "valid": run.valid,
        },
    })
}
