//! What the sending end of a run knew of each path over time.

use crate::palette::Paths;
use crate::series::{self, Grid, path_curves};
use crate::view::RunData;
use pathbench_analysis::binning::Window;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DiagnosisKind, RunRecord};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::transport::Transport;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// A subflow that was not sampled for this long is gone.
const FORGOTTEN_MS: f64 = 1000.0;
/// Sizes that differ by less than this are the same: options come and go.
const SAME_BYTES: u32 = 40;
/// A path whose MTU grows by more than this tells of path MTU discovery; QUIC's usual growth, from 1200 to what an
/// Ethernet takes, is less.
const GROWTH: f64 = 1.35;
/// An MSS that varies by more than this does not only follow the peer's window (`tcp_bound_to_half_wnd`, which lets that
/// of a loopback go up and down).
const PROBED: f64 = 1.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) mss_bytes: u32,
    pub(super) pmtu_bytes: u32,
    pub(super) backoff: u32,
}

#[derive(Debug)]
pub(super) struct PathTrace {
    pub(super) name: String,
    /// From when on, and what; `None` where the path had no open subflow.
    pub(super) steps: Vec<(f64, Option<Sizes>)>,
    pub(super) mbps: Vec<f64>,
    pub(super) resent_kb: Vec<f64>,
}

#[derive(Debug)]
pub(super) struct Trace {
    pub(super) grid: Grid,
    pub(super) end_ms: f64,
    pub(super) in_order: bool,
    pub(super) paths: Vec<PathTrace>,
}

fn sender(run: &RunRecord) -> Side {
    let most = run.directions.iter().max_by_key(|one| one.delivered_bytes);
    match most.map(|one| one.direction) {
        Some(Direction::Download) => Side::Server,
        Some(Direction::Upload) | None => Side::Client,
    }
}

fn of_sender<'a>(run: &RunRecord, data: &RunData<'a>) -> Vec<&'a Sample> {
    let side = sender(run);
    data.samples.iter().copied().filter(|sample| sample.side == side).collect()
}

/// Whether a run tells anything of packet sizes: paths differ in them, they changed, they were too large for a path, or
/// packets were counted.
pub(super) fn is_telling(run: &RunRecord, data: &RunData) -> bool {
    let too_large = run.diagnoses.iter().any(|one| one.kind == DiagnosisKind::MtuBlackHole);
    if too_large || run.links.iter().any(|link| link.packet_sizes.is_some()) {
        return true;
    }
    let known = run.paths.iter().map(|path| path.pmtu_bytes).filter(|bytes| *bytes > 0);
    if known.clone().max().zip(known.min()).is_some_and(|(most, least)| most - least >= SAME_BYTES) {
        return true;
    }
    // The smallest and the largest so far.
    let mut ranges: HashMap<&str, [(u32, u32); 2]> = HashMap::new();
    of_sender(run, data).into_iter().filter(|sample| sample.figures.state == PathState::Open).any(|sample| {
        let (mss, pmtu) = (sample.figures.mss_bytes, sample.figures.pmtu_bytes);
        if mss == 0 || pmtu == 0 {
            return false;
        }
        let ranges = ranges.entry(&sample.path).or_insert([(mss, mss), (pmtu, pmtu)]);
        for ((least, most), bytes) in ranges.iter_mut().zip([mss, pmtu]) {
            (*least, *most) = ((*least).min(bytes), (*most).max(bytes));
        }
        let [of_mss, of_pmtu] = ranges.map(|(least, most)| f64::from(most) / f64::from(least));
        of_mss > PROBED || of_pmtu > GROWTH || ranges[1].1 - pmtu >= SAME_BYTES
    })
}

