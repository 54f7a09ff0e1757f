//! What there is to tell of an event in `events.jsonl`.

use crate::scenario::{Change, FadePlan, ModelKeys, Ways, icmp_in_words};
use pathbench_emulator::model::{BaseDelay, LossModel, RateModel};
use serde_json::{Map, Value};
use std::time::Duration;

/// One thing to tell.
pub(super) fn told(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

/// The values that a change sets.
pub(super) fn of_change(change: &Change) -> Map<String, Value> {
    let mut detail = Map::new();
    tell_ways(&mut detail, change.ways);
    of_keys(&mut detail, &change.keys);
    if let Some(mtu_bytes) = change.mtu_bytes {
        detail.insert("mtu_bytes".to_owned(), mtu_bytes.into());
    }
    if let Some(path_mtu_bytes) = change.path_mtu_bytes {
        detail.insert("path_mtu_bytes".to_owned(), path_mtu_bytes.into());
    }
    if let Some(too_big) = change.rules.too_big {
        detail.insert("icmp".to_owned(), icmp_in_words(too_big).into());
    }
    if let Some(clamp_mss) = change.rules.clamp_mss {
        detail.insert("clamp_mss".to_owned(), clamp_mss.into());
    }
    detail
}

fn of_keys(detail: &mut Map<String, Value>, keys: &ModelKeys) {
    let mut tell = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            detail.insert(key.to_owned(), value);
        }
    };
    match &keys.rate {
        None => {}
        Some(RateModel::Constant(bps)) => tell("rate_bps", Some((*bps).into())),
        Some(_) => tell("rate", Some("changes with time".into())),
    }
    match &keys.delay {
        None => {}
        Some(BaseDelay::Constant(delay)) => tell("delay_ms", Some(ms(*delay))),
        Some(BaseDelay::Schedule(_)) => tell("delay", Some("changes with time".into())),
    }
    match &keys.loss {
        None => {}
        Some(LossModel::Independent(loss)) => tell("loss", Some((*loss).into())),
        Some(LossModel::GilbertElliott(_)) => tell("loss", Some("of two states".into())),
        Some(LossModel::Bursts { .. }) => tell("loss", Some("in bursts".into())),
        Some(LossModel::Schedule(_)) => tell("loss", Some("changes with time".into())),
    }
    tell("jitter_ms", keys.jitter.map(ms));
    tell("queue", keys.queue.map(|queue| queue.to_string().into()));
    tell("duplicate", keys.duplicate.map(Value::from));
    tell("corrupt", keys.corrupt.map(Value::from));
    tell("ecn", keys.ecn.map(Value::from));
    tell("reorder", keys.reorder.map(Value::from));
    tell("radio_retries", keys.radio.map(|radio| radio.retries.into()));
}

/// How long a fade takes and where it leads.
pub(super) fn of_fade(fade: &FadePlan) -> Map<String, Value> {
    let mut detail = told("duration_ms", ms(fade.duration()));
    match fade {
        FadePlan::Walk(walk) => {
            for (key, value) in [("from_m", walk.from_m), ("to_m", walk.to_m), ("exponent", walk.exponent)] {
                detail.insert(key.to_owned(), value.into());
            }
        }
        FadePlan::Ramp { ramp, ways } => {
            tell_ways(&mut detail, *ways);
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

fn tell_ways(detail: &mut Map<String, Value>, ways: Ways) {
    let name = match ways {
        Ways::Both => return,
        Ways::Forward => "forward",
        Ways::Backward => "backward",
    };
    detail.insert("direction".to_owned(), name.into());
}

fn ms(time: Duration) -> Value {
    (time.as_secs_f64() * 1e3).into()
}
