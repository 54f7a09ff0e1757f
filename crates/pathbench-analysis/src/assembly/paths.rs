//! Maps subflows to links, and computes the figures of each path.

use super::evidence::Evidence;
use super::resolved::ResolvedRun;
use pathbench_record::direction::Direction;
use pathbench_record::document::PathRecord;
use pathbench_record::end::EndRecord;
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::statistics::median;
use std::collections::BTreeMap;

/// A path's record, and the last figures of its busiest subflow at the sending end.
#[derive(Debug)]
pub(super) struct AssembledPath {
    pub(super) record: PathRecord,
    pub(super) last: Option<PathFigures>,
}

/// Every path of the connection, in the order in which its first subflow was opened.
pub(super) fn paths(run: &ResolvedRun<'_>, samples: &[Sample]) -> Vec<AssembledPath> {
    let mut paths: Vec<AssembledPath> = Vec::new();
    for (end, _) in &run.ends {
        let figures = end.streams.iter().flat_map(|stream| &stream.paths);
        for (figures, flow) in figures.flat_map(|figures| run.flows.iter().map(move |flow| (figures, flow))) {
            let name = run.names.name_in(flow.direction, figures, end.side);
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
        fill(path, run, samples);
    }
    let total = sum(paths.iter().map(|path| path.record.bytes_delivered));
    for path in &mut paths {
        path.record.share = path.record.bytes_delivered as f64 / total.max(1) as f64;
    }
    paths
}

fn fill(path: &mut AssembledPath, run: &ResolvedRun<'_>, samples: &[Sample]) {
    let name = path.record.name.clone();
    let in_direction = |end: &EndRecord, direction| figures_of(run, end, direction, &name);
    let of_path = |end: &EndRecord| in_direction(end, sent_by(end.side));
    let record = &mut path.record;
    for flow in &run.flows {
        let in_flow = |end: &EndRecord| in_direction(end, flow.direction);
        let sent = flow.sender.map(in_flow).unwrap_or_default();
        record.bytes_sent = sum(sent.iter().map(|figures| figures.bytes_sent).chain([record.bytes_sent]));
        let retransmitted = sent.iter().map(|figures| figures.retransmitted_bytes);
        record.retransmitted_bytes = sum(retransmitted.chain([record.retransmitted_bytes]));
        for lost in sent.iter().filter_map(|figures| figures.lost_bytes) {
            record.lost_bytes = Some(record.lost_bytes.unwrap_or(0).saturating_add(lost));
        }
        let delivered = match flow.receiver {
            Some(receiver) => sum(in_flow(receiver).iter().map(|figures| figures.bytes_received)),
            // Without the receiver's record, the acknowledged bytes count as delivered.
            None => sum(sent.iter().map(PathFigures::payload_acked)),
        };
        record.bytes_delivered = record.bytes_delivered.saturating_add(delivered);
    }
    record.control_bytes = control_bytes(run.evidence, &of_path);
    let sender = run.flows.first().map_or(Side::Client, |flow| flow.sending_side);
    // A path may have carried one direction only.
    let of_flows = run.flows.iter().filter_map(|flow| Some(in_direction(flow.sender?, flow.direction)));
    let figures = of_flows.into_iter().find(|figures| !figures.is_empty()).unwrap_or_default();
    let subflows = figures.iter().map(|figures| figures.closed_paths.unwrap_or(1));
    record.subflows = subflows.fold(0, u32::saturating_add);
    // The kernel's figures lack the backup flag, and mpquic changes it as needed; the plan has the flag as set.
    let as_set =
        run.evidence.setting.path(&record.name).filter(|_| run.evidence.label.transport.is_multipath());
    record.backup = as_set.and_then(|path| path.backup).or(figures.iter().find_map(|figures| figures.backup));
    let open = figures.iter().any(|figures| figures.state != PathState::Closed);
    record.state = String::from(if open { "open" } else { "closed" });
    let at_sender: Vec<&Sample> =
        samples.iter().filter(|sample| sample.side == sender && sample.path == record.name).collect();
    if let Some(last) = figures.into_iter().max_by_key(|figures| figures.bytes_sent) {
        let carrying = while_carrying(&at_sender).unwrap_or(&last);
        (record.mss_bytes, record.pmtu_bytes) = (carrying.mss_bytes, carrying.pmtu_bytes);
        path.last = Some(PathFigures { backup: record.backup, ..last });
    }
    let times: Vec<f64> =
        at_sender.iter().map(|sample| sample.figures.srtt_ms).filter(|srtt_ms| *srtt_ms > 0.0).collect();
    record.rtt_ms = median(&times).unwrap_or_default();
}

/// The last figures, at one end, of the subflows whose bytes of this direction took the path `name`.
pub(super) fn figures_of(
    run: &ResolvedRun<'_>,
    end: &EndRecord,
    direction: Direction,
    name: &str,
) -> Vec<PathFigures> {
    let figures = end.streams.iter().flat_map(|stream| &stream.paths);
    figures.filter(|figures| run.names.name_in(direction, figures, end.side) == name).cloned().collect()
}

const fn sent_by(side: Side) -> Direction {
    match side {
        Side::Client => Direction::Upload,
        Side::Server => Direction::Download,
    }
}

/// Figures from the other end may be too large for a plain sum.
fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

/// Bytes that both ends sent in packets without stream data; only the client's where the server's record is missing.
fn control_bytes(evidence: &Evidence<'_>, of_path: &impl Fn(&EndRecord) -> Vec<PathFigures>) -> Option<u64> {
    let sum = |end: &EndRecord, of: fn(&PathFigures) -> Option<u64>| {
        of_path(end).iter().filter_map(of).reduce(u64::saturating_add)
    };
    let client = evidence.client.as_ref();
    let sent = client.and_then(|client| sum(client, |figures| figures.control_bytes_sent));
    let received = match &evidence.server {
        Some(server) => sum(server, |figures| figures.control_bytes_sent),
        None => client.and_then(|client| sum(client, |figures| figures.control_bytes_received)),
    };
    sent.into_iter().chain(received).reduce(u64::saturating_add)
}

/// Figures of a path when it last carried data: at the last sample between two intervals in which payload was
/// acknowledged. After the last such interval the interface may be down, and Linux then reports an MSS of 36. Without
/// such a sample: at the last sample before an interval in which payload was acknowledged.
fn while_carrying<'a>(samples: &[&'a Sample]) -> Option<&'a PathFigures> {
    let mut subflows: BTreeMap<(u32, u32), Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.figures.mss_bytes > 0) {
        subflows.entry((sample.stream, sample.figures.subflow)).or_default().push(sample);
    }
    let of_subflow = |samples: Vec<&'a Sample>| {
        let grew = |pair: &[&Sample]| pair[1].figures.payload_acked() > pair[0].figures.payload_acked();
        let within = samples.windows(3).rfind(|three| grew(&three[..2]) && grew(&three[1..]));
        let after = || samples.windows(2).rfind(|two| grew(two));
        within.or_else(after).map(|samples| samples[1])
    };
    let carrying = subflows.into_values().filter_map(of_subflow);
    carrying.max_by(|a, b| a.t_ms.total_cmp(&b.t_ms)).map(|sample| &sample.figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(course: &[(f64, u64, u32)]) -> Vec<Sample> {
        let address = ([10, 0, 0, 1], 5201).into();
        let sample = |&(t_ms, bytes_acked, mss_bytes): &(f64, u64, u32)| {
            let bytes_sent = bytes_acked + 10_000;
            let figures =
                PathFigures { bytes_sent, bytes_acked, mss_bytes, ..PathFigures::new(address, address) };
            pathbench_testkit::sample(t_ms, Side::Client, "wlan", figures)
        };
        course.iter().map(sample).collect()
    }

    fn mss(course: &[(f64, u64, u32)]) -> Option<u32> {
        let samples = samples(course);
        while_carrying(&samples.iter().collect::<Vec<_>>()).map(|figures| figures.mss_bytes)
    }

    /// The scenario `failover` showed `tcp@wlan … MSS 36`, which the kernel reports for an interface that is down.
    #[test]
    fn the_mss_is_that_of_the_time_in_which_the_path_carried_data() {
        let up = [(0.0, 0, 536), (100.0, 1_000, 1448), (200.0, 2_000, 1448)];
        let down = [(300.0, 2_500, 36), (400.0, 2_500, 36)];
        assert_eq!(mss(&[&up[..], &down].concat()), Some(1448));
        // A smaller MTU that remains until the end of the run.
        let smaller = [(300.0, 2_500, 1400), (400.0, 3_000, 1400), (500.0, 3_500, 1400)];
        assert_eq!(mss(&[&up[..], &smaller].concat()), Some(1400));
        assert_eq!(mss(&[(0.0, 0, 536), (100.0, 1_000, 1448)]), Some(1448), "over within one interval");
        assert_eq!(mss(&[(0.0, 0, 1448), (100.0, 0, 36)]), None, "it never carried anything");
    }
}
