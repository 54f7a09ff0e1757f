//! The input of the failbacks: events on the run's paths, and the data that the application offers.

use super::evidence::receiving_side;
use super::resolved::{ResolvedFlow, ResolvedRun};
use crate::binning::{ByteCurve, Window};
use crate::metrics::{Demand, DirectionAnalysis, Disturbance, FailbackInput, PathCurves, failbacks};
use pathbench_record::document::FailbackRecord;
use pathbench_record::end::MessageRecord;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Sample;
use pathbench_record::time::Timestamp;
use std::time::Duration;

impl ResolvedRun<'_> {
    /// The failbacks of both directions.
    pub(super) fn failbacks(
        &self,
        samples: &[Sample],
        analyses: &[DirectionAnalysis],
    ) -> Vec<FailbackRecord> {
        let events = self.disturbances_of_paths();
        if events.is_empty() {
            return Vec::new();
        }
        let of_flow = |flow: &ResolvedFlow<'_>| {
            let of_direction = analyses.iter().find(|one| one.direction == flow.direction);
            self.failbacks_of(flow, samples, of_direction, &events)
        };
        self.flows.iter().flat_map(of_flow).collect()
    }

    /// The events that concern this run's traffic. An event on a link that is no path has no path here.
    fn disturbances_of_paths(&self) -> Vec<Disturbance> {
        let all = self.evidence.executed.iter().filter(|event| self.can_use(&event.link));
        all.map(|event| Disturbance {
            at: event.at,
            kind: event.kind.clone(),
            path: self.evidence.setting.path(&event.link).map(|path| path.name.clone()),
            disruptive: event.kind.is_disruptive(),
            effect: event.effect,
        })
        .collect()
    }

    fn failbacks_of(
        &self,
        flow: &ResolvedFlow<'_>,
        samples: &[Sample],
        analysis: Option<&DirectionAnalysis>,
        events: &[Disturbance],
    ) -> Vec<FailbackRecord> {
        let receiver = receiving_side(flow.direction);
        let arrivals = samples.iter().filter(|sample| sample.side == receiver);
        let parameters = &self.evidence.setting.parameters;
        let delivered =
            flow.receiver.map_or_else(ByteCurve::default, |end| ByteCurve::from_series(&end.deliveries));
        let of_flow = |message: &&MessageRecord| message.flow == flow.direction;
        let messages: Vec<MessageRecord> =
            flow.sender.iter().flat_map(|end| &end.messages).filter(of_flow).copied().collect();
        let messages_every = |interval: Duration| Demand::Messages { messages: &messages, interval };
        let (measured, demand) = match parameters {
            PatternParameters::Interactive(interactive) => {
                (self.period_of_messages(Some(interactive.duration)), messages_every(interactive.interval))
            }
            PatternParameters::Ping(ping) => (self.period_of_messages(None), messages_every(ping.interval)),
            // No path has a share that it could lose while the connection is idle.
            PatternParameters::Responsiveness(_) => return Vec::new(),
            PatternParameters::Throughput(_) | PatternParameters::Bulk(_) => {
                let rate_bps = parameters.transfer().and_then(|transfer| transfer.rate_bps);
                let limited = |bps| Demand::Rate { bps, delivered: &delivered };
                (analysis.and_then(|analysis| analysis.window), rate_bps.map_or(Demand::Unlimited, limited))
            }
            PatternParameters::Datagrams(datagrams) => {
                let bps = 8 * u64::from(datagrams.frames_per_second) * u64::from(datagrams.frame_bytes);
                let period = self.period_of_messages(Some(datagrams.duration));
                (period, Demand::Rate { bps, delivered: &delivered })
            }
        };
        failbacks(&FailbackInput {
            origin: self.origin,
            direction: flow.direction,
            measured,
            events,
            paths: &PathCurves::from_samples(arrivals, self.origin, |figures| figures.bytes_received),
            demand,
        })
    }

    /// From the first message due to the end of the client's record, at most `duration`.
    fn period_of_messages(&self, duration: Option<Duration>) -> Option<Window> {
        let from = self.origin;
        let ended = self.evidence.client.as_ref()?.ended;
        let until: Timestamp = duration.map_or(ended, |duration| ended.min(from + duration));
        (from < until).then_some(Window { from, until })
    }
}
