//! `action = "fade"`: a link that changes gradually.

use super::parameters;
use super::plan::{FadePlan, LinkPlan};
use super::section::ScenarioSection;
use super::traffic::LONGEST_RUN;
use pathbench_link::fading::{Ramp, Walk};
use pathbench_link::{BaseDelay, LossModel};
use pathbench_record::direction::LinkDirection;
use std::time::Duration;

/// Distances in a building or street; the path-loss model does not hold below one metre.
const DISTANCES_M: std::ops::RangeInclusive<f64> = 1.0..=10_000.0;
/// Free space has 2, corridors have less (guided waves), and several floors have more (ITU-R P.1238).
const EXPONENTS: std::ops::RangeInclusive<f64> = 1.5..=6.0;
const SPEEDS_MPS: std::ops::RangeInclusive<f64> = 0.01..=1_000.0;
const WALK_KEYS: [&str; 4] = ["from_m", "to_m", "speed_mps", "exponent"];
/// Keys for `action = "fade"` only.
pub(super) const KEYS: [&str; 6] = ["duration", "from_m", "to_m", "speed_mps", "exponent", "to"];
const TO: [&str; 3] = ["rate", "loss", "delay"];

/// The fade of an event; `None` after a mistake.
pub(super) fn read(section: &ScenarioSection<'_>, link: Option<&LinkPlan>) -> Option<FadePlan> {
    let duration = section.duration("duration", Duration::from_millis(100)..=LONGEST_RUN);
    if section.has("to") {
        for key in WALK_KEYS.into_iter().filter(|key| section.has(key)) {
            let problem = format!("`to` and `{key}` are both given");
            section.wrong(key, problem, "remove one: a fade is a walk, or leads to values");
        }
    }
    let fade = if section.has("to") { ramp(section, duration) } else { walk(section, duration) }?;
    if let Some(Err(error)) = link.map(|link| fade.schedules(link)) {
        let remedy = "give the link a constant rate, delay and probability of loss: only these can fade";
        section.wrong("action", error.to_string(), remedy);
    }
    Some(fade)
}

/// The direction to which an event applies; `None` for both.
pub(super) fn direction(section: &ScenarioSection<'_>) -> Option<LinkDirection> {
    let known = [
        ("upload", LinkDirection::Forward),
        ("download", LinkDirection::Reverse),
        ("forward", LinkDirection::Forward),
        ("reverse", LinkDirection::Reverse),
    ];
    section.choice("direction", &known)
}

fn ramp(section: &ScenarioSection<'_>, duration: Option<Duration>) -> Option<FadePlan> {
    let own = section.section("to");
    if own.table.is_some_and(|table| table.fields.is_empty()) {
        let remedy = format!("give any of {}", TO.join(", "));
        section.wrong("to", "the fade leads nowhere", remedy);
    }
    section.require("duration", "\"10s\"");
    let end = parameters::read(&own, |parameter| TO.contains(&parameter.key));
    let ramp = Ramp {
        duration: duration?,
        rate_bps: end.change.rate.and_then(|rate| rate.mean_rate_bps()),
        loss: end.change.loss.map(|loss| if let LossModel::Independent(loss) = loss { loss } else { 0.0 }),
        delay: end.change.delay.map(|delay| match delay {
            BaseDelay::Constant(delay) => delay,
            BaseDelay::Schedule(_) => Duration::ZERO,
        }),
    };
    Some(FadePlan::Ramp { ramp, direction: direction(section), given: end.json })
}

fn walk(section: &ScenarioSection<'_>, duration: Option<Duration>) -> Option<FadePlan> {
    for (key, example) in [("from_m", "3"), ("to_m", "60")] {
        section.require(key, example);
    }
    let (from_m, to_m) = (section.number("from_m", DISTANCES_M), section.number("to_m", DISTANCES_M));
    let speed_mps = section.number("speed_mps", SPEEDS_MPS);
    let exponent = section.number("exponent", EXPONENTS);
    match (section.has("duration"), section.has("speed_mps")) {
        (false, false) => section.report_missing("duration", "\"30s\" (or speed_mps = 1.4)"),
        (true, true) => {
            let problem = "`duration` and `speed_mps` are both given";
            section.wrong("speed_mps", problem, "remove one: the other follows from it");
        }
        _ => {}
    }
    if section.has("direction") {
        let problem = "a walk concerns both directions";
        section.wrong("direction", problem, "remove it, or give `to`");
    }
    let (from_m, to_m) = (from_m?, to_m?);
    let distance_m = (to_m - from_m).abs();
    if distance_m == 0.0 {
        section.wrong("to_m", "the walk leads nowhere", "give another distance");
        return None;
    }
    let speed_mps = speed_mps.or_else(|| Some(distance_m / duration?.as_secs_f64()))?;
    let usual = Walk::default();
    Some(FadePlan::Walk(Walk {
        speed_mps,
        from_m,
        to_m,
        exponent: exponent.unwrap_or(usual.exponent),
        ..usual
    }))
}