impl Trace {
    pub(super) fn of(run: &RunRecord, data: &RunData, grid: Grid, paths: &Paths) -> Self {
        let grid = grid.ending_at(series::end_ms(data));
        let samples = of_sender(run, data);
        let mut names: Vec<&str> = run.paths.iter().map(|path| path.name.as_str()).collect();
        for sample in &samples {
            if !names.contains(&sample.path.as_str()) {
                names.push(&sample.path);
            }
        }
        names.sort_by_key(|name| paths.rank(name));
        let arrived = arrived(run, data, grid);
        let resent = growth(samples.iter().copied(), |figures| figures.retransmitted_bytes, grid);
        let of_path = |name: &str| {
            let series = |of: &[BTreeMap<String, f64>]| -> Vec<f64> {
                of.iter().map(|window| window.get(name).copied().unwrap_or(0.0)).collect()
            };
            let rate = |(bin, bytes): (Window, f64)| bin.mbps(bytes).unwrap_or_default();
            PathTrace {
                name: name.to_owned(),
                steps: steps(samples.iter().copied().filter(|sample| sample.path == name)),
                mbps: grid.bins().windows().zip(series(&arrived)).map(rate).collect(),
                resent_kb: series(&resent).into_iter().map(|bytes| bytes / 1e3).collect(),
            }
        };
        let end_ms = samples.last().map_or(0.0, |sample| sample.t_ms).min(grid.until_ms());
        let in_order = matches!(run.transport, Transport::Tcp | Transport::Mptcp);
        Self { grid, end_ms, in_order, paths: names.into_iter().map(of_path).collect() }
    }

    pub(super) fn peak_mbps(&self) -> f64 {
        self.paths.iter().flat_map(|path| path.mbps.iter().copied()).fold(0.0, f64::max)
    }

    pub(super) fn peak_resent_kb(&self) -> f64 {
        self.paths.iter().flat_map(|path| path.resent_kb.iter().copied()).fold(0.0, f64::max)
    }

    pub(super) fn peak_backoff(&self) -> u32 {
        // More than the kernel ever counts is a damaged record.
        self.sizes().map(|sizes| sizes.backoff.min(100)).max().unwrap_or(0)
    }

    pub(super) fn largest_bytes(&self) -> u32 {
        self.sizes().map(|sizes| sizes.pmtu_bytes.max(sizes.mss_bytes).min(70_000)).max().unwrap_or(0)
    }

    fn sizes(&self) -> impl Iterator<Item = Sizes> + '_ {
        self.paths.iter().flat_map(|path| &path.steps).filter_map(|(_, sizes)| *sizes)
    }
}

fn growth<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    counter: fn(&PathFigures) -> u64,
    grid: Grid,
) -> Vec<BTreeMap<String, f64>> {
    let curves = path_curves(samples, counter);
    let of_window = |bin: Window| {
        let grown = curves.growth(bin.from, bin.until).into_iter();
        grown.map(|(path, bytes)| (path.to_owned(), bytes)).collect()
    };
    grid.bins().windows().map(of_window).collect()
}

/// Bytes that arrived over each path: by the word of the receiving end, where it was sampled. What the application got
/// is no measure of a path: it waits for the other paths, too.
fn arrived(run: &RunRecord, data: &RunData, grid: Grid) -> Vec<BTreeMap<String, f64>> {
    let sender = sender(run);
    let of_side = |is_sender: bool| {
        data.samples.iter().copied().filter(move |sample| (sample.side == sender) == is_sender)
    };
    if of_side(false).next().is_none() {
        growth(of_side(true), PathFigures::payload_acked, grid)
    } else {
        growth(of_side(false), |figures| figures.bytes_received, grid)
    }
}

