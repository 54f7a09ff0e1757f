//! The datagrams of a run, from the logs of both ends.

use super::resolved::ResolvedRun;
use crate::metrics::{DatagramFate, DatagramLogs, datagram_fates, datagrams};
use pathbench_record::datagram::{DatagramLine, DatagramLog, DatagramRecord};
use pathbench_record::direction::Direction;
use pathbench_record::end::EndRecord;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;

/// The directions of which both ends have a log.
pub(super) struct Datagrams {
    flows: Vec<(Direction, DatagramRecord, Vec<DatagramFate>)>,
    names: BTreeMap<u32, String>,
}

impl Datagrams {
    pub(super) fn new(run: &ResolvedRun<'_>) -> Self {
        let names = path_names(run);
        let mut flows = Vec::new();
        let client = run.evidence.client.as_ref();
        // The parameters in use, which depend on the transport.
        if let Some(PatternParameters::Datagrams(parameters)) = client.map(|client| &client.parameters) {
            for flow in &run.flows {
                let log = |end: Option<&'_ EndRecord>| end.and_then(|end| end.datagrams.clone());
                let (Some(sender), Some(receiver)) = (log(flow.sender), log(flow.receiver)) else { continue };
                if !parameters.sends(flow.direction) {
                    continue;
                }
                let logs = DatagramLogs {
                    parameters,
                    sent: &sender.sent,
                    received: &receiver.received,
                    // Hosts of a lab share a clock.
                    has_delays: run.evidence.setting.server_address.is_none(),
                    is_flow_per_path: run.evidence.label.transport == Transport::Udp,
                };
                let fates = datagram_fates(&logs);
                let name = |path| name_of(&names, path);
                let (unsent, omitted) = (sender.unsent, receiver.omitted);
                let record = DatagramRecord { unsent, omitted, ..datagrams(&logs, &fates, name) };
                flows.push((flow.direction, record, fates));
            }
        }
        Self { flows, names }
    }

    pub(super) fn records(&self) -> BTreeMap<Direction, DatagramRecord> {
        self.flows.iter().map(|(direction, record, _)| (*direction, record.clone())).collect()
    }

    /// Lines of `datagrams.jsonl`, sorted by time of sending.
    pub(super) fn lines(&self, run: &ResolvedRun<'_>) -> Vec<DatagramLine> {
        let mut lines = Vec::new();
        for (direction, _, fates) in &self.flows {
            lines.extend(fates.iter().map(|fate| DatagramLine {
                run: run.evidence.id.clone(),
                direction: *direction,
                path: name_of(&self.names, fate.path),
                sequence: fate.sequence,
                sent_ms: Some(fate.sent.ms_from(run.origin)),
                received_ms: fate.received.map(|at| at.ms_from(run.origin)),
                duplicates: fate.duplicates,
            }));
        }
        lines.sort_by(|a, b| a.sent_ms.unwrap_or_default().total_cmp(&b.sent_ms.unwrap_or_default()));
        lines
    }
}

fn name_of(names: &BTreeMap<u32, String>, path: u32) -> String {
    names.get(&path).cloned().unwrap_or_else(|| format!("path {path}"))
}

/// The name of each path number: the index of a path of udp, the path ID of quic and mpquic.
fn path_names(run: &ResolvedRun<'_>) -> BTreeMap<u32, String> {
    let Some(client) = &run.evidence.client else { return BTreeMap::new() };
    if run.evidence.label.transport == Transport::Udp {
        let empty = DatagramLog::default();
        let locals = &client.datagrams.as_ref().unwrap_or(&empty).paths;
        return (0..).zip(locals.iter().map(|local| run.names.name_address(*local))).collect();
    }
    let of_samples = client.samples.iter().map(|sample| &sample.figures);
    let figures = of_samples.chain(client.streams.iter().flat_map(|stream| &stream.paths));
    figures
        .filter_map(|figures| {
            let number = u32::try_from(figures.path_id?).ok()?;
            Some((number, run.names.name_address(figures.local.ip())))
        })
        .collect()
}
