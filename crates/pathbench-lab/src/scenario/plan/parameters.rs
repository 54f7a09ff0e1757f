//! From the patterns of a plan to what the traffic room takes.

use super::{BulkPlan, InteractivePlan, IperfPlan, PatternPlan, PingPlan};
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, IperfParameters, PatternParameters, PingParameters,
};

impl PatternPlan {
    /// The pattern as the traffic room knows it.
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
        Self { bytes: plan.bytes, upload_bytes: plan.upload_bytes, streams: plan.streams }
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
            direction: plan.direction,
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

#[cfg(test)]
mod tests {
    use crate::scenario::{self, Overrides, Source};
    use pathbench_record::pattern::BulkParameters;
    use pathbench_record::pattern::PatternParameters;

    #[test]
    fn bulk_goes_down_up_or_both_ways() {
        for (keys, bytes, upload_bytes) in [
            ("", 10_000_000, 0),
            ("upload = \"81920B\"\nbytes = 16777216", 16_777_216, 81_920),
            ("upload = 5000\nbytes = 0", 0, 5_000),
        ] {
            let text = format!(
                "name = \"t\"\ndescription = \"t\"\n[[path]]\nname = \"eth\"\n[run]\ntransports = [\"tcp\"]\n\
                 pattern = \"bulk\"\n[run.bulk]\n{keys}\n"
            );
            let plan = scenario::plan(&Source::from_text("t.toml", &text), &Overrides::default()).unwrap();
            let expected = BulkParameters { bytes, upload_bytes, ..BulkParameters::default() };
            let read = plan.variants[0].run.patterns[0].parameters();
            assert_eq!(read, PatternParameters::Bulk(expected));
        }
    }
}
