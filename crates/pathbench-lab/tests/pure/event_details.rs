//! Details of events in `events.jsonl`.

use pathbench_lab::scenario::{self, EventAction, Overrides, ScenarioSource};
use pathbench_link::{PARAMETERS, ParameterKind, parameter};
use serde_json::{Map, Value, json};

/// The details of an event on a path with a hop.
fn detail(event: &str) -> Map<String, Value> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("trace"), "second,bytes_per_second\n0,1000000\n1,2000000\n")
        .unwrap();
    std::fs::write(directory.path().join("shares"), "0,0.01\n1,0.02\n").unwrap();
    let text = format!(
        "name = \"t\"\n[[path]]\nname = \"eth\"\nrate = \"10mbit\"\ndelay = \"50ms\"\n\
         path_mtu = 1400\nqueue_discipline = \"codel\"\n\
         [[event]]\nat = \"1s\"\npath = \"eth\"\n{event}\n"
    );
    let file = directory.path().join("t.toml").to_str().unwrap().to_owned();
    let plan = scenario::plan(&ScenarioSource::from_text(&file, &text), &Overrides::default()).unwrap();
    match &plan.variants[0].events[0].action {
        action @ (EventAction::Set(_) | EventAction::Fade(_)) => action.detail(),
        other => panic!("{other:?}"),
    }
}

fn sample(key: &str) -> String {
    match parameter(key).unwrap().kind {
        ParameterKind::Bytes { most, .. } | ParameterKind::Integer { most, .. } => most.to_string(),
        ParameterKind::Time { most, .. } => format!("\"{}ms\"", most.as_millis()),
        ParameterKind::Fraction => "\"1%\"".to_owned(),
        ParameterKind::Flag => "true".to_owned(),
        ParameterKind::Choice(names) => format!("\"{}\"", names[0]),
        other => panic!("give `{key}` a value of its own: {other:?}"),
    }
}

/// Values of token buckets, fair queues and the effects of netem.
fn further_values() -> [(&'static str, &'static str, Value); 6] {
    [
        ("burst", "\"30kB\"", json!({ "burst_bytes": 30_000 })),
        (
            "policer",
            "{ rate = \"2mbit\", burst = \"9kB\" }",
            json!({ "policer": { "rate_bps": 2_000_000, "burst_bytes": 9_000 } }),
        ),
        (
            "queue_isolation",
            "\"dual-srchost\"\nqueue_discipline = \"fq_codel\"",
            json!({ "queue_isolation": "dual-srchost", "queue_discipline": "fq_codel" }),
        ),
        (
            "loss_correlation",
            "\"25%\"\nloss = \"1%\"\narq = { retries = 0 }",
            json!({ "loss_correlation": 0.25, "loss": 0.01, "arq": { "retries": 0, "pause_ms": 0.0 } }),
        ),
        ("reorder_share", "\"5%\"\ndelay = \"30ms\"", json!({ "reorder_share": 0.05, "delay_ms": 30.0 })),
        ("in_flight_limit", "50\ndelay = \"30ms\"", json!({ "in_flight_limit": 50, "delay_ms": 30.0 })),
    ]
}