/// The changes on a path, from its samples in order of time: of several open subflows the smallest sizes, the longest
/// back-off.
fn steps<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<(f64, Option<Sizes>)> {
    let mut subflows: HashMap<(u32, u32, SocketAddr), (f64, Sizes)> = HashMap::new();
    let mut steps: Vec<(f64, Option<Sizes>)> = Vec::new();
    for sample in samples {
        let (t_ms, figures) = (sample.t_ms, &sample.figures);
        subflows.retain(|_, (seen, _)| t_ms - *seen < FORGOTTEN_MS);
        let key = (sample.stream, figures.subflow, figures.local);
        if figures.state == PathState::Open {
            let sizes = Sizes {
                mss_bytes: figures.mss_bytes,
                pmtu_bytes: figures.pmtu_bytes,
                backoff: figures.backoff,
            };
            subflows.insert(key, (t_ms, sizes));
        } else {
            subflows.remove(&key);
        }
        let now = subflows.values().map(|(_, sizes)| *sizes).reduce(|a, b| Sizes {
            mss_bytes: a.mss_bytes.min(b.mss_bytes),
            pmtu_bytes: a.pmtu_bytes.min(b.pmtu_bytes),
            backoff: a.backoff.max(b.backoff),
        });
        // What held when the data began stands at its beginning.
        if t_ms <= 0.0 {
            steps.clear();
        }
        if steps.last().is_none_or(|(_, last)| *last != now) {
            steps.push((t_ms.max(0.0), now));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::sample::PathFigures;

    fn sample(t_ms: f64, subflow: u32, mss_bytes: u32, state: PathState) -> Sample {
        let address = SocketAddr::from(([10, 0, 0, 1], 5201));
        Sample {
            run: "r".to_owned(),
            t_ms,
            host: "client".to_owned(),
            side: Side::Client,
            stream: 0,
            path: "wlan".to_owned(),
            figures: PathFigures {
                subflow,
                state,
                mss_bytes,
                pmtu_bytes: mss_bytes + 52,
                ..PathFigures::between(address, address)
            },
        }
    }

    #[test]
    fn only_changes_are_steps_and_a_closed_subflow_leaves_a_gap() {
        use PathState::{Closed, Open};
        let samples = [
            sample(0.0, 1, 8948, Open),
            sample(100.0, 1, 8948, Open),
            sample(200.0, 1, 1448, Open),
            sample(300.0, 1, 1448, Closed),
            sample(400.0, 2, 1400, Open),
        ];
        let found: Vec<_> = steps(samples.iter())
            .into_iter()
            .map(|(t, sizes)| (t as u32, sizes.map(|s| s.mss_bytes)))
            .collect();
        assert_eq!(found, [(0, Some(8948)), (200, Some(1448)), (300, None), (400, Some(1400))]);
    }

    #[test]
    fn what_the_first_milliseconds_change_is_seen() {
        let samples = [(-3.0, 536), (-2.0, 8948), (8.0, 1448)]
            .map(|(t_ms, mss_bytes)| sample(t_ms, 1, mss_bytes, PathState::Open));
        let found: Vec<_> = steps(samples.iter())
            .into_iter()
            .map(|(t, sizes)| (t as u32, sizes.map(|sizes| sizes.mss_bytes)))
            .collect();
        assert_eq!(found, [(0, Some(8948)), (8, Some(1448))]);
    }

    #[test]
    fn the_growth_of_an_ordinary_quic_path_tells_nothing() {
        let run = RunRecord::default();
        let tells = |sizes: &[u32]| {
            let samples: Vec<Sample> = sizes
                .iter()
                .enumerate()
                .map(|(index, mss)| {
                    let mut sample = sample(index as f64 * 100.0, 1, *mss, PathState::Open);
                    if *mss > 9000 {
                        sample.figures.pmtu_bytes = 65_535;
                    }
                    sample
                })
                .collect();
            is_telling(&run, &RunData { samples: samples.iter().collect(), ..RunData::default() })
        };
        assert!(!tells(&[1200, 1389, 1452, 1452]));
        assert!(!tells(&[1448, 1428, 1448]));
        assert!(tells(&[8948, 8948, 1448]));
        assert!(!tells(&[32_768, 45_568, 32_768]), "a loopback's window");
        assert!(tells(&[1448, 1228]));
        assert!(tells(&[1200, 1452, 8972]));
    }
}
