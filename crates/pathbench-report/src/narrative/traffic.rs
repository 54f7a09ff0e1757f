//! What traffic was asked for, in words: "upload for 10 s, cubic, gives up after 3 s without progress".

use crate::quantity::{bit_rate, bytes, counted, duration, plain};
use crate::view::value_text;
use pathbench_record::document::RunRecord;
use serde_json::Value;

/// Patience that goes without saying: nobody asked for another one.
const USUAL_PATIENCE_MS: f64 = 30_000.0;

/// The traffic of a run as it was asked for. Keys that the matrix varies are left out; a key that is not known
/// here stands as it is.
pub(crate) fn traffic(run: &RunRecord) -> String {
    let varied = |key: &str| run.variant.keys().any(|varied| varied.rsplit('.').next() == Some(key));
    let asked: Vec<(&str, &Value)> = run
        .parameters
        .asked
        .iter()
        .map(|(key, value)| (key.as_str(), value))
        .filter(|(key, value)| !value.is_null() && !varied(key.trim_end_matches("_ms")))
        .collect();
    let of = |wanted: &str| asked.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
    let number = |wanted: &str| of(wanted).and_then(Value::as_f64);
    let mut first = vec![of("direction").map_or_else(|| run.pattern.clone(), value_text)];
    if of("direction").and_then(Value::as_str) == Some("both") {
        first = vec!["both ways at once".to_owned()];
    }
    first.extend(number("duration_ms").map(|ms| format!("for {}", plain(&duration(ms)))));
    first.extend(number("bytes").map(|count| format!("of {} per stream", plain(&bytes(count as u64)))));
    let mut parts = vec![first.join(" ")];
    for (key, value) in asked {
        let figure = value.as_f64().unwrap_or_default();
        parts.extend(match key {
            "direction" | "duration_ms" | "bytes" => None,
            "congestion" => Some(value_text(value)),
            "streams" if value == 1 => None,
            "streams" => Some(counted(figure as u32, "stream")),
            "omit_ms" if figure == 0.0 => None,
            "omit_ms" => Some(format!("the first {} left out", plain(&duration(figure)))),
            "patience_ms" if figure == USUAL_PATIENCE_MS => None,
            "patience_ms" => Some(format!("gives up after {} without progress", plain(&duration(figure)))),
            "rate_bps" => Some(format!("at most {} per stream", plain(&bit_rate(figure as u64)))),
            _ => Some(format!("{key} {}", value_text(value))),
        });
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(asked: &Value, variant: &Value) -> String {
        let run = json!({
            "id": "01", "variant": variant, "transport": "tcp", "label": "tcp", "pattern": "iperf", "repetition": 1,
            "valid": true, "completed": true, "delivered_bytes": 0, "duration_ms": 0.0, "paths": [], "directions": [],
            "multipath": { "requested": false, "negotiated": false, "used": false, "reason": "", "paths_used": 1 },
            "parameters": { "asked": asked, "in_force": {} },
        });
        traffic(&serde_json::from_value(run).unwrap())
    }

    #[test]
    fn traffic_reads_as_a_person_would_say_it() {
        let usual = json!({ "direction": "upload", "duration_ms": 10000.0, "streams": 1, "omit_ms": 0.0,
            "patience_ms": 30000.0, "congestion": "cubic", "rate_bps": null });
        assert_eq!(words(&usual, &json!({})), "upload for 10 s, cubic");
        assert_eq!(words(&usual, &json!({ "run.iperf.congestion": "cubic" })), "upload for 10 s");
        let unusual = json!({ "direction": "both", "bytes": 5_000_000, "streams": 4, "omit_ms": 500.0,
            "patience_ms": 3000.0, "rate_bps": 2_000_000, "new_key": true });
        assert_eq!(
            words(&unusual, &json!({})),
            "both ways at once of 5 MB per stream, new_key true, the first 500 ms left out, \
             gives up after 3 s without progress, at most 2 Mbit/s per stream, 4 streams"
        );
    }
}
