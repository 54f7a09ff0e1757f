//! Latency under load: the delays of probes by phase. docs/metrics.md, section Latency under load.

use super::counter::PathCurves;
use crate::binning::{ByteCurve, Window};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::document::{PhaseResponse, ResponseDelay, ResponsivenessRecord};
use pathbench_record::response::{
    LoadPhase, LoadProbe, PhaseWindow, ProbeKind, ResponseRecord, ResponsivenessParameters,
};
use pathbench_record::statistics::nearest_rank;
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The records of one run.
#[derive(Debug, Clone, Copy)]
pub struct ResponseInput<'a> {
    pub parameters: &'a ResponsivenessParameters,
    pub response: &'a ResponseRecord,
    /// The end of the client's record.
    pub ended: Timestamp,
    /// Bytes delivered in each direction, in the order of [`Direction::BOTH`]; `None` without the receiver's record.
    pub deliveries: [Option<&'a DeliverySeries>; 2],
    /// Bytes received by path in each direction.
    pub paths: [&'a PathCurves; 2],
    /// Round trips of the set-up of a connection: 2 with TLS over TCP, else 1.
    pub setup_round_trips: u32,
}

type OfPhases = BTreeMap<LoadPhase, ResponseDelay>;

/// The figures of all phases that began before the test ended.
pub fn responsiveness(input: &ResponseInput<'_>) -> ResponsivenessRecord {
    let (response, windows) = (input.response, input.parameters.windows());
    let begun: Vec<PhaseWindow> =
        windows.into_iter().filter(|window| response.begun + window.measured_from < input.ended).collect();
    let delays = |kind, path: Option<&str>| {
        let of_kind = |probe: &&LoadProbe| probe.kind == kind && probe.path.as_deref() == path;
        delays_by_phase(&response.probes.iter().filter(of_kind).collect::<Vec<_>>(), response.begun, &begun)
    };
    let paths: BTreeSet<&str> = response.probes.iter().filter_map(|probe| probe.path.as_deref()).collect();
    ResponsivenessRecord {
        phases: begun.iter().map(|window| (window.phase, phase(input, *window))).collect(),
        own: delays(ProbeKind::Own, None),
        foreign: delays(ProbeKind::Foreign, None),
        path: paths.into_iter().map(|path| (path.to_owned(), delays(ProbeKind::Path, Some(path)))).collect(),
        not_examined: response.absent.clone(),
    }
}

/// The phase in whose measured part `at` lies.
pub fn phase_at(windows: &[PhaseWindow], begun: Timestamp, at: Timestamp) -> Option<LoadPhase> {
    let is_within = |window: &&PhaseWindow| at >= begun + window.measured_from && at < begun + window.until;
    windows.iter().find(is_within).map(|window| window.phase)
}

fn delays_by_phase(probes: &[&LoadProbe], begun: Timestamp, windows: &[PhaseWindow]) -> OfPhases {
    let mut delays: OfPhases = windows
        .iter()
        .filter_map(|window| {
            let within = |probe: &&&LoadProbe| phase_at(&[*window], begun, probe.due).is_some();
            Some((window.phase, delay(probes.iter().filter(within).copied())?))
        })
        .collect();
    if let Some(idle) = delays.get(&LoadPhase::Idle).cloned() {
        for (_, delay) in delays.iter_mut().filter(|(phase, _)| **phase != LoadPhase::Idle) {
            let increase = |loaded: Option<f64>, idle: Option<f64>| Some(loaded? - idle?);
            delay.increase_p50_ms = increase(delay.p50_ms, idle.p50_ms);
            delay.increase_p95_ms = increase(delay.p95_ms, idle.p95_ms);
        }
    }
    delays
}

/// `None` without probes.
fn delay<'a>(probes: impl Iterator<Item = &'a LoadProbe>) -> Option<ResponseDelay> {
    let probes: Vec<&LoadProbe> = probes.collect();
    let answered = round_trips_ms(probes.iter().copied());
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (!probes.is_empty()).then(|| ResponseDelay {
        sent: count(probes.len()),
        lost: count(probes.len() - answered.len()),
        p50_ms: nearest_rank(&answered, 0.5),
        p95_ms: nearest_rank(&answered, 0.95),
        p99_ms: nearest_rank(&answered, 0.99),
        ..ResponseDelay::default()
    })
}

fn round_trips_ms<'a>(probes: impl Iterator<Item = &'a LoadProbe>) -> Vec<f64> {
    probes.filter_map(LoadProbe::round_trip).map(milliseconds).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

fn phase(input: &ResponseInput<'_>, window: PhaseWindow) -> PhaseResponse {
    let begun = input.response.begun;
    let measured = Window { from: begun + window.measured_from, until: begun + window.until };
    let [upload, download] = Direction::BOTH;
    let goodput = |direction: Direction, index: usize| {
        let series = input.deliveries[index].filter(|_| window.phase.has_load(direction))?;
        measured.mbps(ByteCurve::from_series(series).bytes_within(measured))
    };
    let of_paths = |direction: Direction, index: usize| -> BTreeMap<String, f64> {
        let grown = input.paths[index].growth(measured.from, measured.until);
        let loaded = grown.into_iter().filter(|_| window.phase.has_load(direction));
        loaded.filter_map(|(path, bytes)| Some((path.to_owned(), measured.mbps(bytes)?))).collect()
    };
    let setup = input.response.openings.iter().find(|opening| opening.phase == window.phase);
    let setup = setup.and_then(|opening| opening.took).map(milliseconds);
    let of_kind = |kind: ProbeKind| {
        let within =
            |probe: &&LoadProbe| probe.kind == kind && phase_at(&[window], begun, probe.due).is_some();
        trimmed_mean(round_trips_ms(input.response.probes.iter().filter(within)))
    };
    PhaseResponse {
        from_ms: milliseconds(window.from),
        measured_from_ms: milliseconds(window.measured_from),
        to_ms: milliseconds(window.until),
        upload_mbps: goodput(upload, 0),
        download_mbps: goodput(download, 1),
        path_upload_mbps: of_paths(upload, 0),
        path_download_mbps: of_paths(download, 1),
        foreign_setup_ms: setup,
        rpm: rpm(of_kind(ProbeKind::Own), of_kind(ProbeKind::Foreign), setup, input.setup_round_trips),
    }
}

/// Round trips per minute as in draft-ietf-ippm-responsiveness-08: the mean of the rates of both kinds of requests, in
/// which each round trip of the foreign connection's set-up counts as much as one of its requests.
fn rpm(own_ms: Option<f64>, foreign_ms: Option<f64>, setup_ms: Option<f64>, round_trips: u32) -> Option<f64> {
    const MINUTE_MS: f64 = 60_000.0;
    let foreign = (setup_ms? + foreign_ms?) / f64::from(round_trips + 1);
    let rpm = f64::midpoint(MINUTE_MS / own_ms?, MINUTE_MS / foreign);
    rpm.is_finite().then_some(rpm)
}

/// The mean of the values up to the 95th percentile; `None` without values.
fn trimmed_mean(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let kept = (values.len() * 95).div_ceil(100);
    let kept = values.get(..kept).filter(|kept| !kept.is_empty())?;
    Some(kept.iter().sum::<f64>() / kept.len() as f64)
}
