//! Goodput over time, path by path: heights from the receiver's deliveries, colours from the paths' counters.

use crate::palette::Paths;
use crate::view::RunData;
use pathbench_record::delivery::BIN;
use pathbench_record::document::RunRecord;
use pathbench_record::event::{DeliveryLine, Direction};
use pathbench_record::sample::{Sample, Side};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// Silences of the receiver from this length on are marked in figures.
pub(crate) const MARKED_SILENCE_MS: f64 = 100.0;

/// Width of a delivery bin.
pub(crate) const BIN_MS: f64 = BIN.as_millis() as f64;

/// A time axis from 0, cut into windows of equal width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grid {
    pub(crate) window_ms: f64,
    pub(crate) windows: usize,
    /// What is recorded ends here, maybe within the last window.
    until_ms: f64,
}

impl Grid {
    /// Windows of 100 ms, or of the next wider round width with which at most `limit` cover `until_ms`.
    ///
    /// A last window that would be covered less than half is left out: it would look like a dip.
    pub(crate) fn covering(until_ms: f64, limit: usize) -> Self {
        let until_ms = until_ms.max(0.0);
        let steps = (2..12).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
        let window_ms =
            steps.into_iter().find(|width| until_ms / width <= limit.max(1) as f64).unwrap_or(1e12);
        let windows = ((until_ms / window_ms).round() as usize).max(1);
        Self { window_ms, windows, until_ms: until_ms.min(windows as f64 * window_ms) }
    }

    /// At most `windows` windows that cover all of `until_ms`, each a whole number of delivery bins wide.
    pub(crate) fn split(until_ms: f64, windows: usize) -> Self {
        let bins = (until_ms / BIN_MS / windows.max(1) as f64 - 1e-9).ceil().max(1.0);
        let window_ms = bins * BIN_MS;
        let windows = ((until_ms / window_ms - 1e-9).ceil() as usize).max(1);
        Self { window_ms, windows, until_ms: until_ms.min(windows as f64 * window_ms) }
    }

    /// How much of a window is recorded: all of it, but for the last.
    fn recorded_ms(&self, window: usize) -> f64 {
        let left_ms = self.until_ms - window as f64 * self.window_ms;
        if window + 1 == self.windows { left_ms.clamp(BIN_MS, self.window_ms) } else { self.window_ms }
    }

    /// Where the record ends.
    pub(crate) fn until_ms(&self) -> f64 {
        self.until_ms
    }

    /// Where the last window ends.
    pub(crate) fn end_ms(&self) -> f64 {
        self.window_ms * self.windows as f64
    }
}

/// Where the split into paths comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attribution {
    /// The run had one path only.
    OnePath,
    /// `bytes_received` of each path at the receiving end.
    Receiver,
    /// `bytes_acked` of each path at the sending end, as the receiving end has no samples.
    Sender,
    /// Nothing says which path brought what.
    Unknown,
}

/// Goodput of one path per window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PathSeries {
    /// `None`: bytes that could not be attributed to a path.
    pub(crate) path: Option<String>,
    pub(crate) mbps: Vec<f64>,
}

/// Goodput per window and path; the paths add up to what the receiving application got.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) grid: Grid,
    pub(crate) paths: Vec<PathSeries>,
    pub(crate) attribution: Attribution,
}

impl Series {
    /// All paths together.
    pub(crate) fn total_mbps(&self) -> Vec<f64> {
        let mut total = vec![0.0; self.grid.windows];
        for path in &self.paths {
            for (sum, value) in total.iter_mut().zip(&path.mbps) {
                *sum += value;
            }
        }
        total
    }

    /// The highest window.
    pub(crate) fn peak_mbps(&self) -> f64 {
        self.total_mbps().into_iter().fold(0.0, f64::max)
    }
}

/// The goodput series of `run` in one direction, or of both together when `direction` is `None`.
pub(crate) fn series(
    run: &RunRecord,
    data: &RunData,
    direction: Option<Direction>,
    grid: Grid,
    paths: &Paths,
) -> Series {
    let mut rows: BTreeMap<(usize, Option<String>), Vec<f64>> = BTreeMap::new();
    let mut attribution = Attribution::OnePath;
    for one in [Direction::Upload, Direction::Download] {
        if direction.is_some_and(|wanted| wanted != one) {
            continue;
        }
        let delivered = delivered_mbps(data, one, grid);
        if delivered.iter().all(|mbps| *mbps == 0.0) {
            continue;
        }
        let (shares, source) = shares(run, data, one, grid);
        attribution = attribution.max(source);
        for (window, mbps) in delivered.iter().enumerate() {
            for (path, share) in &shares[window] {
                let rank = path.as_ref().map_or(usize::MAX, |name| paths.rank(name));
                let row = rows.entry((rank, path.clone())).or_insert_with(|| vec![0.0; grid.windows]);
                row[window] += mbps * share;
            }
        }
    }
    let paths = rows.into_iter().map(|((_, path), mbps)| PathSeries { path, mbps }).collect();
    Series { grid, paths, attribution }
}

