//! Which link a subflow takes, and the figures of each path.

use super::{ClientPath, Evidence, sending_side};
use pathbench_record::document::PathRecord;
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::statistics::median;
use pathbench_traffic::record::EndRecord;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The client's addresses and the links they belong to. In a lab the client's address decides the path.
#[derive(Debug)]
pub(crate) struct PathNames {
    by_client_address: BTreeMap<IpAddr, String>,
}

impl PathNames {
    pub(crate) fn of<'a>(paths: impl Iterator<Item = &'a ClientPath>) -> Self {
        let addresses =
            |path: &ClientPath| path.addresses.iter().map(|&at| (at, path.name.clone())).collect::<Vec<_>>();
        Self { by_client_address: paths.flat_map(addresses).collect() }
    }

    /// The path of a subflow whose end at the client has this address; the address itself where no link has it.
    pub(crate) fn of_client_address(&self, address: IpAddr) -> String {
        self.by_client_address.get(&address).cloned().unwrap_or_else(|| address.to_string())
    }

    pub(crate) fn of_figures(&self, figures: &PathFigures, side: Side) -> String {
        self.of_client_address(client_end(figures, side))
    }

    /// The link with this address at the client, where there is one.
    pub(crate) fn known(&self, address: IpAddr) -> Option<&String> {
        self.by_client_address.get(&address)
    }
}

fn client_end(figures: &PathFigures, side: Side) -> IpAddr {
    match side {
        Side::Client => figures.local.ip(),
        Side::Server => figures.remote.ip(),
    }
}

/// A path's record, and the last figures of its busiest subflow at the sending end.
#[derive(Debug)]
pub(super) struct AssembledPath {
    pub(super) record: PathRecord,
    pub(super) last: Option<PathFigures>,
}

/// Every path of the connection, in the order in which its first subflow was opened.
pub(super) fn paths(evidence: &Evidence<'_>, names: &PathNames, samples: &[Sample]) -> Vec<AssembledPath> {
    let mut paths: Vec<AssembledPath> = Vec::new();
    for end in [evidence.client.as_ref(), evidence.server.as_ref()].into_iter().flatten() {
        for figures in end.streams.iter().flat_map(|stream| &stream.paths) {
            let name = names.of_figures(figures, end.side);
            if !paths.iter().any(|path| path.record.name == name) {
                let (local, remote) = match end.side {
                    Side::Client => (figures.local, figures.remote),
                    Side::Server => (figures.remote, figures.local),
                };
                let record = PathRecord {
                    name,
                    local: local.ip().to_string(),
                    remote: remote.ip().to_string(),
                    ..PathRecord::default()
                };
                paths.push(AssembledPath { record, last: None });
            }
        }
    }
    for path in &mut paths {
        fill(path, evidence, names, samples);
    }
    let total: u64 = paths.iter().map(|path| path.record.bytes_delivered).sum();
    for path in &mut paths {
        path.record.share = path.record.bytes_delivered as f64 / total.max(1) as f64;
    }
    paths
}

fn fill(path: &mut AssembledPath, evidence: &Evidence<'_>, names: &PathNames, samples: &[Sample]) {
    let name = path.record.name.clone();
    let of_path = |end: &EndRecord| -> Vec<PathFigures> {
        end.streams
            .iter()
            .flat_map(|stream| &stream.paths)
            .filter(|figures| names.of_figures(figures, end.side) == name)
            .cloned()
            .collect()
    };
    let record = &mut path.record;
    for &direction in evidence.directions() {
        let sent = evidence.sender(direction).map(&of_path).unwrap_or_default();
        record.bytes_sent += sent.iter().map(|figures| figures.bytes_sent).sum::<u64>();
        record.retransmitted_bytes += sent.iter().map(|figures| figures.retransmitted_bytes).sum::<u64>();
        for lost in sent.iter().filter_map(|figures| figures.lost_bytes) {
            *record.lost_bytes.get_or_insert(0) += lost;
        }
        record.bytes_delivered += match evidence.receiver(direction) {
            Some(receiver) => of_path(receiver).iter().map(|figures| figures.bytes_received).sum(),
            // Without the receiver's own word, what it acknowledged is what it got.
            None => sent.iter().map(|figures| figures.bytes_acked).sum::<u64>(),
        };
    }
    let sender = evidence.directions().first().map_or(Side::Client, |&direction| sending_side(direction));
    let figures = evidence.end(sender).map(&of_path).unwrap_or_default();
    record.subflows = figures.len() as u32;
    // The kernel does not tell a subflow's flag with its figures, and mpquic's changes with need; the plan says
    // what was set.
    let as_set = evidence.setting.path(&record.name).filter(|_| evidence.label.transport.is_multipath());
    record.backup = as_set.and_then(|path| path.backup).or(figures.iter().find_map(|figures| figures.backup));
    let open = figures.iter().any(|figures| figures.state != PathState::Closed);
    record.state = String::from(if open { "open" } else { "closed" });
    if let Some(last) = figures.into_iter().max_by_key(|figures| figures.bytes_sent) {
        record.mss_bytes = last.mss_bytes;
        record.pmtu_bytes = last.pmtu_bytes;
        path.last = Some(PathFigures { backup: record.backup, ..last });
    }
    let times: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.side == sender && sample.path == record.name)
        .map(|sample| sample.figures.srtt_ms)
        .filter(|srtt_ms| *srtt_ms > 0.0)
        .collect();
    record.rtt_ms = median(&times).unwrap_or_default();
}
