//! The figures of a run from those of its directions.

use super::DirectionAnalysis;

/// What stands at the top of a run's record, both directions together.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFigures {
    /// Sum over the directions.
    pub goodput_mbps: Option<f64>,
    /// Sum over the directions.
    pub delivered_bytes: u64,
    /// The longer of the directions.
    pub duration_ms: f64,
    /// The longer of the directions.
    pub hung_ms: Option<f64>,
    /// The longer of the directions.
    pub stall_ms: Option<f64>,
    /// Of the first disruptive event, the slower of the directions; `None` when either did not recover.
    pub recovery_ms: Option<f64>,
    /// Of the first disruptive event, the deeper of the directions.
    pub dip: Option<f64>,
}

pub fn combine(directions: &[DirectionAnalysis]) -> RunFigures {
    let largest = |values: &mut dyn Iterator<Item = f64>| values.max_by(f64::total_cmp);
    let first_impacts: Vec<_> = directions.iter().filter_map(|direction| direction.impacts.first()).collect();
    let recoveries: Option<Vec<f64>> = first_impacts.iter().map(|impact| impact.recovery_ms).collect();
    RunFigures {
        goodput_mbps: directions.iter().filter_map(|direction| direction.goodput_mbps).reduce(|a, b| a + b),
        delivered_bytes: directions
            .iter()
            .map(|direction| direction.delivered_bytes)
            .fold(0, u64::saturating_add),
        duration_ms: largest(&mut directions.iter().map(|d| d.duration_ms)).unwrap_or_default(),
        hung_ms: largest(&mut directions.iter().filter_map(|d| d.hung_ms)),
        stall_ms: largest(&mut directions.iter().filter_map(|d| d.stall_ms)),
        recovery_ms: recoveries.and_then(|values| largest(&mut values.into_iter())),
        dip: largest(&mut first_impacts.iter().filter_map(|impact| impact.dip)),
    }
}
