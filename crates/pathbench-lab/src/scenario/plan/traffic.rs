//! What a valid `[run]` asks for: transports, patterns, and what each of them takes.

use super::Family;
use pathbench_record::connection::Scheduler;
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::transport::TransportLabel;
use pathbench_record::units::milliseconds;
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// Each transport, with the path it is bound to where it is; `tcp@*` is already spread out.
    pub labels: Vec<TransportLabel>,
    /// The traffic; each transport runs each of them. At least one, no name twice.
    pub patterns: Vec<PatternPlan>,
    /// The host that opens connections.
    pub client: String,
    /// The host that accepts them.
    pub server: String,
    /// IP version of the connections.
    pub family: Family,
    /// Whether the sizes of all packets on all links are counted.
    pub packet_sizes: bool,
    /// Whether tcp and mptcp are encrypted, too.
    pub tls: bool,
    /// What the kernel's sockets take under every pattern.
    pub socket: SocketPlan,
    /// What quic and mpquic take.
    pub quic: QuicPlan,
}

impl RunPlan {
    /// How long the longest pattern sends, warm-up included; `None` when one of them ends by something else.
    pub fn duration(&self) -> Option<Duration> {
        let durations: Option<Vec<Duration>> = self.patterns.iter().map(PatternPlan::duration).collect();
        durations?.into_iter().max()
    }
}

/// What the kernel's sockets and the application on them take, whatever the pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SocketPlan {
    /// Congestion control of both ends of tcp and mptcp; the kernel's choice when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The application gives up when its connection made no progress this long although data was outstanding.
    #[serde(rename = "patience_ms", with = "milliseconds")]
    pub patience: Duration,
}

/// A traffic pattern and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternPlan {
    /// Small requests, one after the other.
    Ping(PingParameters),
    /// A download of a given size, verified.
    Bulk(BulkParameters),
    /// As much data as the connection carries.
    Iperf(IperfPlan),
    /// Small requests both ways at a fixed pace.
    Interactive(InteractiveParameters),
}

impl PatternPlan {
    /// As in the scenario file and in results. The two iperf patterns of the suite carry their direction.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ping(_) => "ping",
            Self::Bulk(_) => "bulk",
            Self::Iperf(iperf) => match (iperf.named_by_direction, iperf.direction) {
                (true, DataDirection::Upload) => "iperf-upload",
                (true, DataDirection::Download) => "iperf-download",
                _ => "iperf",
            },
            Self::Interactive(_) => "interactive",
        }
    }

    pub fn parameters(&self) -> PatternParameters {
        match self {
            Self::Ping(ping) => PatternParameters::Ping(ping.clone()),
            Self::Bulk(bulk) => PatternParameters::Bulk(bulk.clone()),
            Self::Iperf(iperf) => PatternParameters::Throughput(iperf.into()),
            Self::Interactive(interactive) => PatternParameters::Interactive(interactive.clone()),
        }
    }

    /// How long data is sent, warm-up included; `None` for what ends by count or by bytes.
    pub const fn duration(&self) -> Option<Duration> {
        match self {
            Self::Ping(_) | Self::Bulk(_) => None,
            Self::Iperf(iperf) => iperf.duration,
            Self::Interactive(interactive) => Some(interactive.duration),
        }
    }
}

/// Parameters of the iperf pattern. An absent value leaves the choice to the kernel, or sets no limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IperfPlan {
    /// Which way the data goes.
    pub direction: DataDirection,
    /// Whether the pattern is one of the suite's two, whose names carry their direction.
    #[serde(skip)]
    pub named_by_direction: bool,
    /// How long data is sent, warm-up included; `None` when the run ends by bytes.
    #[serde(
        rename = "duration_ms",
        with = "super::optional_milliseconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    pub streams: u32,
    /// Bytes per stream and direction after which the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Limit of the sending application, per stream and direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Warm-up that goodput leaves out.
    #[serde(rename = "omit_ms", with = "milliseconds")]
    pub omit: Duration,
    /// Congestion control of both ends of tcp and mptcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// `SO_SNDBUF` of the sending end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer_bytes: Option<u64>,
    /// `SO_RCVBUF` of the receiving end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_bytes: Option<u64>,
    /// Bytes per write; the pattern's own choice when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// The application gives up when its connection made no progress this long although data was outstanding.
    #[serde(rename = "patience_ms", with = "milliseconds")]
    pub patience: Duration,
}

impl From<&IperfPlan> for ThroughputParameters {
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

/// What quic and mpquic take, whatever the pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuicPlan {
    /// Which path new data takes, at both ends.
    pub scheduler: Scheduler,
    /// A PING on every path this often, from both ends.
    #[serde(rename = "heartbeat_ms", with = "milliseconds")]
    pub heartbeat: Duration,
    /// A path on which nothing was heard this long gets no new data while another path is heard.
    #[serde(rename = "silence_ms", with = "milliseconds")]
    pub silence: Duration,
    /// Congestion control of both ends; the transport's choice when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Whether each run leaves a qlog of its connection in the result directory.
    pub qlog: bool,
}

#[cfg(test)]
mod tests {
    use crate::scenario::{self, Overrides, Source};
    use pathbench_record::pattern::{BulkParameters, PatternParameters};

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
