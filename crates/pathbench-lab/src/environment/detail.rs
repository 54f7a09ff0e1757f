//! What there is to tell of an event in `events.jsonl`.

use crate::scenario::{Change, DISTRIBUTIONS, Discipline, FadePlan, ModelKeys, RulesChange, icmp_in_words};
use pathbench_emulator::fading::Walk;
use pathbench_emulator::model::{BaseDelay, GilbertElliott, LossModel, RateModel};
use pathbench_emulator::schedule::End;
use pathbench_record::direction::LinkDirection;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// One thing to tell.
pub(super) fn told(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

/// The values that a change sets. No key is left out: a new one does not compile until it has its place here.
pub(super) fn of_change(change: &Change) -> Map<String, Value> {
    let Change { direction, keys, traces, mtu_bytes, path_mtu_bytes, rules } = change;
    let RulesChange { too_big, clamp_mss } = rules;
    let mut detail = Map::new();
    add_direction(&mut detail, *direction);
    of_keys(&mut detail, keys);
    detail.extend(traces.iter().map(|(key, written)| ((*key).to_owned(), written.as_str().into())));
    let mut tell = |key, value| put(&mut detail, key, value);
    tell("mtu_bytes", mtu_bytes.map(Value::from));
    tell("path_mtu_bytes", path_mtu_bytes.map(Value::from));
    tell("icmp", too_big.map(|too_big| icmp_in_words(too_big).into()));
    tell("clamp_mss", clamp_mss.map(Value::from));
    detail
}

/// Puts `value` into `detail`, if there is one.
fn put(detail: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        detail.insert(key.to_owned(), value);
    }
}

/// Values of a trace are represented by the name of the trace file.
fn of_keys(detail: &mut Map<String, Value>, keys: &ModelKeys) {
    let ModelKeys {
        rate,
        queue,
        discipline,
        queue_target,
        queue_interval,
        ecn,
        arq,
        loss,
        delay,
        jitter,
        distribution,
        reorder,
        duplicate,
        corrupt,
    } = keys;
    let mut tell = |key, value| put(detail, key, value);
    match rate {
        Some(RateModel::Constant(bps)) => tell("rate_bps", Some((*bps).into())),
        Some(RateModel::Steps(steps)) if steps.end == End::Hold => {
            let step = |(at, bps): &(Duration, u64)| json!({ "at_ms": ms(*at), "rate_bps": bps });
            tell("rate_steps", Some(steps.steps.iter().map(step).collect()));
        }
        _ => {}
    }
    tell("queue", queue.map(|queue| queue.to_string().into()));
    tell("queue_discipline", discipline.map(|discipline| name_in(&Discipline::NAMED, &discipline)));
    tell("queue_target_ms", queue_target.map(ms));
    tell("queue_interval_ms", queue_interval.map(ms));
    tell("ecn", ecn.map(Value::from));
    tell("arq_retries", arq.map(|arq| arq.retries.into()));
    tell("arq_pause_ms", arq.map(|arq| ms(arq.pause)));
    match loss {
        Some(LossModel::Independent(loss)) => tell("loss", Some((*loss).into())),
        Some(LossModel::GilbertElliott(GilbertElliott { to_bad, to_good, loss_good, loss_bad })) => {
            let chain =
                json!({ "to_bad": to_bad, "to_good": to_good, "loss_good": loss_good, "loss_bad": loss_bad });
            tell("burst_loss", Some(chain));
        }
        Some(LossModel::Bursts { period, length, loss }) => {
            let bursts = json!({ "period_ms": ms(*period), "length_ms": ms(*length), "loss": loss });
            tell("loss_bursts", Some(bursts));
        }
        Some(LossModel::Schedule(_)) | None => {}
    }
    if let Some(BaseDelay::Constant(delay)) = delay {
        tell("delay_ms", Some(ms(*delay)));
    }
    tell("jitter_ms", jitter.map(ms));
    tell("jitter_distribution", distribution.map(|distribution| name_in(&DISTRIBUTIONS, &distribution)));
    tell("reorder", reorder.map(Value::from));
    tell("duplicate", duplicate.map(Value::from));
    tell("corrupt", corrupt.map(Value::from));
}

fn name_in<V: PartialEq>(names: &[(&str, V)], value: &V) -> Value {
    names.iter().find(|(_, known)| known == value).map_or(Value::Null, |(name, _)| (*name).into())
}

