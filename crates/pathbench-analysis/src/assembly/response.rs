//! The figures and lines of a `responsiveness` run.

use super::evidence::receiving_side;
use super::resolved::ResolvedRun;
use crate::metrics::{PathCurves, ResponseInput, phase_at, responsiveness};
use pathbench_record::direction::Direction;
use pathbench_record::document::ResponsivenessRecord;
use pathbench_record::end::MessageLine;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::response::{LoadProbe, ResponseRecord, ResponsivenessParameters};
use pathbench_record::sample::Sample;
use pathbench_record::time::Timestamp;

impl ResolvedRun<'_> {
    /// The parameters, the probes, and the end of the client's record.
    fn response(&self) -> Option<(&ResponsivenessParameters, &ResponseRecord, Timestamp)> {
        let client = self.evidence.client.as_ref()?;
        match &client.parameters {
            PatternParameters::Responsiveness(parameters) => {
                Some((parameters, client.response.as_ref()?, client.ended))
            }
            _ => None,
        }
    }

    pub(super) fn responsiveness(&self, samples: &[Sample]) -> Option<ResponsivenessRecord> {
        let (parameters, response, ended) = self.response()?;
        let curves = Direction::BOTH.map(|direction| {
            let receiver = receiving_side(direction);
            let arrivals = samples.iter().filter(|sample| sample.side == receiver);
            PathCurves::from_samples(arrivals, self.origin, |figures| figures.bytes_received)
        });
        let deliveries = Direction::BOTH.map(|direction| {
            let flow = self.flows.iter().find(|flow| flow.direction == direction)?;
            flow.receiver.map(|end| &end.deliveries)
        });
        let stream = self.evidence.client.as_ref()?.streams.first();
        let has_tls = stream.is_some_and(|stream| stream.in_force.encryption.is_some());
        let is_quic = self.evidence.label.transport.is_quic();
        Some(responsiveness(&ResponseInput {
            parameters,
            response,
            ended,
            deliveries,
            paths: curves.each_ref(),
            setup_round_trips: if has_tls && !is_quic { 2 } else { 1 },
        }))
    }
}

/// The probes as lines of `messages.jsonl`, sorted by time; `None` for other patterns.
pub(super) fn lines(run: &ResolvedRun<'_>) -> Option<Vec<MessageLine>> {
    let (parameters, response, ended) = run.response()?;
    let windows = parameters.windows();
    let line = |probe: &LoadProbe| MessageLine {
        run: run.evidence.id.clone(),
        direction: Direction::Upload,
        sequence: probe.sequence,
        probe: Some(probe.kind),
        path: probe.path.clone(),
        phase: phase_at(&windows, response.begun, probe.due),
        due_ms: probe.due.ms_from(run.origin),
        sent_ms: None,
        acknowledged_ms: None,
        answered_ms: probe.answered.map(|at| at.ms_from(run.origin)),
        delay_ms: probe.answered.unwrap_or(ended).duration_since(probe.due).as_nanos() as f64 / 1e6,
        unacknowledged: probe.answered.is_none(),
    };
    let mut lines: Vec<MessageLine> = response.probes.iter().map(line).collect();
    lines.sort_by(|a, b| a.due_ms.total_cmp(&b.due_ms));
    Some(lines)
}