/// The highest window of a run, without a look at the paths.
pub(crate) fn peak_mbps(data: &RunData, direction: Option<Direction>, grid: Grid) -> f64 {
    let mut total = vec![0.0; grid.windows];
    for one in [Direction::Upload, Direction::Download] {
        if direction.is_none_or(|wanted| wanted == one) {
            total.iter_mut().zip(delivered_mbps(data, one, grid)).for_each(|(sum, mbps)| *sum += mbps);
        }
    }
    total.into_iter().fold(0.0, f64::max)
}

/// What the receiving application got per window. A bin that spans two windows counts in the first.
fn delivered_mbps(data: &RunData, direction: Direction, grid: Grid) -> Vec<f64> {
    let mut mbps = vec![0.0; grid.windows];
    for line in data.deliveries.iter().filter(|line| line.direction == direction) {
        // A hair to the right, so that 300 ms of 100 ms windows is window 3 in floating point, too.
        let window = ((line.t_ms.max(0.0) + 1e-6) / grid.window_ms) as usize;
        if let Some(sum) = mbps.get_mut(window) {
            *sum += line.bytes as f64 * 8e-3 / grid.recorded_ms(window);
        }
    }
    mbps
}

/// One of a sample's growing counters.
type Counter = fn(&Sample) -> u64;

/// The part of each path in one window.
type Shares = Vec<(Option<String>, f64)>;

/// Per window: the part of each path in what arrived, 0 to 1, adding up to 1.
fn shares(run: &RunRecord, data: &RunData, direction: Direction, grid: Grid) -> (Vec<Shares>, Attribution) {
    let (receiver, sender) = match direction {
        Direction::Upload => (Side::Server, Side::Client),
        Direction::Download => (Side::Client, Side::Server),
    };
    let sources: [(Attribution, Side, Counter); 2] = [
        (Attribution::Receiver, receiver, |sample| sample.figures.bytes_received),
        (Attribution::Sender, sender, |sample| sample.figures.bytes_acked),
    ];
    for (attribution, side, counter) in sources {
        let counters = Counters::new(data.samples.iter().copied().filter(|line| line.side == side), counter);
        if let Some(shares) = counters.shares(grid) {
            return (shares, attribution);
        }
    }
    let (path, attribution) = match run.paths.as_slice() {
        [only] => (Some(only.name.clone()), Attribution::OnePath),
        _ => (None, Attribution::Unknown),
    };
    (vec![vec![(path, 1.0)]; grid.windows], attribution)
}

/// A growing byte counter of each path over time, its subflows' counters added up.
#[derive(Debug, Default)]
pub(crate) struct Counters<'a> {
    subflows: BTreeMap<SubflowKey<'a>, Vec<(f64, u64)>>,
}

/// Path, stream, the kernel's number of the subflow, and its addresses.
type SubflowKey<'a> = (&'a str, u32, u32, SocketAddr, SocketAddr);

impl<'a> Counters<'a> {
    /// From samples in the order of time, all of one side.
    pub(crate) fn new(samples: impl Iterator<Item = &'a Sample>, counter: Counter) -> Self {
        let mut subflows: BTreeMap<_, Vec<(f64, u64)>> = BTreeMap::new();
        let mut previous: HashMap<u32, f64> = HashMap::new();
        let mut current: HashMap<u32, f64> = HashMap::new();
        for sample in samples {
            let (t_ms, now) = (sample.t_ms, current.entry(sample.stream).or_insert(0.0));
            if *now < t_ms {
                previous.insert(sample.stream, *now);
                *now = t_ms;
            }
            let figures = &sample.figures;
            let key = (sample.path.as_str(), sample.stream, figures.subflow, figures.local, figures.remote);
            let points = subflows.entry(key).or_insert_with(|| {
                // A subflow begins to count after the last moment at which it was not there yet.
                vec![(previous.get(&sample.stream).copied().unwrap_or(0.0).min(t_ms), 0)]
            });
            // Counters never go back; a record that does is held at its highest value.
            let highest = points.last().map_or(0, |(_, value)| *value);
            points.push((t_ms, counter(sample).max(highest)));
        }
        Self { subflows }
    }