/// How long a fade takes and where it leads.
pub(super) fn of_fade(fade: &FadePlan) -> Map<String, Value> {
    let mut detail = told("duration_ms", ms(fade.duration()));
    match fade {
        FadePlan::Walk(walk) => {
            let Walk { speed_mps, from_m, to_m, exponent, .. } = *walk;
            for (key, value) in
                [("from_m", from_m), ("to_m", to_m), ("speed_mps", speed_mps), ("exponent", exponent)]
            {
                detail.insert(key.to_owned(), value.into());
            }
        }
        FadePlan::Ramp { ramp, direction } => {
            add_direction(&mut detail, *direction);
            let keys = ModelKeys {
                rate: ramp.rate_bps.map(RateModel::Constant),
                loss: ramp.loss.map(LossModel::Independent),
                delay: ramp.delay.map(BaseDelay::Constant),
                ..ModelKeys::default()
            };
            of_keys(&mut detail, &keys);
        }
    }
    detail
}

fn add_direction(detail: &mut Map<String, Value>, direction: Option<LinkDirection>) {
    if let Some(direction) = direction {
        detail.insert("direction".to_owned(), direction.name().into());
    }
}

fn ms(time: Duration) -> Value {
    (time.as_secs_f64() * 1e3).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Action, CHANGE, FADE, FADE_TO, Overrides, Source};

    /// What `events.jsonl` tells of an event of a path that has a hop.
    fn detail(event: &str) -> Map<String, Value> {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("trace"), "0,1000000\n1,2000000\n").unwrap();
        std::fs::write(place.path().join("shares"), "0,0.01\n1,0.02\n").unwrap();
        let text = format!(
            "name = \"t\"\n[[path]]\nname = \"eth\"\nrate = \"10mbit\"\ndelay = \"50ms\"\n\
             path_mtu = 1400\nqueue_discipline = \"codel\"\n\
             [[event]]\nat = \"1s\"\npath = \"eth\"\n{event}\n"
        );
        let file = place.path().join("t.toml").to_str().unwrap().to_owned();
        let plan = scenario::plan(&Source::from_text(&file, &text), &Overrides::default()).unwrap();
        match &plan.variants[0].events[0].action {
            Action::Set(change) => of_change(change),
            Action::Fade(fade) => of_fade(fade),
            other => panic!("{other:?}"),
        }
    }

    /// Regression: the queue's discipline, target and interval and the jitter's distribution were left out, and losses
    /// and rates that are not constant lacked their values.
    #[test]
    fn every_key_that_set_changes_is_told() {
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
            ("delay_trace", "\"shares\"", json!({ "delay_trace": "shares" })),
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
            ("duplicate", "\"2%\"", json!({ "duplicate": 0.02 })),
            ("corrupt", "\"3%\"", json!({ "corrupt": 0.03 })),
            ("queue_discipline", "\"pie\"", json!({ "queue_discipline": "pie" })),
            ("queue_target", "\"7ms\"", json!({ "queue_target_ms": 7.0 })),
            ("queue_interval", "\"90ms\"", json!({ "queue_interval_ms": 90.0 })),
            ("ecn", "true", json!({ "ecn": true })),
            ("arq", "{ retries = 3, pause = \"2ms\" }", json!({ "arq_retries": 3, "arq_pause_ms": 2.0 })),
            ("mtu", "1450", json!({ "mtu_bytes": 1450 })),
            ("path_mtu", "1300", json!({ "path_mtu_bytes": 1300 })),
            ("icmp", "\"off\"", json!({ "icmp": "off" })),
            ("clamp_mss", "true", json!({ "clamp_mss": true })),
        ];
        for key in CHANGE {
            let (_, value, expected) = values
                .iter()
                .find(|(known, ..)| *known == key)
                .expect("a value for each key that can be set");
            let told = detail(&format!("action = \"set\"\n{key} = {value}"));
            assert_eq!(Value::from(told), *expected, "{key}");
        }
        let told = detail("action = \"set\"\ndirection = \"upload\"\necn = false");
        assert_eq!(Value::from(told), json!({ "direction": "forward", "ecn": false }));
    }

    #[test]
    fn every_key_of_a_fade_is_told() {
        let walk = detail("action = \"fade\"\nfrom_m = 5\nto_m = 45\nspeed_mps = 2\nexponent = 4");
        let duration = json!({ "duration_ms": 20_000.0, "from_m": 5.0, "to_m": 45.0, "speed_mps": 2.0, "exponent": 4.0 });
        assert_eq!(Value::from(walk.clone()), duration);
        for key in FADE {
            assert!(walk.keys().any(|told| told.starts_with(key)), "{key}");
        }
        let ramp = detail(
            "action = \"fade\"\nduration = \"4s\"\nto = { rate = \"1mbit\", loss = \"5%\", delay = \"90ms\" }",
        );
        let expected =
            json!({ "duration_ms": 4000.0, "rate_bps": 1_000_000, "loss": 0.05, "delay_ms": 90.0 });
        assert_eq!(Value::from(ramp.clone()), expected);
        for key in FADE_TO {
            assert!(ramp.keys().any(|told| told.starts_with(key)), "{key}");
        }
    }
}
