//! Goodput over time per path: heights from the receiver's deliveries, colours from the paths' counters. The windows
//! come from [`pathbench_analysis::binning`].

use crate::palette::{Colour, UNATTRIBUTED};
use crate::result_set::Paths;
use crate::run_data::{Counter, LATEST_MS, RunData, ZERO, path_curves};
use pathbench_analysis::binning::{Bins, ByteCurve, FirstAndLast, Window};
use pathbench_analysis::metrics::PathCurves;
use pathbench_record::delivery::{BIN, DeliveryLine};
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use pathbench_record::event::{EventKind, EventSource};
use pathbench_record::sample::{PathFigures, Side};
use std::collections::BTreeMap;
use std::time::Duration;

/// Figures mark silences of the receiver of at least this length.
pub(crate) const MARKED_SILENCE_MS: f64 = 100.0;

pub(crate) const BIN_MS: f64 = BIN.as_millis() as f64;

/// A time axis from 0, divided into windows of equal width. The last window ends at the end of the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grid {
    pub(crate) window_ms: f64,
    until_ms: f64,
}

impl Grid {
    pub(crate) fn covering(until_ms: f64, limit: usize) -> Self {
        let until_ms = until_ms.max(0.0);
        let steps = (2..12).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
        let window_ms =
            steps.into_iter().find(|width| until_ms / width <= limit.max(1) as f64).unwrap_or(1e12);
        Self { window_ms, until_ms }
    }

    /// At most `windows` windows that cover all of `until_ms`; the width of each is a whole number of delivery bins.
    pub(crate) fn split(until_ms: f64, windows: usize) -> Self {
        let until_ms = until_ms.max(0.0);
        let bins = (until_ms / BIN_MS / windows.max(1) as f64 - 1e-9).ceil().max(1.0);
        Self { window_ms: bins * BIN_MS, until_ms }
    }

    /// Windows of this length, or longer ones if there were more than 2000; `None` without a length.
    pub(crate) fn of_windows(window_ms: f64, until_ms: f64) -> Option<Self> {
        let is_measurable =
            window_ms.is_finite() && until_ms.is_finite() && window_ms > 0.0 && until_ms > 0.0;
        // Files can have any number: 30 years are longer than any capture.
        let until_ms = until_ms.min(1e12);
        is_measurable
            .then(|| Self { window_ms: window_ms.clamp(1e-3, 1e12).max(until_ms / 2000.0), until_ms })
    }

    pub(crate) fn ending_at(self, until_ms: f64) -> Self {
        Self { until_ms: self.until_ms.min(until_ms.max(0.0)), ..self }
    }

    pub(crate) fn until_ms(&self) -> f64 {
        self.until_ms
    }

    pub(crate) fn windows(&self) -> usize {
        self.bins().count()
    }

    pub(crate) fn edge_ms(&self, index: usize) -> f64 {
        if index < self.windows() { index as f64 * self.window_ms } else { self.until_ms }
    }

    pub(crate) fn window_of(&self, t_ms: f64) -> usize {
        ((t_ms / self.window_ms).max(0.0) as usize).min(self.windows().saturating_sub(1))
    }