    /// The counter of every path at `t_ms`, linear between samples.
    pub(crate) fn at(&self, t_ms: f64) -> BTreeMap<&'a str, f64> {
        let mut values = BTreeMap::new();
        for ((path, ..), points) in &self.subflows {
            *values.entry(*path).or_insert(0.0) += interpolate(points, t_ms);
        }
        values
    }

    /// Shares of the paths in the growth per window; a window without growth takes its neighbour's.
    /// `None` when nothing ever grew.
    fn shares(&self, grid: Grid) -> Option<Vec<Shares>> {
        let mut windows: Vec<Option<Shares>> = Vec::with_capacity(grid.windows);
        let mut before = self.at(0.0);
        for window in 1..=grid.windows {
            let after = self.at(window as f64 * grid.window_ms);
            let growth: Vec<(&str, f64)> = after
                .iter()
                .map(|(path, value)| (*path, (value - before.get(path).copied().unwrap_or(0.0)).max(0.0)))
                .collect();
            let total: f64 = growth.iter().map(|(_, bytes)| bytes).sum();
            windows.push((total > 0.0).then(|| {
                let grown = growth.iter().filter(|(_, bytes)| *bytes > 0.0);
                grown.map(|(path, bytes)| (Some((*path).to_owned()), bytes / total)).collect()
            }));
            before = after;
        }
        let mut last = windows.iter().flatten().next()?.clone();
        Some(
            windows
                .into_iter()
                .map(|shares| {
                    last = shares.unwrap_or_else(|| last.clone());
                    last.clone()
                })
                .collect(),
        )
    }
}

fn interpolate(points: &[(f64, u64)], t_ms: f64) -> f64 {
    let after = points.partition_point(|(at, _)| *at <= t_ms);
    match (after.checked_sub(1).and_then(|index| points.get(index)), points.get(after)) {
        (None, _) => 0.0,
        (Some((_, value)), None) => *value as f64,
        (Some((from, low)), Some((to, high))) => {
            let part = if to > from { (t_ms - from) / (to - from) } else { 1.0 };
            *low as f64 + (*high as f64 - *low as f64) * part.clamp(0.0, 1.0)
        }
    }
}

/// A time in which the receiving application got nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Silence {
    pub(crate) from_ms: f64,
    pub(crate) to_ms: f64,
    /// The run gave up at its end.
    pub(crate) fatal: bool,
}

/// Silences of at least [`MARKED_SILENCE_MS`], seen in the 10 ms bins, and the wait before a run gave up.
pub(crate) fn silences(run: &RunRecord, data: &RunData, direction: Option<Direction>) -> Vec<Silence> {
    let wanted = |line: &&&DeliveryLine| direction.is_none_or(|one| line.direction == one) && line.bytes > 0;
    let mut silences = Vec::new();
    let mut end_ms = 0.0;
    for line in data.deliveries.iter().filter(wanted) {
        if line.t_ms - end_ms >= MARKED_SILENCE_MS {
            silences.push(Silence { from_ms: end_ms, to_ms: line.t_ms, fatal: false });
        }
        end_ms = (line.t_ms + BIN_MS).max(end_ms);
    }
    if let Some(hung_ms) = run.hung_ms.filter(|hung| !run.completed && *hung >= MARKED_SILENCE_MS) {
        let hung_ms = hung_ms.min(crate::view::LATEST_MS);
        silences.push(Silence { from_ms: end_ms, to_ms: end_ms + hung_ms, fatal: true });
    }
    silences
}

