//! The limits of a run and the CPU time of its ends.

use super::resolved::ResolvedRun;
use crate::limits::{LimitInput, RequestedBuffers, in_order, limits, unexamined};
use crate::metrics::DirectionAnalysis;
use pathbench_record::document::{CpuRecord, LimitRecord, UnexaminedLimit};
use pathbench_record::end::EndRecord;
use pathbench_record::resource::CpuUse;
use pathbench_record::sample::{Sample, Side};
use serde_json::Value;
use std::collections::BTreeMap;

impl ResolvedRun<'_> {
    /// The limits of all directions, and those that the records do not decide.
    pub(super) fn limits(
        &self,
        samples: &[Sample],
        analyses: &[DirectionAnalysis],
    ) -> (Vec<LimitRecord>, Vec<UnexaminedLimit>) {
        let setting = self.evidence.setting;
        let Some(transfer) = self.evidence.transfer() else { return Default::default() };
        let interfaces: BTreeMap<String, String> =
            setting.paths.iter().map(|path| (path.name.clone(), path.interface.clone())).collect();
        let requested = |key: &str| setting.asked.get(key).and_then(Value::as_u64);
        let requested = RequestedBuffers {
            receive: requested("receive_buffer_bytes"),
            send: requested("send_buffer_bytes"),
        };
        let inputs = self.flows.iter().filter_map(|flow| {
            let of_direction = analyses.iter().find(|one| one.direction == flow.direction)?;
            Some(LimitInput {
                transport: self.evidence.label.transport,
                direction: flow.direction,
                sending_side: flow.sending_side,
                sender: flow.sender,
                receiver: flow.receiver,
                samples,
                origin: self.origin,
                window: of_direction.window?,
                goodput_mbps: of_direction.goodput_mbps,
                rate_bps: transfer.rate_bps,
                server_rate_bps: self.evidence.server.as_ref().and_then(|server| server.rate_limit_bps),
                requested,
                is_remote: setting.server_address.is_some(),
                interfaces: &interfaces,
                shapers: &setting.shapers,
            })
        });
        let inputs: Vec<LimitInput<'_>> = inputs.collect();
        (in_order(inputs.iter().flat_map(limits).collect()), inputs.iter().flat_map(unexamined).collect())
    }

    pub(super) fn cpu(&self) -> BTreeMap<Side, CpuRecord> {
        self.ends.iter().filter_map(|(end, _)| Some((end.side, cpu_record(end, end.cpu?)))).collect()
    }
}

fn cpu_record(end: &EndRecord, used: CpuUse) -> CpuRecord {
    let bytes = end.deliveries.total_bytes().saturating_add(end.offered.total_bytes());
    let seconds = used.ran_us as f64 / 1e6;
    let [busiest_ran, busiest_waited] = used.busiest.shares();
    CpuRecord {
        seconds,
        seconds_per_gb: (bytes > 0).then(|| seconds * 1e9 / bytes as f64),
        busiest_ran,
        busiest_waited,
        stolen_percent: used.stolen_percent,
    }
}
