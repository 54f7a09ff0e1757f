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
    let each = if run.pattern == "bulk" { "" } else { " per stream" };
    first.extend(number("bytes").map(|count| format!("of {}{each}", plain(&bytes(count as u64)))));
    let mut parts = vec![first.join(" ")];
    for (key, value) in asked {
        let figure = value.as_f64().unwrap_or_default();
        parts.extend(match key {
            "direction" | "duration_ms" | "bytes" => None,
            "congestion" => Some(value_text(value)),
            "streams" if value == 1 => None,
            "streams" => Some(counted(figure as u32, "stream")),
            "omit_ms" | "warm_up" if figure == 0.0 => None,
            "omit_ms" => Some(format!("the first {} left out", plain(&duration(figure)))),
            "patience_ms" if figure == USUAL_PATIENCE_MS => None,
            "patience_ms" => Some(format!("gives up after {} without progress", plain(&duration(figure)))),
            "rate_bps" => Some(format!("at most {} per stream", plain(&bit_rate(figure as u64)))),
            "count" => Some(counted(figure as u32, "request")),
            "warm_up" => Some(format!("{} before them", value_text(value))),
            "interval_ms" => Some(format!("one each {}", plain(&duration(figure)))),
            "request_bytes" => Some(format!("requests of {}", plain(&bytes(figure as u64)))),
            "response_bytes" => Some(format!("answers of {}", plain(&bytes(figure as u64)))),
            "timeout_ms" => Some(format!("lost after {}", plain(&duration(figure)))),
            "linger_ms" => Some(format!("waits {} for the last", plain(&duration(figure)))),
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
        of_pattern("iperf", asked, variant)
    }

    fn of_pattern(pattern: &str, asked: &Value, variant: &Value) -> String {
        let run = json!({
            "id": "01", "variant": variant, "transport": "tcp", "label": "tcp", "pattern": pattern, "repetition": 1,
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
            "both ways at once of 5 MB per stream, 4 streams, the first 500 ms left out, \
             gives up after 3 s without progress, at most 2 Mbit/s per stream, new_key true"
        );
    }

    #[test]
    fn patterns_of_messages_read_as_a_person_would_say_it() {
        let ping = json!({ "count": 5, "warm_up": 1, "interval_ms": 100.0, "request_bytes": 10, "response_bytes": 10,
            "timeout_ms": 3000.0 });
        assert_eq!(
            of_pattern("ping", &ping, &json!({})),
            "ping, 5 requests, 1 before them, one each 100 ms, requests of 10 B, answers of 10 B, lost after 3 s"
        );
        let bulk = json!({ "bytes": 10_000_000, "streams": 4 });
        assert_eq!(of_pattern("bulk", &bulk, &json!({})), "bulk of 10 MB, 4 streams");
        let interactive = json!({ "duration_ms": 10_000.0, "interval_ms": 100.0, "request_bytes": 2000,
            "response_bytes": 750, "linger_ms": 5000.0 });
        assert_eq!(
            of_pattern("interactive", &interactive, &json!({})),
            "interactive for 10 s, one each 100 ms, requests of 2 kB, answers of 750 B, waits 5 s for the last"
        );
    }
}