/// When the last byte came or the last event of the scenario took place.
pub(crate) fn end_ms(data: &RunData) -> f64 {
    let delivered = data.deliveries.iter().map(|line| line.t_ms + BIN_MS);
    delivered.chain(data.scenario_events().map(|event| event.t_ms)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_round_windows_and_no_stub_at_its_end() {
        let shape = |grid: Grid| (grid.window_ms as u32, grid.windows);
        assert_eq!(shape(Grid::covering(10_030.0, 400)), (100, 100));
        assert_eq!(shape(Grid::covering(60_000.0, 400)), (200, 300));
        assert_eq!(shape(Grid::covering(3.0, 400)), (100, 1));
        assert_eq!(shape(Grid::split(10_000.0, 68)), (150, 67));
        assert!(Grid::covering(1e9, 400).windows <= 400);
    }

    fn sample(t_ms: f64, path: &str, bytes_received: u64) -> Sample {
        let text = format!(
            r#"{{"run":"r","t_ms":{t_ms},"host":"server","side":"server","stream":0,"path":"{path}","subflow":1,
            "local":"10.0.0.2:1","remote":"10.0.0.1:1","state":"open","bytes_sent":0,"bytes_acked":0,
            "bytes_received":{bytes_received},"retransmitted_bytes":0,"retransmitted_segments":0,"srtt_ms":1.0,
            "rttvar_ms":1.0,"rto_ms":200.0,"backoff":0,"cwnd_bytes":0,"in_flight_bytes":0,"not_sent_bytes":0,
            "mss_bytes":1448,"pmtu_bytes":1500,"since_last_sent_ms":0,"since_last_received_ms":0}}"#
        );
        serde_json::from_str(&text).expect("a sample")
    }

    fn delivery(t_ms: f64, bytes: u64) -> DeliveryLine {
        DeliveryLine { run: "r".to_owned(), direction: Direction::Upload, t_ms, bytes }
    }

    fn run() -> RunRecord {
        let text = r#"{"id":"r","variant":{},"transport":"mptcp","label":"mptcp","pattern":"iperf","repetition":1,
            "valid":true,"completed":true,"delivered_bytes":0,"duration_ms":0.0,"multipath":{"requested":true,
            "negotiated":true,"used":true,"reason":"","paths_used":2},"paths":[],"directions":[],
            "parameters":{"asked":{},"in_force":{}}}"#;
        serde_json::from_str(text).expect("a run")
    }

    #[test]
    fn height_comes_from_the_deliveries_and_colour_from_the_counters() {
        // In the first 100 ms `a` brings a quarter of what arrives; then only `a` brings anything.
        let samples = [
            sample(0.0, "a", 0),
            sample(0.0, "b", 0),
            sample(100.0, "a", 1000),
            sample(100.0, "b", 3000),
            sample(200.0, "a", 2000),
            sample(200.0, "b", 3000),
        ];
        let deliveries = [delivery(0.0, 50_000), delivery(90.0, 50_000), delivery(100.0, 20_000)];
        let data = RunData {
            samples: samples.iter().collect(),
            deliveries: deliveries.iter().collect(),
            ..RunData::default()
        };
        let found = series(&run(), &data, None, Grid::covering(200.0, 10), &Paths::default());
        assert_eq!(found.attribution, Attribution::Receiver);
        let shape: Vec<(Option<&str>, Vec<f64>)> =
            found.paths.iter().map(|one| (one.path.as_deref(), one.mbps.clone())).collect();
        assert_eq!(shape, [(Some("a"), vec![2.0, 1.6]), (Some("b"), vec![6.0, 0.0])]);
    }

    proptest::proptest! {
        #[test]
        fn no_byte_is_lost_or_made_up(
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
                samples: samples.iter().collect(),
                deliveries: deliveries.iter().collect(),
                ..RunData::default()
            };
            let found = series(&run(), &data, None, Grid::covering(1000.0, 10), &Paths::default());
            let bytes: f64 = found.total_mbps().iter().map(|mbps| mbps * 100.0 / 8e-3).sum();
            let delivered: u64 = deliveries.iter().map(|line| line.bytes).sum();
            proptest::prop_assert!((bytes - delivered as f64).abs() < 1.0, "{bytes} of {delivered}");
            proptest::prop_assert!(found.paths.iter().flat_map(|path| &path.mbps).all(|mbps| *mbps >= 0.0));
        }
    }

    #[test]
    fn silences_are_found_between_bins_and_before_giving_up() {
        let deliveries = [delivery(0.0, 1), delivery(110.0, 1), delivery(200.0, 1)];
        let data = RunData { deliveries: deliveries.iter().collect(), ..RunData::default() };
        let dead = RunRecord { completed: false, hung_ms: Some(5000.0), ..run() };
        let found: Vec<(f64, f64, bool)> =
            silences(&dead, &data, None).iter().map(|one| (one.from_ms, one.to_ms, one.fatal)).collect();
        assert_eq!(found, [(10.0, 110.0, false), (210.0, 5210.0, true)]);
    }

    #[test]
    fn counters_are_linear_between_samples() {
        let points = [(0.0, 0), (100.0, 1000), (200.0, 1000)];
        assert!((interpolate(&points, 50.0) - 500.0).abs() < 1e-9);
        assert!((interpolate(&points, 150.0) - 1000.0).abs() < 1e-9);
        assert!((interpolate(&points, -5.0)).abs() < 1e-9);
        assert!((interpolate(&points, 900.0) - 1000.0).abs() < 1e-9);
    }
}