    pub(crate) fn bins(&self) -> Bins {
        let width = Duration::from_nanos((self.window_ms * 1e6) as u64);
        Bins::new(Window { from: ZERO, until: ZERO.plus_ms(self.until_ms) }, width)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attribution {
    OnePath,
    Receiver,
    /// The bytes of each path acknowledged at the sender, because the receiver has no samples.
    Sender,
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// `None` for bytes without a known path.
    pub(crate) path: Option<String>,
    pub(crate) colour: Colour,
    pub(crate) values: Vec<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) grid: Grid,
    pub(crate) paths: Vec<Layer>,
    pub(crate) attribution: Attribution,
}

/// The goodput series of `run` in one direction, or the sum of both when `direction` is `None`; it ends with the run.
pub(crate) fn series(
    run: &RunRecord,
    data: &RunData,
    direction: Option<Direction>,
    grid: Grid,
    paths: &Paths,
) -> Series {
    let grid = grid.ending_at(end_ms(data));
    let mut rows: BTreeMap<(usize, Option<String>), Vec<f64>> = BTreeMap::new();
    let mut attribution = Attribution::OnePath;
    for (one, curve) in deliveries(data, direction) {
        let (shares, source) = shares(run, data, one, grid);
        attribution = attribution.max(source);
        for (window, (mbps, shares)) in grid.bins().mbps(&curve).iter().zip(&shares).enumerate() {
            for (path, share) in shares {
                let rank = path.as_ref().map_or(usize::MAX, |name| paths.rank(name));
                let row = rows.entry((rank, path.clone())).or_insert_with(|| vec![0.0; grid.windows()]);
                row[window] += mbps * share;
            }
        }
    }
    let layer = |((_, path), values): ((usize, Option<String>), Vec<f64>)| {
        let colour = path.as_ref().map_or(UNATTRIBUTED, |name| paths.colour(name));
        Layer { path, colour, values }
    };
    Series { grid, paths: rows.into_iter().map(layer).collect(), attribution }
}

impl Series {
    pub(crate) fn total_mbps(&self) -> Vec<f64> {
        let of_window = |window| self.paths.iter().map(|path| path.values[window]).sum();
        (0..self.grid.windows()).map(of_window).collect()
    }
}

/// The sum of all paths per window, to the end of the run.
pub(crate) fn total_mbps(data: &RunData, direction: Option<Direction>, grid: Grid) -> Vec<f64> {
    let grid = grid.ending_at(end_ms(data));
    let mut total = vec![0.0; grid.windows()];
    for (_, curve) in deliveries(data, direction) {
        total.iter_mut().zip(grid.bins().mbps(&curve)).for_each(|(sum, mbps)| *sum += mbps);
    }
    total
}

fn deliveries(data: &RunData, wanted: Option<Direction>) -> Vec<(Direction, ByteCurve)> {
    let directions = Direction::BOTH.into_iter();
    directions
        .filter(|one| wanted.is_none_or(|wanted| wanted == *one))
        .map(|one| (one, delivery_curve(data, one)))
        .filter(|(_, curve)| curve.total_bytes() > 0)
        .collect()
}

fn delivery_curve(data: &RunData, direction: Direction) -> ByteCurve {
    let lines = || data.deliveries.iter().filter(|line| line.direction == direction && line.bytes > 0);
    // The receiver reports the exact times of its first and last byte, which are within the lines' 10 ms.
    let exact = |kind: EventKind, line: Option<&DeliveryLine>| {
        let line = line?;
        let of_kind =
            data.events.iter().filter(|one| one.source == EventSource::Observer && one.kind == kind);
        let mut times = of_kind.map(|event| event.t_ms);
        times.find(|t_ms| (0.0..=BIN_MS).contains(&(t_ms - line.t_ms))).map(|t_ms| ZERO.plus_ms(t_ms))
    };
    let known = FirstAndLast {
        first: exact(EventKind::FirstByte, lines().next()),
        last: exact(EventKind::LastByte, lines().next_back()),
    };
    ByteCurve::from_lines(lines(), ZERO, known)
}

type Shares = Vec<(Option<String>, f64)>;

/// The share of each path in the bytes of each window, 0 to 1; the shares of a window add up to 1.
fn shares(run: &RunRecord, data: &RunData, direction: Direction, grid: Grid) -> (Vec<Shares>, Attribution) {
    let (receiver, sender) = match direction {
        Direction::Upload => (Side::Server, Side::Client),
        Direction::Download => (Side::Client, Side::Server),
    };
    let sources: [(Attribution, Side, Counter); 2] = [
        (Attribution::Receiver, receiver, |figures| figures.bytes_received),
        (Attribution::Sender, sender, PathFigures::payload_acked),
    ];
    for (attribution, side, counter) in sources {
        let curves = path_curves(data.samples.iter().filter(|line| line.side == side), counter);
        if let Some(shares) = shares_of(&curves, grid) {
            return (shares, attribution);
        }
    }
    let (path, attribution) = match run.paths.as_slice() {
        [only] => (Some(only.name.clone()), Attribution::OnePath),
        _ => (None, Attribution::Unknown),
    };
    (vec![vec![(path, 1.0)]; grid.windows()], attribution)
}

/// Shares of the paths in the growth per window; a window without growth takes the shares of its neighbour. `None` if
/// nothing ever grew.
fn shares_of(curves: &PathCurves, grid: Grid) -> Option<Vec<Shares>> {
    let of_window = |bin: Window| -> Option<Shares> {
        let shares = curves.shares(bin.from, bin.until).into_iter().filter(|(_, share)| *share > 0.0);
        let shares: Shares = shares.map(|(path, share)| (Some(path), share)).collect();
        (!shares.is_empty()).then_some(shares)
    };
    let windows: Vec<Option<Shares>> = grid.bins().windows().map(of_window).collect();
    let mut last = windows.iter().flatten().next()?.clone();
    let filled = windows.into_iter().map(|shares| {
        last = shares.unwrap_or_else(|| last.clone());
        last.clone()
    });
    Some(filled.collect())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Silence {
    pub(crate) from_ms: f64,
    pub(crate) to_ms: f64,
    pub(crate) fatal: bool,
}

/// Silences of at least [`MARKED_SILENCE_MS`] in the 10 ms bins, and the waiting time before a run gave up.
pub(crate) fn silences(run: &RunRecord, data: &RunData, direction: Option<Direction>) -> Vec<Silence> {
    let wanted = |line: &&DeliveryLine| direction.is_none_or(|one| line.direction == one) && line.bytes > 0;
    let mut silences = Vec::new();
    let mut end_ms = 0.0;
    for line in data.deliveries.iter().filter(wanted) {
        if line.t_ms - end_ms >= MARKED_SILENCE_MS {
            silences.push(Silence { from_ms: end_ms, to_ms: line.t_ms, fatal: false });
        }
        end_ms = (line.t_ms + BIN_MS).max(end_ms);
    }
    if let Some(hung_ms) = run.hung_ms.filter(|hung| !run.completed && *hung >= MARKED_SILENCE_MS) {
        let hung_ms = hung_ms.min(LATEST_MS);
        silences.push(Silence { from_ms: end_ms, to_ms: end_ms + hung_ms, fatal: true });
    }
    silences
}

pub(crate) fn end_ms(data: &RunData) -> f64 {
    let delivered = deliveries(data, None).into_iter().filter_map(|(_, curve)| curve.end());
    let delivered = delivered.map(|at| at.ms_from(ZERO));
    delivered.chain(data.scenario_events().map(|event| event.t_ms)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::event::Event;
    use pathbench_record::sample::Sample;

    #[test]
    fn a_grid_has_round_windows_and_ends_at_its_limit() {
        let shape = |grid: Grid| (grid.window_ms as u32, grid.windows());
        assert_eq!(shape(Grid::covering(10_030.0, 400)), (100, 100));
        assert_eq!(shape(Grid::covering(60_000.0, 400)), (200, 300));
        assert_eq!(shape(Grid::covering(3.0, 400)), (100, 1));
        assert_eq!(shape(Grid::split(10_000.0, 68)), (150, 67));
        assert_eq!(shape(Grid::split(10_000.0, 68).ending_at(450.0)), (150, 3));
        assert!(Grid::covering(1e9, 400).windows() <= 400);
        let grid = Grid::covering(1030.0, 400);
        assert_eq!([0, 9, 10].map(|index| grid.edge_ms(index) as u32), [0, 900, 1030]);
    }

    fn sample(t_ms: f64, path: &str, bytes_received: u64) -> Sample {
        let address = ([10, 0, 0, 1], 1).into();
        let figures = PathFigures { bytes_received, ..PathFigures::new(address, address) };
        pathbench_testkit::sample(t_ms, Side::Server, path, figures)
    }

    fn delivery(t_ms: f64, bytes: u64) -> DeliveryLine {
        DeliveryLine { run: "r".to_owned(), direction: Direction::Upload, t_ms, bytes }
    }

    fn event(t_ms: f64, source: EventSource, kind: &str) -> Event {
        Event {
            run: "r".to_owned(),
            t_ms,
            source,
            host: "server".to_owned(),
            kind: kind.into(),
            path: None,
            due_ms: None,
            detail: serde_json::Map::new(),
        }
    }

    #[test]
    fn height_comes_from_the_deliveries_and_colour_from_the_counters() {
        // In the first 100 ms a quarter of the bytes arrives over `a`; after that all bytes do.
        let samples = [
            sample(0.0, "a", 0),
            sample(0.0, "b", 0),
            sample(100.0, "a", 1000),
            sample(100.0, "b", 3000),
            sample(200.0, "a", 2000),
            sample(200.0, "b", 3000),
        ];
        let deliveries =
            [delivery(0.0, 50_000), delivery(90.0, 50_000), delivery(100.0, 20_000), delivery(190.0, 0)];
        let down = event(200.0, EventSource::Scenario, "down");
        let data = RunData {
            samples: samples.to_vec(),
            deliveries: deliveries.to_vec(),
            events: vec![down],
            ..RunData::default()
        };
        let found = series(&RunRecord::default(), &data, None, Grid::covering(200.0, 10), &Paths::default());
        assert_eq!(found.attribution, Attribution::Receiver);
        let shape: Vec<(Option<&str>, Vec<f64>)> =
            found.paths.iter().map(|one| (one.path.as_deref(), one.values.clone())).collect();
        assert_eq!(shape, [(Some("a"), vec![2.0, 1.6]), (Some("b"), vec![6.0, 0.0])]);
    }

    proptest::proptest! {
        #[test]
        fn the_sum_of_the_windows_is_the_delivered_bytes(
            lines in proptest::collection::vec((0..100_u32, 1..9_000_000_u64), 1..60),
            counters in proptest::collection::vec((0..1200_u32, 0..3_usize, 0..9_000_000_u64), 0..40),
        ) {
            let deliveries: Vec<DeliveryLine> =
                lines.iter().map(|(bin, bytes)| delivery(f64::from(*bin) * BIN_MS, *bytes)).collect();
            let mut samples: Vec<Sample> = counters
                .iter()
                .map(|(t_ms, path, bytes)| sample(f64::from(*t_ms), ["a", "b", "c"][*path], *bytes))
                .collect();
            samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
            let data = RunData {
                samples: samples.clone(),
                deliveries: deliveries.clone(),
                ..RunData::default()
            };
            let found = series(&RunRecord::default(), &data, None, Grid::covering(1000.0, 10), &Paths::default());
            let widths = found.grid.bins().windows().map(Window::length_ms);
            let bytes: f64 = found.total_mbps().iter().zip(widths).map(|(mbps, ms)| mbps * ms / 8e-3).sum();
            let delivered: u64 = deliveries.iter().map(|line| line.bytes).sum();
            proptest::prop_assert!((bytes - delivered as f64).abs() < 1.0, "{bytes} of {delivered}");
            proptest::prop_assert!(found.paths.iter().flat_map(|path| &path.values).all(|mbps| *mbps >= 0.0));
        }
    }

    /// A figure in the README began with 1.05 Gbit/s on a link of 1 Gbit/s: the receiver had started its bins 3 ms
    /// before the sender's first byte, and the first window contained eleven of them.
    #[test]
    fn the_first_window_has_no_eleventh_bin() {
        let deliveries: Vec<DeliveryLine> = (0..100)
            .map(|bin| delivery(f64::from(bin) * 10.0 - 3.0, if bin == 0 { 875_000 } else { 1_250_000 }))
            .collect();
        let data = RunData { deliveries: deliveries.clone(), ..RunData::default() };
        let found = series(&RunRecord::default(), &data, None, Grid::covering(1000.0, 10), &Paths::default())
            .total_mbps();
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|mbps| (mbps - 1000.0).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn the_last_window_is_as_long_as_the_run() {
        let deliveries = [delivery(0.0, 1_250), delivery(150.0, 1_250)];
        let last = event(155.0, EventSource::Observer, "last-byte");
        let data = RunData { deliveries: deliveries.to_vec(), events: vec![last], ..RunData::default() };
        assert!((end_ms(&data) - 155.0).abs() < 1e-9);
        let found =
            series(&RunRecord::default(), &data, None, Grid::covering(5000.0, 400), &Paths::default())
                .total_mbps();
        assert!(found.len() == 2 && (found[0] - 0.1).abs() < 1e-9, "{found:?}");
        assert!((found[1] - 10.0 / 55.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn silences_are_found_between_bins_and_before_giving_up() {
        let deliveries = [delivery(0.0, 1), delivery(110.0, 1), delivery(200.0, 1)];
        let data = RunData { deliveries: deliveries.to_vec(), ..RunData::default() };
        let dead = RunRecord { completed: false, hung_ms: Some(5000.0), ..RunRecord::default() };
        let found: Vec<(f64, f64, bool)> =
            silences(&dead, &data, None).iter().map(|one| (one.from_ms, one.to_ms, one.fatal)).collect();
        assert_eq!(found, [(10.0, 110.0, false), (210.0, 5210.0, true)]);
    }
}
