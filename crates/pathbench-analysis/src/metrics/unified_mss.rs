//! The rate formula of the out-of-tree MPTCP v0.9x, which used one MSS for all subflows of a connection.
//!
//! `__mptcp_current_mss` (`net/mptcp/mptcp_output.c` of that kernel) tried the MSS of each subflow for all subflows,
//! called `mptcp_calc_rate` for the resulting rate of the connection, and chose the MSS with the highest rate. S.
//! Manoratne, *Investigating the Effect of Different Subflow MTUs on MPTCP Throughput* (2025), section 10.5,
//! attributes the subflow without traffic to this rule. Upstream MPTCP in Linux has no such rule: every subflow has
//! the MSS of its path.
//!
//! The example in the thesis has two subflows with MSS 8960 and 1460 bytes, both with 50 ms and 20 segments, and
//! prints 56.72 Mbit/s for 8960 and 5.43 for 1460. By the thesis' own formula the first is 53.81, with 25.14 for the
//! second subflow instead of the printed 28.05. The choice is the same.

use pathbench_record::sample::{PathState, Sample, Side};
use pathbench_record::statistics::median;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubflowWindow {
    pub path: String,
    pub mss_bytes: u32,
    /// Smoothed round-trip time.
    pub srtt_ms: f64,
    /// Congestion window or packets in flight, the larger of both (`max(cwnd, packets_out)`), in segments.
    pub window_segments: f64,
}

/// The rate according to the rule with one MSS for all subflows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnifiedRate {
    pub mss_bytes: u32,
    /// The rate of each subflow with this MSS, in the order of the subflows.
    pub subflows_mbps: Vec<f64>,
    pub total_mbps: f64,
}

/// The rule's result for one connection, and the rate of the same windows if each subflow uses its own MSS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnifiedMss {
    pub subflows: Vec<SubflowWindow>,
    /// Every MSS that was tried, in the order of the subflows.
    pub candidates: Vec<UnifiedRate>,
    pub chosen_mss_bytes: u32,
    pub chosen_mbps: f64,
    /// The rate of each subflow with its own MSS: window × MSS ÷ round-trip time, in the order of the subflows.
    pub per_path_mbps: Vec<f64>,
    pub per_path_total_mbps: f64,
}

impl SubflowWindow {
    /// `mptcp_calc_rate` for one subflow: its rate if data arrives in pieces of `mss_bytes`, which the subflow splits
    /// into segments of its own MSS.
    ///
    /// `mss² × 8 × 10⁶ × window ÷ (srtt_us × ⌈mss ÷ this_mss⌉ × this_mss)`, in Mbit/s.
    pub fn rate_mbps(&self, mss_bytes: u32) -> f64 {
        let own = f64::from(self.mss_bytes);
        let unified = f64::from(mss_bytes);
        let carried = (unified / own).ceil() * own;
        unified * unified * 8.0 * self.window_segments / (self.srtt_ms * 1e3 * carried)
    }

    pub fn own_rate_mbps(&self) -> f64 {
        self.rate_mbps(self.mss_bytes)
    }

    fn is_usable(&self) -> bool {
        self.mss_bytes > 0
            && self.srtt_ms > 0.0
            && self.srtt_ms.is_finite()
            && self.window_segments > 0.0
            && self.window_segments.is_finite()
    }
}

/// Applies the rule. Subflows without an MSS, a round-trip time or a window are left out, as the rule leaves out
/// those that cannot send. `None` if no subflow remains.
pub fn apply(subflows: &[SubflowWindow]) -> Option<UnifiedMss> {
    let subflows: Vec<SubflowWindow> = subflows.iter().filter(|one| one.is_usable()).cloned().collect();
    let mut candidates: Vec<UnifiedRate> = Vec::new();
    for subflow in &subflows {
        if candidates.iter().any(|tried| tried.mss_bytes == subflow.mss_bytes) {
            continue;
        }
        let subflows_mbps: Vec<f64> = subflows.iter().map(|one| one.rate_mbps(subflow.mss_bytes)).collect();
        let total_mbps = subflows_mbps.iter().sum();
        candidates.push(UnifiedRate { mss_bytes: subflow.mss_bytes, subflows_mbps, total_mbps });
    }
    // Among equal rates the rule takes the last one (`>=`), as `max_by` does.
    let chosen = candidates.iter().max_by(|a, b| a.total_mbps.total_cmp(&b.total_mbps))?.clone();
    let per_path_mbps: Vec<f64> = subflows.iter().map(SubflowWindow::own_rate_mbps).collect();
    Some(UnifiedMss {
        candidates,
        chosen_mss_bytes: chosen.mss_bytes,
        chosen_mbps: chosen.total_mbps,
        per_path_total_mbps: per_path_mbps.iter().sum(),
        per_path_mbps,
        subflows,
    })
}

/// The rule's input from a run's samples: per path, in the order of first appearance, the medians over the samples of
/// the sending end (the end that sent more). The rule applies to one connection: the connection that sent most is
/// used, and on each path the subflow that sent most.
pub fn from_samples(samples: &[Sample], run: &str) -> Vec<SubflowWindow> {
    let of_run: Vec<&Sample> = samples.iter().filter(|sample| sample.run == run).collect();
    let sent_most = |a: &&&Sample, b: &&&Sample| a.figures.bytes_sent.cmp(&b.figures.bytes_sent);
    let Some(busiest) = of_run.iter().max_by(sent_most) else { return Vec::new() };
    let connection: (Side, u32) = (busiest.side, busiest.stream);
    let of_connection: Vec<&Sample> =
        of_run.into_iter().filter(|sample| (sample.side, sample.stream) == connection).collect();
    let mut paths: Vec<&str> = Vec::new();
    for sample in &of_connection {
        if !paths.contains(&sample.path.as_str()) {
            paths.push(&sample.path);
        }
    }
    paths.into_iter().filter_map(|path| window_of(&of_connection, path)).collect()
}

fn window_of(of_connection: &[&Sample], path: &str) -> Option<SubflowWindow> {
    let of_path = || of_connection.iter().filter(|sample| sample.path == path);
    let subflow = of_path().max_by_key(|sample| sample.figures.bytes_sent)?.figures.subflow;
    let open: Vec<&Sample> = of_path()
        .filter(|sample| sample.figures.subflow == subflow && sample.figures.state == PathState::Open)
        .filter(|sample| sample.figures.mss_bytes > 0 && sample.figures.srtt_ms > 0.0)
        .copied()
        .collect();
    let middle = |figure: fn(&Sample) -> f64| {
        let values: Vec<f64> = open.iter().map(|sample| figure(sample)).collect();
        median(&values)
    };
    Some(SubflowWindow {
        path: path.to_owned(),
        mss_bytes: middle(|sample| f64::from(sample.figures.mss_bytes))?.round() as u32,
        srtt_ms: middle(|sample| sample.figures.srtt_ms)?,
        window_segments: middle(|sample| {
            let figures = &sample.figures;
            figures.cwnd_bytes.max(figures.in_flight_bytes) as f64 / f64::from(figures.mss_bytes)
        })?,
    })
}
