//! From the patterns of a plan to what the traffic room takes.

use super::{BulkPlan, DataDirection, InteractivePlan, IperfPlan, PatternPlan, PingPlan};
use pathbench_traffic::iperf::{Amount, IperfParameters, TrafficDirection};
use pathbench_traffic::pattern::{BulkParameters, InteractiveParameters, PatternParameters, PingParameters};

impl PatternPlan {
    /// The pattern as the traffic room knows it.
    #[must_use]
    pub fn parameters(&self) -> PatternParameters {
        match self {
            Self::Ping(ping) => PatternParameters::Ping(ping.into()),
            Self::Bulk(bulk) => PatternParameters::Bulk(bulk.into()),
            Self::Iperf(iperf) => PatternParameters::Iperf(iperf.into()),
            Self::Interactive(interactive) => PatternParameters::Interactive(interactive.into()),
        }
    }
}

impl From<&PingPlan> for PingParameters {
    fn from(plan: &PingPlan) -> Self {
        Self {
            count: plan.count,
            warm_up: plan.warm_up,
            interval: plan.interval,
            request_bytes: plan.request_bytes,
            response_bytes: plan.response_bytes,
            timeout: plan.timeout,
        }
    }
}

impl From<&BulkPlan> for BulkParameters {
    fn from(plan: &BulkPlan) -> Self {
        Self { bytes: plan.bytes, streams: plan.streams }
    }
}

impl From<&IperfPlan> for IperfParameters {
    /// Bytes and rate are per stream in a plan, of all streams together there; the warm-up is part of the
    /// duration in a plan, and comes before it there.
    fn from(plan: &IperfPlan) -> Self {
        let streams = u64::from(plan.streams);
        let amount = match (plan.bytes, plan.duration) {
            (Some(bytes), _) => Amount::Bytes(bytes.saturating_mul(streams)),
            (None, duration) => Amount::Duration(duration.unwrap_or_default().saturating_sub(plan.omit)),
        };
        Self {
            direction: match plan.direction {
                DataDirection::Upload => TrafficDirection::Upload,
                DataDirection::Download => TrafficDirection::Download,
                DataDirection::Both => TrafficDirection::Both,
            },
            streams: plan.streams,
            amount,
            rate_bps: plan.rate_bps.map(|rate_bps| rate_bps.saturating_mul(streams)),
            omit: plan.omit,
            block_bytes: plan.block_bytes.unwrap_or(Self::DEFAULT_BLOCK_BYTES),
        }
    }
}

impl From<&InteractivePlan> for InteractiveParameters {
    fn from(plan: &InteractivePlan) -> Self {
        Self {
            duration: plan.duration,
            interval: plan.interval,
            request_bytes: plan.request_bytes,
            response_bytes: plan.response_bytes,
            linger: plan.linger,
        }
    }
}
