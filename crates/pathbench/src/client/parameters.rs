//! What is asked of a test, as the user knows it.

use pathbench_traffic::pattern::PatternParameters;
use pathbench_transport::Scheduler;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The parameters of the pattern of this name in results, as the user knows them.
pub(crate) fn asked(name: &str, parameters: &PatternParameters) -> Map<String, Value> {
    let ms = |time: Duration| json!(time.as_secs_f64() * 1e3);
    let asked = match parameters {
        PatternParameters::Ping(ping) => json!({
            "count": ping.count,
            "warm_up": ping.warm_up,
            "interval_ms": ms(ping.interval),
            "request_bytes": ping.request_bytes,
            "response_bytes": ping.response_bytes,
            "timeout_ms": ms(ping.timeout),
        }),
        PatternParameters::Bulk(bulk) => json!({ "bytes": bulk.bytes, "streams": bulk.streams }),
        PatternParameters::Iperf(iperf) => json!({
            "direction": name.trim_start_matches("iperf-"),
            "streams": iperf.streams,
            "duration_ms": parameters.nominal_duration().map(ms),
            "omit_ms": ms(iperf.omit),
        }),
        PatternParameters::Interactive(interactive) => json!({
            "duration_ms": ms(interactive.duration),
            "interval_ms": ms(interactive.interval),
            "request_bytes": interactive.request_bytes,
            "response_bytes": interactive.response_bytes,
            "linger_ms": ms(interactive.linger),
        }),
    };
    match asked {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The scheduler of mpquic of this name.
pub(crate) fn scheduler(name: &str) -> Result<Scheduler, String> {
    let known = [Scheduler::LowestRtt, Scheduler::RoundRobin, Scheduler::Weighted, Scheduler::backup()];
    let names: Vec<&str> = known.iter().map(Scheduler::name).collect();
    let refusal = format!("`{name}` is not a scheduler; known are {}", names.join(", "));
    known.into_iter().find(|scheduler| scheduler.name() == name).ok_or(refusal)
}