/// Regression: the queue's discipline, target and interval and the jitter's distribution were left out, and losses
/// and rates that are not constant lacked their values.
#[test]
#[allow(clippy::too_many_lines, reason = "a table with a row for each key")]
fn every_key_of_set_is_in_the_details() {
    let values = [
        ("rate", "\"5mbit\"", json!({ "rate_bps": 5_000_000 })),
        ("delay", "\"70ms\"", json!({ "delay_ms": 70.0 })),
        ("jitter", "\"5ms\"", json!({ "jitter_ms": 5.0 })),
        ("loss", "\"1%\"", json!({ "loss": 0.01 })),
        ("queue", "\"40ms\"", json!({ "queue": "40ms" })),
        (
            "rate_steps",
            "[[\"0s\", \"4mbit\"], [\"2s\", \"3mbit\"]]",
            json!({ "rate_steps":
                [{ "at_ms": 0.0, "rate_bps": 4_000_000 }, { "at_ms": 2000.0, "rate_bps": 3_000_000 }] }),
        ),
        ("rate_trace", "\"trace\"", json!({ "rate_trace": "trace" })),
        (
            "rate_trace_format",
            "\"bytes-per-second\"\nrate_trace = \"trace\"",
            json!({ "rate_trace": "trace", "rate_trace_format": "bytes-per-second" }),
        ),
        (
            "rate_trace_unit",
            "\"bytes/s\"\nrate_trace = \"trace\"",
            json!({ "rate_trace": "trace", "rate_trace_unit": "bytes/s" }),
        ),
        ("delay_trace", "\"shares\"", json!({ "delay_trace": "shares" })),
        (
            "delay_trace_format",
            "\"auto\"\ndelay_trace = \"shares\"",
            json!({ "delay_trace": "shares", "delay_trace_format": "auto" }),
        ),
        ("jitter_distribution", "\"pareto\"", json!({ "jitter_distribution": "pareto" })),
        ("reorder", "true", json!({ "reorder": true })),
        (
            "burst_loss",
            "{ to_bad = \"1%\", to_good = \"25%\" }",
            json!({ "burst_loss": { "to_bad": 0.01, "to_good": 0.25, "loss_good": 0.0, "loss_bad": 1.0 } }),
        ),
        (
            "loss_bursts",
            "{ period = \"10s\", length = \"300ms\" }",
            json!({ "loss_bursts": { "period_ms": 10_000.0, "length_ms": 300.0, "loss": 1.0 } }),
        ),
        ("loss_trace", "\"shares\"", json!({ "loss_trace": "shares" })),
        (
            "loss_trace_format",
            "\"auto\"\nloss_trace = \"shares\"",
            json!({ "loss_trace": "shares", "loss_trace_format": "auto" }),
        ),
        ("duplicate", "\"2%\"", json!({ "duplicate": 0.02 })),
        ("corrupt", "\"3%\"", json!({ "corrupt": 0.03 })),
        ("queue_discipline", "\"pie\"", json!({ "queue_discipline": "pie" })),
        ("queue_target", "\"7ms\"", json!({ "queue_target_ms": 7.0 })),
        ("queue_interval", "\"90ms\"", json!({ "queue_interval_ms": 90.0 })),
        ("ecn", "true", json!({ "ecn": true })),
        ("arq", "{ retries = 3, pause = \"2ms\" }", json!({ "arq": { "retries": 3, "pause_ms": 2.0 } })),
        ("mtu", "1450", json!({ "mtu_bytes": 1450 })),
        ("path_mtu", "1300", json!({ "path_mtu_bytes": 1300 })),
        ("icmp", "\"off\"", json!({ "icmp": "off" })),
        ("clamp_mss", "true", json!({ "clamp_mss": true })),
        ("middlebox", "\"strip-dss\"", json!({ "middlebox": ["strip-dss"] })),
    ];
    let further = further_values();
    for key in
        PARAMETERS.iter().map(|parameter| parameter.key).chain(["path_mtu", "icmp", "clamp_mss", "middlebox"])
    {
        let mut known = values.iter().chain(&further);
        let Some((_, value, expected)) = known.find(|(known, ..)| *known == key) else {
            let details = detail(&format!("action = \"set\"\n{key} = {}", sample(key)));
            assert!(details.keys().any(|name| name.starts_with(key)), "{key}: {details:?}");
            continue;
        };
        let details = detail(&format!("action = \"set\"\n{key} = {value}"));
        assert_eq!(Value::from(details), *expected, "{key}");
    }
    let details = detail("action = \"set\"\ndirection = \"upload\"\necn = false");
    assert_eq!(Value::from(details), json!({ "direction": "forward", "ecn": false }));
}

#[test]
fn every_key_of_a_fade_is_in_the_details() {
    let walk = detail("action = \"fade\"\nfrom_m = 5\nto_m = 45\nspeed_mps = 2\nexponent = 4");
    let duration =
        json!({ "duration_ms": 20_000.0, "from_m": 5.0, "to_m": 45.0, "speed_mps": 2.0, "exponent": 4.0 });
    assert_eq!(Value::from(walk.clone()), duration);
    for key in ["duration", "from_m", "to_m", "speed_mps", "exponent"] {
        assert!(walk.keys().any(|name| name.starts_with(key)), "{key}");
    }
    let ramp = detail(
        "action = \"fade\"\nduration = \"4s\"\nto = { rate = \"1mbit\", loss = \"5%\", delay = \"90ms\" }",
    );
    let expected = json!({ "duration_ms": 4000.0, "rate_bps": 1_000_000, "loss": 0.05, "delay_ms": 90.0 });
    assert_eq!(Value::from(ramp.clone()), expected);
    for key in ["rate", "loss", "delay"] {
        assert!(ramp.keys().any(|name| name.starts_with(key)), "{key}");
    }
}
